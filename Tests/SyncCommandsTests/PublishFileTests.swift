import SyncAssembly
import SyncManifest
import SyncPublisher
import SyncTestKit
import Testing

@testable import SyncCommands

@Suite(.timeLimit(.minutes(10)))
struct PublishFileTests {
    private func parse(_ text: String) throws -> PublishOptions {
        var options = PublishOptions(directory: "in", output: "out")
        try options.take(Array(text.utf8), shown: "publish.json") { path throws(SettingsError) in
            if path == "none" { throw SettingsError("it is not there") }
            return Array("of \(path)".utf8)
        }
        return options
    }

    private func read(_ name: String, in directory: String, mayBeLink: Bool) throws -> PublishOptions? {
        var options = PublishOptions(directory: "in", output: "out")
        return try options.read(name, in: directory, mayBeLink: mayBeLink) ? options : nil
    }

    @Test("Every key reaches its place")
    func all() throws {
        let file = try parse(
            """
            { "project": "com.example.tower", // what it is
              "channel": "beta", "groups": { "maps": ["maps/**"], "sheets": { "include": ["s/*"], "hooks": ["reindex"] } },
              "mirrors": ["https://m.example/"], "files_url": "files/", "loose": false,
              "exclude": ["**/*.tmp"], "exclude_from": ["list", "lists/one"],
              "pack_size": "16M", "preserve": ["times", "modes"], "level": 9, "dictionary": "never", "deltas": false,
              "manifest_parts": true, "safe_links": true }
            """)
        #expect(file.project == "com.example.tower" && file.channel == "beta" && file.keepsReleases)
        #expect(
            file.groups == [
                Manifest.Group(name: "maps", include: ["maps/**"], hooks: []),
                Manifest.Group(name: "sheets", include: ["s/*"], hooks: ["reindex"]),
            ])
        #expect(file.mirrors == ["https://m.example/"] && file.filesURL == "files/" && file.isLoose == false)
        #expect(file.preserve == [.times, .modes] && file.exclude == ["**/*.tmp"])
        #expect(file.givenPatterns.map(\.name) == ["list", "lists/one"])
        #expect(file.givenPatterns.map(\.text) == ["list", "lists/one"].map { Array("of \($0)".utf8) })
        #expect(file.packSize == 16 << 20 && file.level == 9 && file.dictionary == .never && !file.deltas)
        #expect(file.isInParts == true && file.leavesOutUnsafeLinks)
        let empty = try parse("{}")
        #expect(empty.project == nil && empty.channel == nil && !empty.keepsReleases && empty.groups == nil)
        #expect(empty.mirrors == nil && empty.filesURL == nil && empty.isLoose == nil && empty.preserve == nil)
        #expect(empty.exclude.isEmpty && empty.givenPatterns.isEmpty && empty.isInParts == nil && empty.deltas)
        #expect(try parse("{groups: {}}").groups == [])
        #expect(try parse("{preserve: []}").preserve == [])
        let named = try parse("{channel: 'default'}")
        #expect(named.channel == nil && named.keepsReleases)
    }

    @Test("No link leads to publish.json or to a file of patterns, and nothing else but a file is read")
    func links() throws {
        let root = try TemporaryRoot()
        try root.write("*.o", to: "elsewhere/list")
        try root.write("*.o", to: "set/lists/good")
        try root.link("set/linked", to: root.path("elsewhere/list"))
        try root.link("set/away", to: root.path("elsewhere"))
        func read(_ list: String) throws -> PublishOptions? {
            try root.write("{exclude_from: ['\(list)']}", to: "set/publish.json")
            return try self.read("publish.json", in: root.path("set"), mayBeLink: false)
        }
        #expect(try read("lists/good")?.givenPatterns.map(\.text) == [Array("*.o".utf8)])
        for (list, words) in [
            ("linked", "symbolic link"), ("away/list", "symbolic link"), ("lists", "not a regular file"),
            ("none", "No such file"),
        ] {
            let error = #expect(throws: SettingsError.self) { try read(list) }
            #expect(error?.description.contains("exclude_from[0]: ") == true)
            #expect(error?.description.contains(words) == true, "\(String(describing: error))")
        }
        try root.write("{level: 9}", to: "elsewhere/settings")
        try root.link("other/publish.json", to: root.path("elsewhere/settings"))
        let error = #expect(throws: SettingsError.self) {
            try self.read("publish.json", in: root.path("other"), mayBeLink: false)
        }
        #expect(error?.description.contains("symbolic link") == true)
        #expect(try self.read("publish.json", in: root.path("other"), mayBeLink: true)?.level == 9)
        #expect(try self.read("publish.json", in: root.path("none"), mayBeLink: false)?.level == nil)
    }

    @Test("A directory that cannot be opened is not taken for one without publish.json")
    func unseen() throws {
        let root = try TemporaryRoot()
        try root.link("loop", to: "loop")
        #expect(throws: SettingsError.self) {
            try self.read("publish.json", in: root.path("loop"), mayBeLink: false)
        }
    }

    static let refusals = [
        ("{mirors: []}", "publish.json:1: mirors: no such key; did you mean “mirrors”?"),
        ("{\n\"sign\": \"keys\"}", "publish.json:2: sign: no such key; the keys are "),
        ("{channel: 'Beta'}", "publish.json:1: channel: “Beta” is not a channel name"),
        ("{loose: 1}", "publish.json:1: loose: 1 was found; true or false is expected"),
        (
            "{groups: {maps: {includes: []}}}",
            "publish.json:1: groups.maps.includes: no such key; did you mean “include”?"
        ), ("{groups: {maps: {hooks: ['h']}}}", "publish.json:1: groups.maps: no pattern says which files it has"),
        ("{groups: {maps: []}}", "publish.json:1: groups.maps: no pattern says which files it has"),
        ("{groups: {maps: [1]}}", "publish.json:1: groups.maps[0]: 1 was found"),
        ("{groups: []}", "publish.json:1: groups: an empty list was found; an object"),
        ("{level: 20}", "publish.json:1: level: 20 was found; a whole number from 1 to 19 is expected"),
        ("{dictionary: 'sometimes'}", "publish.json:1: dictionary: a string was found; \"auto\" or"),
        ("{mirrors: ['https://a/', 'http://[m/']}", "publish.json:1: mirrors[1]: it is not a URL that"),
        ("{files_url: 'http://a:99999/'}", "publish.json:1: files_url: it is not a URL that can be requested"),
        ("{exclude: 'x'}", "publish.json:1: exclude: a string was found; a list of patterns is expected"),
        ("{exclude_from: ['none']}", "publish.json:1: exclude_from[0]: it is not there"),
        ("{exclude_from: ['/etc/list']}", "publish.json:1: exclude_from[0]: “/etc/list” is not beside this file"),
        ("{exclude_from: ['~/list']}", "publish.json:1: exclude_from[0]: “~/list” is not beside"),
        ("{exclude_from: ['a/../../list']}", "publish.json:1: exclude_from[0]: “a/../../list” is not beside"),
        ("", "publish.json:1:1: the file is empty"),
    ]

    @Test("What is wrong is named with its line, and a key nobody knows with the nearest one", arguments: refusals)
    func refused(text: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try parse(text) }
        #expect(error?.description.hasPrefix(message) == true, "\(String(describing: error))")
    }
}
