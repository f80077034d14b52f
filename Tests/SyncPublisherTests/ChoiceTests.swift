import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

/// What is said once and stays: groups, mirrors, the files' URL, loose sets.
@Suite(.timeLimit(.minutes(10)))
struct ChoiceTests {
    static let tree = AssetTree([
        "sheets/a b.txt": .file(Array("one".utf8), executable: false),
        "sheets/c:d": .file(Array("two, and more".utf8), executable: true), "empty": .file([], executable: false),
        "link": .link("sheets/c:d"),
    ])
    static let groups = [Manifest.Group(name: "sheets", include: ["sheets/**"], hooks: ["reindex"])]

    @Test("Groups are the base's when nobody names any; one that is named stands for all; they can be dropped")
    func groups() throws {
        let set = try PublishedSet(Self.tree)
        try set.publish { $0.groups = Self.groups }
        try set.root.write("new", to: "in/new")
        let again = try set.publish()
        #expect(try set.manifest().groups == Self.groups)
        #expect(again.kept == ["the group sheets"] && !again.warnings.contains { $0.contains("groups") })
        let other = [Manifest.Group(name: "other", include: ["new"], hooks: [])]
        let explicit = try set.publish { $0.groups = other }
        #expect(try set.manifest().groups == other)
        #expect(explicit.kept == [])
        #expect(explicit.warnings.contains("the base declares groups that this manifest does not: sheets"))
        try set.publish { $0.groups = [] }
        #expect(try set.manifest().groups == [])
    }

    @Test("What the publisher of the base wants handed on stays at its place")
    func userData() throws {
        let set = try PublishedSet(Self.tree)
        try set.publish { $0.groups = Self.groups }
        let text = String(decoding: set.root.read("out/manifest.json") ?? [], as: UTF8.self)
        try set.root.write(
            text.replacingOccurrences(of: ",\n\"packs\"", with: ",\"x-user-data\":{\"a\":[1]},\n\"packs\"")
                .replacingOccurrences(of: "\"hooks\":[\"reindex\"]", with: "\"hooks\":[\"reindex\"],\"x-user-data\":7"),
            to: "out/manifest.json")
        try set.root.write("new", to: "in/new")
        try set.publish()
        #expect(try set.manifest().userData == "{\"a\":[1]}")
        #expect(try set.manifest().groups.first?.userData == "7")
    }

    @Test("Mirrors stand behind the manifest's own place in every pack, also in later revisions")
    func mirrors() throws {
        let set = try PublishedSet(Self.tree)
        try set.publish()
        #expect(try set.publish { $0.mirrors = ["https://m.example/tower", "http://n.example/x/"] }.revision == 2)
        func check(_ manifest: Manifest) {
            #expect(!manifest.packs.isEmpty)
            for pack in manifest.packs {
                let name = "packs/\(pack.sha256.hex).pack"
                #expect(pack.urls == [name, "https://m.example/tower/\(name)", "http://n.example/x/\(name)"])
            }
        }
        check(try set.manifest())
        try set.root.write("quite new", to: "in/new")
        let again = try set.publish()
        #expect(again.kept == ["2 mirrors"])
        check(try set.manifest())
        #expect(try set.publish().unchanged)
        try set.publish { $0.mirrors = [] }
        #expect(try set.manifest().packs.allSatisfy { $0.urls.count == 1 })
    }

    @Test("The files' URL stands at every file that has content, and stays")
    func filesURL() throws {
        let set = try PublishedSet(Self.tree)
        try set.publish { $0.filesURL = "https://files.example/tower" }
        func urls() throws -> [String: [String]] {
            let files = try set.manifest().files
            return Dictionary(uniqueKeysWithValues: files.indices.map { (files.path($0), files.urls($0)) })
        }
        let wanted = [
            "sheets/a b.txt": ["https://files.example/tower/sheets/a%20b.txt"],
            "sheets/c:d": ["https://files.example/tower/sheets/c%3Ad"], "empty": [], "link": [],
        ]
        #expect(try urls() == wanted)
        #expect(try !set.manifest().packs.isEmpty)
        try set.root.write("new", to: "in/new")
        #expect(try set.publish().kept == ["the files' URL"])
        #expect(try urls()["new"] == ["https://files.example/tower/new"])
        // A relative one is meant from where the manifest is.
        try set.publish { $0.filesURL = "../tower-files" }
        #expect(try urls()["new"] == ["../tower-files/new"])
        try set.publish { $0.filesURL = "" }
        #expect(try urls().values.allSatisfy { $0.isEmpty })
    }

    static let wrongURLs = [
        ("ftp://m.example/", "scheme"), ("packs/", "no host"), ("https://u:secret@m.example/", "user name"),
        ("https://m.example/?sig=secret", "query"), ("https://m.example/a b", "cannot have"), ("", "empty"),
        ("https://m.example/#x", "fragment"), ("https:///x", "no host"),
    ]

    @Test("A URL that no manifest can have is refused with what is wrong, and no secret", arguments: wrongURLs)
    func wrong(url: String, words: String) throws {
        let set = try PublishedSet(Self.tree)
        let error = set.failure { $0.mirrors = [url] }
        #expect(error?.exitStatus == .usage)
        #expect(error?.description.contains(words) == true, "\(String(describing: error))")
        #expect(error?.description.contains("secret") == false)
        if url != "packs/", !url.isEmpty { #expect(set.failure { $0.filesURL = url }?.exitStatus == .usage) }
    }

    @Test("A loose set has no packs, and one relative URL a file")
    func loose() throws {
        let set = try PublishedSet(Self.tree)
        let report = try set.publish { $0.isLoose = true }
        #expect(report.isLoose && report.packsWritten == 0)
        #expect(try set.bytes(below: "out").keys.sorted() == ["manifest.json", "manifest.json.zst"])
        #expect(!FileManager.default.fileExists(atPath: set.root.path("out/packs")))
        let manifest = try set.manifest()
        #expect(manifest.packs.isEmpty)
        for row in manifest.files.indices where manifest.files.size(row) > 0 {
            let path = manifest.files.path(row)
            #expect(manifest.files.urls(row).map { $0.removingPercentEncoding } == [path])
            let bytes = set.root.read("in/\(path)") ?? []
            #expect(try digest(bytes) == manifest.files.digest(row))
        }
        // It is said once.
        #expect(try set.publish().unchanged)
        try set.root.write("new", to: "in/new")
        #expect(try set.publish().kept == ["--loose"])
        #expect(try set.manifest().packs.isEmpty)
        // And taken back.
        try set.publish { $0.isLoose = false }
        #expect(try set.unpacked().paths.count == 5)
        #expect(try set.manifest().files.urls(0).isEmpty)
    }

    @Test("No channel points at a loose set: what it needs is not kept, and a prune would be refused")
    func looseChannel() throws {
        var set = try PublishedSet(Self.tree)
        set.options.keepsReleases = true
        try set.publish()
        set.options.keepsReleases = false
        try set.publish { $0.isLoose = true }
        let error = SigningTests.error { () throws(PublishError) in
            _ = try Channels(.directory(set.root.path("out"))).point("beta", at: "2", signing: nil)
        }
        #expect(error?.exitStatus == .usage && error?.summary.contains("is a loose set") == true)
        #expect(set.root.read("out/channels/beta.json.zst") == nil)
    }

    @Test("A file that would have to stand where the manifest is cannot be loose; elsewhere it can")
    func inTheManifestsPlace() throws {
        let set = try PublishedSet(Self.tree)
        try set.root.write("mine", to: "in/manifest.json")
        let error = set.failure { $0.isLoose = true }
        #expect(error?.exitStatus == .dataInvalid)
        #expect(error?.description.contains("--exclude manifest.json") == true)
        try set.publish { ($0.isLoose, $0.filesURL) = (true, "files/") }
        try set.publish { ($0.isLoose, $0.filesURL, $0.exclude) = (true, "", ["manifest.json"]) }
        #expect(try set.manifest().files.indices.count == 4)
        try set.publish { $0.isLoose = false }
        #expect(try set.unpacked().paths.contains("manifest.json"))
    }

    @Test("Large files are hashed whole, and a file that nobody touched is not read again")
    func looseAndLarge() throws {
        let set = try PublishedSet(AssetTree.manySmall(5))
        var bytes = [UInt8](repeating: 0, count: 3 << 20)
        for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: index &* 31) }
        try set.root.write(bytes, to: "in/large")
        let stamps = set.root.path("stamps")
        let late = Int64(Date().timeIntervalSince1970 * 1_000_000_000) + 10_000_000_000
        try set.publish {
            $0.isLoose = true
            ($0.stampCache, $0.now) = (stamps, late)
        }
        let files = try set.manifest().files
        let row = try #require(files.indices.first { files.path($0) == "large" })
        #expect(try files.digest(row) == digest(bytes))
        let again = try set.publish { ($0.stampCache, $0.now) = (stamps, late) }
        #expect(again.unchanged && again.unreadFiles == 6)
    }

    @Test("Published where it stands: only the manifest is added, and it is no part of the set")
    func inPlace() throws {
        let set = try PublishedSet(Self.tree)
        try set.root.write("mine", to: "in/.publish-notes.tmp")
        // Its own directories may be called as those of a published set are.
        try set.root.write("mine", to: "in/channels/7.json.zst")
        try set.root.write("mine", to: "in/manifests/\(String(repeating: "a", count: 64)).json.zst")
        let before = try set.bytes(below: "in")
        func publish() throws -> PublishReport {
            try set.publish {
                $0.output = $0.directory + "/."
                $0.isLoose = true
            }
        }
        #expect(try publish().revision == 1)
        let after = try set.bytes(below: "in")
        #expect(Set(after.keys).subtracting(before.keys) == ["manifest.json", "manifest.json.zst"])
        #expect(after.filter { before[$0.key] != nil } == before)
        let files = try set.manifest("in").files
        #expect(files.indices.map { files.path($0) } == (Array(before.keys) + ["link"]).sorted())
        #expect(try publish().unchanged)
        try set.publish { ($0.output, $0.project, $0.permits) = ($0.directory, "com.example.spire", .otherProject) }
        #expect(try set.manifest("in").project == "com.example.spire")
        try FileManager.default.removeItem(atPath: set.root.path("in/channels"))
        // A directory below does not have the files of the base, whose place is the output itself.
        let error = set.failure {
            ($0.directory, $0.output, $0.project) = ($0.directory + "/sheets", $0.directory, nil)
        }
        #expect(error?.exitStatus == .usage && error?.remedy.hasSuffix("--files-url ./") == true)
    }

    @Test("A published set with channels is not published where it stands: its revisions would begin again")
    func channelsInPlace() throws {
        let set = try PublishedSet(Self.tree)
        try set.publish { ($0.channel, $0.keepsReleases) = ("beta", true) }
        let before = try set.bytes(below: "out")
        let error = set.failure { ($0.directory, $0.isLoose) = ($0.output, true) }
        #expect(error?.exitStatus == .usage && error?.summary.contains("has channels") == true)
        #expect(try set.bytes(below: "out") == before)
    }

    @Test("Where the source lies below the output, URLs lead there")
    func below() throws {
        let set = try PublishedSet()
        try set.root.write("one", to: "www/the files/a.txt")
        try set.publish {
            $0.directory = set.root.path("www/the files")
            $0.output = set.root.path("www")
            $0.isLoose = true
            $0.mirrors = ["https://m.example/"]
        }
        let wanted = ["the%20files/a.txt", "https://m.example/the%20files/a.txt"]
        #expect(try set.manifest("www").files.urls(0) == wanted)
        let again = try set.publish {
            $0.directory = set.root.path("www/the files")
            $0.output = set.root.path("www")
        }
        #expect(again.unchanged && again.kept == ["--loose", "1 mirror"])
        // From another directory there, URLs do not lead to the former one.
        try set.root.write("two", to: "www/other/a.txt")
        func publish(_ change: (inout PublishOptions) -> Void) throws(PublishError) {
            try set.publish {
                ($0.directory, $0.output) = (set.root.path("www/other"), set.root.path("www"))
                change(&$0)
            }
        }
        let error = SigningTests.error { () throws(PublishError) in try publish { _ in } }
        #expect(error?.exitStatus == .usage && error?.remedy.contains("--no-files-url") == true)
        try publish { ($0.filesURL, $0.mirrors) = ("", ["https://m.example/"]) }
        #expect(try set.manifest("www").files.urls(0) == ["other/a.txt", "https://m.example/other/a.txt"])
        // A release in packs may have named these very files.
        try publish { ($0.isLoose, $0.filesURL) = (false, "other/") }
        try publish { $0.isLoose = true }
        #expect(try set.manifest("www").files.urls(0) == ["other/a.txt", "https://m.example/other/a.txt"])
    }

    @Test(
        "A manifest.json that no publish has written is not replaced, wherever the source is", arguments: [true, false])
    func foreignManifest(isLoose: Bool) throws {
        let set = try PublishedSet()
        let text = "{\"name\":\"pwa\"}"
        try set.root.write("1", to: "f/src/a")
        try set.root.write(text, to: "f/manifest.json")
        for base in [PublishOptions.Base.none, .inOutput] {
            let error = set.failure {
                ($0.directory, $0.output) = (set.root.path("f/src"), set.root.path("f"))
                ($0.base, $0.isLoose) = (base, isLoose)
            }
            #expect(error?.exitStatus == .dataInvalid)
            #expect(error?.remedy == "name another output directory, or move that file away")
        }
        #expect(set.root.read("f/manifest.json") == Array(text.utf8))
    }

    @Test("In place nothing of the set is replaced, packed or signed among the files")
    func refusedInPlace() throws {
        let set = try PublishedSet(Self.tree)
        func failure(_ change: (inout PublishOptions) -> Void) -> PublishError? {
            set.failure {
                $0.output = $0.directory
                change(&$0)
            }
        }
        #expect(failure { _ in }?.description.contains("--loose") == true)
        #expect(failure { ($0.isLoose, $0.isInParts) = (true, true) }?.exitStatus == .usage)
        try set.root.write("{\"name\":\"my app\"}", to: "in/manifest.json")
        for base in [PublishOptions.Base.none, .inOutput] {
            #expect(failure { ($0.isLoose, $0.base) = (true, base) }?.exitStatus == .dataInvalid)
        }
        #expect(set.root.read("in/manifest.json") == Array("{\"name\":\"my app\"}".utf8))
        try FileManager.default.removeItem(atPath: set.root.path("in/manifest.json"))
        try set.root.write("my own", to: "in/manifest.json.zst")
        #expect(failure { $0.isLoose = true }?.exitStatus == .dataInvalid)
        #expect(set.root.read("in/manifest.json.zst") == Array("my own".utf8))
    }
}
