import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// One copy a site: what a cache fetches, keeps and sends.
@Suite("A cache", .timeLimit(.minutes(10)))
struct CacheTests {
    @Test("Twenty clients ask for the same pack at once, and the origin sends each byte of it once")
    func singleFlight() async throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        #expect(cache.firstLine == "http://127.0.0.1:\(cache.client.port)/manifest.json")
        let (client, pack, bytes) = (cache.client, scene.pack, scene.bytes(scene.pack))
        let size = bytes.count
        let wrong = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<20 {
                group.addTask {
                    // Some ask for all of it, some for a part.
                    guard number % 2 == 1 else { return try client.send("GET", "/" + pack).body != bytes }
                    let range = (number * 90_001)..<(size - number * 50_003)
                    let answer = try client.send(
                        "GET", "/" + pack, ["Range": "bytes=\(range.lowerBound)-\(range.upperBound - 1)"])
                    return answer.status != 206 || answer.body != Array(bytes[range])
                }
            }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(wrong == 0)
        #expect(scene.sentOfPacks == size, "\(scene.origin.log.description)")
        #expect(try scene.number("sent_bytes_total", of: cache) > size * 10)
        let again = try client.send("GET", "/" + pack)
        #expect(again.headers["etag"]?.contains(pack.split(separator: "/").last?.prefix(64) ?? "-") == true)
        #expect(scene.sentOfPacks == size)
        #expect(try scene.keeps(size))
        #expect(try scene.number("origin_bytes_total", of: cache) < size + 100_000)
        #expect(cache.client.port != 0)
        #expect(try cache.stop().status == 0)
    }

    @Test("Pulls through it bring the set and ask the origin for one copy; the last of them finds it gone")
    func pulls() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        for number in 0..<3 {
            if number == 2 { try scene.origin.closePort() }
            let pull = try scene.tool.run([
                "pull", cache.firstLine, "--into", "into\(number)", "--session", "s\(number)", "--json",
            ])
            #expect(pull.status == 0, "\(pull.error)")
            #expect(pull.complaints == [])
            let contents = try scene.scratch.contents(of: "into\(number)").filter { !$0.hasPrefix(".syncagent") }
            #expect(contents == (try scene.scratch.contents(of: "assets")))
        }
        #expect(scene.sentOfPacks == scene.bytes(scene.pack).count)
        let stored = try scene.number("stored_bytes", of: cache)
        #expect(stored > scene.sentOfPacks && stored < scene.sentOfPacks + 200_000)
    }

    @Test("A manifest is asked for anew each time; what is held is sent, and says so, when the origin is gone")
    func documents() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        let first = try cache.client.send("GET", "/manifest.json")
        #expect(first.status == 200 && scene.isRight(first, "manifest.json"))
        #expect(first.headers["warning"] == nil)
        let tag = try #require(first.headers["etag"])
        #expect(try cache.client.send("GET", "/manifest.json", ["If-None-Match": tag]).status == 304)
        // The origin writes down what it has answered after it has sent it.
        let deadline = ContinuousClock.now + .seconds(20)
        var asked: [Int] { scene.origin.log.requests(to: "/set/manifest.json").map(\.status) }
        while asked.contains(0), ContinuousClock.now < deadline { usleep(5_000) }
        #expect(asked == [200, 304])
        let other = ServedObject(text: "{}", contentType: "application/json")
        scene.origin.serve(other, at: "/set/manifest.json")
        #expect(try cache.client.send("GET", "/manifest.json").body == other.bytes)
        try scene.origin.closePort()
        let held = try cache.client.send("GET", "/manifest.json")
        #expect(held.status == 200 && held.body == other.bytes)
        #expect(held.headers["warning"]?.hasPrefix("111") == true && held.headers["age"] != nil)
        #expect(try cache.client.send("GET", "/manifest.json.zst").status == 504)
        #expect(try scene.number("stale_total", of: cache) == 1)
        #expect(try cache.stop().error.contains("manifest.json"))
    }

    @Test("That a manifest cannot be kept is said: it is what is written first to a store that takes nothing")
    func unkept() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        try FileManager.default.removeItem(atPath: scene.scratch.path + "/store/documents")
        let answer = try cache.client.send("GET", "/manifest.json")
        #expect(answer.status == 200 && scene.isRight(answer, "manifest.json"))
        let said = try cache.stop().error
        #expect(said.contains("The store cannot be written; answers are sent without storing them: "))
        #expect(said.contains("A directory of it was removed: restart the cache."))
    }

    @Test("A directory that has a document's name in the store keeps no document out of it after the next start")
    func directoryForDocument() throws {
        let scene = try CacheScene()
        let first = try scene.cache()
        #expect(try first.client.send("GET", "/manifest.json").status == 200)
        #expect(try first.stop().status == 0)
        for name in try scene.scratch.contents(of: "store/documents") {
            let path = scene.scratch.path + "/store/documents/" + name
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        }
        let second = try scene.cache()
        #expect(scene.isRight(try second.client.send("GET", "/manifest.json"), "manifest.json"))
        #expect(try !second.stop().error.contains("cannot be written"))
    }

    @Test("Who passes caches by, as a pull does before it refuses an old statement, passes those behind this one, too")
    func reload() throws {
        let scene = try CacheScene()
        let (old, new) = (ServedObject(text: "old"), ServedObject(text: "new"))
        // As a cache answers that stands between this one and the publisher. What no manifest names is passed through.
        for path in ["trust/fresh", "note.txt"] {
            scene.origin.respond(to: "/set/" + path) {
                .object($0.header("cache-control") == "no-cache" ? new : old)
            }
        }
        let cache = try scene.cache()
        for path in ["/trust/fresh", "/note.txt"] {
            #expect(try cache.client.send("GET", path).body == old.bytes)
            #expect(try cache.client.send("GET", path, ["Cache-Control": "no-cache"]).body == new.bytes)
        }
    }

    @Test("Names that look the same are two: who asks for the one that is not there takes the other from nobody")
    func sameLook() throws {
        let scene = try CacheScene()
        scene.origin.serve(ServedObject(text: "there"), at: "/set/channels/%C3%A9.json")
        let cache = try scene.cache()
        #expect(try cache.client.send("GET", "/channels/%C3%A9.json").status == 200)
        #expect(try cache.client.send("GET", "/channels/e%CC%81.json").status == 404)
        try scene.origin.closePort()
        #expect(try cache.client.send("GET", "/channels/%C3%A9.json").body == Array("there".utf8))
    }

    @Test("A store that is given another origin does not show the former one's manifest, and keeps its packs")
    func otherOrigin() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        #expect(try cache.client.send("GET", "/manifest.json").status == 200)
        #expect(try cache.client.send("GET", "/" + scene.pack).status == 200)
        #expect(try scene.keeps(scene.bytes(scene.pack).count))
        #expect(try cache.stop().status == 0)
        let gone = try FaultServer()
        let url = gone.url("/set/")
        try gone.closePort()
        let other = try RunningServer(scene.scratch, cacheOf: url)
        #expect(try other.client.send("GET", "/manifest.json").status == 504)
        #expect(try scene.scratch.contents(of: "store/documents") == [])
        #expect(try scene.kept().bytes == scene.bytes(scene.pack).count)
    }

    @Test("A store that is given a bucket of the same name elsewhere does not show the former one's manifest")
    func otherEndpoint() throws {
        let scene = try CacheScene()
        func cache(at endpoint: String) throws -> RunningServer {
            let words = ["serve", "--cache", "s3://assets/set", "--store", "store", "--port", "0"]
            let variables = ["AWS_ENDPOINT_URL": endpoint, "AWS_EC2_METADATA_DISABLED": "true"]
            return try RunningServer(scene.scratch, scene.tool.process(words, environment: variables))
        }
        scene.origin.serve(ServedObject(text: "here"), at: "/assets/set/manifest.json")
        let first = try cache(at: scene.origin.url(""))
        #expect(try first.client.send("GET", "/manifest.json").body == Array("here".utf8))
        #expect(try first.stop().status == 0)
        let gone = try FaultServer()
        let endpoint = gone.url("")
        try gone.closePort()
        let other = try cache(at: endpoint)
        #expect(try other.client.send("GET", "/manifest.json").status == 504)
        #expect(try scene.scratch.contents(of: "store/documents") == [])
    }

    @Test("What the origin did not have is not there when it is gone, either: a signed set asks for the next root")
    func absent() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        #expect(try cache.client.send("GET", "/trust/2.root").status == 404)
        #expect(try cache.client.send("GET", "/trust/3.root").status == 404)
        scene.origin.serve(ServedObject(text: "root"), at: "/set/trust/3.root")
        #expect(try cache.client.send("GET", "/trust/3.root").status == 200)
        try scene.origin.closePort()
        // Also while the origin is not asked again.
        for _ in 0..<2 { #expect(try cache.client.send("GET", "/trust/2.root").status == 404) }
        #expect(try cache.client.send("GET", "/trust/3.root").body == Array("root".utf8))
        #expect(try cache.client.send("GET", "/trust/4.root").status == 504)
        let said = try cache.stop().error
        let line = "Counts as missing or refused, as before, because the origin did not confirm it: trust/2.root."
        #expect(said.contains(line))
    }

    @Test(
        "A manifest that is held and that the origin has refused since is not shown when the origin is gone, nor after a restart",
        arguments: [401, 403])
    func refusedSince(status: Int) throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        #expect(try cache.client.send("GET", "/manifest.json").status == 200)
        scene.origin.script("/set/manifest.json", .status(status))
        #expect(try cache.client.send("GET", "/manifest.json").status == 403)
        let url = scene.originURL
        try scene.origin.closePort()
        // Also while the origin is not asked again.
        for _ in 0..<2 { #expect(try cache.client.send("GET", "/manifest.json").status == 403) }
        #expect(try cache.stop().status == 0)
        let next = try RunningServer(scene.scratch, cacheOf: url)
        #expect(try next.client.send("GET", "/manifest.json").status == 504)
    }

    @Test(
        "Bytes that are not what a pack's name says are not kept and not sent: they are fetched once more, then refused"
    )
    func poisonedOrigin() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        let (pack, size) = (scene.pack, scene.bytes(scene.pack).count)
        let good = FaultAnswer.object(try #require(scene.files[pack]))
        // The first answer that has the byte is wrong.
        let bad = size / 2
        let isFirst = OneTime()
        scene.origin.respond(to: "/set/" + pack) { request in
            let range = request.range(ofSize: size) ?? 0..<size
            return range.contains(bad) && isFirst.take() ? good.flippingByte(at: bad) : good
        }
        let answer = try cache.client.send("GET", "/" + pack)
        #expect(answer.status == 200 && scene.isRight(answer, pack))
        #expect(try scene.number("refused_slices_total", of: cache) == 1)
        let again = try cache.client.send("GET", "/" + pack)
        #expect(again.status == 200 && scene.isRight(again, pack))
        #expect(try scene.keeps(size))

        // Another cache, to which the origin lies each time.
        scene.origin.script("/set/" + pack, good.flippingByte(at: bad))
        let other = try scene.cache(store: "other")
        let cut = try other.client.send("GET", "/" + pack)
        #expect(cut.status == 200 && cut.body.count <= bad, "\(cut.body.count)")
        #expect(cut.body.elementsEqual(scene.bytes(pack).prefix(cut.body.count)))
        let refused = try other.client.send("GET", "/" + pack, ["Range": "bytes=\(bad)-\(bad + 9)"])
        #expect(refused.status == 502)
        #expect(try scene.number("refused_slices_total", of: other) == 2)
        // What lies around it is there.
        let after = try other.client.send("GET", "/" + pack, ["Range": "bytes=\(size - 17)-"])
        #expect(after.status == 206 && scene.isRight(after, pack, (size - 17)..<size))
        #expect(try other.stop().error.contains("Does not match its name"))
    }

    @Test(
        "Damage in the store is found when it is read, and only that slice is fetched again", arguments: [true, false])
    func poisonedStore(isRunning: Bool) throws {
        let scene = try CacheScene()
        var cache = try scene.cache()
        let (pack, size) = (scene.pack, scene.bytes(scene.pack).count)
        _ = try cache.client.send("GET", "/manifest.json")
        #expect(try cache.client.send("GET", "/" + pack).body.count == size)
        #expect(try scene.keeps(size))
        if !isRunning { #expect(try cache.stop().status == 0) }
        let victim = try #require(scene.kept().files.first)
        let length = try #require(victim.resourceValues(forKeys: [.fileSizeKey]).fileSize)
        let handle = try FileHandle(forUpdating: victim)
        try handle.seek(toOffset: UInt64(length / 2))
        let byte = try #require(handle.read(upToCount: 1)?.first)
        try handle.seek(toOffset: UInt64(length / 2))
        try handle.write(contentsOf: [byte ^ 0x10])
        try handle.close()
        if !isRunning { cache = try scene.cache() }
        let answer = try cache.client.send("GET", "/" + pack)
        #expect(answer.status == 200 && scene.isRight(answer, pack))
        #expect(try scene.number("damaged_slices_total", of: cache) == 1)
        #expect(scene.sentOfPacks == size + length)
        #expect(try scene.keeps(size))
    }

    @Test("After kill -9 it goes on with what it has, and knows how much that is")
    func killed() throws {
        let scene = try CacheScene(files: Array(repeating: 2_000_000, count: 8))
        let (pack, size) = (scene.pack, scene.bytes(scene.pack).count)
        var cache = try scene.cache()
        let good = FaultAnswer.object(try #require(scene.files[pack]))
        scene.origin.script("/set/" + pack, good.dripping(200_000, every: .milliseconds(20)))
        let connection = try cache.client.open("GET", "/" + pack)
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        var count = 0
        while count < size / 3 {
            let more = read(connection, &buffer, buffer.count)
            guard more > 0 else { break }
            count += more
        }
        _ = try cache.stop(SIGKILL)
        close(connection)
        // What was being written has no name.
        try scene.scratch.write(Data([1, 2, 3]), to: "store/unfinished/77")
        let kept = try scene.kept().bytes
        #expect(kept > 0 && kept < size)
        let before = scene.sentOfPacks
        scene.origin.serve(try #require(scene.files[pack]), at: "/set/" + pack)
        cache = try scene.cache()
        #expect(try scene.scratch.contents(of: "store/unfinished") == [])
        let documents = try scene.scratch.contents(of: "store/documents").reduce(0) { sum, name in
            let url = scene.scratch.url.appendingPathComponent("store/documents/\(name)")
            return try sum + (url.resourceValues(forKeys: [.fileSizeKey]).fileSize ?? 0)
        }
        #expect(try scene.number("stored_bytes", of: cache) == kept + documents)
        let answer = try cache.client.send("GET", "/" + pack)
        #expect(answer.status == 200 && scene.isRight(answer, pack))
        #expect(scene.sentOfPacks - before == size - kept)
    }

    @Test("What was used longest ago goes when the store is full")
    func eviction() throws {
        let scene = try CacheScene(files: Array(repeating: 3_000_000, count: 10), packs: "6M")
        let cache = try scene.cache("--max", "16M")
        #expect(scene.packs.count > 3)
        for _ in 0..<2 {
            for pack in scene.packs {
                let answer = try cache.client.send("GET", "/" + pack)
                #expect(answer.status == 200 && scene.isRight(answer, pack))
                #expect(try scene.number("stored_bytes", of: cache) <= 16 << 20)
                #expect(try scene.kept().bytes <= 16 << 20)
            }
        }
        #expect(try scene.number("evicted_bytes_total", of: cache) > 0)
        // The one that was read last is there.
        let before = scene.sentOfPacks
        _ = try cache.client.send("GET", "/" + (scene.packs.last ?? ""))
        #expect(scene.sentOfPacks == before)
    }

    @Test("Two caches in front of one origin each fetch one copy, and a store has one of them")
    func twoCaches() throws {
        let scene = try CacheScene()
        let (pack, size) = (scene.pack, scene.bytes(scene.pack).count)
        let (one, two) = (try scene.cache(), try scene.cache(store: "two"))
        for cache in [one, two, one, two] {
            let answer = try cache.client.send("GET", "/" + pack)
            #expect(answer.status == 200 && scene.isRight(answer, pack))
        }
        #expect(scene.sentOfPacks == 2 * size)
        let third = try scene.tool.run(["serve", "--cache", scene.originURL, "--store", "two", "--port", "0"])
        #expect(third.status == 75)
        #expect(third.error.contains("Another process has the store"))
        // A cache of a cache.
        let behind = try RunningServer(
            scene.scratch, cacheOf: "http://127.0.0.1:\(one.client.port)/manifest.json", store: "three")
        let answer = try behind.client.send("GET", "/" + pack)
        #expect(answer.status == 200 && scene.isRight(answer, pack))
        #expect(scene.sentOfPacks == 2 * size)
    }

    @Test(
        "A client that does not read holds up nobody, and a stop lets an answer under way end",
        arguments: [SIGTERM, SIGINT])
    func slowReader(signal: Int32) throws {
        let scene = try CacheScene(files: Array(repeating: 2_000_000, count: 8))
        let (pack, size) = (scene.pack, scene.bytes(scene.pack).count)
        let cache = try scene.cache()
        let connection = try cache.client.open("GET", "/" + pack)
        defer { close(connection) }
        for _ in 0..<3 {
            let answer = try cache.client.send("GET", "/" + pack)
            #expect(answer.status == 200 && scene.isRight(answer, pack))
        }
        #expect(scene.sentOfPacks == size)
        kill(cache.process.processIdentifier, signal)
        let answer = try HTTPClient.parse(try HTTPClient.readAll(connection))
        #expect(scene.isRight(answer, pack))
        cache.process.waitUntilExit()
        #expect(cache.process.terminationStatus == 0)
    }

    @Test("It stands for the origin's directory and for nothing else")
    func closed() throws {
        let scene = try CacheScene()
        scene.origin.serve(ServedObject(text: "secret"), at: "/secret")
        scene.origin.serve(ServedObject(text: "note"), at: "/set/a%20b/note.txt")
        let cache = try scene.cache()
        #expect(try cache.client.send("GET", "http://other.example/manifest.json").status == 421)
        #expect(try cache.client.send("GET", "\(scene.origin.url("/secret"))").status == 421)
        for target in ["/../secret", "/%2e%2e/secret", "/packs/../../secret", "//secret", "/.hidden", "/nothing"] {
            let answer = try cache.client.send("GET", target)
            #expect(answer.status == 404, "\(target)")
            #expect(answer.body.isEmpty)
        }
        #expect(try cache.client.send("GET", "/..%2fsecret").status == 400)
        #expect(try cache.client.send("POST", "/manifest.json").status == 405)
        // Not named by a digest: passed through, and not kept.
        for _ in 0..<2 { #expect(try cache.client.send("GET", "/a%20b/note.txt").body == Array("note".utf8)) }
        let part = try cache.client.send("GET", "/a%20b/note.txt", ["Range": "bytes=1-2"])
        #expect(part.status == 206 && part.body == Array("ot".utf8))
        #expect(part.headers["content-range"] == "bytes 1-2/4")
        #expect(scene.origin.log.requests(to: "/set/a%20b/note.txt").count >= 3)
        #expect(try scene.kept().files.isEmpty)
        #expect(scene.origin.log.requests(to: "/secret").isEmpty)
    }

    @Test("Of names that begin with a dot those of the set are there, however deep, and no others")
    func hidden() throws {
        let scene = try CacheScene()
        let path = String(repeating: ".d/", count: 200) + ".f"
        let manifest = """
            {"format": "syncagent-manifest/1", "project": "com.example.tower", "files": [{"path": "\(path)", "size": 3,
            "sha256": "e392dad8b08599f74d4819cd291feef81ab4389e0a6fae2b1286f99411b0c7ca", "urls": ["\(path)"]}]}
            """
        scene.origin.serve(ServedObject(text: manifest), at: "/set/manifest.json")
        scene.origin.script("/set/manifest.json.zst", .status(404))
        for name in [path, ".git/config"] { scene.origin.serve(ServedObject(text: "dot"), at: "/set/" + name) }
        let cache = try scene.cache()
        #expect(try cache.client.send("GET", "/manifest.json").status == 200)
        #expect(try cache.client.send("GET", "/" + path).body == Array("dot".utf8))
        #expect(try cache.client.send("GET", "/.git/config").status == 404)
    }

    @Test("An origin that gives whole objects only, and a pack that no manifest names, are cached all the same")
    func wholeObjects() throws {
        let scene = try CacheScene()
        let (pack, size) = (scene.pack, scene.bytes(scene.pack).count)
        let good = FaultAnswer.object(try #require(scene.files[pack]))
        scene.origin.script("/set/" + pack, good.ignoringRanges())
        scene.origin.script("/set/manifest.json", .status(404))
        scene.origin.script("/set/manifest.json.zst", .status(404))
        let cache = try scene.cache()
        let part = try cache.client.send("GET", "/" + pack, ["Range": "bytes=1000-1999"])
        #expect(part.status == 206 && scene.isRight(part, pack, 1000..<2000))
        let before = scene.sentOfPacks
        let whole = try cache.client.send("GET", "/" + pack)
        #expect(whole.status == 200 && scene.isRight(whole, pack))
        #expect(scene.sentOfPacks == before)
        #expect(try scene.keeps(size))
        // It lies: nothing comes to its end.
        scene.origin.script("/set/" + pack, good.flippingByte(at: size / 2))
        let other = try scene.cache(store: "other")
        let cut = try other.client.send("GET", "/" + pack)
        #expect(cut.status == 502 || cut.body.count < size)
        let again = try other.client.send("GET", "/" + pack)
        #expect(again.status == 502 || again.body.count < size)
        #expect(try scene.kept("other").files.isEmpty)
    }

    @Test("A slow client that has got a wrong byte is cut off, also where the right bytes are held by then")
    func wrongForTheSlow() throws {
        let scene = try CacheScene(files: Array(repeating: 2_000_000, count: 12))
        let (pack, size) = (scene.pack, scene.bytes(scene.pack).count)
        let good = FaultAnswer.object(try #require(scene.files[pack]))
        for name in ["manifest.json", "manifest.json.zst"] { scene.origin.script("/set/" + name, .status(404)) }
        let bad = 100_000
        let isFirst = OneTime()
        scene.origin.respond(to: "/set/" + pack) { request in
            let range = request.range(ofSize: size) ?? 0..<size
            return range.contains(bad) && isFirst.take() ? good.flippingByte(at: bad) : good
        }
        let cache = try scene.cache()
        let slow = try cache.client.open("GET", "/" + pack)
        defer { close(slow) }
        var taken: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while taken.count < bad * 2 {
            let count = read(slow, &buffer, buffer.count)
            try #require(count > 0)
            taken += buffer[..<count]
        }
        let deadline = ContinuousClock.now + .seconds(40)
        var isRight = false
        while !isRight, ContinuousClock.now < deadline {
            // It is cut off where it has shared the wrong ones.
            guard let answer = try? cache.client.send("GET", "/" + pack) else { continue }
            isRight = answer.status == 200 && scene.isRight(answer, pack)
        }
        #expect(isRight)
        #expect(try scene.keeps(size))
        while true {
            let count = read(slow, &buffer, buffer.count)
            guard count > 0 else { break }
            taken += buffer[..<count]
        }
        let cut = try HTTPClient.parse(taken)
        #expect(cut.status == 200 && cut.body.count < size, "\(cut.body.count) of \(size)")
    }

    @Test("What one path gives says nothing of the same pack at another")
    func otherPath() throws {
        let scene = try CacheScene()
        let (pack, size) = (scene.pack, scene.bytes(scene.pack).count)
        scene.origin.serve(ServedObject(patternedBytes(size: size, seed: 999)), at: "/set/nowhere/" + pack)
        let cache = try scene.cache()
        for _ in 0..<2 { #expect(try cache.client.send("GET", "/nowhere/" + pack).status == 502) }
        let answer = try cache.client.send("GET", "/" + pack)
        #expect(answer.status == 200 && scene.isRight(answer, pack))
    }

    @Test("A length that was wrong is asked for again")
    func wrongLength() throws {
        let scene = try CacheScene()
        let pack = scene.pack
        let good = FaultAnswer.object(try #require(scene.files[pack]))
        for name in ["manifest.json", "manifest.json.zst"] { scene.origin.script("/set/" + name, .status(404)) }
        let page = FaultAnswer.object(ServedObject([UInt8](repeating: 0x20, count: 512)))
        scene.origin.respond(to: "/set/" + pack) { $0.ordinalAtPath == 1 ? page : good }
        let cache = try scene.cache()
        #expect(try cache.client.send("GET", "/" + pack).status == 502)
        let answer = try cache.client.send("GET", "/" + pack)
        #expect(answer.status == 200 && scene.isRight(answer, pack))
    }

    @Test("What is kept is proved once, however many ask for it at the same time")
    func provedOnce() async throws {
        let scene = try CacheScene(files: Array(repeating: 2_000_000, count: 12))
        let (pack, size) = (scene.pack, scene.bytes(scene.pack).count)
        for name in ["manifest.json", "manifest.json.zst"] { scene.origin.script("/set/" + name, .status(404)) }
        let first = try scene.cache()
        #expect(try first.client.send("GET", "/" + pack).body.count == size)
        #expect(try scene.keeps(size))
        #expect(try first.stop().status == 0)
        let cache = try scene.cache()
        let (client, before) = (cache.client, try Self.bytesRead(by: cache))
        let right = try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 { group.addTask { try client.send("GET", "/" + pack).body.count == size } }
            return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(right == 8)
        // Each reads it once, and one proof does.
        #expect(try Self.bytesRead(by: cache) - before < 12 * size)
    }

    /// **Bytes** that a cache has read from files so far. proc_pid_io(5)
    private static func bytesRead(by cache: RunningServer) throws -> Int {
        let file = try FileHandle(
            forReadingFrom: URL(fileURLWithPath: "/proc/\(cache.process.processIdentifier)/io"))
        let text = String(decoding: try file.readToEnd() ?? Data(), as: UTF8.self)
        let line = text.split(separator: "\n").first { $0.hasPrefix("rchar:") }
        return try #require(line?.split(separator: " ").last.flatMap { Int($0) })
    }

    @Test("A document that cannot be had says nothing of the others")
    func oneDocument() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        let names = ["manifest.json", "manifest.json.zst"]
        for name in names { #expect(try cache.client.send("GET", "/" + name).status == 200) }
        scene.origin.script("/set/manifest.json", .redirect(to: "/set/manifest.json"))
        let warnings = try names.map { try cache.client.send("GET", "/" + $0).headers["warning"] }
        #expect(warnings[0]?.hasPrefix("111") == true && warnings[1] == nil)
    }

    @Test("A web page in place of a manifest is not kept, and what is held is sent")
    func webPage() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        let page = ServedObject(text: "<!DOCTYPE html><title>Log in</title>", contentType: "text/html")
        scene.origin.serve(page, at: "/set/channels/beta.json")
        scene.origin.serve(page, at: "/set/trust/2.root")
        for path in ["/channels/beta.json", "/trust/2.root"] {
            #expect(try cache.client.send("GET", path).body == page.bytes)
        }
        #expect(try cache.client.send("GET", "/manifest.json").status == 200)
        scene.origin.serve(page, at: "/set/manifest.json")
        let held = try cache.client.send("GET", "/manifest.json")
        #expect(scene.isRight(held, "manifest.json") && held.headers["warning"]?.hasPrefix("111") == true)
        try scene.origin.closePort()
        #expect(try scene.isRight(cache.client.send("GET", "/manifest.json"), "manifest.json"))
        #expect(try cache.client.send("GET", "/channels/beta.json").status == 504)
        #expect(try cache.client.send("GET", "/trust/2.root").status == 404)
        #expect(try cache.stop().error.contains("a web page in place of the document"))
    }

    @Test("Two versions of a file that no digest names are not put together")
    func halves() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        let old = ServedObject(text: String(repeating: "old ", count: 100_000))
        // The last one is shorter than what had come of the old one.
        for (number, count) in [100_000, 10_000].enumerated() {
            let new = ServedObject(text: String(repeating: "new ", count: count))
            for path in ["channels/beta\(number).json", "note\(number).txt"] {
                scene.origin.script("/set/" + path, FaultAnswer.object(old).dropping(at: 100_000), .object(new))
                let cut = try cache.client.send("GET", "/" + path)
                // The head of a file that is passed through has been sent by then.
                #expect(cut.status == (path.hasSuffix(".json") ? 502 : 200), "\(path)")
                #expect(cut.body.count < 400_000 && old.bytes.starts(with: cut.body), "\(path)")
                #expect(try cache.client.send("GET", "/" + path).body == new.bytes, "\(path)")
            }
        }
    }

    @Test("A part of a new version is not sent with the tag of the old one")
    func partOfAnother() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        let (old, new) = (ServedObject(text: "the old one"), ServedObject(text: "the new one"))
        scene.origin.script("/set/note.txt", .object(old), .object(new))
        #expect(try cache.client.send("GET", "/note.txt", ["Range": "bytes=4-6"]).status == 503)
        let part = try cache.client.send("GET", "/note.txt", ["Range": "bytes=4-6"])
        #expect(part.status == 206 && part.body == Array("new".utf8))
    }

    @Test("However long an origin wants to be left alone, what is held is sent within seconds")
    func longWait() throws {
        let scene = try CacheScene()
        let cache = try scene.cache()
        for path in ["manifest.json", "manifest.json.zst"] {
            #expect(try cache.client.send("GET", "/" + path).status == 200)
        }
        let start = ContinuousClock.now
        scene.origin.script("/set/manifest.json", .unavailable(retryAfter: "600"))
        let held = try cache.client.send("GET", "/manifest.json")
        #expect(scene.isRight(held, "manifest.json") && held.headers["warning"]?.hasPrefix("111") == true)
        // One that says beforehand that it takes no more requests for now.
        let file = try #require(scene.files["manifest.json.zst"])
        scene.origin.script(
            "/set/manifest.json.zst", .object(file).setting("RateLimit", "\"default\";r=0;t=600"))
        for _ in 0..<2 { #expect(try cache.client.send("GET", "/manifest.json.zst").status == 200) }
        #expect(ContinuousClock.now - start < .seconds(30))
    }

    @Test("A weak tag does not make a part good for what a client has")
    func weakTag() throws {
        let scene = try CacheScene()
        let note = FaultAnswer.object(ServedObject(text: "note"))
        scene.origin.script("/set/note.txt", note.withWeakETag())
        let cache = try scene.cache()
        let part = try cache.client.send("GET", "/note.txt", ["Range": "bytes=1-2"])
        let tag = try #require(part.headers["etag"])
        #expect(part.status == 206 && tag.hasPrefix("W/"))
        let whole = try cache.client.send("GET", "/note.txt", ["Range": "bytes=1-2", "If-Range": tag])
        #expect(whole.status == 200 && whole.body == Array("note".utf8))
    }

    @Test("Why the origin gives nothing is said where the cache runs")
    func refusedByOrigin() throws {
        let scene = try CacheScene()
        scene.origin.script("/set/manifest.json", .status(403))
        let cache = try scene.cache()
        #expect(try cache.client.send("GET", "/manifest.json").status == 403)
        let end = try cache.stop()
        #expect(end.error.contains("/set/manifest.json: status 403"), "\(end.error)")
    }

    @Test("However many paths the origin refuses, thirty lines a minute say so")
    func refusedPaths() throws {
        let scene = try CacheScene()
        scene.origin.respondToOthers { _ in .status(403) }
        let cache = try scene.cache()
        for number in 1...40 { #expect(try cache.client.send("GET", "/trust/\(number).root").status == 403) }
        let lines = try cache.stop().error.split(separator: "\n").filter { $0.contains("status 403") }
        #expect(lines.count == 30 && lines.last?.contains("the last of 30 lines") == true, "\(lines)")
    }

    @Test("What does not go together is refused")
    func usage() throws {
        let scratch = try Scratch()
        let tool = Tool(scratch)
        for (words, part) in [
            (["serve"], "Give a directory"), (["serve", "site", "--cache", "http://h/"], "not both"),
            (["serve", "--cache", "http://h/"], "--store"), (["serve", "site", "--store", "s"], "--cache"),
            (["serve", "--cache", "", "--store", "s"], "not an empty string"),
            (["serve", "--cache", "ftp://h/", "--store", "s"], "http(s)"),
            (["serve", "--cache", "http://h/?a=b", "--store", "s"], "query"),
            (["serve", "--cache", "http://h/#a", "--store", "s"], "fragment"),
            (["serve", "--cache", "s3://b/p", "--store", "s"], "not the name of a bucket"),
            (["serve", "--cache", "s3://bucket/a/../b", "--store", "s"], "prefix"),
            (["serve", "--cache", "s3://bucket/a?token=x", "--store", "s"], "endpoint"),
            (["serve", "--cache", "s3://bucket/v1.json?region=eu-west-1", "--store", "s"], "a slash at the end"),
            (["serve", "--cache", "http://h/channels/beta.json.zst", "--store", "s"], "a slash at the end"),
            (["serve", "--cache", "oci://h", "--store", "s"], "not a registry"),
            (["serve", "--cache", "hf://a/b", "--store", "s"], "http(s), s3 or oci"),
            (["serve", "--cache", "http://h/", "--store", "s", "--max", "1K"], "--max"),
        ] {
            let outcome = try tool.run(words)
            #expect(outcome.status == 64 && outcome.error.contains(part), "\(words): \(outcome.error)")
        }
        // A directory with other things in it is nobody's store.
        try scratch.write(Data("mine".utf8), to: "home/thesis.txt")
        let foreign = try tool.run(["serve", "--cache", "http://127.0.0.1:9/", "--store", "home", "--port", "0"])
        #expect(foreign.status == 73 && foreign.error.contains("neither empty nor a store"), "\(foreign.error)")
        #expect(try scratch.contents(of: "home") == ["thesis.txt"])
    }
}

/// Once only.
final class OneTime: @unchecked Sendable {  // Safe: the lock.
    private let lock = NSLock()
    private var isTaken = false

    func take() -> Bool {
        lock.withLock {
            defer { isTaken = true }
            return !isTaken
        }
    }
}
