import Testing

@testable import SyncSettings

@Suite(.timeLimit(.minutes(10)))
struct PublishFileTests {
    private func parse(_ text: String) throws -> PublishFile {
        try PublishFile.parse(
            Array(text.utf8),
            base: PathBase(directory: "/set", home: nil),
            shown: "publish.json"
        )
    }

    @Test("Every key reaches its place; paths are relative to the file")
    func all() throws {
        let file = try parse(
            """
            { "project": "com.example.tower", // what it is
              "channel": "beta", "groups": { "maps": ["maps/**"], "sheets": { "include": ["s/*"], "hooks": ["reindex"] } },
              "mirrors": ["https://m.example/"], "files_url": "files/", "loose": false,
              "exclude": ["**/*.tmp"], "exclude_from": ["list", "/etc/list"],
              "pack_size": "16M", "level": 9, "dictionary": "never", "deltas": false,
              "manifest_parts": true, "safe_links": true }
            """
        )
        var wanted = PublishFile()
        (wanted.project, wanted.channel) = ("com.example.tower", "beta")
        wanted.groups = [
            PublishFile.Group(name: "maps", include: ["maps/**"], hooks: []),
            PublishFile.Group(name: "sheets", include: ["s/*"], hooks: ["reindex"]),
        ]
        (wanted.mirrors, wanted.filesURL, wanted.isLoose) = (["https://m.example/"], "files/", false)
        (wanted.exclude, wanted.excludeFrom) = (["**/*.tmp"], ["/set/list", "/etc/list"])
        (wanted.packSize, wanted.level, wanted.dictionary) = (16 << 20, 9, .never)
        (wanted.deltas, wanted.manifestParts, wanted.safeLinks) = (false, true, true)
        #expect(file == wanted)
        #expect(try parse("{}") == PublishFile())
        #expect(try parse("{groups: {}}").groups == [])
        #expect(try parse("{channel: 'default'}").channel == "default")
    }

    static let refusals = [
        ("{mirors: []}", "publish.json:1: mirors: no such key; did you mean “mirrors”?"),
        ("{\n\"sign\": \"keys\"}", "publish.json:2: sign: no such key; the keys are "),
        ("{channel: 'Beta'}", "publish.json:1: channel: “Beta” is not a channel name"),
        ("{loose: 1}", "publish.json:1: loose: 1 was found; true or false is expected"),
        (
            "{groups: {maps: {includes: []}}}",
            "publish.json:1: groups.maps.includes: no such key; did you mean “include”?"
        ),
        ("{groups: {maps: [1]}}", "publish.json:1: groups.maps[0]: 1 was found"),
        ("{groups: []}", "publish.json:1: groups: an empty list was found; an object"),
        ("{level: 20}", "publish.json:1: level: 20 was found; a whole number from 1 to 19 is expected"),
        ("{dictionary: 'sometimes'}", "publish.json:1: dictionary: a string was found; \"auto\" or"),
        ("{exclude: 'x'}", "publish.json:1: exclude: a string was found; a list of patterns is expected"),
        ("", "publish.json:1:1: the file is empty"),
    ]

    @Test(
        "What is wrong is named with its line, and a key nobody knows with the nearest one",
        arguments: refusals
    )
    func refused(text: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try parse(text) }
        #expect(error?.description.hasPrefix(message) == true, "\(String(describing: error))")
    }
}
