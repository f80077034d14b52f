import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

@Suite(.timeLimit(.minutes(10)))
struct RegistryTests {
    private let registry: ScriptedRegistry
    private let scratch: Scratch
    private let files: [String: [UInt8]] = [
        "README.md": Array("hello".utf8), "tiles/north.bin": patternedBytes(size: 2_000_000, seed: 5),
        "tiles/south.bin": patternedBytes(size: 300_000, seed: 6), "empty": [],
    ]

    init() throws { (registry, scratch) = (try ScriptedRegistry(), try Scratch()) }

    private func run(_ arguments: [String], environment: [String: String] = [:]) throws -> Tool.Outcome {
        try Tool(scratch).run(arguments, environment: environment)
    }

    private func bytes(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: scratch.url.appendingPathComponent(path)))
    }

    /// Docker's configuration, as `docker login` leaves it.
    private func logIn(_ text: String) throws -> [String: String] {
        let file = try scratch.write(Data(text.utf8), to: "docker/config.json")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        return ["DOCKER_CONFIG": scratch.path + "/docker"]
    }

    private func auths(_ user: String, _ password: String) -> String {
        "{\"auths\":{\"\(registry.host)\":{\"auth\":\"\(ScriptedRegistry.base64("\(user):\(password)"))\"}}}"
    }

    @Test("An artifact is pulled by its layers' titles; nothing new is one request, and a new tag brings what changed")
    func pull() throws {
        let digest = registry.push(files, as: "v1")
        registry.change { $0.isRedirecting = true }
        let first = try run(["pull", registry.location(":v1"), "--json"])
        #expect(first.status == 0, "\(first.error)")
        for (path, bytes) in files { #expect(try self.bytes("maps.tiles/" + path) == bytes, "\(path)") }
        let last = try #require(try first.events().last)
        #expect(
            last["source"] as? [String: String]
                == ["kind": "oci", "url": registry.location(":v1"), "at": digest])
        // HEAD, the manifest, three blobs.
        #expect(registry.registry.log.requestCount == 2 + 3)

        func asked(_ arguments: [String]) throws -> Int {
            let before = registry.registry.log.requestCount
            let outcome = try run(arguments)
            #expect(outcome.status == 0, "\(arguments): \(outcome.error)")
            return registry.registry.log.requestCount - before
        }
        #expect(try asked(["pull", registry.location(":v1")]) == 1)
        #expect(try asked(["verify", registry.location(":v1")]) == 1)
        #expect(try asked(["plan", registry.location(":v1")]) == 1)
        #expect(try run(["status", "maps.tiles"]).output.contains("oci, \(registry.location(":v1")), at \(digest)"))

        var next = files
        next["README.md"] = Array("hello again".utf8)
        registry.push(next, as: "v2")
        let compared = try run(["diff", registry.location(":v1"), registry.location(":v2")])
        #expect(compared.output.contains("README.md") && !compared.output.contains("north"), "\(compared.error)")
        // HEAD, the manifest, one blob.
        #expect(try asked(["pull", registry.location(":v2")]) == 3)
        #expect(try bytes("maps.tiles/README.md") == Array("hello again".utf8))
        #expect(try asked(["pull", registry.location("@" + digest), "--into", "old"]) == 2 + 3)
        #expect(try bytes("old/README.md") == Array("hello".utf8))
        let scheduled = try run([
            "schedule", "add", registry.location(":v1"), "--nightly", "02:00", "--backend", "agent", "--dry-run",
        ])
        #expect(scheduled.status == 0, "\(scheduled.error)")
    }

    @Test("What is imported names blobs, and is pulled without docker's configuration where anybody may have a token")
    func importing() throws {
        registry.push(files, as: "latest")
        registry.change { $0.access = .token(user: nil, password: nil) }
        let imported = try run(["import", registry.location(""), "--to", "manifest.json"])
        #expect(imported.status == 0, "\(imported.error)")
        let text = String(decoding: try bytes("manifest.json"), as: UTF8.self)
        #expect(text.contains("\"kind\":\"oci\",\"url\":\"\(registry.location(""))\""))
        let pulled = try run(["pull", "manifest.json", "--into", "again"])
        #expect(pulled.status == 0, "\(pulled.error)")
        #expect(try bytes("again/tiles/north.bin") == files["tiles/north.bin"])
    }

    @Test("A registry that says no digest is asked for the manifest, and so is one that knows no HEAD")
    func silent() throws {
        registry.push(files, as: "v1")
        registry.change { $0.saysDigest = false }
        #expect(try run(["pull", registry.location(":v1")]).status == 0)
        let before = registry.registry.log.requestCount
        #expect(try run(["pull", registry.location(":v1")]).status == 0)
        let asked = registry.registry.log.requestCount - before
        #expect(asked == 2)
        let digest = registry.push(files, as: "x")
        let base = "/v2/\(ScriptedRegistry.repository)/manifests/"
        registry.registry.script(
            base + "v3", .status(405), .object(ServedObject(text: ScriptedRegistry.manifest([]))))
        #expect(try run(["pull", registry.location(":v3")]).error.contains("it has no files"))
        #expect(try run(["pull", registry.location("@" + digest), "--into", "d"]).status == 0)
    }

    @Test("Logins are shown to the registry's server of tokens, and nothing to where blobs are redirected")
    func tokens() throws {
        registry.push(files, as: "v1")
        registry.change {
            $0.access = .token(user: "ann", password: "secret")
            $0.isRedirecting = true
        }
        let nobody = try run(["pull", registry.location(":v1")])
        #expect(nobody.status == 77 && nobody.error.contains("docker login"), "\(nobody.error)")
        let wrong = try run(["pull", registry.location(":v1")], environment: try logIn(auths("ann", "other")))
        #expect(wrong.status == 77 && wrong.error.contains("refuses the login of"), "\(wrong.error)")
        #expect(!wrong.error.contains("other"))
        let pulled = try run(["pull", registry.location(":v1")], environment: try logIn(auths("ann", "secret")))
        // The store refuses whoever shows anything.
        #expect(pulled.status == 0, "\(pulled.error)")
        #expect(try bytes("maps.tiles/tiles/north.bin") == files["tiles/north.bin"])
        #expect(registry.given == 1)
        let identity = "{\"auths\":{\"https://\(registry.host)/v1/\":{\"auth\":\"\",\"identitytoken\":\"secret\"}}}"
        let other = try run(["pull", registry.location(":v1"), "--into", "b"], environment: try logIn(identity))
        #expect(other.status == 0, "\(other.error)")
        let own = try scratch.write(
            Data("[http://\(registry.host)]\ntype = basic\nuser = ann\npassword = secret\n".utf8), to: "own")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: own.path)
        let third = try run(["pull", registry.location(":v1"), "--into", "c", "--credentials", own.path])
        #expect(third.status == 0, "\(third.error)")
    }

    @Test("Logins of podman hold where docker has none for the registry")
    func podman() throws {
        registry.push(files, as: "v1")
        registry.change { $0.access = .token(user: "ann", password: "secret") }
        func write(_ text: String, to path: String) throws {
            let file = try scratch.write(Data(text.utf8), to: path)
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        }
        // Docker knows other registries; the session's file comes before the one that stays.
        let docker = try logIn("{\"auths\":{\"other.example.com\":{\"auth\":\"\(ScriptedRegistry.base64("x:y"))\"}}}")
        try write(auths("ann", "secret"), to: ".config/containers/auth.json")
        #expect(try run(["pull", registry.location(":v1"), "--into", "a"], environment: docker).status == 0)
        try write(auths("ann", "wrong"), to: "run/containers/auth.json")
        var session = docker
        session["XDG_RUNTIME_DIR"] = scratch.path + "/run"
        let refused = try run(["pull", registry.location(":v1"), "--into", "b"], environment: session)
        #expect(refused.status == 77 && refused.error.contains("/run/containers/auth.json"), "\(refused.error)")
        try write(auths("ann", "secret"), to: "run/containers/auth.json")
        #expect(try run(["pull", registry.location(":v1"), "--into", "b"], environment: session).status == 0)
    }

    @Test("A registry that asks for a password gets it, once it has asked")
    func basic() throws {
        registry.push(files, as: "v1")
        registry.change { $0.access = .basic(user: "ann", password: "secret") }
        #expect(try run(["pull", registry.location(":v1")]).status == 77)
        let wrong = try run(["pull", registry.location(":v1")], environment: try logIn(auths("ann", "other")))
        #expect(wrong.status == 77 && wrong.error.contains("refuses the user name and password"), "\(wrong.error)")
        let pulled = try run(["pull", registry.location(":v1")], environment: try logIn(auths("ann", "secret")))
        #expect(pulled.status == 0, "\(pulled.error)")
    }

    @Test("Credential helpers are asked as docker asks them; one that fails is named")
    func helpers() throws {
        registry.push(files, as: "v1")
        registry.change { $0.access = .token(user: "ann", password: "secret") }
        let helper = try scratch.write(
            Data(
                """
                #!/bin/sh
                read server
                [ "$1 $server" = "get \(registry.host)" ] || { echo 'credentials not found in native keychain'; exit 1; }
                echo '{"ServerURL":"'$server'","Username":"ann","Secret":"secret"}'

                """.utf8), to: "bin/docker-credential-test")
        let broken = try scratch.write(
            Data("#!/bin/sh\necho locked >&2; exit 3\n".utf8), to: "bin/docker-credential-bad")
        for file in [helper, broken] {
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: file.path)
        }
        let path = "\(scratch.path)/bin:/usr/bin:/bin"
        func pull(_ configuration: String, into directory: String) throws -> Tool.Outcome {
            var environment = try logIn(configuration)
            environment["PATH"] = path
            return try run(["pull", registry.location(":v1"), "--into", directory], environment: environment)
        }
        let one = try pull("{\"credHelpers\":{\"\(registry.host)\":\"test\"}}", into: "a")
        #expect(one.status == 0, "\(one.error)")
        let all = try pull("{\"credsStore\":\"test\"}", into: "b")
        #expect(all.status == 0, "\(all.error)")
        let bad = try pull("{\"credsStore\":\"bad\"}", into: "c")
        #expect(bad.status != 0 && bad.error.contains("docker-credential-bad: it exited with status 3: locked"))
        for name in ["missing", "../bin/docker-credential-test", "a b"] {
            let outcome = try pull("{\"credsStore\":\"\(name)\"}", into: "d")
            #expect(outcome.status == 77, "\(name): \(outcome.error)")
        }
        let damaged = try pull("{\"auths\":", into: "d")
        #expect(damaged.status == 77 && damaged.error.contains("it is not a configuration"), "\(damaged.error)")
        let long = try pull(String(repeating: " ", count: 1 << 20) + "{}", into: "d")
        #expect(long.status == 77 && long.error.contains("above the limit"), "\(long.error)")
    }

    @Test("Whoever asks for tokens where others could read them, or at a stranger's redirect, gets no login")
    func strangers() throws {
        registry.push(files, as: "v1")
        let environment = try logIn(auths("ann", "secret"))
        registry.change {
            $0.access = .token(user: "ann", password: "secret")
            $0.realm = "http://tokens.invalid/token"
        }
        let plain = try run(["pull", registry.location(":v1")], environment: environment)
        #expect(plain.status == 77 && plain.error.contains("others on the way could read"), "\(plain.error)")
        registry.change { [tokens = registry.tokens.url("/elsewhere")] in $0.realm = tokens }
        registry.tokens.script("/elsewhere", .redirect(to: registry.store.url("/steal"), status: 307))
        let redirected = try run(["pull", registry.location(":v1")], environment: environment)
        #expect(redirected.status != 0, "\(redirected.error)")
        #expect(registry.store.log.requestCount == 0)
        // Another registry's login is not for this one.
        registry.change { $0.realm = nil }
        let other = try logIn(auths("ann", "secret").replacing("127.0.0.1", with: "127.0.0.2"))
        #expect(try run(["pull", registry.location(":v1")], environment: other).status == 77)
    }

    @Test("Tokens that end during a transfer are replaced, and no byte comes twice")
    func expiry() throws {
        let large = patternedBytes(size: 4_000_000, seed: 9)
        var many = ["large.bin": large]
        for number in 0..<30 { many["f\(number)"] = Array("file \(number)".utf8) }
        registry.push(many, as: "v1")
        registry.change {
            $0.access = .token(user: nil, password: nil)
            $0.uses = 4
        }
        let path = "/v2/\(ScriptedRegistry.repository)/blobs/sha256:\(ServedObject(large).sha256)"
        let unauthorized = FaultAnswer.status(401).setting(
            "WWW-Authenticate",
            "Bearer realm=\"\(registry.tokens.url("/token"))\",service=\"registry.test\","
                + "scope=\"repository:\(ScriptedRegistry.repository):pull\"")
        let object = ServedObject(large)
        registry.registry.script(
            path, .object(object).dropping(at: 1_000_000), unauthorized, .object(object).dropping(at: 1_500_000),
            unauthorized, .object(object).dropping(at: 200_000), unauthorized, .object(object))
        let outcome = try run(["pull", registry.location(":v1"), "--connections", "1", "--json"])
        #expect(outcome.status == 0, "\(outcome.error) \(outcome.output)")
        #expect(try bytes("maps.tiles/large.bin") == large)
        #expect(try bytes("maps.tiles/f29") == Array("file 29".utf8))
        #expect(registry.given > 7)
        #expect(registry.registry.log.bytesSent(to: path) < large.count + 300_000)
    }

    @Test("A registry that wants a pause gets it; one that is gone leaves what is there")
    func pauses() throws {
        registry.push(files, as: "v1")
        registry.registry.script(
            "/v2/\(ScriptedRegistry.repository)/manifests/v1", .unavailable(429, retryAfter: "1"),
            .object(ServedObject(text: "{}")).setting("Docker-Content-Digest", registry.push(files, as: "x")))
        let first = try run(["pull", registry.location(":v1")])
        #expect(first.status == 0, "\(first.error)")
        registry.registry.stop()
        let outcome = try run(["pull", registry.location(":v1"), "--patience", "1s"])
        #expect(outcome.status == 69, "\(outcome.error)")
        #expect(try bytes("maps.tiles/README.md") == Array("hello".utf8))
    }

    @Test("A server of tokens that asks for a longer pause than there is time for is asked once")
    func tokenPause() throws {
        registry.push(files, as: "v1")
        registry.change { $0.access = .token(user: nil, password: nil) }
        registry.tokens.script("/token", .unavailable(429, retryAfter: "600"))
        let outcome = try run(["pull", registry.location(":v1")])
        #expect(outcome.status == 69 && outcome.error.contains("gives no token: status 429"), "\(outcome.error)")
        #expect(registry.tokens.log.requests(to: "/token").count == 1)
    }

    @Test("A server of tokens that is in trouble is asked again for as long as --patience says")
    func tokenPatience() throws {
        registry.push(files, as: "v1")
        registry.change { $0.access = .token(user: nil, password: nil) }
        registry.tokens.script("/token", .status(500))
        let start = ContinuousClock.now
        let outcome = try run(["pull", registry.location(":v1"), "--patience", "1s"])
        #expect(outcome.status == 69 && outcome.error.contains("gives no token: status 500"), "\(outcome.error)")
        #expect(ContinuousClock.now - start < .seconds(15))
    }

    @Test("A manifest with another digest than it was asked for, and a blob with other bytes, are refused by name")
    func lies() throws {
        let right = registry.push(files, as: "v1")
        let lie = "sha256:" + String(repeating: "1", count: 64)
        registry.put(ScriptedRegistry.manifest([registry.layer([1], title: "x")]), as: "v2", saying: lie)
        let outcome = try run(["pull", registry.location(":v2")])
        #expect(outcome.status == 65 && outcome.error.contains("another manifest"), "\(outcome.error)")
        let pinned = try run(["pull", registry.location("@" + lie)])
        #expect(pinned.status == 65, "\(pinned.error)")
        let unknown = try run(["pull", registry.location(":none")])
        #expect(unknown.status == 66 && unknown.error.contains("no such artifact"), "\(unknown.error)")
        #expect(right.hasPrefix("sha256:"))

        let object = ServedObject(Array("hello".utf8))
        registry.registry.script(
            "/v2/\(ScriptedRegistry.repository)/blobs/sha256:\(object.sha256)", .object(object).flippingByte(at: 1))
        let wrong = try run(["pull", registry.location(":v1"), "--json"])
        #expect(wrong.status == 2 && wrong.output.contains("README.md"), "\(wrong.output)")
        #expect(!FileManager.default.fileExists(atPath: scratch.path + "/maps.tiles/README.md"))
        #expect(try bytes("maps.tiles/tiles/south.bin") == files["tiles/south.bin"])
    }

    @Test("Indexes lead to the manifest for this machine, and to nothing where they go round [V1]")
    func indexes() throws {
        func entry(_ digest: String, _ platform: String, type: String = ScriptedRegistry.manifestType) -> String {
            "{\"mediaType\":\"\(type)\",\"digest\":\"\(digest)\",\"size\":1,\"platform\":{\"os\":\"\(platform)\",\"architecture\":"
                + "\"x\"}}"
        }
        func index(_ entries: [String]) -> String {
            "{\"schemaVersion\":2,\"mediaType\":\"\(ScriptedRegistry.indexType)\",\"manifests\":[\(entries.joined(separator: ","))]}"
        }
        let digest = registry.push(files, as: "plain")
        let inner = registry.put(index([entry(digest, "plan9")]), type: ScriptedRegistry.indexType)
        let outer = registry.put(
            index([entry(inner, "plan9", type: ScriptedRegistry.indexType)]), as: "v1",
            type: ScriptedRegistry.indexType)
        let pulled = try run(["pull", registry.location(":v1"), "--json"])
        #expect(pulled.status == 0, "\(pulled.error)")
        #expect((try pulled.events().last?["source"] as? [String: String])?["at"] == outer)
        let before = registry.registry.log.requestCount
        #expect(try run(["pull", registry.location(":v1")]).status == 0)
        let asked = registry.registry.log.requestCount - before
        #expect(asked == 1)

        var last = digest
        for _ in 0..<8 {
            last = registry.put(
                index([entry(last, "plan9", type: ScriptedRegistry.indexType)]), as: "deep",
                type: ScriptedRegistry.indexType)
        }
        let deep = try run(["pull", registry.location(":deep")])
        #expect(deep.status == 65 && deep.error.contains("lead to no manifest"), "\(deep.error)")
        // Only a liar can make a circle.
        let lie = "sha256:" + String(repeating: "2", count: 64)
        registry.put(
            index([entry(lie, "plan9", type: ScriptedRegistry.indexType)]), as: "loop",
            type: ScriptedRegistry.indexType, saying: lie)
        #expect(try run(["pull", registry.location(":loop")]).status == 65)
        registry.put(
            index([entry(digest, "plan9"), entry(inner, "beos")]), as: "none", type: ScriptedRegistry.indexType)
        let none = try run(["pull", registry.location(":none")])
        #expect(none.status == 65 && none.error.contains("beos/x at \(inner)"), "\(none.error)")
    }

    @Test("Hostile manifests are refused within bounds, and nothing is written [V1]")
    func hostile() throws {
        let layer = registry.layer([1, 2, 3], title: "a")
        let cases: [(String, String)] = [
            (ScriptedRegistry.manifest([registry.layer([1], title: "../x")]), "layer 1"),
            (ScriptedRegistry.manifest([layer, registry.layer([1], title: nil)]), "layer 2"),
            (ScriptedRegistry.manifest([layer, registry.layer([1], title: "a")]), "listed twice"),
            (
                ScriptedRegistry.manifest([
                    registry.layer([1], title: nil, type: "application/vnd.oci.image.layer.v1.tar+gzip")
                ]), "layers are not unpacked"
            ),
            (
                ScriptedRegistry.manifest([
                    registry.layer([1], title: "maps", ",\"io.deis.oras.content.unpack\":\"true\"")
                ]), "layers are not unpacked"
            ),
            ("{\"schemaVersion\":2,\"layers\":[", "cannot be read"),
        ]
        for (place, (text, reason)) in cases.enumerated() {
            registry.put(text, as: "t\(place)")
            let outcome = try run(["pull", registry.location(":t\(place)"), "--into", "out"])
            #expect(outcome.status == 65 && outcome.error.contains(reason), "\(place): \(outcome.error)")
            #expect(!FileManager.default.fileExists(atPath: scratch.path + "/out/a"))
        }
        // One that says so, and one that does not.
        let huge = FaultAnswer.object(ServedObject([UInt8](repeating: 0x20, count: 6 << 20)))
        let path = "/v2/\(ScriptedRegistry.repository)/manifests/"
        registry.registry.script(path + "huge", huge.claimingLength("200000000"))
        registry.registry.script(path + "flood", huge.chunked())
        for tag in ["huge", "flood"] {
            let outcome = try run(["pull", registry.location(":" + tag)])
            #expect(outcome.status == 65 && outcome.error.contains("more than 4194304 bytes"), "\(outcome.error)")
        }
        #expect(try run(["pull", "oci://\(registry.host)/Acme"]).status == 64)
    }
}
