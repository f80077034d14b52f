import CommandTestSupport
import Foundation
import Testing

/// Pins and keys that are not as this program leaves them: damaged, planted, or open to others.
@Suite("Pin files and key files", .timeLimit(.minutes(10)))
struct PinFileTests {
    /// What may have happened to a file.
    enum Harm: String, CaseIterable, CustomTestStringConvertible {
        case damaged, empty, oversized, writableByAll, readableByAll, symbolicLink, directory, fifo, another

        var testDescription: String { rawValue }

        /// - Parameter other: A good file of the same kind, for another's.
        func happen(to path: String, other: String) throws {
            let files = FileManager.default
            switch self {
            case .damaged:
                var bytes = try Data(contentsOf: URL(fileURLWithPath: path))
                bytes[bytes.count / 2] ^= 0x80
                try bytes.write(to: URL(fileURLWithPath: path))
            case .empty: try Data().write(to: URL(fileURLWithPath: path))
            case .oversized:
                let handle = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
                try handle.truncate(atOffset: 1 << 40)
                try handle.close()
            case .writableByAll: try files.setAttributes([.posixPermissions: 0o666], ofItemAtPath: path)
            case .readableByAll: try files.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
            case .symbolicLink:
                try files.moveItem(atPath: path, toPath: path + "-away")
                try files.createSymbolicLink(atPath: path, withDestinationPath: path + "-away")
            case .directory:
                try files.removeItem(atPath: path)
                try files.createDirectory(atPath: path, withIntermediateDirectories: false)
            case .fifo:
                try files.removeItem(atPath: path)
                try #require(mkfifo(path, 0o600) == 0)
            case .another:
                try files.removeItem(atPath: path)
                try files.copyItem(atPath: other, toPath: path)
            }
        }
    }

    private static let pins = ".local/state/syncagent/trust"

    /// The file of a project's pin, by what is in it.
    private static func pin(_ set: SignedSet, of project: String) throws -> String {
        let names = try set.scratch.contents(of: pins).filter { $0.hasSuffix(".pin") }
        let name = try #require(
            try names.first { try set.text("\(pins)/\($0)").contains("\"project\":\"\(project)\"") })
        return "\(set.scratch.path)/\(pins)/\(name)"
    }

    /// A second project that is pinned, and a third that nobody signs; each is served.
    private static func others(_ set: SignedSet) throws -> (bridge: RunningServer, plain: RunningServer) {
        try set.keys("new", "bridge-keys", "--project", "com.example.bridge")
        for (site, arguments) in [
            ("bridge", ["--sign", "bridge-keys"]), ("plain", ["--project", "com.example.plain"]),
        ] {
            let outcome = try set.tool.run(["publish", "assets", "--to", site] + arguments)
            try #require(outcome.status == 0, "\(outcome.error)")
        }
        let servers = (
            try RunningServer(set.scratch, directory: "bridge"), try RunningServer(set.scratch, directory: "plain")
        )
        let pinned = try set.tool.run(["pull", servers.0.firstLine, "--trust", "bridge-keys/1.root"])
        try #require(pinned.status == 0, "\(pinned.error)")
        return servers
    }

    @Test(
        "A pin that is damaged or planted stops its own project alone, however it was harmed",
        arguments: Harm.allCases.filter { $0 != .readableByAll })
    func harmed(_ harm: Harm) throws {
        let set = try SignedSet()
        try set.pin()
        let (bridge, plain) = try Self.others(set)
        let path = try Self.pin(set, of: "com.example.tower")
        try harm.happen(to: path, other: try Self.pin(set, of: "com.example.bridge"))
        try set.publish("two")

        let outcome = try set.pull("--hook", "/bin/false")
        #expect([74, 77].contains(outcome.status), "\(outcome.error)")
        #expect(outcome.error.contains(path), "\(outcome.error)")
        #expect(try set.text("tower/a.txt") == "one")
        // Neither with a new pin, nor as another project at the same place.
        #expect([74, 77].contains(try set.pull("--trust", "first").status))
        try set.remove("site")
        try set.copy("plain", to: "site")
        let disguised = try set.pull()
        #expect([74, 77].contains(disguised.status), "\(disguised.error)")
        #expect(try set.text("tower/a.txt") == "one")
        for command in ["plan", "verify"] {
            #expect([74, 77].contains(try set.tool.run([command, set.url, "--into", "tower"]).status))
        }
        // Nobody else minds, also who is pulled for the first time.
        for server in [bridge, plain] {
            let other = try set.tool.run(["pull", server.firstLine])
            #expect(other.status == 0, "\(other.error)")
        }
        let list = try set.tool.run(["trust", "list"])
        #expect([74, 77].contains(list.status))
        #expect(list.output.contains("com.example.bridge") && !list.output.contains("com.example.tower"))
        #expect(list.error.contains(path))
        #expect(try set.tool.run(["doctor"]).output.contains(path))
        #expect([74, 77].contains(try set.tool.run(["trust", "show", "com.example.tower"]).status))
    }

    @Test("Where the pins are behind a link, and the disk with them is away, nothing is believed")
    func linked() throws {
        let set = try SignedSet()
        try set.pin()
        let (pins, files) = ("\(set.scratch.path)/\(Self.pins)", FileManager.default)
        try files.moveItem(atPath: pins, toPath: pins + "-disk")
        try files.createSymbolicLink(atPath: pins, withDestinationPath: pins + "-disk")
        #expect(try set.pull().status == 0)
        try files.moveItem(atPath: pins + "-disk", toPath: pins + "-away")
        try set.remove("site/trust")
        let outcome = try set.pull()
        #expect(outcome.status == 74, "\(outcome.error)")
        #expect(outcome.error.contains(pins), "\(outcome.error)")
        try files.moveItem(atPath: pins + "-away", toPath: pins + "-disk")
        #expect(try set.pull().status == 77)
    }

    @Test("A pin that an older program has left, and that is damaged, may be of every place that is new")
    func withoutPlaces() throws {
        let set = try SignedSet()
        try set.pin()
        let (bridge, plain) = try Self.others(set)
        let path = try Self.pin(set, of: "com.example.tower")
        let owner = URL(fileURLWithPath: path).deletingPathExtension().lastPathComponent
        let places = try set.scratch.contents(of: Self.pins).filter { $0.hasPrefix(owner) && $0.hasSuffix(".place") }
        #expect(places.count == 1)
        for name in places { try set.remove("\(Self.pins)/\(name)") }
        try Harm.damaged.happen(to: path, other: path)
        #expect(try set.tool.run(["pull", plain.firstLine]).status == 77)
        #expect(try set.tool.run(["pull", bridge.firstLine]).status == 0)
        // Forgetting it is the way out.
        #expect(try set.tool.run(["trust", "forget", "com.example.tower"]).status == 0)
        #expect(try set.tool.run(["pull", plain.firstLine]).status == 0)
        try set.pin()
        #expect(try set.tool.run(["trust", "forget", "com.example.tower"]).status == 0)
        #expect(try set.scratch.contents(of: Self.pins).filter { $0.hasPrefix(owner) } == [])
    }

    @Test(
        "A key that others may read, or that is no file, signs nothing; behind a link it does",
        arguments: Harm.allCases.filter { $0 != .another })
    func keys(_ harm: Harm) throws {
        let set = try SignedSet()
        let path = set.scratch.path + "/keys/fresh.key"
        try harm.happen(to: path, other: path)
        let word = try set.text("site/trust/fresh")
        try set.scratch.write(Data("two".utf8), to: "assets/a.txt")
        let manifest = try Data(contentsOf: set.scratch.url.appendingPathComponent("site/manifest.json"))
        for command in [["publish", "assets", "--to"], ["keys", "refresh"]] {
            let outcome = try set.tool.run(command + ["site", "--sign", "keys"])
            if harm == .symbolicLink {
                #expect(outcome.status == 0, "\(outcome.error)")
            } else {
                #expect([74, 77].contains(outcome.status), "\(outcome.status) \(outcome.error)")
                #expect(outcome.error.contains("keys/fresh.key"), "\(outcome.error)")
                #expect(try set.text("site/trust/fresh") == word)
                #expect(try Data(contentsOf: set.scratch.url.appendingPathComponent("site/manifest.json")) == manifest)
            }
        }
    }
}
