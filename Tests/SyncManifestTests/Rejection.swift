import SyncManifest
import SyncModel
import Testing

/// One row of a table: a text, and what it must be refused with.
struct Rejection: Sendable, CustomTestStringConvertible {
    var text: String
    /// The JSON path.
    var path: String
    /// A part of the reason.
    var reason: String

    init(_ text: String, _ path: String, _ reason: String) {
        self.text = text
        self.path = path
        self.reason = reason
    }

    /// A row about the entries of `files`.
    static func files(_ files: String, _ path: String, _ reason: String) -> Rejection {
        Rejection(ManifestFixture.document(files: files), "$.files" + path, reason)
    }

    /// A row about one file entry, given without its braces and its path.
    static func file(_ members: String, _ path: String, _ reason: String) -> Rejection {
        files("{\"path\":\"a\",\(members)}", "[0]" + path, reason)
    }

    /// A row about keys of the top level.
    static func top(_ members: String, _ path: String, _ reason: String) -> Rejection {
        Rejection(ManifestFixture.document(files: "", extra: "," + members), "$" + path, reason)
    }

    /// A row about one path.
    static func path(_ path: String, _ reason: String) -> Rejection {
        files(ManifestFixture.entry(path), "[0].path", reason)
    }

    /// A row about one link, at `dir/link`.
    static func link(_ target: String, _ reason: String) -> Rejection {
        files(ManifestFixture.link("dir/link", to: target), "[0].link", reason)
    }

    var testDescription: String { "\(path): \(reason)" }

    func check(sourceLocation: SourceLocation = #_sourceLocation) {
        guard let error = ManifestFixture.refusal(text) else {
            Issue.record("accepted: \(text.prefix(300))", sourceLocation: sourceLocation)
            return
        }
        #expect(error.path == path, sourceLocation: sourceLocation)
        #expect(error.reason.contains(reason), "\(error.reason)", sourceLocation: sourceLocation)
        #expect(!error.remedy.isEmpty, sourceLocation: sourceLocation)
        #expect(error.description.count < 600, sourceLocation: sourceLocation)
        #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 0x20 }, sourceLocation: sourceLocation)
    }
}
