import ArgumentParser
import Foundation
import SyncEngine
import SyncManifest
import SyncModel
import SyncReport
import SyncSystem

struct DiffCommand: AsyncParsableCommand, ReadingOptions {
    static let configuration = CommandConfiguration(
        commandName: "diff", abstract: "Show how two manifests differ, and what an update fetches.",
        discussion: """
            Prints one line for each file that was added, changed, renamed or removed, with the bytes to fetch for it \
            and whether mode, time, target or kind changed; then the totals and how many bytes a machine with OLD \
            fetches to get NEW. Fetches only the manifests. --channel and --revision apply to NEW. If the project is \
            pinned, NEW must be a release that is valid now; OLD may be any release signed with keys that were valid \
            at the time.

            Exit status: 0 the files are the same, 1 they differ, any other status is an error.

            Examples:

              syncagent diff old/manifest.json https://cdn.example.com/tower/manifest.json
            """)

    @Argument(help: "The old manifest: a path or an http(s) URL.", completion: .manifests) var old: String

    @Argument(help: "The new manifest: a path or an http(s) URL.", completion: .manifests) var new: String

    @OptionGroup(title: "Release and trust") var release: ReleaseOptions

    @OptionGroup(title: "Release and trust") var trust: TrustOptions

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @OptionGroup var listing: ListingOptions

    @OptionGroup var bucket: BucketOptions

    @OptionGroup(title: "Output") var reporting: ReportingOptions

    func validate() throws {
        try requireLocation(old, "OLD")
        try requireLocation(new, "NEW")
    }

    func run() async throws {
        let output = reporting.output()
        let (former, latter) = (RunRecipe(manifest: old), try recipe(new))
        let (before, after) = try await transfer.reading([former, latter], trusting: trust, reporting, output) {
            engine, found in
            (try engine.read(found[0], looksBack: true).manifest, try engine.read(found[1]).manifest)
        }
        let difference = ManifestDifference(from: before, to: after)
        let time = SystemTime.milliseconds()
        for change in difference.changes {
            if reporting.json {
                output.event(SyncEvent(.diffFile, time: time) { Self.write(change, to: &$0) }.json)
            } else {
                output.line(Self.line(change), flushing: false)
            }
        }
        if reporting.json {
            let event = SyncEvent(.diffFinished, time: time) { line in
                line.field("old_revision", before.revision)
                line.field("new_revision", after.revision)
                line.field("different", !difference.isEmpty)
                line.object("files") { line in
                    for kind in ManifestDifference.Change.Kind.allCases {
                        line.field(kind.rawValue, difference.count(kind))
                    }
                    line.field("unchanged", difference.unchanged)
                }
                line.field("fetch", difference.fetchBytes)
            }
            output.event(event.json)
        }
        output.flush()
        output.message(Self.summary(difference))
        if !difference.isEmpty { throw CommandFailure(.internalError) }
    }

    private static func write(_ change: ManifestDifference.Change, to line: inout JSONLine) {
        line.field("path", change.path)
        line.field("change", change.kind)
        line.field("from", optional: change.from)
        line.field("size", change.size)
        line.field("fetch", change.fetch)
        guard change.kind == .changed else { return }
        line.field("what", change.aspects.map(\.rawValue))
    }

    static func line(_ change: ManifestDifference.Change) -> String {
        var line = change.kind.rawValue.padded(to: 9)
        if let from = change.from { line += "\(escaped(from)) -> " }
        line += escaped(change.path)
        let bytes = change.fetch > 0 ? ["\(ByteCount(change.fetch))"] : []
        let words = bytes + change.aspects.filter { $0 != .content || bytes.isEmpty }.map(\.rawValue)
        return words.isEmpty ? line : line + "  (\(words.joined(separator: ", ")))"
    }

    static func summary(_ difference: ManifestDifference) -> String {
        guard !difference.isEmpty else { return "The same \(Figures.count(difference.unchanged, "file"))." }
        let counts = ManifestDifference.Change.Kind.allCases.map {
            "\(Figures.grouped(difference.count($0))) \($0.rawValue)"
        }
        return "\(counts.joined(separator: ", ")), \(Figures.grouped(difference.unchanged)) unchanged; "
            + "\(ByteCount(difference.fetchBytes)) to fetch"
    }
}
