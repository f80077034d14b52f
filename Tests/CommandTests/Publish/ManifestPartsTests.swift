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
