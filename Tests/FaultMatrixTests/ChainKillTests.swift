import Foundation
import SyncTestKit
import Testing

/// The built program, killed again and again behind redirects that lead to links which expire.
@Suite("Kills behind a long redirect chain", .timeLimit(.minutes(10)))
struct ChainKillTests {
    private static let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("syncagent").path

    /// Every object is behind nine hops; the last leads to a link that admits one request, and that
    /// breaks off after 400 KB.
    private func serve(_ set: PublishedSet, on server: FaultServer, pace: Duration) {
        let objects = Dictionary(uniqueKeysWithValues: set.objects(under: "/tower").map { ($0.path, $0.object) })
        let links = SignedLinks(uses: 1)
        server.respondToOthers { request in
            var parts = request.path.split(separator: "/", maxSplits: 2).map(String.init)
            var hop = 0
            if parts.first == "hop", parts.count == 3 {
                hop = Int(parts[1]) ?? 0
                parts = [parts[2]]
            }
            let path = hop == 0 ? request.path : "/" + parts[0]
            if path == "/tower/manifest.json", let object = objects[path] { return .object(object) }
            if path.hasPrefix("/store/"), let object = objects[String(path.dropFirst(6))] {
                return links.admit(request) {
                    FaultAnswer.object(object).dropping(at: 400_000).dripping(16_384, every: pace)
                }
            }
            guard objects[path] != nil else { return .status(404) }
            return hop < 8 ? .redirect(to: "/hop/\(hop + 1)\(path)") : .redirect(to: links.sign("/store\(path)"))
        }
    }

    /// **Bytes** that a server has sent on open connections and their other ends have not read yet: see proc(5), `/proc/net/tcp`.
    /// 0 where there is no such file.
    private static func unread(from port: UInt16) -> Int {
        let suffix = ":" + String(format: "%04X", port)
        guard let table = try? String(contentsOfFile: "/proc/net/tcp", encoding: .utf8) else { return 0 }
        return table.split(separator: "\n").dropFirst().reduce(0) { sum, line in
            let columns = line.split(separator: " ")
            guard columns.count > 4 else { return sum }
            let queues = columns[4].split(separator: ":").map { Int($0, radix: 16) ?? 0 }
            let isServer = columns[1].hasSuffix(suffix)
            return isServer || columns[2].hasSuffix(suffix) ? sum + queues[isServer ? 0 : 1] : sum
        }
    }

    private func arguments(_ server: FaultServer, _ root: TemporaryRoot) -> [String] {
        ["pull", server.url("/tower/manifest.json"), "--into", root.path("files"), "--json"]
    }

    @Test("Ten kills and nine hops cost at most 64 KiB an ended transfer and 1 MiB more [F025 F083 G4 S74]")
    func tenKills() throws {
        var tree = AssetTree.large(4, size: 4_000_000).merged(with: .manySmall(500, largest: 10_000))
        tree.addFile("video/loose.mp4", size: 5_000_000, seed: 9)
        var builder = ManifestBuilder(tree)
        builder.chunkSize = 131_072
        builder.packSize = 4_000_000
        builder.looseAbove = 4_500_000
        let set = try builder.build()
        let server = try FaultServer()
        serve(set, on: server, pace: .milliseconds(30))

        let root = try TemporaryRoot()
        let environment = ["HOME": root.path, "XDG_STATE_HOME": root.path("state")]
        let share = set.byteCount / 11
        var unread = 0
        for kill in 1...10 {
            let run = try ChildProgram(
                Self.program, arguments(server, root), output: root.path("out-\(kill)"), environment: environment)
            // When another eleventh of the set has gone out, whatever the program is doing then.
            while run.isRunning, server.log.bytesSent < kill * share { usleep(1_000) }
            // How much lies in sockets says how busy the machine is, not what the program loses.
            run.signal(SIGSTOP)
            unread += Self.unread(from: server.port)
            run.signal(SIGKILL)
            _ = try run.wait()
            let problems = set.tree.problems(in: root.path("files"), partial: true)
            #expect(problems.isEmpty, "after kill \(kill)")
        }
        let last = try ChildProgram(
            Self.program, arguments(server, root), output: root.path("out"), environment: environment)
        #expect(try last.wait(within: .seconds(60)) == 0, "\(last.output.suffix(2_000))")
        #expect(set.tree.problems(in: root.path("files")) == [])
        let log = server.log.entries
        let ended = log.count { $0.end == .abandoned }
        #expect(ended >= 10, "every kill hit something under way")
        #expect(log.contains { $0.request.path.hasPrefix("/hop/8/") && $0.status == 302 })
        #expect(log.contains { $0.status == 403 }, "links were used twice, and refused")
        // Buffers that were not written yet; on a busy machine nearly all of them are full.
        let bound = set.byteCount + ended * 65_536 + (1 << 20)
        let received = server.log.bytesSent - unread
        #expect(
            received <= bound,
            "\(received) bytes for a set of \(set.byteCount), \(ended) transfers ended, \(unread) bytes never read")
    }
}
