import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

/// What no manifest can carry is refused by name, and nothing is published.
@Suite(.timeLimit(.minutes(10)))
struct RefusalTests {
    static let badLinks: [(path: String, target: String, reason: String)] = [
        ("l", "/etc/passwd", "absolute"), ("l", "../x", "leaves the tree"), ("a/b/l", "../../../x", "leaves the tree"),
        ("a/l", "x/../../../y", "leaves the tree"), ("l", "gone/../x", "gone"), ("l", ".syncagent/index", ".syncagent"),
        ("l", "a\u{202E}b", "control or bidirectional"),
    ]

    @Test("Links that leave the tree are refused by name [V4]", arguments: badLinks)
    func links(path: String, target: String, reason: String) throws {
        let set = try PublishedSet(AssetTree([path: .link(target)]))
        let error = set.failure()
        #expect(error?.exitStatus == .dataInvalid)
        #expect(error?.details.count == 1)
        #expect(error?.details.first?.hasPrefix("\(path): ") == true, "\(error?.details ?? [])")
        #expect(error?.details.first?.contains(reason) == true, "\(error?.details ?? [])")
        #expect(try set.bytes(below: "out").isEmpty)
    }

    @Test("Links inside the tree are kept, also dangling ones", arguments: ["x", "./x", "a/../x", "a/", "b/none"])
    func goodLinks(target: String) throws {
        let tree = AssetTree(["a/f": .file([1], executable: false), "l": .link(target)])
        let set = try PublishedSet(tree)
        try set.publish()
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("Fifos and sockets are refused by name")
    func specialFiles() throws {
        let set = try PublishedSet(.manySmall(3))
        #expect(mkfifo(set.root.path("in/pipe"), 0o600) == 0)
        let error = set.failure()
        #expect(error?.exitStatus == .dataInvalid)
        #expect(error?.details == ["pipe: a fifo"])
    }

    static let badNames: [(name: [UInt8], shown: String)] = [
        (Array("new\nline".utf8), "new\\u{a}line"), (Array("bidi\u{202E}x".utf8), "bidi\\u{202e}x"),
        ([0x61, 0xFF, 0x62], "a\\xffb"), (Array(".syncagent".utf8), ".syncagent"),
        (Array(".SyncAgent".utf8), ".SyncAgent"),
    ]

    @Test("Names that no manifest can carry are refused, shown safely [V62, V63]", arguments: badNames)
    func names(name: [UInt8], shown: String) throws {
        let set = try PublishedSet()
        let path = (Array(set.root.path("in/").utf8) + name).map { CChar(bitPattern: $0) } + [0]
        let file = open(path, O_CREAT | O_WRONLY, 0o644)
        #expect(file >= 0)
        close(file)
        let error = set.failure()
        #expect(error?.exitStatus == .dataInvalid)
        #expect(error?.details.first?.hasPrefix("\(shown): ") == true, "\(error?.details ?? [])")
    }

    @Test("Names that are one after Unicode normalisation are refused [V13]")
    func normalisation() throws {
        let set = try PublishedSet()
        try set.root.write("x", to: "in/d/\u{E9}.txt")
        try set.root.write("y", to: "in/d/e\u{301}.txt")
        let error = set.failure()
        #expect(error?.exitStatus == .dataInvalid)
        #expect(error?.details.contains { $0.contains("after Unicode normalisation") } == true)
    }

    @Test(
        "Of several names that are one after normalisation each is named, whatever stands between them [V13]",
        arguments: [
            // In the order of bytes: E and e with a combining accent, then É and é.
            (["E\u{301}", "e\u{301}", "\u{C9}", "\u{E9}"], ["\u{C9}", "\u{E9}"]),
            (["e\u{301}", "\u{C9}", "\u{E9}"], ["\u{E9}"]),
            (["A\u{30A}", "\u{C5}", "\u{212B}"], ["\u{C5}", "\u{212B}"]),
            (["a\u{30A}", "A\u{30A}", "\u{C5}", "\u{212B}"], ["\u{C5}", "\u{212B}"]),
        ])
    func severalNormalForms(names: [String], refused: [String]) throws {
        let set = try PublishedSet()
        for name in names { try set.root.write(name, to: "in/d/\(name)") }
        let details = set.failure()?.details ?? []
        let told = details.map { Array($0.prefix { $0 != ":" }.utf8) }
        #expect(told == refused.map { Array("d/\($0)".utf8) }, "\(details)")
    }

    @Test("Names that a destination would fold into one are warned of as its check would find them [V13]")
    func foldedNames() throws {
        let set = try PublishedSet()
        for name in ["STRASSE", "Strasse", "stra\u{DF}e", "apart"] { try set.root.write(name, to: "in/d/\(name)") }
        let warnings = try set.publish().warnings
        #expect(warnings.count == 2)
        #expect(warnings.first?.contains("d/STRASSE and Strasse") == true)
        #expect(warnings.last?.contains("d/STRASSE and stra\u{DF}e") == true)
        #expect(try set.manifest().caseCollisions().count == 2)
    }

    @Test("Names that differ only in case are published with a warning")
    func caseWarning() throws {
        let set = try PublishedSet()
        try set.root.write("x", to: "in/d/Readme")
        try set.root.write("y", to: "in/d/README")
        let report = try set.publish()
        #expect(report.warnings.count == 1)
        #expect(report.warnings.first?.contains("d/README and Readme") == true)
    }

    @Test("Names that Windows cannot hold are published with one line that counts them and names three [V14]")
    func windowsWarning() throws {
        let set = try PublishedSet()
        try set.root.write("x", to: "in/d/a:b")
        #expect(try set.publish().warnings == ["1 name that Windows cannot hold: d/a:b (has one of \" * : < > ? \\ |)"])
        for name in ["con.txt", "e.", "f ", "aux"] { try set.root.write("y", to: "in/\(name)/x") }
        let line = try #require(try set.publish().warnings.first)
        #expect(line.hasPrefix("5 names that Windows cannot hold: ") && line.hasSuffix(", and 2 more"))
        #expect(line.contains("con.txt (is a device's name)"))
    }

    @Test("At most 20 are named, the rest is counted")
    func manyRefusals() throws {
        let set = try PublishedSet()
        for index in 0..<25 { try set.root.link("in/l\(index)", to: "/nowhere") }
        let error = set.failure()
        #expect(error?.summary.hasPrefix("25 entries") == true)
        #expect(error?.details.count == 21)
        #expect(error?.details.last == "and 5 more")
    }

    static let places: [(directory: String, output: String)] = [
        ("in", "in"), ("in", "in/out"), ("in", "in/deep/er/out"), ("in", "in/../in/out"), ("out/packs", "out"),
        ("out/packs/sub", "out"),
    ]

    @Test("An output inside the source, and the reverse, is a usage error", arguments: places)
    func placement(directory: String, output: String) throws {
        let set = try PublishedSet()
        try set.root.write("x", to: "\(directory)/file")
        let error = set.failure {
            $0.directory = set.root.path(directory)
            $0.output = set.root.path(output)
        }
        #expect(error?.exitStatus == .usage, "\(String(describing: error))")
        #expect(set.root.read("in/deep/er/out/manifest.json") == nil)
    }

    @Test("A source that does not exist, or is a file: exit 66", arguments: ["none", "file"])
    func noSource(name: String) throws {
        let set = try PublishedSet()
        try set.root.write("x", to: "file")
        let error = set.failure { $0.directory = set.root.path(name) }
        #expect(error?.exitStatus == .noInput)
    }

    @Test("An output that cannot be made: exit 73")
    func noOutput() throws {
        let set = try PublishedSet(.manySmall(1))
        try set.root.write("x", to: "file")
        let error = set.failure { $0.output = set.root.path("file/out") }
        #expect(error?.exitStatus == .cannotCreate)
    }
}
