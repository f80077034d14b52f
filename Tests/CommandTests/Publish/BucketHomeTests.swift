import CommandTestSupport
import Foundation
import SyncTestKit
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(10)))
struct BucketHomeTests {
    private let bucket: ScriptedBucket
    private let scratch: Scratch
    private let files: [String: [UInt8]] = [
        "README.md": Array("hello".utf8), "tiles/north.bin": patternedBytes(size: 900_000, seed: 5),
        "tiles/south.bin": patternedBytes(size: 300_000, seed: 6), "empty": [],
    ]
    private static let place = "s3://assets/maps/tiles"

    init() throws {
        (bucket, scratch) = (try ScriptedBucket(), try Scratch())
        for (path, bytes) in files { try write(bytes, path) }
    }

    private func write(_ bytes: [UInt8], _ path: String) throws { try scratch.write(Data(bytes), to: "set/" + path) }

    private func run(_ arguments: String..., environment: [String: String]? = nil) throws -> Tool.Outcome {
        try Tool(scratch).run(arguments, environment: environment ?? bucket.environment)
    }

    private func publish(_ more: String..., environment: [String: String]? = nil) throws -> Tool.Outcome {
        let plain = ["publish", "set", "--to", Self.place, "--project", "com.example.maps", "--pack-size", "512K"]
        return try Tool(scratch).run(plain + more, environment: environment ?? bucket.environment)
    }

    private func bytes(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: scratch.url.appendingPathComponent(path)))
    }

    private func pulled(into directory: String, _ place: String = place, environment: [String: String]? = nil) throws {
        let outcome = try run("pull", place, "--into", directory, environment: environment)
        #expect(outcome.status == 0, "\(outcome.error)")
        for path in files.keys {
            let expected = try bytes("set/" + path)
            #expect(try bytes("\(directory)/\(path)") == expected, "\(path)")
        }
    }

    private func packs() -> Set<String> { bucket.names.filter { $0.hasSuffix(".pack") } }

    /// Every pack that a manifest there names is there.
    private func checkWhole() throws {
        for name in bucket.names where name.hasSuffix("manifest.json") {
            let text = String(decoding: try #require(bucket[name]), as: UTF8.self)
            let named = text.matches(of: /packs\/[0-9a-f]{64}\.pack/).map { "maps/tiles/\($0.0)" }
            #expect(!named.isEmpty && bucket.names.isSuperset(of: named))
        }
    }

    @Test("A cache of a bucket does not show the manifest of one with the same name at another endpoint")
    func otherEndpoint() throws {
        #expect(try publish().status == 0)
        func cache(_ environment: [String: String]) throws -> RunningServer {
            let words = ["serve", "--cache", Self.place, "--store", "store", "--port", "0"]
            return try RunningServer(scratch, Tool(scratch).process(words, environment: environment))
        }
        let first = try cache(bucket.environment)
        #expect(try first.client.send("GET", "/manifest.json").body == bucket["maps/tiles/manifest.json"])
        // What no object can be called.
        for path in ["/trust/%ff", "/trust/a%0Ab"] { #expect(try first.client.send("GET", path).status == 404) }
        #expect(try first.stop().status == 0)
        let gone = try FaultServer()
        let endpoint = "http://127.0.0.1:\(gone.port)"
        try gone.closePort()
        let other = try cache(bucket.environment.merging(["AWS_ENDPOINT_URL": endpoint]) { $1 })
        #expect(try other.client.send("GET", "/manifest.json").status == 504)
    }

    @Test("A set in a bucket is published, pulled, and published again with what is new; every request is signed")
    func publishing() throws {
        let first = try publish()
        #expect(first.status == 0, "\(first.error)")
        #expect(bucket.refusals == [])
        #expect(packs().count == 3, "\(bucket.names)")
        for pack in packs() {
            let object = ServedObject(try #require(bucket[pack]))
            #expect(pack.hasSuffix("/\(object.sha256).pack"))
        }
        try pulled(into: "out")

        // Nothing of the first is left on this machine.
        try FileManager.default.removeItem(atPath: scratch.path + "/.local")
        let puts = bucket.puts
        let same = try publish()
        #expect(same.status == 0 && same.error.contains("nothing changed"), "\(same.error)")
        #expect(bucket.puts == puts)

        try write(Array("hello again".utf8), "README.md")
        let second = try publish()
        #expect(second.status == 0, "\(second.error)")
        #expect(packs().count == 4 && bucket.puts.values.max() == 2)
        #expect(bucket.puts.filter { $0.key.hasSuffix(".pack") }.allSatisfy { $0.value == 1 })
        try pulled(into: "out")
        #expect(bucket.refusals == [])
        #expect(!bucket.server.log.entries.contains { $0.request.target.contains(ScriptedBucket.secret) })
    }

    @Test(
        "Without keys, or with wrong ones, it ends with 77; a bucket for everybody is pulled by its URL and without keys"
    )
    func keys() throws {
        var environment = bucket.environment
        environment["AWS_SECRET_ACCESS_KEY"] = "wrong"
        let wrong = try publish(environment: environment)
        #expect(wrong.status == 77 && wrong.error.contains("SignatureDoesNotMatch"), "\(wrong.error)")
        environment["AWS_SECRET_ACCESS_KEY"] = nil
        environment["AWS_ACCESS_KEY_ID"] = nil
        let none = try publish(environment: environment)
        #expect(none.status == 77 && none.error.contains("AWS_ACCESS_KEY_ID"), "\(none.error)")
        #expect(try publish().status == 0)
        let refused = try run("pull", Self.place, "--into", "none", environment: environment)
        #expect(refused.status == 77, "\(refused.error)")
        bucket.change { $0.isPublic = true }
        try pulled(into: "anybody", environment: environment)
        try pulled(into: "plain", bucket.server.url("/assets/maps/tiles/manifest.json"), environment: [:])
    }

    @Test("Keys come from a profile's files, with a session, and --endpoint and --region say where the bucket is")
    func profile() throws {
        bucket.change { $0.session = "token/of+session==" }
        let file = """
            [other]
            aws_access_key_id = no
            [night]
            aws_access_key_id = \(ScriptedBucket.access)
            # comment
            aws_secret_access_key = \(ScriptedBucket.secret)
            aws_session_token=token/of+session==
            """
        try scratch.write(Data(file.utf8), to: ".aws/credentials")
        try scratch.write(
            Data("[profile night]\nregion = elsewhere-1\ns3 =\n  addressing_style = path\n".utf8), to: ".aws/config")
        let environment = ["HOME": scratch.path, "AWS_PROFILE": "night", "AWS_EC2_METADATA_DISABLED": "true"]
        let place = ["--endpoint", bucket.endpoint, "--region", ScriptedBucket.region]
        let tool = Tool(scratch)
        let published = try tool.run(
            ["publish", "set", "--to", Self.place, "--pack-size", "512K"] + place, environment: environment)
        #expect(published.status == 0, "\(published.error)")
        let pull = try tool.run(["pull", Self.place, "--into", "out"] + place, environment: environment)
        #expect(pull.status == 0, "\(pull.error)")
        // The session remembers where that was.
        let again = try tool.run(
            ["plan", Self.place + "?endpoint=\(bucket.endpoint)&region=\(ScriptedBucket.region)"],
            environment: environment)
        #expect(again.status == 0, "\(again.error)")
        let unknown = try tool.run(["publish", "set", "--to", Self.place], environment: ["AWS_PROFILE": "nobody"])
        #expect(unknown.status == 78, "\(unknown.error)")
        #expect(bucket.refusals == [])
    }

    @Test("Of two publishers one ends with 75, whoever was in between, and what the other published stays")
    func races() throws {
        #expect(try publish().status == 0)
        let changed = try #require(bucket["maps/tiles/manifest.json"]) + [0x0A]
        try write(Array("new".utf8), "new")
        bucket.change { state in
            state.beforePut = { [bucket] name in
                if name == "maps/tiles/manifest.json" { bucket[name] = changed }
            }
        }
        let late = try publish()
        #expect(late.status == 75 && late.error.contains("changed by another publish"), "\(late.error)")
        #expect(bucket["maps/tiles/manifest.json"] == changed)
        bucket.change { $0.beforePut = nil }
        let puts = bucket.puts.filter { $0.key.hasSuffix(".pack") }
        let next = try publish()
        #expect(next.status == 0, "\(next.error)")
        // What the late one had sent is used.
        #expect(bucket.puts.filter { $0.key.hasSuffix(".pack") } == puts)
        try checkWhole()
        try pulled(into: "out")
    }

    @Test(
        "A third of the answers is SlowDown, or lost once the bucket has done what was asked: everything is sent once, from its file [S81]"
    )
    func troubles() throws {
        bucket.change { state in
            state.instead = { request in
                request.ordinal % 3 == 0
                    ? .status(503, text: "<Error><Code>SlowDown</Code></Error>").setting("Retry-After", "0") : nil
            }
            state.loses = { request in request.method == "PUT" && request.ordinal % 4 == 1 }
        }
        let outcome = try publish("--channel", "beta")
        #expect(outcome.status == 0, "\(outcome.error)")
        try write(Array("new".utf8), "new")
        let again = try publish("--channel", "beta")
        #expect(again.status == 0, "\(again.error)")
        #expect(bucket.puts.filter { $0.key.hasSuffix(".pack") }.allSatisfy { $0.value == 1 }, "\(bucket.puts)")
        bucket.change { ($0.instead, $0.loses) = (nil, nil) }
        let pull = try run("pull", Self.place, "--channel", "beta", "--into", "out")
        #expect(pull.status == 0, "\(pull.error)")
        #expect(try bytes("out/new") == Array("new".utf8))
    }

    @Test(
        "An answer that is lost on a connection that was used before is no other publisher, whatever was put",
        arguments: [
            "manifest.json", "manifest.json.zst", "channels/index.json", "channels/beta.json.zst", "trust/fresh",
            "trust/beta.fresh", "trust/3.release",
        ])
    func lostAnswer(name: String) throws {
        #expect(try run("keys", "new", "keys", "--project", "com.example.maps").status == 0)
        // Everything is there once, so that it is replaced: what decides then is the tag.
        #expect(try publish("--sign", "keys").status == 0)
        try write([1], "old")
        #expect(try publish("--sign", "keys", "--channel", "beta").status == 0)
        try write(Array("new".utf8), "new")
        let lost = Mutex(0)
        let isLost: @Sendable (ServedRequest) -> Bool = { request in
            guard request.method == "PUT", request.path == "/assets/maps/tiles/\(name)" else { return false }
            return lost.withLock { count in
                count += 1
                return count == 1
            }
        }
        bucket.change { $0.loses = isLost }
        let isOfChannel = name.contains("beta") || name.hasPrefix("channels/")
        let outcome =
            try isOfChannel
            ? publish("--sign", "keys", "--channel", "beta") : publish("--sign", "keys")
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(!outcome.error.contains("not signed") && !outcome.error.contains("another publish"), "\(outcome.error)")
        // It was sent again, and the bucket refused that.
        #expect(lost.withLock(\.self) > 1)
        bucket.change { $0.loses = nil }
        try checkWhole()
        let pull = try run(
            "pull", Self.place, "--into", "out", "--trust", "keys/1.root", "--channel", isOfChannel ? "beta" : "default"
        )
        #expect(pull.status == 0, "\(pull.error)")
        #expect(try bytes("out/new") == Array("new".utf8))
    }

    @Test(
        "A bucket that cannot answer for a while is waited for, and that is said once, after 5 s; not what is over sooner",
        arguments: [7, 1])
    func waiting(seconds: Int) throws {
        #expect(try publish().status == 0)
        let before = bucket.server.log.entries.map(\.request.ordinal).max() ?? 0
        bucket.change { state in
            state.instead = { request in
                request.ordinal == before + 1 ? .status(503).setting("Retry-After", "\(seconds)") : nil
            }
        }
        let list = try run("releases", "list", Self.place)
        #expect(list.status == 0, "\(list.error)")
        let notice = "syncagent: warning: waiting for \(Self.place): status 503; Ctrl-C stops\n"
        #expect(list.error.components(separatedBy: notice).count == (seconds > 5 ? 2 : 1), "\(list.error)")
        #expect(list.error.contains("waiting for") == (seconds > 5), "\(list.error)")
    }

    @Test("A store that does not look at conditions is found out before anything is put, and told")
    func conditions() throws {
        bucket.change { $0.knowsConditions = false }
        let outcome = try publish()
        #expect(outcome.status == 0 && outcome.error.contains("ignores the conditions"), "\(outcome.error)")
        try write(Array("new".utf8), "new")
        #expect(try publish().status == 0)
        try pulled(into: "out")
        #expect(bucket.puts.filter { $0.key.hasSuffix(".pack") }.allSatisfy { $0.value == 1 })
    }

    @Test("A dry run puts nothing, a loose set is refused, and nothing is asked of a bucket that cannot be one")
    func refusals() throws {
        let dry = try publish("--dry-run")
        #expect(dry.status == 0 && bucket.names.isEmpty, "\(dry.error)")
        #expect(try publish("--loose").status == 64)
        for place in ["s3://", "s3://a", "s3://as sets/x", "s3://assets/a//b", "s3://assets/../x", "s3://assets?key=1"]
        {
            #expect(try run("publish", "set", "--to", place).status == 64, "\(place)")
        }
        #expect(try run("publish", "set", "--to", "s3://nobodys/x").status == 66)
        #expect(try run("publish", "set", "--to", "site", "--endpoint", bucket.endpoint).status == 64)
    }

    @Test("--endpoint and --region may be of the base's bucket alone: the set goes to a directory")
    func endpointOfBase() throws {
        #expect(try publish().status == 0)
        var environment = bucket.environment
        (environment["AWS_ENDPOINT_URL"], environment["AWS_REGION"]) = (nil, nil)
        let outcome = try run(
            "publish", "set", "--to", "near", "--base", Self.place, "--endpoint", bucket.endpoint, "--region",
            ScriptedBucket.region, environment: environment)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try bytes("near/manifest.json") == bucket["maps/tiles/manifest.json"])
        let wrong = try run(
            "publish", "set", "--to", "near", "--base", Self.place, "--endpoint", "ftp://127.0.0.1",
            environment: environment)
        #expect(wrong.status == 64, "\(wrong.error)")
    }

    @Test("Releases in a bucket are listed, pruned and brought back; a signed set is refreshed there, from anywhere")
    func releases() throws {
        let tool = Tool(scratch)
        #expect(try tool.run(["keys", "new", "keys", "--project", "com.example.maps"]).status == 0)
        for night in 1...3 {
            try write(patternedBytes(size: 200_000, seed: UInt64(night)), "night.bin")
            let outcome = try publish("--sign", "keys")
            #expect(outcome.status == 0, "\(outcome.error)")
            try FileManager.default.removeItem(atPath: scratch.path + "/.local")
        }
        let list = try run("releases", "list", Self.place, "--json")
        #expect(list.status == 0 && list.output.split(separator: "\n").count == 3, "\(list.error)")
        let restored = try run("releases", "restore", Self.place, "1", "--sign", "keys")
        #expect(restored.status == 0, "\(restored.error)")
        let pull = try run("pull", Self.place, "--into", "out", "--trust", "keys/1.root")
        #expect(pull.status == 0, "\(pull.error)")
        #expect(try bytes("out/night.bin") == patternedBytes(size: 200_000, seed: 1))
        let before = packs()
        let first = try run("releases", "prune", Self.place, "--keep", "1", "--grace", "0")
        #expect(first.status == 0, "\(first.error)")
        #expect(packs().count < before.count)
        #expect(try run("keys", "refresh", Self.place, "--sign", "keys").status == 0)
        #expect(try run("pull", Self.place, "--into", "again", "--trust", "keys/1.root").status == 0)
        #expect(bucket.refusals == [])
    }

    private static func note(going packs: Set<String>, since: Int64) -> [UInt8] {
        let digests = packs.compactMap { $0.split(separator: "/").last?.dropLast(5) }.map { "\"\($0)\"" }
        return Array(
            ("{\"format\":\"syncagent-unnamed/1\",\"manifests\":{},\"packs\":{},\"retired\":[],\"going\":["
                + digests.sorted().joined(separator: ",") + "],\"going_since\":\(since)}\n").utf8)
    }

    @Test(
        "A pack that a prune is removing is not counted on; a prune that was killed keeps nobody from publishing for long"
    )
    func pruning() throws {
        #expect(try publish().status == 0)
        let note = "maps/tiles/manifests/unnamed.json"
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        // Without its base a publish finds the same packs there by their names.
        bucket[note] = Self.note(going: packs(), since: now)
        let early = try publish("--no-base", "--revision", "2", "--project", "com.example.maps")
        #expect(early.status == 75 && early.error.contains("prune"), "\(early.error)")
        bucket[note] = Self.note(going: packs(), since: now - 3_600_000)
        let later = try publish("--no-base", "--revision", "3")
        #expect(later.status == 0, "\(later.error)")
        #expect(bucket.puts.filter { $0.key.hasSuffix(".pack") }.allSatisfy { $0.value == 1 })
        try checkWhole()

        // A prune learns of a publish that has used what it was about to remove.
        try write(Array("other".utf8), "README.md")
        #expect(try publish("--no-base", "--revision", "4").status == 0)
        // What was found there above was taken; that is over.
        bucket[note] = Self.note(going: [], since: 0)
        bucket.change { state in
            state.beforePut = { [bucket] name in
                if name == note { bucket[note] = Array("{\"format\":\"syncagent-unnamed/1\"}".utf8) }
            }
        }
        let before = packs()
        let prune = try run("releases", "prune", Self.place, "--keep", "1", "--grace", "0")
        #expect(prune.status == 75, "\(prune.error)")
        #expect(packs() == before)
    }

    private static let noteName = "maps/tiles/manifests/unnamed.json"

    /// Two nights after a first release, each with a pack of its own.
    private func publishNights() throws {
        #expect(try publish().status == 0)
        for night in 1...2 {
            try write(patternedBytes(size: 200_000, seed: UInt64(night)), "night.bin")
            let outcome = try publish()
            #expect(outcome.status == 0, "\(outcome.error)")
        }
    }

    @Test("A pack that a publish has taken a moment ago stays, although a prune without grace removes its last release")
    func taken() throws {
        try publishNights()
        let before = packs()
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        let times = before.compactMap { $0.split(separator: "/").last?.dropLast(5) }.map { "\"\($0)\":\(now)" }
        let text = "{\"format\":\"syncagent-unnamed/1\",\"packs\":{" + times.joined(separator: ",") + "}}\n"
        bucket[Self.noteName] = Array(text.utf8)
        let manifests = bucket.names.count { $0.contains("/manifests/") }
        let prune = try run("releases", "prune", Self.place, "--keep", "1", "--grace", "0")
        #expect(prune.status == 0, "\(prune.error)")
        #expect(bucket.names.count { $0.contains("/manifests/") } < manifests && packs() == before)
    }

    @Test("A note that somebody else writes while a prune removes stays as it is, and the prune has done its work")
    func newerNote() throws {
        try publishNights()
        // Nothing has named it yet, so there is something to note in the end.
        bucket["maps/tiles/packs/\(String(repeating: "1", count: 64)).pack"] = [1]
        let before = packs()
        let newer = Array("{\"format\":\"syncagent-unnamed/1\"}".utf8)
        bucket.change { state in
            state.beforePut = { [bucket] name in
                let isLate = !bucket.names.isSuperset(of: before)
                if name == Self.noteName, isLate { bucket[Self.noteName] = newer }
            }
        }
        let prune = try run("releases", "prune", Self.place, "--keep", "1", "--grace", "0")
        #expect(prune.status == 0, "\(prune.error)")
        #expect(packs().count < before.count && bucket[Self.noteName] == newer)
    }

    @Test("Packs of a base elsewhere that are in the bucket are not counted on while a prune removes them")
    func elsewhere() throws {
        #expect(try publish().status == 0)
        try scratch.write(Data(try #require(bucket["maps/tiles/manifest.json"])), to: "base/manifest.json")
        try write([1], "new")
        bucket[Self.noteName] = Self.note(going: packs(), since: Int64(Date().timeIntervalSince1970 * 1_000))
        let early = try publish("--base", "base/manifest.json")
        #expect(early.status == 75 && early.error.contains("prune"), "\(early.error)")
        bucket[Self.noteName] = Self.note(going: [], since: 0)
        let later = try publish("--base", "base/manifest.json")
        #expect(later.status == 0, "\(later.error)")
        try checkWhole()
    }

    @Test(
        "A channel that is removed is gone from the bucket, and nobody is told to remove it from servers",
        arguments: [false, true])
    func removedChannel(isSigned: Bool) throws {
        if isSigned { #expect(try run("keys", "new", "keys", "--project", "com.example.maps").status == 0) }
        let signing = isSigned ? ["--sign", "keys"] : []
        let place = ["--to", Self.place, "--project", "com.example.maps", "--pack-size", "512K", "--channel", "beta"]
        let tool = Tool(scratch)
        let beta = try tool.run(["publish", "set"] + place + signing, environment: bucket.environment)
        #expect(beta.status == 0, "\(beta.error)")
        let removed = try tool.run(
            ["channel", "remove", Self.place, "beta"] + signing, environment: bucket.environment)
        #expect(removed.status == 0 && !removed.error.contains("servers"), "\(removed.error)")
        #expect(removed.error.contains("Signed under root 1.") == isSigned, "\(removed.error)")
        #expect(!bucket.names.contains("maps/tiles/channels/beta.json.zst"))
    }

    @Test("Of a base elsewhere no pack is named that is not in the bucket: what it has is packed again, and sent")
    func farBase() throws {
        func note(_ number: Int) -> [UInt8] {
            let lines = (0..<12).map { line in
                "{\"kind\":\"note\",\"number\":\(number * 7 + line),\"author\":\"somebody\",\"words\":\"\(number * line * 7_919 % 10_007)\"}\n"
            }
            return Array(lines.joined().utf8)
        }
        for number in 0..<400 { try write(note(number), "notes/\(number).json") }
        #expect(try publish("--dictionary", "always", "--manifest-parts").status == 0)
        bucket.change { $0.isPublic = true }
        let former = String(decoding: try #require(bucket["maps/tiles/manifest.json"]), as: UTF8.self)
        #expect(former.contains("\"dictionary\"") && former.contains("\"parts\""))
        for (place, base) in [
            ("prod", Self.place), ("next", bucket.server.url("/assets/maps/tiles/manifest.json")),
        ] {
            let arguments = [
                "publish", "set", "--to", "s3://assets/\(place)", "--base", base, "--manifest-parts", "--pack-size",
                "512K",
            ]
            let dry = try Tool(scratch).run(arguments + ["--dry-run"], environment: bucket.environment)
            #expect(dry.status == 0 && !bucket.names.contains { $0.hasPrefix(place) }, "\(dry.error)")
            let outcome = try Tool(scratch).run(arguments, environment: bucket.environment)
            #expect(outcome.status == 0 && outcome.error.contains("packed again"), "\(outcome.error)")
            #expect(!outcome.error.contains("must stay"), "\(outcome.error)")
            try pulled(into: place + "-pulled", "s3://assets/\(place)")
            #expect(try bytes(place + "-pulled/notes/7.json") == note(7))
            // What is new takes the dictionary of the base, which is there, too.
            let text = String(decoding: try #require(bucket["\(place)/manifest.json"]), as: UTF8.self)
            #expect(text.contains("\"dictionary\""))
            let again = try Tool(scratch).run(arguments, environment: bucket.environment)
            #expect(again.status == 0 && again.error.contains("nothing changed"), "\(again.error)")
            #expect(bucket["\(place)/manifest.json"] == Array(text.utf8) && bucket.puts["\(place)/manifest.json"] == 1)
        }
    }

    @Test("Keys that may list a bucket and read nothing there end with 77 at once, and nothing is called damaged")
    func listingOnly() throws {
        try publishNights()
        bucket.change {
            $0.instead = {
                $0.method == "GET" && $0.query == nil
                    ? .status(403, text: "<Error><Code>AccessDenied</Code></Error>") : nil
            }
        }
        let start = bucket.server.log.entries.count
        let list = try run("releases", "list", Self.place)
        #expect(list.status == 77 && !list.error.contains("damaged"), "\(list.error)")
        #expect(reads(since: start).count == 1)
    }

    @Test("New keys take the place of others there, whose root is longer")
    func otherKeys() throws {
        for keys in ["old", "new"] {
            #expect(try run("keys", "new", keys, "--project", "com.example.maps").status == 0)
        }
        #expect(try publish("--sign", "old").status == 0)
        let root = "maps/tiles/trust/1.root"
        bucket[root] = try #require(bucket[root]) + [UInt8](repeating: 0x0A, count: 64)
        let outcome = try publish("--sign", "new", "--allow-other-keys", "--no-base")
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try bytes("new/1.root") == bucket[root])
    }

    /// The objects that were read since the log was this long, with what of them.
    private func reads(since start: Int) -> [(name: String, range: String?)] {
        var reads: [(name: String, range: String?)] = []
        for entry in bucket.server.log.entries.dropFirst(start) {
            let request = entry.request
            guard request.method == "GET", request.query == nil else { continue }
            reads.append((String(request.path.dropFirst("/assets/maps/tiles/".count)), request.header("range")))
        }
        return reads
    }

    @Test("An empty machine reads the newest manifest once, in its shorter form; where the two differ, the text counts")
    func shorterForm() throws {
        for number in 0..<200 { try write(Array("\(number)".utf8), "many/file \(number)") }
        #expect(try publish().status == 0)
        try FileManager.default.removeItem(atPath: scratch.path + "/.local")
        var start = bucket.server.log.entries.count
        try write(Array("new".utf8), "many/file 7")
        #expect(try publish().status == 0)
        #expect(reads(since: start).map(\.name).filter { $0.hasPrefix("manifest") } == ["manifest.json.zst"])

        // A publish that was killed has replaced the text alone.
        bucket["maps/tiles/manifest.json.zst"] = [0x28, 0xB5, 0x2F, 0xFD, 0, 1, 2, 3]
        start = bucket.server.log.entries.count
        try write(Array("newer".utf8), "many/file 8")
        let outcome = try publish()
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(reads(since: start).map(\.name).contains("manifest.json"))
        #expect(try run("releases", "list", Self.place, "--json").output.split(separator: "\n").count == 3)
        try pulled(into: "out")
        #expect(try bytes("out/many/file 7") == Array("new".utf8))
    }

    @Test("With a base elsewhere the newest manifest is read once, and none of the older ones, however many there are")
    func farBaseRequests() throws {
        let site = ["publish", "set", "--to", "site", "--project", "com.example.maps", "--pack-size", "512K"]
        #expect(try Tool(scratch).run(site).status == 0)
        for number in 2...5 {
            try write([UInt8(number)], "new")
            let outcome = try publish("--base", "site/manifest.json")
            #expect(outcome.status == 0 && outcome.error.contains("revision \(number)"), "\(outcome.error)")
        }
        let start = bucket.server.log.entries.count
        try write([6], "new")
        let outcome = try publish("--base", "site/manifest.json")
        #expect(outcome.status == 0 && outcome.error.contains("revision 6"), "\(outcome.error)")
        let manifests = reads(since: start).map(\.name).filter {
            $0.hasPrefix("manifest.json") || $0.hasSuffix(".json.zst")
        }
        #expect(manifests == ["manifest.json"])
    }

    @Test("A set of many files has a manifest in parts there; an empty machine reads the parts in few requests")
    func parts() throws {
        for number in 0..<4_200 { try write(Array("\(number)".utf8), "many/\(number / 100)/file \(number)") }
        bucket.change { $0.page = 1_000 }
        #expect(try publish().status == 0)
        let text = String(decoding: try #require(bucket["maps/tiles/manifest.json"]), as: UTF8.self)
        #expect(text.contains("\"parts\"") && text.utf8.count < 16_000)
        try FileManager.default.removeItem(atPath: scratch.path + "/.local")
        let start = bucket.server.log.entries.count
        try write(Array("new".utf8), "many/30/file 3000")
        let outcome = try publish("--no-deltas")
        #expect(outcome.status == 0, "\(outcome.error)")
        let ranges = reads(since: start).filter { $0.name.hasPrefix("packs/") }
        #expect((1...2).contains(ranges.count), "\(ranges)")
        #expect(try run("releases", "list", Self.place, "--json").output.contains("\"files\":4204"))
        try pulled(into: "out")
        #expect(try bytes("out/many/30/file 3000") == Array("new".utf8))
        // How many files there are, the manifest's own text says.
        let from = bucket.server.log.entries.count
        let alone = try publish("--no-base")
        #expect(alone.status == 0, "\(alone.error)")
        #expect(!reads(since: from).contains { $0.name.hasPrefix("packs/") })
    }

    /// **Bytes** of the ranges that were read.
    private func rangeBytes(since start: Int) -> Int {
        reads(since: start).compactMap(\.range).reduce(0) { (sum: Int, range: String) -> Int in
            let ends: [Int] = range.dropFirst("bytes=".count).split(separator: "-").compactMap { Int($0) }
            return ends.count == 2 ? sum + ends[1] - ends[0] + 1 : sum
        }
    }

    /// What the bucket's manifest names: the digests of the parts' texts and their stored bytes, the packs without texts,
    /// and the number of blobs of each outline.
    private func named() throws -> (texts: [String], bytes: Int, others: Set<String>, outlines: [Int]) {
        let text = Data(try #require(bucket["maps/tiles/manifest.json"]))
        let root = try #require(try JSONSerialization.jsonObject(with: text) as? [String: Any])
        let parts = try #require(root["parts"] as? [[String: Any]])
        let blobs = parts.compactMap { $0["blob"] as? [Any] }
        let packs = try #require(root["packs"] as? [[String: Any]]).compactMap { $0["sha256"] as? String }
        let own = parts.flatMap { [$0["blob"] as Any] + ($0["from"] as? [Any] ?? []) + ($0["outline"] as? [Any] ?? []) }
        let ofParts = Set(own.compactMap { ($0 as? [Any])?.first as? Int })
        return (
            blobs.compactMap { $0.last as? String },
            (blobs + parts.flatMap { $0["from"] as? [[Any]] ?? [] }).reduce(0) { $0 + ($1[2] as? Int ?? 0) },
            Set(packs.enumerated().filter { !ofParts.contains($0.offset) }.map(\.element)),
            parts.map { ($0["outline"] as? [Any])?.count ?? 0 }
        )
    }

    @Test("An empty machine reads the outlines of the parts, and publishes what it would if it had their texts")
    func outlines() throws {
        func name(_ number: Int) -> String { "many/\(number / 100)/\(number)" }
        var large = patternedBytes(size: 3_000_000, seed: 3)
        for number in 0..<3_000 { try write(patternedBytes(size: 600, seed: UInt64(number)), name(number) + ".bin") }
        func texts(_ night: Int) throws {
            for number in 0..<12 {
                let text = patternedBytes(size: 900, seed: UInt64(number)).map { "\($0)" }.joined(separator: " ")
                try write(Array("\(text) in night \(night)".utf8), "many/\(number)/\(number).txt")
            }
        }
        try write(large, "large.dat")
        try texts(1)
        #expect(try publish().status == 0)
        #expect(try named().outlines.count > 2 && named().outlines.allSatisfy { $0 == 1 })
        let before = Dictionary(uniqueKeysWithValues: bucket.names.map { ($0, bucket[$0]) })

        large.replaceSubrange(1_500_000..<1_500_100, with: repeatElement(7, count: 100))
        try write(large, "large.dat")
        try texts(2)
        for number in stride(from: 7, to: 3_000, by: 250) {
            try write(patternedBytes(size: 650, seed: UInt64(90_000 + number)), name(number) + ".bin")
        }
        let files = FileManager.default
        try files.removeItem(atPath: scratch.path + "/set/" + name(1_111) + ".bin")
        try files.moveItem(
            atPath: scratch.path + "/set/" + name(2_222) + ".bin", toPath: scratch.path + "/set/many/5/moved.bin")

        // With the stamps, texts are read.
        let known = try publish("--json")
        #expect(known.status == 0, "\(known.error)")
        let expected = try named()
        #expect(expected.outlines.contains(2))
        for name in bucket.names { bucket[name] = before[name] ?? nil }
        try files.removeItem(atPath: scratch.path + "/.local")
        let dry = try publish("--dry-run", "--json")
        let outcome = try publish("--json")
        #expect(outcome.status == 0, "\(outcome.error)")
        let found = try named()
        #expect(found.texts == expected.texts && found.others == expected.others && found.outlines == expected.outlines)
        func number(_ key: String, _ outcome: Tool.Outcome) -> String? {
            outcome.output.components(separatedBy: "\"\(key)\":").dropFirst().first.map {
                String($0.prefix { $0.isNumber })
            }
        }
        for key in ["deltas", "new", "files", "revision"] {
            #expect(number(key, outcome) == number(key, known), "\(key)")
        }
        #expect(number("deltas", outcome).flatMap { Int($0) } ?? 0 > 12, "\(outcome.output)")
        #expect(dry.status == 0 && dry.output.contains("\"removed\":2"), "\(dry.output)")
        try checkWhole()
        try pulled(into: "out")
        for path in try files.subpathsOfDirectory(atPath: scratch.path + "/set") where path.contains(".") {
            let (one, other) = (scratch.path + "/set/" + path, scratch.path + "/out/" + path)
            #expect(files.contentsEqual(atPath: one, andPath: other), "\(path)")
        }
        #expect(try bytes("out/large.dat") == large)

        // Nothing new: nothing is put, and no text is read.
        try files.removeItem(atPath: scratch.path + "/.local")
        let root = bucket["maps/tiles/manifest.json"]
        let start = bucket.server.log.entries.count
        let again = try publish("--json")
        #expect(again.status == 0 && bucket["maps/tiles/manifest.json"] == root, "\(again.error)")
        #expect(rangeBytes(since: start) < found.bytes * 3 / 4, "\(found.bytes)")
    }

    /// Publishes a set in parts, and damages the outline of the first.
    private func damageOutline() throws {
        for number in 0..<600 { try write(patternedBytes(size: 300, seed: UInt64(number)), "many/\(number).bin") }
        #expect(try publish().status == 0)
        let root = try JSONSerialization.jsonObject(with: Data(try #require(bucket["maps/tiles/manifest.json"])))
        let object = try #require(root as? [String: Any])
        let outlines = try #require((object["parts"] as? [[String: Any]])?.first?["outline"] as? [[Any]])
        let number = try #require(outlines.first?[0] as? Int)
        let (offset, length) = (outlines[0][1] as? Int ?? 0, outlines[0][2] as? Int ?? 0)
        let packs = try #require(object["packs"] as? [[String: Any]]).compactMap { $0["sha256"] as? String }
        let name = "maps/tiles/packs/\(packs[number]).pack"
        bucket[name]?[offset + length / 2] ^= 1
        try FileManager.default.removeItem(atPath: scratch.path + "/.local")
    }

    @Test("Where an outline is damaged, an empty machine reads the texts")
    func damagedOutline() throws {
        try damageOutline()
        try write(Array("new".utf8), "many/30.bin")
        let outcome = try publish("--json")
        #expect(outcome.status == 0 && outcome.output.contains("\"new\":3,"), "\(outcome.output)\(outcome.error)")
        try pulled(into: "out")
        #expect(try bytes("out/many/30.bin") == Array("new".utf8))
    }

    @Test("A damaged outline of a part that has not changed is made again, once")
    func mendedOutline() throws {
        try damageOutline()
        let texts = try named().texts
        let dry = try publish("--dry-run", "--json")
        #expect(dry.status == 0 && dry.output.contains("\"unchanged\":false"), "\(dry.output)\(dry.error)")
        let mended = try publish("--json")
        #expect(mended.status == 0 && mended.error.contains("the outline of a part is damaged"), "\(mended.error)")
        #expect(mended.output.contains("\"revision\":2,"), "\(mended.output)")
        #expect(try named().texts == texts)
        try FileManager.default.removeItem(atPath: scratch.path + "/.local")
        let start = bucket.server.log.entries.count
        let again = try publish("--json")
        #expect(again.status == 0 && !again.error.contains("outline"), "\(again.error)")
        #expect(again.output.contains("\"unchanged\":true"), "\(again.output)")
        #expect(rangeBytes(since: start) < (try named().bytes))
        try pulled(into: "out")
    }

    @Test("A damaged pack of outlines is replaced, although it has the same name and size when it is made again")
    func replacedOutline() throws {
        try damageOutline()
        #expect(try publish().status == 0)
        // The outline that was made again is alone in its pack.
        let root = try JSONSerialization.jsonObject(with: Data(try #require(bucket["maps/tiles/manifest.json"])))
        let object = try #require(root as? [String: Any])
        let outlines = try #require(object["parts"] as? [[String: Any]]).compactMap {
            ($0["outline"] as? [[Any]])?.first?.compactMap { $0 as? Int }
        }
        let packs = try #require(object["packs"] as? [[String: Any]]).compactMap { $0["sha256"] as? String }
        let alone = try #require(outlines.first)
        let name = "maps/tiles/packs/\(packs[try #require(alone.first)]).pack"
        let good = try #require(bucket[name])
        bucket[name]?[alone[1] + alone[2] / 2] ^= 1
        for isAgain in [false, true] {
            try FileManager.default.removeItem(atPath: scratch.path + "/.local")
            let outcome = try publish("--json")
            #expect(outcome.status == 0 && outcome.error.contains("is damaged") != isAgain, "\(outcome.error)")
            #expect(outcome.output.contains("\"unchanged\":true") == isAgain, "\(outcome.output)")
            #expect(bucket[name] == good)
        }
    }

    @Test("A bucket in another region than was believed is found there by publish and pull, and pull says so once")
    func region() throws {
        var environment = bucket.environment
        environment["AWS_REGION"] = "us-east-1"
        let published = try publish(environment: environment)
        #expect(published.status == 0, "\(published.error)")
        let pull = try run("pull", Self.place, "--into", "out", environment: environment)
        #expect(pull.status == 0, "\(pull.error)")
        #expect(
            pull.error.components(separatedBy: "the bucket is in \(ScriptedBucket.region)").count == 2, "\(pull.error)")
        #expect(try bytes("out/README.md") == Array("hello".utf8))
    }

    @Test(
        "A store that says where it is only in the text of a 400, to whoever signs for another region, is published to and pulled from"
    )
    func regionInText() throws {
        bucket.change { $0.saysRegionInText = true }
        var environment = bucket.environment
        environment["AWS_REGION"] = "us-east-1"
        let published = try publish(environment: environment)
        #expect(published.status == 0, "\(published.error)")
        let start = bucket.server.log.entries.count
        let pull = try run("pull", Self.place, "--into", "out", environment: environment)
        #expect(pull.status == 0, "\(pull.error)")
        #expect(
            pull.error.components(separatedBy: "the bucket is in \(ScriptedBucket.region)").count == 2, "\(pull.error)")
        #expect(try bytes("out/README.md") == Array("hello".utf8))
        // One that is refused, a question to anybody and one that is signed, and then as always.
        #expect(bucket.server.log.entries.dropFirst(start).count { $0.request.path == "/assets" } == 2)

        // Keys that are wrong are told as before, and not tried for ever.
        environment["AWS_SECRET_ACCESS_KEY"] = "wrong"
        let from = bucket.server.log.entries.count
        let wrong = try run("pull", Self.place, "--into", "none", environment: environment)
        #expect(wrong.status == 77, "\(wrong.error)")
        #expect(bucket.server.log.entries.count - from < 12)
    }

    @Test("Of files whose former versions help nothing only the shortest few are fetched; kinds that they help go on")
    func vainFetches() throws {
        // Texts that change in one place, and pictures that are new throughout.
        func text(_ number: Int, _ night: Int) -> [UInt8] {
            Array(patternedBytes(size: 3_000, seed: UInt64(number)).flatMap { Array("\($0) ".utf8) })
                + Array("\(night)".utf8)
        }
        func publishNight(_ night: Int) throws -> Tool.Outcome {
            for number in 0..<30 {
                try write(text(number, night), "texts/\(number).txt")
                let size = number < 3 ? 400_000 : 20_000
                try write(patternedBytes(size: size, seed: UInt64(1_000 * night + number)), "pictures/\(number).png")
            }
            return try publish("--json")
        }
        #expect(try publishNight(1).status == 0)
        try FileManager.default.removeItem(atPath: scratch.path + "/.local")
        let start = bucket.server.log.entries.count
        let outcome = try publishNight(2)
        #expect(outcome.status == 0, "\(outcome.error)")
        let read = rangeBytes(since: start)
        // All texts, in zstd frames, one picture of 20,000 bytes, 64 KiB of further ones, and the bytes between them.
        #expect(outcome.output.contains("\"deltas\":30"), "\(outcome.output)")
        #expect(read < 30 * 9_000 + 8 * 20_000, "\(read)")
    }
}
