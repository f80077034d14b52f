import Foundation
import SyncModel
import SyncTestKit
import Testing

@testable import SyncPublisher

/// Over NFS, a rename can be done and reported as failed, since its answer was lost.
@Suite(
    "An output where the answers to renames are lost",
    .enabled(if: LossyMount.isPossible, "needs root, /dev/fuse and python3-fusepy"), .timeLimit(.minutes(10)))
struct LostAnswerTests {
    @Test("A rename that was done counts as done: of packs, manifests, channels and the records of shards")
    func renames() throws {
        let set = try PublishedSet(.manySmall(40))
        let mount = try #require(LossyMount(in: set.root))
        defer { mount.end() }
        let output = try OutputDirectory(mount.path)
        // Files are found by the names that they have since.
        try output.put([1], "index.json", in: .channels)
        try output.put([2], "index.json", in: .channels)
        #expect(try output.read(.channels, "index.json", limit: 10) == [2])
        try output.put([3], "0-of-2.json", in: .shards, isOwn: true)
        #expect(try output.readOwn(.shards, "0-of-2.json", limit: 10) == [3])
        try output.putManifest([4], frame: [5])
        try output.give("manifest.json", "1.json.zst", in: .channels)
        #expect(try output.read(.channels, "1.json.zst", limit: 10) == [4])
        #expect(try output.read(.top, "manifest.json.zst", limit: 10) == [5])
        #expect(try FileManager.default.contentsOfDirectory(atPath: mount.path).allSatisfy { !$0.hasSuffix(".tmp") })
    }

    @Test("A set that is published there can be read, and the next revision continues it")
    func publish() throws {
        let set = try PublishedSet(.manySmall(40))
        let mount = try #require(LossyMount(in: set.root))
        defer { mount.end() }
        func publish(_ channel: String?) throws -> UInt64 {
            try set.publish {
                ($0.output, $0.channel, $0.keepsReleases) = (mount.path, channel, channel != nil)
            }.revision
        }
        #expect(try publish(nil) == 1)
        try set.root.write("new", to: "in/new")
        #expect(try publish("beta") == 2)
        #expect(try Releases(OutputDirectory(mount.path, isReadOnly: true)).all.map(\.revision) == [2, 1])
    }
}

/// Tests/foldfs.py, where each rename is done and reports an error.
private final class LossyMount {
    let path: String
    private let server: Process

    static let isPossible: Bool = {
        guard geteuid() == 0, let root = try? TemporaryRoot(), let mount = LossyMount(in: root) else { return false }
        mount.end()
        return true
    }()

    init?(in root: TemporaryRoot) {
        path = root.path("mounted")
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("foldfs.py").path
        server = Process()
        server.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        server.arguments = ["-B", script, root.path("shown"), path, "lost-renames"]
        server.standardError = FileHandle.nullDevice
        guard mkdir(path, 0o755) == 0, (try? root.write("", to: "shown/there")) != nil, (try? server.run()) != nil
        else { return nil }
        for _ in 0..<500 where server.isRunning {
            if access(path + "/there", F_OK) == 0, unlink(path + "/there") == 0 { return }
            usleep(20_000)
        }
        end()
        return nil
    }

    func end() {
        let unmount = Process()
        unmount.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        unmount.arguments = ["umount", path]
        if (try? unmount.run()) != nil { unmount.waitUntilExit() }
        server.terminate()
        server.waitUntilExit()
    }
}
