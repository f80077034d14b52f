import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// How clients find a cache, and what one that is gone, or lies, costs them.
@Suite("Clients of a cache", .timeLimit(.minutes(10)))
struct CacheClientTests {
    /// A published set that names the cache's address as a mirror of its packs, or the origin's.
    private func publish(_ scene: CacheScene, mirror: String) throws {
        let outcome = try scene.tool.run(["publish", "assets", "--to", "site", "--mirror", mirror])
        guard outcome.status == 0 else { throw Tool.Failure("publish: \(outcome.error)") }
        for name in ["manifest.json", "manifest.json.zst"] {
            let bytes = try Data(contentsOf: scene.scratch.url.appendingPathComponent("site/\(name)"))
            scene.origin.serve(ServedObject([UInt8](bytes)), at: "/set/" + name)
        }
    }

    @Test("A rewriting rule sends a pull of the origin's URL to the cache")
    func rule() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        let address = "http://127.0.0.1:\(cache.client.port)/"
        let before = scene.origin.log.requestCount
        let pull = try scene.tool.run([
            "pull", scene.originURL + "manifest.json", "--into", "into", "--json", "--rewrite",
            "\(scene.originURL) \(address)",
        ])
        #expect(pull.status == 0, "\(pull.error)")
        let asked = scene.origin.log.entries.dropFirst(before)
        #expect(asked.allSatisfy { $0.request.header("via")?.contains("syncagent-") == true })
        #expect(scene.sentOfPacks == scene.bytes(scene.pack).count)
    }

    @Test(
        "A cache that lies, or is gone, is named, and the pull goes on with a mirror at once", arguments: [true, false])
    func mirror(lies: Bool) throws {
        let scene = try CacheScene()
        try publish(scene, mirror: scene.originURL)
        // In place of a cache: the manifest is right, and nothing else.
        let liar = try FaultServer()
        for name in ["manifest.json", "manifest.json.zst"] {
            let bytes = try Data(contentsOf: scene.scratch.url.appendingPathComponent("site/\(name)"))
            liar.serve(ServedObject([UInt8](bytes)), at: "/set/" + name)
        }
        let pack = try #require(scene.files[scene.pack])
        let bad = FaultAnswer.object(pack).flippingByte(at: 5_000).flippingByte(at: pack.bytes.count - 5)
        liar.script("/set/" + scene.pack, lies ? bad : .status(504))
        let start = ContinuousClock.now
        let pull = try scene.tool.run(["pull", liar.url("/set/manifest.json"), "--into", "into", "--json"])
        #expect(pull.status == 0, "\(pull.error)")
        #expect(pull.complaints == [])
        #expect(ContinuousClock.now - start < .seconds(60))
        let contents = try scene.scratch.contents(of: "into").filter { !$0.hasPrefix(".syncagent") }
        #expect(contents == (try scene.scratch.contents(of: "assets")))
        let named = try pull.objects().filter {
            ["source.wrong_bytes", "source.set_back", "task.mirrored", "task.retrying"].contains($0["event"] as? String)
        }
        #expect(named.contains { "\($0)".contains(liar.url("/")) }, "\(pull.output)")
    }

    @Test("An update through a cache brings what is new once, deltas and all")
    func update() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        func pull(_ number: Int) throws -> Tool.Outcome {
            try scene.tool.run([
                "pull", cache.firstLine, "--into", "into\(number)", "--session", "s\(number)", "--json",
            ])
        }
        for number in 0..<2 { #expect(try pull(number).status == 0) }
        let before = scene.sentOfPacks
        var text = (0..<60_000).map { "line \($0)\n" }
        for line in stride(from: 100, to: 60_000, by: 6_000) { text[line] = "another line \(line)\n" }
        try scene.scratch.write(Data(text.joined().utf8), to: "assets/text.txt")
        try scene.scratch.write(Data(patternedBytes(size: 300_000, seed: 99)), to: "assets/new.bin")
        let outcome = try scene.tool.run(["publish", "assets", "--to", "site"])
        #expect(outcome.status == 0, "\(outcome.error)")
        var new = 0
        for path in try scene.scratch.contents(of: "site") where path.contains(".") {
            let url = scene.scratch.url.appendingPathComponent("site/\(path)")
            let object = ServedObject([UInt8](try Data(contentsOf: url)))
            if path.hasSuffix(".pack"), scene.files[path] == nil { new += object.bytes.count }
            scene.origin.serve(object, at: "/set/" + path)
        }
        for number in 0..<2 {
            let end = try pull(number)
            #expect(end.status == 0, "\(end.error)")
            let same = try Data(contentsOf: scene.scratch.url.appendingPathComponent("into\(number)/text.txt"))
            #expect(same == Data(text.joined().utf8))
        }
        #expect(new > 0 && scene.sentOfPacks > 0)
        let sent = scene.origin.log.entries.filter { $0.request.path.hasSuffix(".pack") }.reduce(0) {
            $0 + $1.bytesSent
        }
        #expect(sent - before <= new, "\(scene.origin.log.description)")
    }

    @Test("A manifest in parts, and a set with a dictionary, are read by way of the cache itself")
    func parts() throws {
        let scene = try CacheScene(files: (0..<40).map { 3_000 + $0 * 101 })
        for number in 0..<60 {
            let lines = (0..<40).map {
                "{ \"place\": \"\($0 * number)\", \"kind\": \"a thing of many\", \"is\": true }\n"
            }
            try scene.scratch.write(Data(lines.joined().utf8), to: "assets/things/\(number).json")
        }
        func publish() throws {
            let outcome = try scene.tool.run([
                "publish", "assets", "--to", "site", "--manifest-parts", "--dictionary", "always",
            ])
            guard outcome.status == 0 else { throw Tool.Failure("publish: \(outcome.error)") }
            for path in try scene.scratch.contents(of: "site") where path.contains(".") {
                let url = scene.scratch.url.appendingPathComponent("site/\(path)")
                scene.origin.serve(ServedObject([UInt8](try Data(contentsOf: url))), at: "/set/" + path)
            }
        }
        func pull(_ number: Int, by cache: RunningServer) throws {
            let pull = try scene.tool.run([
                "pull", cache.firstLine, "--into", "into\(number)", "--session", "s\(number)",
            ])
            #expect(pull.status == 0, "\(pull.error)")
        }
        try publish()
        let cache = try scene.cache()
        for number in 0..<2 { try pull(number, by: cache) }
        // What changes comes as the difference of a part to the one before, for one that has it and for one that does not.
        try scene.scratch.write(Data("{ \"place\": \"elsewhere\" }\n".utf8), to: "assets/things/7.json")
        try publish()
        for number in [0, 2] { try pull(number, by: cache) }
        for number in [0, 2] {
            let path = scene.scratch.path + "/into\(number)/things/7.json"
            #expect(FileManager.default.contents(atPath: path) == Data("{ \"place\": \"elsewhere\" }\n".utf8))
        }
        let text = try String(
            contentsOf: scene.scratch.url.appendingPathComponent("site/manifest.json"), encoding: .utf8)
        #expect(text.contains("\"from\"") && text.contains("\"dictionary\""), "\(text)")
        let kept = try scene.kept().files.map(\.lastPathComponent)
        #expect(kept.count >= scene.packs.count, "\(kept)")
        #expect(try scene.number("passed_total", of: cache) == 0)
    }

    @Test("A part of a manifest that cannot be had once is asked for again")
    func missedPart() throws {
        let scene = try CacheScene()
        for number in 0..<60 {
            try scene.scratch.write(Data("{ \"place\": \(number) }\n".utf8), to: "assets/things/\(number).json")
        }
        let outcome = try scene.tool.run(["publish", "assets", "--to", "site", "--manifest-parts"])
        guard outcome.status == 0 else { throw Tool.Failure("publish: \(outcome.error)") }
        // What is asked for first of all packs is a part.
        let isFirst = OneTime()
        for path in try scene.scratch.contents(of: "site") where path.contains(".") {
            let url = scene.scratch.url.appendingPathComponent("site/\(path)")
            let object = FaultAnswer.object(ServedObject([UInt8](try Data(contentsOf: url))))
            scene.origin.respond(to: "/set/" + path) { _ in
                path.hasSuffix(".pack") && isFirst.take() ? .status(404) : object
            }
        }
        scene.origin.script("/set/manifest.json.zst", .status(404))
        let cache = try scene.cache()
        let text = String(decoding: try cache.client.send("GET", "/manifest.json").body, as: UTF8.self)
        #expect(text.contains("\"parts\""))
        let size = scene.bytes(scene.pack).count
        let end = try cache.client.send("GET", "/" + scene.pack, ["Range": "bytes=\(size - 17)-"])
        #expect(end.status == 206 && scene.isRight(end, scene.pack, (size - 17)..<size))
        // Proved blob by blob: of a pack that no manifest tells, all would have been fetched.
        #expect(scene.sentOfPacks < size, "\(scene.origin.log.description)")
    }
}
