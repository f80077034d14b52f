import CommandTestSupport
import Foundation
import Testing

/// Manifests in parts from `publish` to `gc`, over a real server.
@Suite("Manifests in parts", .timeLimit(.minutes(10)))
struct ManifestPartsTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
        for number in 0..<3_000 { try write(number, "content of \(number)") }
    }

    private func write(_ number: Int, _ text: String) throws {
        try scratch.write(Data(text.utf8), to: "in/d\(number / 100)/f\(number)")
    }

    private func publish() throws -> [String: Any] {
        let outcome = try Tool(scratch).run([
            "publish", "in", "--to", "site", "--project", "com.example.tower", "--manifest-parts", "--json",
        ])
        #expect(outcome.status == 0, "\(outcome.error)")
        return try #require(try outcome.objects().last)
    }

    private func pull(_ server: RunningServer, into directory: String = "tower") throws -> [String: Any] {
        let outcome = try Tool(scratch).run([
            "pull", "http://127.0.0.1:\(server.client.port)/manifest.json", "--into", directory, "--json",
        ])
        #expect(outcome.status == 0, "\(outcome.error)")
        return try #require(try outcome.events().last)
    }

    private func manifest(_ line: [String: Any]) throws -> [String: Int] {
        try #require(line["manifest"] as? [String: Int])
    }

    private func cached(_ ending: String) throws -> [String] {
        try scratch.contents(of: ".local/state/syncagent/manifests").filter { $0.hasSuffix(ending) }
    }

    @Test("An update brings the parts that changed, and of scattered changes little more than the changes")
    func update() throws {
        let total = try #require((try publish()["parts"] as? [String: Int])?["total"])
        #expect(total >= 2)
        let server = try RunningServer(scratch)
        let first = try manifest(try pull(server))
        #expect(first["parts"] == total && first["parts_fetched"] == total)
        #expect(try cached(".part").count == total)

        let nothing = try pull(server)
        #expect(nothing["requests"] as? Int == 1)
        #expect(try manifest(nothing) == ["bytes": 0, "parts": 0, "parts_fetched": 0])

        try write(1_234, "changed")
        _ = try publish()
        let one = try pull(server)
        #expect(try manifest(one)["parts"] == total && manifest(one)["parts_fetched"] == 1)
        // The root, the part's delta, the file.
        #expect(one["requests"] as? Int == 3)
        #expect(try manifest(one)["bytes"] ?? .max < (first["bytes"] ?? 0) / 20)

        for number in stride(from: 7, to: 3_000, by: 100) { try write(number, "scattered \(number)") }
        _ = try publish()
        let many = try pull(server)
        #expect(try manifest(many)["parts_fetched"] == total)
        #expect(try manifest(many)["bytes"] ?? .max < (first["bytes"] ?? 0) / 8)
        #expect(many["requests"] as? Int == 3)
        #expect(try cached(".part").count == total)
        #expect(try cached(".parts").count == 1)

        let check = try Tool(scratch).run(["verify", "site/manifest.json", "--into", "tower"])
        #expect(check.status == 0, "\(check.error)")
        // Who has nothing reads the parts themselves, and gets the same.
        try FileManager.default.removeItem(atPath: scratch.path + "/.local/state/syncagent/manifests")
        #expect(try manifest(try pull(server, into: "other"))["parts_fetched"] == total)
        for number in [7, 1_234, 2_999] {
            let path = "d\(number / 100)/f\(number)"
            #expect(
                FileManager.default.contents(atPath: scratch.path + "/other/" + path)
                    == FileManager.default.contents(atPath: scratch.path + "/in/" + path))
        }
    }

    @Test(
        "Over a base on a server a changed part is its difference to the one there; a server with wrong bytes of that is refused"
    )
    func servedBase() throws {
        _ = try publish()
        func root(_ place: String) throws -> [String: Any] {
            let text = try #require(FileManager.default.contents(atPath: "\(scratch.path)/\(place)/manifest.json"))
            return try #require(try JSONSerialization.jsonObject(with: text) as? [String: Any])
        }
        func publishNext() throws -> Tool.Outcome {
            let server = try RunningServer(scratch)
            return try Tool(scratch).run([
                "publish", "in", "--to", "next", "--manifest-parts", "--base",
                "http://127.0.0.1:\(server.client.port)/manifest.json",
            ])
        }
        let former = try root("site")
        let blob = try #require((former["parts"] as? [[String: Any]])?.first?["blob"] as? [Any])
        let number = try #require(blob.first as? Int)
        let packs = try #require(former["packs"] as? [[String: Any]])
        let url = try #require(packs[number]["url"] as? String)
        let pack = "site/\(url)"
        try write(1_234, "changed")

        let right = try #require(FileManager.default.contents(atPath: "\(scratch.path)/\(pack)"))
        try scratch.write(Data(right.map { $0 ^ 0x15 }), to: pack)
        let refused = try publishNext()
        #expect(refused.status == 65 && refused.error.contains("does not match its SHA-256"), "\(refused)")
        #expect(!FileManager.default.fileExists(atPath: scratch.path + "/next/manifest.json"))
        try scratch.write(right, to: pack)

        let outcome = try publishNext()
        #expect(outcome.status == 0, "\(outcome.error)")
        let next = try root("next")
        let parts = try #require(next["parts"] as? [[String: Any]])
        let from = parts.compactMap { $0["from"] as? [Any] }
        #expect(from.count == 1 && from[0].count == 1, "\(from)")
        // Copied over what is served, as rsync(1) would.
        for path in try scratch.contents(of: "next") {
            guard let bytes = try? Data(contentsOf: scratch.url.appendingPathComponent("next/\(path)")) else {
                continue
            }
            try scratch.write(bytes, to: "site/\(path)")
        }
        let server = try RunningServer(scratch)
        #expect(try pull(server)["result"] as? String == "ok")
        let check = try Tool(scratch).run(["verify", "site/manifest.json", "--into", "tower"])
        #expect(check.status == 0, "\(check.error)")
        let path = "d12/f1234"
        #expect(
            FileManager.default.contents(atPath: "\(scratch.path)/tower/\(path)") == Data("changed".utf8))
    }

    @Test("gc keeps the parts of the latest manifest and drops those that none names")
    func collect() throws {
        _ = try publish()
        let server = try RunningServer(scratch)
        _ = try pull(server)
        let needed = try cached(".part")
        let folder = ".local/state/syncagent/manifests/"
        let stray = String(repeating: "0", count: 64)
        try scratch.write(Data("{}".utf8), to: folder + stray + ".part")
        try scratch.write(Data((stray + "\n").utf8), to: folder + stray + ".parts")
        for name in try scratch.contents(of: folder) {
            utimes(
                scratch.path + "/" + folder + name, [timeval(tv_sec: 1, tv_usec: 0), timeval(tv_sec: 1, tv_usec: 0)])
        }
        #expect(try Tool(scratch).run(["gc"]).status == 0)
        #expect(try cached(".part") == needed)
        #expect(try cached(".parts").count == 1)
    }

    @Test("gc removes no part while the list of those that are needed cannot be read")
    func unreadList() throws {
        _ = try publish()
        let server = try RunningServer(scratch)
        _ = try pull(server)
        let needed = try cached(".part")
        let folder = scratch.path + "/.local/state/syncagent/manifests/"
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
            if name.hasSuffix(".parts") { #expect(truncate(folder + name, 1 << 40) == 0) }
            utimes(folder + name, [timeval(tv_sec: 1, tv_usec: 0), timeval(tv_sec: 1, tv_usec: 0)])
        }
        let outcome = try Tool(scratch).run(["gc"])
        #expect(outcome.status == 0 && outcome.error.contains("no cached manifest is removed"), "\(outcome.error)")
        #expect(try cached(".part") == needed)
    }
}
