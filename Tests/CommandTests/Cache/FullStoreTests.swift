import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// Whether a process may have mounts of its own here.
private let mayMount: Bool = {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
    process.arguments = ["-m", "true"]
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { return false }
    process.waitUntilExit()
    return process.terminationStatus == 0
}()

@Suite("A cache whose disk is full", .timeLimit(.minutes(10)), .enabled(if: mayMount, "SKIPPED: no mounts of our own"))
struct FullStoreTests {
    @Test("What cannot be kept is proved and handed on all the same, and said once", arguments: ["1m", "8k"])
    func full(size: String) throws {
        let scene = try CacheScene()
        let (pack, count) = (scene.pack, scene.bytes(scene.pack).count)
        let process = scene.tool.process([])
        process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
        process.arguments = [
            "-m", "sh", "-c",
            """
            mkdir -m 700 store && mount -t tmpfs -o size=\(size),mode=700 none store &&
            exec "$0" serve --cache "$1" --store store --port 0
            """, Tool.url.path, scene.originURL,
        ]
        let cache = try RunningServer(scene.scratch, process)
        let start = ContinuousClock.now
        for _ in 0..<2 {
            let answer = try cache.client.send("GET", "/" + pack)
            #expect(answer.status == 200 && scene.isRight(answer, pack))
        }
        let pull = try scene.tool.run(["pull", cache.firstLine, "--into", "into", "--json"])
        #expect(pull.status == 0, "\(pull.error)")
        #expect(try scene.number("stored_bytes", of: cache) < 1 << 20)
        // In memory for 15 s: those who ask at about the same time share it.
        if ContinuousClock.now - start < .seconds(12) {
            #expect(scene.sentOfPacks < count * 2, "\(scene.origin.log.description)")
        }
        // Wrong bytes are no better where nothing is kept.
        let bad = FaultAnswer.object(try #require(scene.files[pack])).flippingByte(at: count / 2)
        scene.origin.script("/set/" + pack, bad)
        if let cut = try? cache.client.send("GET", "/" + pack) {
            let isRight = cut.body.elementsEqual(scene.bytes(pack).prefix(cut.body.count))
            #expect(cut.status == 502 || isRight, "\(cut.status), \(cut.body.count) bytes")
        }
        let end = try cache.stop()
        #expect(end.status == 0)
        #expect(end.error.contains("The store cannot be written"), "\(end.error)")
    }
}
