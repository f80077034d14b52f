import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

@Suite(.timeLimit(.minutes(10)))
struct RegistryHomeTests {
    private let registry: ScriptedRegistry
    private let scratch: Scratch
    private let files: [String: [UInt8]] = [
        "README.md": Array("hello".utf8), "tiles/north.bin": patternedBytes(size: 900_000, seed: 5),
        "tiles/south.bin": patternedBytes(size: 300_000, seed: 6), "empty": [],
    ]

    init() throws {
        (registry, scratch) = (try ScriptedRegistry(), try Scratch())
        for (path, bytes) in files { try write(bytes, path) }
    }

    private func write(_ bytes: [UInt8], _ path: String) throws { try scratch.write(Data(bytes), to: "set/" + path) }

    private func run(_ arguments: [String], environment: [String: String] = [:]) throws -> Tool.Outcome {
        try Tool(scratch).run(arguments, environment: environment)
    }

    private func publish(_ more: String..., environment: [String: String] = [:]) throws -> Tool.Outcome {
        let plain = ["publish", "set", "--to", registry.location(":v1"), "--project", "com.example.maps"]
        return try run(plain + ["--pack-size", "512K"] + more, environment: environment)
    }

    /// Signed, where that is wanted.
    private func publish(isSigned: Bool) throws -> Tool.Outcome {
        try isSigned ? publish("--sign", "keys") : publish()
    }

    private func bytes(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: scratch.url.appendingPathComponent(path)))
    }

    /// Pulls, and compares every file.
    private func pulled(
        _ reference: String = ":v1", into directory: String, _ more: [String] = [],
        environment: [String: String] = [:]
    ) throws {
        let outcome = try run(
            ["pull", registry.location(reference), "--into", directory] + more, environment: environment)
        #expect(outcome.status == 0, "\(outcome.error)")
        for path in files.keys {
            let expected = try bytes("set/" + path)
            #expect(try bytes("\(directory)/\(path)") == expected, "\(path)")
        }
    }

    private func asked(_ method: String, _ part: String = "", since start: Int = 0) -> Int {
        registry.registry.log.entries.dropFirst(start).count {
            $0.request.method == method && (part.isEmpty || $0.request.target.contains(part))
        }
    }

    private var count: Int { registry.registry.log.entries.count }

    @Test("Shards are refused before a registry is asked: it keeps no packs before a manifest names them")
    func shards() throws {
        for piece in [["--shard", "0/2"], ["--join", "2"]] {
            let outcome = try publish(piece[0], piece[1])
            #expect(outcome.status == 64 && outcome.error.contains("needs a directory or a bucket"), "\(outcome.error)")
        }
        #expect(count == 0)
    }

    @Test("A release is an artifact whose layers are the published directory; the next publish sends what is new")
    func publishing() throws {
        let first = try publish()
        #expect(first.status == 0, "\(first.error)")
        #expect(Set(registry.tags).isSuperset(of: ["v1", "v1.r1"]))
        let text = String(decoding: try #require(registry.manifest("v1")), as: UTF8.self)
        #expect(text.contains("\"artifactType\":\"application/vnd.syncagent.release.v1+json\""))
        #expect(text.contains("\"org.opencontainers.image.title\":\"manifest.json.zst\""))
        #expect(registry.manifest("v1") == registry.manifest("v1.r1"))
        try pulled(into: "out")
        var start = count
        try pulled(into: "out")
        #expect(count - start == 1)

        start = count
        let same = try publish()
        #expect(same.status == 0 && same.error.contains("nothing changed"), "\(same.error)")
        #expect(asked("PUT", since: start) == 0 && asked("POST", since: start) == 0)

        try write(Array("hello again".utf8), "README.md")
        start = count
        let second = try publish()
        #expect(second.status == 0, "\(second.error)")
        // A pack and the manifest; those that were there are not even asked for.
        #expect(asked("POST", "/uploads/", since: start) == 2)
        #expect(registry.tags.contains("v1.r2") && registry.manifest("v1.r1") != registry.manifest("v1"))
        try pulled(into: "out")
        let old = try run(["pull", registry.location(":v1.r1"), "--into", "old"])
        #expect(old.status == 0, "\(old.error)")
        #expect(try bytes("old/README.md") == Array("hello".utf8))
    }

    @Test(
        "A set that is published from elsewhere is found at the registry, and of two tags one reuses the other's packs")
    func elsewhere() throws {
        #expect(try publish().status == 0)
        try FileManager.default.removeItem(atPath: scratch.path + "/.local")
        let start = count
        try write(Array("new".utf8), "new")
        let outcome = try run(["publish", "set", "--to", registry.location(":v1")])
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(asked("POST", "/uploads/", since: start) == 2)
        let again = count
        let other = try run([
            "publish", "set", "--to", registry.location(":beta"), "--base", registry.location(":v1"),
        ])
        #expect(other.status == 0, "\(other.error)")
        // Not even its manifest, which is the same.
        #expect(asked("POST", "/uploads/", since: again) == 0)
        try pulled(":beta", into: "beta")
    }

    @Test(
        "What a base in another repository of the registry has is mounted, and not sent; where that cannot be, it is sent"
    )
    func mounts() throws {
        #expect(try publish().status == 0)
        try FileManager.default.removeItem(atPath: scratch.path + "/.local")
        try write([1], "new")
        func mount(in name: String, environment: [String: String] = [:], _ more: String...) throws -> Tool.Outcome {
            let place = ["--to", registry.beside(name, ":v1"), "--base", registry.location(":v1")]
            return try run(["publish", "set"] + place + more, environment: environment)
        }
        func pulled(from name: String, environment: [String: String] = [:]) throws {
            let outcome = try run(
                ["pull", registry.beside(name, ":v1"), "--into", name, "--session", name], environment: environment)
            #expect(outcome.status == 0, "\(outcome.error)")
            #expect(try bytes("\(name)/tiles/north.bin") == files["tiles/north.bin"])
        }
        var start = count
        let dry = try mount(in: "copies", "--dry-run")
        #expect(dry.status == 0 && !dry.error.contains("must stay"), "\(dry.error)")
        #expect(asked("POST", since: start) == 0)

        let outcome = try mount(in: "copies")
        #expect(outcome.status == 0 && !outcome.error.contains("must stay"), "\(outcome.error)")
        // Three packs are mounted; the new one, the manifest and the empty configuration are sent.
        #expect(asked("POST", "mount=", since: start) == 3)
        #expect(asked("PUT", "/uploads/", since: start) == 3)
        #expect(registry.blobs(beside: "copies").count == 6)
        try pulled(from: "copies")

        // 202: the registry wants them to be sent.
        registry.change { $0.mounts = false }
        start = count
        let sent = try mount(in: "sent")
        #expect(sent.status == 0, "\(sent.error)")
        #expect(asked("POST", "mount=", since: start) == 3 && asked("PUT", "/uploads/", since: start) == 6)
        #expect(asked("POST", "/uploads/", since: start) == 6)
        try pulled(from: "sent")

        // One that does not know the word.
        registry.change { $0.instead = { $0.target.contains("mount=") ? .status(400) : nil } }
        #expect(try mount(in: "old").status == 0)
        try pulled(from: "old")
    }

    @Test("What a base elsewhere has in packs that the registry cannot take is packed again, and sent")
    func farBase() throws {
        let plain = ["--project", "com.example.maps", "--pack-size", "512K"]
        #expect(try run(["publish", "set", "--to", "site"] + plain).status == 0)
        try FileManager.default.removeItem(atPath: scratch.path + "/site/packs")
        let outcome = try publish("--base", "site/manifest.json")
        #expect(outcome.status == 0 && outcome.error.contains("packed again"), "\(outcome.error)")
        try pulled(into: "out")
    }

    @Test("A set in a directory names no pack that only a registry has: what its base has there is packed again")
    func baseOfDirectory() throws {
        #expect(try publish("--manifest-parts").status == 0)
        let first = try run(["publish", "set", "--to", "site", "--base", registry.location(":v1")])
        #expect(first.status == 0, "\(first.error)")
        #expect(first.error.contains("packed again") && !first.error.contains("must stay"), "\(first.error)")
        func pulled() throws {
            let outcome = try run(["pull", "site/manifest.json", "--into", "near", "--prune"])
            #expect(outcome.status == 0, "\(outcome.error)")
            for path in files.keys { #expect(try bytes("near/\(path)") == bytes("set/\(path)"), "\(path)") }
        }
        try pulled()
        // What is here by now is used.
        try write(Array("new".utf8), "README.md")
        let second = try run(["publish", "set", "--to", "site", "--base", registry.location(":v1")])
        #expect(second.status == 0, "\(second.error)")
        try pulled()
    }

    @Test("One token is for both repositories of a mount; where there is none for both, everything is sent")
    func mountTokens() throws {
        registry.change { $0.access = .token(user: "ann", password: "secret") }
        let login = "{\"auths\":{\"\(registry.host)\":{\"auth\":\"\(ScriptedRegistry.base64("ann:secret"))\"}}}"
        let file = try scratch.write(Data(login.utf8), to: "docker/config.json")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        let environment = ["DOCKER_CONFIG": scratch.path + "/docker"]
        #expect(try publish(environment: environment).status == 0)
        func mount(in name: String) throws -> Tool.Outcome {
            try run(
                ["publish", "set", "--to", registry.beside(name, ":v1"), "--base", registry.location(":v1")],
                environment: environment)
        }
        let (start, given) = (count, registry.given)
        let outcome = try mount(in: "copies")
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(asked("PUT", "/uploads/", since: start) == 2)
        // For the base, for the target, and for both.
        #expect(registry.given - given <= 3)

        registry.change { $0.closed = ["acme/maps/other"] }
        let none = try mount(in: "other")
        #expect(none.status == 77, "\(none.error)")
        registry.change {
            $0.closed = []
            // The server of tokens gives none for two at once.
            $0.mostScopes = 1
        }
        let from = count
        let sent = try mount(in: "sent")
        #expect(sent.status == 0, "\(sent.error)")
        #expect(registry.blobs(beside: "sent").count == 5)
        // Once, and no more.
        #expect(asked("POST", "mount=", since: from) == 1)
    }

    @Test("One token is for all that is sent; one that ends is asked for once more; without a login nothing is sent")
    func tokens() throws {
        registry.change { $0.access = .token(user: "ann", password: "secret") }
        let nobody = try publish()
        #expect(nobody.status == 77 && nobody.error.contains("docker login"), "\(nobody.error)")
        #expect(registry.blobs.isEmpty)
        let login = "{\"auths\":{\"\(registry.host)\":{\"auth\":\"\(ScriptedRegistry.base64("ann:secret"))\"}}}"
        let file = try scratch.write(Data(login.utf8), to: "docker/config.json")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        let environment = ["DOCKER_CONFIG": scratch.path + "/docker"]
        let given = registry.given
        let first = try publish(environment: environment)
        #expect(first.status == 0, "\(first.error)")
        #expect(registry.given == given + 1)
        #expect(!first.error.contains("secret"))
        registry.change { $0.uses = 3 }
        try write(patternedBytes(size: 900_000, seed: 9), "tiles/north.bin")
        let second = try publish(environment: environment)
        #expect(second.status == 0, "\(second.error)")
        registry.change {
            $0.uses = .max
            $0.isRedirecting = true
        }
        try pulled(into: "out", environment: environment)

        registry.change { $0.access = .basic(user: "ann", password: "secret") }
        #expect(try publish().status == 77)
        try write([7], "new")
        let basic = try publish("--dry-run", environment: environment)
        #expect(basic.status == 0 && !registry.tags.contains("v1.r3"), "\(basic.error)")
        let third = try publish(environment: environment)
        #expect(third.status == 0 && registry.tags.contains("v1.r3"), "\(third.error)")
    }

    @Test("Where an upload is sent to another server, nothing is shown to that")
    func foreign() throws {
        registry.change { $0.access = .basic(user: "ann", password: "secret") }
        let login = "{\"auths\":{\"\(registry.host)\":{\"auth\":\"\(ScriptedRegistry.base64("ann:secret"))\"}}}"
        let file = try scratch.write(Data(login.utf8), to: "docker/config.json")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        let elsewhere = registry.tokens.url("/elsewhere")
        registry.change {
            $0.instead = {
                guard $0.method == "POST", $0.header("authorization") != nil else { return nil }
                return FaultAnswer.status(202).setting("Location", elsewhere)
            }
        }
        let outcome = try publish(environment: ["DOCKER_CONFIG": scratch.path + "/docker"])
        #expect(outcome.status != 0)
        let asked = registry.tokens.log.requests(to: "/elsewhere")
        #expect(!asked.isEmpty && asked.allSatisfy { $0.request.header("authorization") == nil })
    }

    @Test(
        "A registry that takes no long bodies gets chunks; busy ones and lost answers are tried again, and send nothing twice"
    )
    func faults() throws {
        registry.change { $0.mostBytes = 200_000 }
        let chunks = try publish()
        #expect(chunks.status == 0, "\(chunks.error)")
        #expect(asked("PATCH") > 4)
        try pulled(into: "out")

        registry.change {
            $0.mostBytes = .max
            $0.instead = { $0.ordinal % 5 == 0 ? .unavailable(503, retryAfter: "0") : nil }
            $0.loses = { $0.method == "PUT" && $0.path.contains("/uploads/") }
        }
        try write(patternedBytes(size: 900_000, seed: 9), "tiles/north.bin")
        let outcome = try publish()
        #expect(outcome.status == 0, "\(outcome.error)")
        // Each blob was there once its answer was lost.
        #expect(registry.puts.count > 2 && registry.puts.values.allSatisfy { $0 == 1 }, "\(registry.puts)")
        registry.change { ($0.instead, $0.loses) = (nil, nil) }
        try pulled(into: "out")
    }

    @Test("Of two publishers at once one ends with 75, and the other's release is what the tag names")
    func races() throws {
        #expect(try publish().status == 0)
        try write([1], "new")
        let other = try run(
            [
                "publish", "set", "--to", registry.location(":other"), "--project", "com.example.maps", "--pack-size",
                "512K",
            ])
        #expect(other.status == 0, "\(other.error)")
        registry.change { [registry] state in
            // Just before the slower one has named its release.
            state.beforeManifest = { if $0 == "v1.r2" { registry.tag("other", as: "v1") } }
        }
        try write([2], "new")
        let slower = try publish()
        #expect(slower.status == 75 && slower.error.contains("changed by another publish"), "\(slower.error)")
        #expect(registry.manifest("v1") == registry.manifest("other"))
        registry.change { $0.beforeManifest = nil }
        let again = try publish()
        #expect(again.status == 0, "\(again.error)")
        try pulled(into: "out")
    }

    @Test("After a publish that ended before its tag was put the next one goes on at once", arguments: [false, true])
    func leftovers(isSigned: Bool) throws {
        if isSigned { #expect(try run(["keys", "new", "keys", "--project", "com.example.maps"]).status == 0) }
        #expect(try publish(isSigned: isSigned).status == 0)
        try write([1], "new")
        registry.change {
            $0.instead = { $0.method == "PUT" && $0.path.hasSuffix("/manifests/v1") ? .status(403) : nil }
        }
        let refused = try publish(isSigned: isSigned)
        #expect(refused.status == 77 && refused.error.contains("the tag v1"), "\(refused.error)")
        #expect(!refused.error.contains("is published"), "\(refused.error)")
        #expect(registry.tags.contains("v1.r2") && registry.manifest("v1") == registry.manifest("v1.r1"))
        registry.change { $0.instead = nil }
        let start = count
        let again = try publish(isSigned: isSigned)
        #expect(again.status == 0, "\(again.error)")
        // Its packs are there; its manifest and statements are of another time.
        #expect(asked("POST", "/uploads/", since: start) <= (isSigned ? 3 : 1))
        try pulled(into: "out", isSigned ? ["--trust", "keys/1.root"] : [])
    }

    @Test("Where an ended publish has left the tag of its release, the slower of two leaves that of the faster alone")
    func leftoverRaces() throws {
        #expect(try publish().status == 0)
        try write([1], "new")
        registry.change {
            $0.instead = { $0.method == "PUT" && $0.path.hasSuffix("/manifests/v1") ? .status(403) : nil }
        }
        #expect(try publish().status == 77)
        registry.change { $0.instead = nil }
        let other = try run([
            "publish", "set", "--to", registry.location(":other"), "--project", "com.example.maps", "--pack-size",
            "512K",
        ])
        #expect(other.status == 0, "\(other.error)")
        registry.change { [registry] state in
            // Once the slower one has looked.
            state.instead = { request in
                if request.method == "POST" { for tag in ["v1.r2", "v1"] { registry.tag("other", as: tag) } }
                return nil
            }
        }
        try write([2], "new")
        let slower = try publish()
        #expect(slower.status == 75, "\(slower.error)")
        for tag in ["v1.r2", "v1"] { #expect(registry.manifest(tag) == registry.manifest("other"), "\(tag)") }
    }

    @Test("Where the base is another tag, or none, no number of the tag is given twice, and what has one keeps it")
    func numbers() throws {
        #expect(try publish().status == 0)
        func beta(_ more: String...) throws -> Tool.Outcome {
            try run(
                ["publish", "set", "--to", registry.location(":beta"), "--base", registry.location(":v1")] + more)
        }
        for day in 1...2 {
            try write([UInt8(day)], "new")
            let outcome = try beta()
            #expect(outcome.status == 0, "\(outcome.error)")
        }
        #expect(Set(registry.tags).isSuperset(of: ["beta.r2", "beta.r3"]), "\(registry.tags)")
        #expect(registry.manifest("beta") == registry.manifest("beta.r3"))
        let start = count
        let same = try beta()
        #expect(same.status == 0 && same.error.contains("nothing changed"), "\(same.error)")
        #expect(asked("PUT", since: start) == 0 && asked("POST", since: start) == 0)
        let first = try run(["pull", registry.location(":beta.r2"), "--into", "first"])
        #expect(first.status == 0, "\(first.error)")
        #expect(try bytes("first/new") == [1])

        // The base as it is would be an older release than the tag's.
        try FileManager.default.removeItem(atPath: scratch.path + "/set/new")
        let back = try beta()
        #expect(back.status == 0 && registry.tags.contains("beta.r4"), "\(back.error)")
        let taken = try beta("--revision", "4")
        #expect(taken.status == 64 && taken.error.contains("not above 4"), "\(taken.error)")
        let alone = try publish("--no-base")
        #expect(alone.status == 0 && registry.tags.contains("v1.r2"), "\(alone.error)")
    }

    @Test("A registry that takes a chunk and does not say where the next one goes has taken no blob: the publish ends")
    func lostPlace() throws {
        registry.change {
            $0.mostBytes = 200_000
            $0.instead = { $0.method == "PATCH" ? .status(202) : nil }
        }
        let outcome = try publish()
        #expect(outcome.status == 65 && outcome.error.contains("where the next chunk goes"), "\(outcome.error)")
        #expect(!registry.tags.contains("v1"))
    }

    @Test(
        "Releases are listed, pruned and brought back; what has another tag stays, and blobs go with the registry's own hand"
    )
    func releases() throws {
        #expect(try publish().status == 0)
        for number in 2...4 {
            try write([UInt8(number)], "new")
            #expect(try publish().status == 0)
        }
        registry.tag("v1.r2", as: "proven")
        let location = registry.location(":v1")
        func listed() throws -> [Int] {
            let outcome = try run(["releases", "list", location, "--json"])
            #expect(outcome.status == 0, "\(outcome.error)")
            return try outcome.objects().compactMap { $0["revision"] as? Int }
        }
        #expect(try listed() == [4, 3, 2, 1])
        let waiting = try run(["releases", "prune", location, "--keep", "1"])
        #expect(waiting.status == 0 && registry.tags.contains("v1.r1"), "\(waiting.error)")

        registry.change { $0.mayDelete = false }
        let refused = try run(["releases", "prune", location, "--keep", "1", "--grace", "0"])
        #expect(refused.status == 77 && refused.error.contains("deletes nothing"), "\(refused.error)")
        registry.change { $0.mayDelete = true }
        // What another tag names is not said to go: with it stay its packs, one of which no other release has.
        func prune(_ more: String...) throws -> (removed: Int?, releases: Int?) {
            let outcome = try run(["releases", "prune", location, "--keep", "2", "--grace", "0", "--json"] + more)
            #expect(outcome.status == 0, "\(outcome.error)")
            let last = try #require(try outcome.objects().last)
            let (removed, kept) = (last["removed"] as? [String: Any], last["kept"] as? [String: Any])
            return (removed?["objects"] as? Int, kept?["releases"] as? Int)
        }
        for (more, removed) in [(["--dry-run"], 1), ([], 1), ([], 0)] as [([String], Int)] {
            let said = try more.isEmpty ? prune() : prune(more[0])
            #expect(said.removed == removed && said.releases == 3, "\(more) \(said)")
        }
        #expect(registry.tags.filter { $0.hasPrefix("v1.r") } == ["v1.r2", "v1.r3", "v1.r4"])
        registry.collectGarbage()
        try pulled(into: "out")
        let proven = try run(["pull", registry.location(":proven"), "--into", "proven"])
        #expect(proven.status == 0, "\(proven.error)")
        #expect(try bytes("proven/new") == [2])

        let restored = try run(["releases", "restore", location, "3"])
        #expect(restored.status == 0, "\(restored.error)")
        #expect(try listed().first == 5)
        let back = try run(["pull", location, "--into", "out"])
        #expect(back.status == 0, "\(back.error)")
        #expect(try bytes("out/new") == [3])
        #expect(try run(["releases", "restore", location, "99"]).status == 66)
    }

    @Test("A prune asks once for each release, and once for each other tag, however many releases go")
    func pruneRequests() throws {
        #expect(try publish().status == 0)
        for number in 2...5 {
            try write([UInt8(number)], "new")
            #expect(try publish().status == 0)
        }
        for tag in ["proven", "shown"] { registry.tag("v1.r2", as: tag) }
        let start = count
        let outcome = try run(["releases", "prune", registry.location(":v1"), "--keep", "1", "--grace", "0"])
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(registry.tags.filter { $0.hasPrefix("v1.r") } == ["v1.r2", "v1.r5"])
        #expect(asked("DELETE", since: start) == 3)
        for tag in ["proven", "shown"] { #expect(asked("HEAD", "/manifests/\(tag)", since: start) == 1) }
        for number in 1...5 { #expect(asked("GET", "/manifests/v1.r\(number)", since: start) == 1) }
    }

    @Test("What has got another tag since a prune has begun stays, too")
    func lateTag() throws {
        #expect(try publish().status == 0)
        try write([2], "new")
        #expect(try publish().status == 0)
        registry.change { [registry] state in
            // Once the tags have been listed.
            state.instead = { request in
                if request.path.hasSuffix("/manifests/v1.r1") { registry.tag("v1.r1", as: "late") }
                return nil
            }
        }
        let prune = try run(["releases", "prune", registry.location(":v1"), "--keep", "1", "--grace", "0"])
        #expect(prune.status == 0, "\(prune.error)")
        #expect(Set(registry.tags).isSuperset(of: ["v1.r1", "late"]), "\(registry.tags)")
    }

    @Test("A signed release is believed where its root is trusted, and one that is not signed is refused there")
    func signed() throws {
        #expect(try run(["keys", "new", "keys", "--project", "com.example.maps"]).status == 0)
        let first = try publish("--sign", "keys")
        #expect(first.status == 0, "\(first.error)")
        try pulled(into: "out", ["--trust", "keys/1.root"])
        let former = try run(["pull", registry.location(":v1"), "--into", "out", "--revision", "7"])
        #expect(former.status == 64 && former.error.contains("TAG.r42"), "\(former.error)")
        try write(Array("hello again".utf8), "README.md")
        #expect(try publish().status == 77)
        #expect(try publish("--sign", "keys").status == 0)
        try pulled(into: "out")
        let status = try run(["trust", "list"])
        #expect(status.output.contains("com.example.maps"), "\(status.error)")

        #expect(try publish("--allow-unsigned", "--no-base", "--revision", "9").status == 0)
        let plain = try run(
            [
                "publish", "set", "--to", registry.location(":plain"), "--project", "com.example.maps", "--pack-size",
                "512K",
            ])
        #expect(plain.status == 0, "\(plain.error)")
        let refused = try run(["pull", registry.location(":plain"), "--into", "out"])
        #expect(refused.status == 77, "\(refused.error)")
    }

    @Test("The tags that a set keeps its releases and notes under are pulled, and nothing is published to them")
    func reserved() throws {
        #expect(try publish().status == 0)
        let (before, start) = (registry.manifest("v1.r1"), count)
        try write([1], "new")
        for tag in [":v1.r1", ":v1.r99", ":v1.unnamed", ":beta.r007"] {
            for arguments in [
                ["publish", "set", "--to", registry.location(tag)],
                ["publish", "set", "--to", registry.location(tag), "--dry-run"],
                ["releases", "prune", registry.location(tag), "--keep", "1"],
            ] {
                let outcome = try run(arguments)
                #expect(outcome.status == 64 && outcome.error.contains("belongs to the set"), "\(outcome.error)")
            }
        }
        #expect(count == start && registry.manifest("v1.r1") == before)
        try FileManager.default.removeItem(atPath: scratch.path + "/set/new")
        try pulled(":v1.r1", into: "out")
        #expect(try run(["releases", "list", registry.location(":v1.r1")]).status == 0)
        for tag in [":v1.r1a", ":v1.rc", ":r1", ":v1.r", ":v1.2"] {
            let arguments = ["publish", "set", "--to", registry.location(tag), "--project", "com.example.maps"]
            let outcome = try run(arguments + ["--pack-size", "512K"])
            #expect(outcome.status == 0, "\(tag): \(outcome.error)")
        }
    }

    @Test("What cannot be is refused before anything is sent")
    func refusals() throws {
        registry.push(["x": [1]], as: "v1")
        let start = count
        let taken = try publish()
        #expect(taken.status == 77 && taken.error.contains("not a published set"), "\(taken.error)")
        for arguments in [
            ["publish", "set", "--to", registry.location(":v2"), "--channel", "beta"],
            ["channel", "set", registry.location(":v2"), "beta", "1"],
            ["channel", "remove", registry.location(":v2"), "beta"],
            ["publish", "set", "--to", registry.location("@sha256:" + String(repeating: "1", count: 64))],
            ["publish", "set", "--to", registry.location(":" + String(repeating: "x", count: 120))],
            ["publish", "set", "--to", "oci://\(registry.host)/Upper"],
            ["publish", "set", "--to", registry.location(":v2"), "--loose"],
        ] {
            let outcome = try run(arguments)
            #expect(outcome.status == 64, "\(arguments): \(outcome.error)")
        }
        try write(Array("{\"channel\": \"beta\"}".utf8), "publish.json")
        let named = try run(["publish", "set", "--to", registry.location(":v2")])
        #expect(named.status == 64 && named.error.contains("tags in place"), "\(named.error)")
        #expect(asked("POST", since: start) == 0 && asked("PUT", since: start) == 0)
        #expect(try run(["releases", "list", registry.location(":none")]).status == 66)
        let channel = try run(["pull", registry.location(":v1"), "--channel", "beta"])
        #expect(channel.status == 64 && channel.error.contains("TAG.r42"), "\(channel.error)")
        registry.registry.stop()
        let gone = try run(["releases", "list", registry.location(":v1")])
        #expect(gone.status == 69, "\(gone.error)")
    }

    /// Where the set's manifest is, and its bytes.
    private func manifestBlob() throws -> (path: String, bytes: [UInt8]) {
        let text = String(decoding: try #require(registry.manifest("v1")), as: UTF8.self)
        let frame = try #require(
            text.firstMatch(
                of:
                    /"digest":"sha256:([0-9a-f]{64})","size":[0-9]+,"annotations":\{"org.opencontainers.image.title":"manifest.json.zst"/
            ))
        let path = "/v2/\(ScriptedRegistry.repository)/blobs/sha256:\(frame.1)"
        return (path, try #require(registry.blob(String(frame.1))))
    }

    @Test("A cache does not keep a manifest that the registry gave wrong bytes for, and asks again [V1]")
    func wrongOnce() throws {
        #expect(try publish().status == 0)
        let (path, right) = try manifestBlob()
        registry.registry.script(path, .object(ServedObject([1, 2, 3])), .object(ServedObject(right)))
        let cache = try RunningServer(scratch, cacheOf: registry.location(":v1"))
        #expect(try cache.client.send("GET", "/manifest.json.zst").status == 502)
        let answer = try cache.client.send("GET", "/manifest.json.zst")
        #expect(answer.status == 200 && answer.body == right)
        #expect(try cache.client.send("GET", "/trust/%ff").status == 404)
        let said = try cache.stop().error
        #expect(said.contains("the registry gave other bytes"), "\(said)")
    }

    @Test("Where a tag has no set any more a cache has none either, and says what there is to do about it")
    func cacheSays() throws {
        #expect(try publish().status == 0)
        let cache = try RunningServer(scratch, cacheOf: registry.location(":v1"))
        #expect(try cache.client.send("GET", "/manifest.json.zst").status == 200)
        let digest = String(repeating: "1", count: 64)
        registry.put(
            "{\"schemaVersion\":2,\"mediaType\":\"\(ScriptedRegistry.indexType)\",\"manifests\":[{\"mediaType\":\""
                + "\(ScriptedRegistry.manifestType)\",\"digest\":\"sha256:\(digest)\",\"size\":2}]}",
            as: "v1", type: ScriptedRegistry.indexType)
        #expect(try cache.client.send("GET", "/manifest.json.zst").status == 404)
        registry.push(files, as: "v1")
        #expect(try cache.client.send("GET", "/manifest.json.zst").status == 404)
        registry.change { $0.access = .basic(user: "ann", password: "secret") }
        #expect(try cache.client.send("GET", "/manifest.json.zst").status == 403)
        let said = try cache.stop().error
        #expect(said.contains("docker login \(registry.host)"), "\(said)")
        #expect(said.contains("an index of manifests; name the one that is meant: "), "\(said)")
        #expect(
            said.contains("@sha256:\(digest)") && said.contains("not a set that syncagent has published"), "\(said)")
    }

    @Test("A release whose blobs are not what it says is refused, and nothing is written [V1]")
    func lies() throws {
        #expect(try publish().status == 0)
        let text = String(decoding: try #require(registry.manifest("v1")), as: UTF8.self)
        let (path, frame) = try manifestBlob()
        registry.registry.script(path, .object(ServedObject([1, 2, 3])))
        let outcome = try run(["pull", registry.location(":v1"), "--into", "out"])
        #expect(outcome.status == 65 && outcome.error.contains("other bytes"), "\(outcome.error)")
        #expect(!FileManager.default.fileExists(atPath: scratch.path + "/out/README.md"))
        registry.registry.script(path, .object(ServedObject(frame)))
        let hostile: [(String, String, String?)] = [
            (
                "\"com.syncagent.revision\":\"1\"", "\"com.syncagent.revision\":\"01\"",
                "without its project or revision"
            ),
            ("manifest.json.zst", "manifest.json", "has no manifest.json.zst"),
            // A title that is no path of a set names nothing: packs come by their digests.
            ("packs/", "packs/../packs/", nil),
        ]
        for (number, (former, latter, words)) in hostile.enumerated() {
            #expect(text.contains(former))
            registry.put(text.replacing(former, with: latter), as: "bad")
            let outcome = try run(["pull", registry.location(":bad"), "--into", "bad\(number)"])
            if let words {
                #expect(outcome.status == 65 && outcome.error.contains(words), "\(latter): \(outcome.error)")
            } else {
                #expect(outcome.status == 0, "\(latter): \(outcome.error)")
                #expect(try bytes("bad\(number)/README.md") == Array("hello".utf8))
            }
        }
    }
}
