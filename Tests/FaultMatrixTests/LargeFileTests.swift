import Foundation
import SyncEngine
import SyncModel
import SyncTestKit
import Testing

/// Large files that are fetched by their own URLs: over several connections, and killed on the way.
@Suite("Large loose files", .timeLimit(.minutes(10)))
struct LargeFileTests {
    private static let program = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        .appendingPathComponent("syncagent").path

    private static func publish(files: Int, size: Int) throws -> PublishedSet {
        var tree = AssetTree()
        for number in 0..<files { tree.addFile("models/\(number).bin", size: size, seed: UInt64(number + 1)) }
        var builder = ManifestBuilder(tree)
        builder.looseAbove = 1 << 20
        return try builder.build()
    }

    private static func serve(
        _ set: PublishedSet, on server: FaultServer, _ bend: @escaping @Sendable (FaultAnswer) -> FaultAnswer
    ) {
        for (path, object) in set.objects(under: "/tower") {
            let isManifest = path.hasSuffix("/manifest.json")
            server.script(path, isManifest ? .object(object) : bend(.object(object)))
        }
    }

    @Test("One file comes over several connections where one is slower than the line, each byte once")
    func divided() async throws {
        let set = try Self.publish(files: 1, size: 20 << 20)
        let server = try FaultServer()
        Self.serve(set, on: server) { $0.dripping(65_536, every: .milliseconds(30)) }
        let report = try await PullRunner().pullWhole(set.tree, server.url("/tower/manifest.json"))
        #expect(server.log.maximumConcurrentRequests > 2)
        #expect(report.bytes.received < UInt64(set.byteCount + 2_000_000))
    }

    @Test("A server without ranges sends such a file once, over one connection")
    func rangeless() async throws {
        let set = try Self.publish(files: 1, size: 20 << 20)
        let server = try FaultServer()
        Self.serve(set, on: server) { $0.ignoringRanges().dripping(65_536, every: .milliseconds(5)) }
        try await PullRunner().pullWhole(set.tree, server.url("/tower/manifest.json"))
        #expect(server.log.entries.map(\.request.path).count { $0.hasSuffix(".bin") } == 1)
    }

    @Test("A file of wrong bytes that came over several connections is fetched again, and then is right")
    func wrongBytes() async throws {
        let set = try Self.publish(files: 1, size: 20 << 20)
        let server = try FaultServer()
        let path = try #require(set.objects(under: "/tower").map(\.path).first { $0.hasSuffix(".bin") })
        Self.serve(set, on: server) { $0.dripping(65_536, every: .milliseconds(20)) }
        let object = try #require(set.objects(under: "/tower").first { $0.path == path }?.object)
        // Until somebody asks past the caches.
        server.respond(to: path) { request in
            let answer = FaultAnswer.object(object).dripping(65_536, every: .milliseconds(20))
            return request.header("Cache-Control") == nil ? answer.flippingByte(at: 19 << 20) : answer
        }
        try await PullRunner().pullWhole(set.tree, server.url("/tower/manifest.json"))
        #expect(server.log.maximumConcurrentRequests > 1)
    }

    @Test("Whenever a pull is killed, the next one asks only for what has not been written [F083 G4]")
    func kills() throws {
        let set = try Self.publish(files: 6, size: 20 << 20)
        let server = try FaultServer()
        Self.serve(set, on: server) { $0.dripping(16_384, every: .milliseconds(5)) }
        let root = try TemporaryRoot()
        let kills = 6
        func start(_ number: Int) throws -> ChildProgram {
            try ChildProgram(
                Self.program, ["pull", server.url("/tower/manifest.json"), "--into", root.path("files"), "--json"],
                output: root.path("out-\(number)"),
                environment: ["HOME": root.path, "XDG_STATE_HOME": root.path("state")])
        }
        for kill in 1...kills {
            let run = try start(kill)
            while run.isRunning, server.log.bytesSent < kill * set.byteCount / (kills + 1) { usleep(1_000) }
            run.signal(SIGKILL)
            _ = try run.wait()
            let problems = set.tree.problems(in: root.path("files"), partial: true)
            #expect(problems.isEmpty, "after kill \(kill)")
        }
        let (written, sent) = (Self.allocated(root.path("files")), server.log.bytesSent)
        #expect(written > set.byteCount / 2, "\(written) bytes are on the disk")
        let last = try start(0)
        #expect(try last.wait(within: .seconds(120)) == 0, "\(last.output.suffix(2_000))")
        #expect(set.tree.problems(in: root.path("files")) == [])
        #expect(server.log.entries.count { $0.end == .abandoned } >= kills, "every kill hit something")
        // Where a part is given to another connection, its server may have sent more than was read: that is in no range.
        let more = server.log.bytesSent - sent - (set.byteCount - written)
        #expect(more <= 16 << 20, "\(more) bytes more than were missing")
    }

    /// **Bytes** of all files below a directory, holes not counted.
    private static func allocated(_ directory: String) -> Int {
        let paths = FileManager.default.enumerator(atPath: directory)?.compactMap { $0 as? String } ?? []
        return paths.reduce(0) { sum, path in
            var found = stat()
            guard lstat("\(directory)/\(path)", &found) == 0, found.st_mode & S_IFMT == S_IFREG else { return sum }
            return sum + Int(found.st_blocks) * 512
        }
    }
}
