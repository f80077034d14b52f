import CommandTestSupport
import Foundation
import SyncTestKit

/// A published set on a server that counts and can do wrong, and what caches in front of it are asked.
struct CacheScene {
    let scratch: Scratch
    let tool: Tool
    let origin: FaultServer
    /// What is published, by path below the directory.
    let files: [String: ServedObject]
    /// The paths of the packs, the largest first.
    let packs: [String]

    /// Publishes files of so many **bytes**, which no compression makes smaller, in packs of so many.
    init(files sizes: [Int] = [900_000, 2_100_000, 40_000, 1_300_000, 3_000_000, 17], packs size: String = "32M") throws
    {
        scratch = try Scratch()
        tool = Tool(scratch)
        for (number, size) in sizes.enumerated() {
            let bytes = patternedBytes(size: size, seed: UInt64(number) + 7)
            try scratch.write(Data(bytes), to: "assets/\(number).bin")
        }
        // Text is stored as zstd frames.
        try scratch.write(Data((0..<60_000).map { "line \($0)\n" }.joined().utf8), to: "assets/text.txt")
        let outcome = try tool.run([
            "publish", "assets", "--to", "site", "--project", "com.example.tower", "--pack-size", size,
        ])
        guard outcome.status == 0 else { throw Tool.Failure("publish: \(outcome.error)") }
        origin = try FaultServer()
        var files: [String: ServedObject] = [:]
        for path in try scratch.contents(of: "site") {
            let url = scratch.url.appendingPathComponent("site/\(path)")
            if try url.resourceValues(forKeys: [.isDirectoryKey]).isDirectory == true { continue }
            files[path] = ServedObject([UInt8](try Data(contentsOf: url)))
        }
        self.files = files
        packs = files.keys.filter { $0.hasSuffix(".pack") }.sorted {
            (files[$0]?.bytes.count ?? 0, $1) > (files[$1]?.bytes.count ?? 0, $0)
        }
        for (path, object) in files { origin.serve(object, at: "/set/" + path) }
    }

    var originURL: String { origin.url("/set/") }

    /// The only pack, or the largest.
    var pack: String { packs.first ?? "" }

    func bytes(_ path: String) -> [UInt8] { files[path]?.bytes ?? [] }

    func cache(store: String = "store", _ arguments: String...) throws -> RunningServer {
        try RunningServer(scratch, cacheOf: originURL, store: store, arguments: arguments)
    }

    /// Body **bytes** that the origin has sent of packs, once every answer has ended: it writes down what it has sent afterwards.
    var sentOfPacks: Int {
        let deadline = ContinuousClock.now + .seconds(20)
        while ContinuousClock.now < deadline, origin.log.entries.contains(where: { $0.ended == nil }) { usleep(5_000) }
        return packs.reduce(0) { $0 + origin.log.bytesSent(to: "/set/" + $1) }
    }

    /// One of the numbers at `/metrics`.
    func number(_ name: String, of cache: RunningServer) throws -> Int {
        let page = String(decoding: try cache.client.send("GET", "/metrics").body, as: UTF8.self)
        let line = page.split(separator: "\n").first { $0.hasPrefix("syncagent_cache_\(name) ") }
        guard let number = line?.split(separator: " ").last.flatMap({ Int($0) }) else {
            throw Tool.Failure("no \(name) in \(page)")
        }
        return number
    }

    /// Files of the store that hold bytes of packs, and their **bytes** together.
    func kept(_ store: String = "store") throws -> (files: [URL], bytes: Int) {
        let root = scratch.url.appendingPathComponent("\(store)/objects")
        let files = try FileManager.default.subpathsOfDirectory(atPath: root.path).filter { $0.contains(".") }.map {
            root.appendingPathComponent($0)
        }
        // One may be gone by now.
        let bytes = files.reduce(0) { sum, file in
            let size = (try? FileManager.default.attributesOfItem(atPath: file.path))?[.size] as? Int
            return sum + (size ?? 0)
        }
        return (files, bytes)
    }

    /// Waits until the store holds so many **bytes** of packs: an answer may come to its end before they are kept.
    func keeps(_ bytes: Int, in store: String = "store") throws -> Bool {
        for _ in 0..<500 {
            if try kept(store).bytes == bytes { return true }
            usleep(20_000)
        }
        return false
    }

    /// Whether what a client got is this; not compared in an expectation, which would describe megabytes.
    func isRight(_ answer: HTTPClient.Answer, _ path: String, _ range: Range<Int>? = nil) -> Bool {
        let all = bytes(path)
        return answer.body == (range.map { Array(all[$0]) } ?? all)
    }
}
