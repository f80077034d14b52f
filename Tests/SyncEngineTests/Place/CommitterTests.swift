import Foundation
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncTestKit
import Synchronization
import Testing

@testable import SyncEngine

@Suite("The committer", .timeLimit(.minutes(10)))
struct CommitterTests {
    /// Lets nothing pass until it is opened, as a disk that is slow.
    private final class Gate: FileVerifier {
        private let state = Mutex((isOpen: false, hasCaller: false))
        var hasCaller: Bool { state.withLock(\.hasCaller) }

        func open() { state.withLock { $0.isOpen = true } }

        func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict] {
            state.withLock { $0.hasCaller = true }
            while !state.withLock(\.isOpen) { usleep(1_000) }
            return files.map { _ in .accepted }
        }
    }

    @Test("What is durable in its place is in the log with its status, so that no kill costs a second reading")
    func confirmed() throws {
        // A status that is as young as the log is not trusted: where all of it happens within one tick of the file system's
        // clock, nothing is told again.
        var isTold = false
        for _ in 0..<3_000 where !isTold { isTold = try confirms() }
        #expect(isTold)
    }

    /// Commits three files; whether the log has them with their status.
    private func confirms() throws -> Bool {
        let manifest = try Manifest.ofRows(3)
        let place = try TemporaryRoot()
        let destination = try Destination.open(path: place.path("dest"), create: true)
        let staging = try Staging(destination, lanes: 1)
        let committer = try Committer(
            manifest: manifest, destination: destination, staging: staging, isDurable: true, verifications: []
        ) { _ in }
        for row in 0..<3 {
            let file = staging.newFile(lane: 0, digest: manifest.files.digest(row))
            let bytes = Array(repeating: UInt8(row), count: Int(manifest.files.size(row)))
            let made = try bytes.withUnsafeBytes { try staging.write($0, to: file, executable: false) }
            committer.add(Committer.Staged(row: row, file: file, made))
        }
        let outcome = committer.finish()
        #expect(outcome.records.count == 3)
        let entries = IndexLog.read(destination)
        #expect(entries.count >= 3 && entries.prefix(3).allSatisfy { $0.status == nil })
        guard entries.count > 3 else { return false }
        let told = entries.dropFirst(3).map(\.status)
        #expect(told.allSatisfy { status in (0..<3).contains { outcome.records[$0]?.status == status } })
        return told.count == 3
    }

    @Test("Whoever brings verified files faster than the disk takes them waits: the queue is bounded")
    func bounded() async throws {
        let count = 40_000
        let manifest = try Manifest.ofRows(count)
        let place = try TemporaryRoot()
        let destination = try Destination.open(path: place.path("dest"), create: true)
        let staging = try Staging(destination, lanes: 1)
        let gate = Gate()
        let committer = try Committer(
            manifest: manifest, destination: destination, staging: staging, isDurable: false,
            verifications: [FileVerification(name: "gate", verifier: gate)]
        ) { _ in }
        let added = Atomic(0)
        let isDone = Atomic(false)
        Thread.detachNewThread {
            for row in 0..<count {
                // None of them is there: each fails when its turn comes, and that is all it takes here.
                let file = staging.newFile(lane: 0, digest: manifest.files.digest(row))
                committer.add(Committer.Staged(row: row, file: file, nil))
                added.add(1, ordering: .relaxed)
            }
            isDone.store(true, ordering: .releasing)
        }
        var before = -1
        while !gate.hasCaller || added.load(ordering: .relaxed) != before {
            before = added.load(ordering: .relaxed)
            try await Task.sleep(for: .milliseconds(300))
        }
        // One batch is with the verifier, and as many as may wait do; each has at most 16,384.
        #expect((16_384...32_768).contains(before))
        let wasDone = isDone.load(ordering: .acquiring)
        #expect(!wasDone)
        gate.open()
        while !isDone.load(ordering: .acquiring) { try await Task.sleep(for: .milliseconds(5)) }
        let outcome = committer.finish()
        #expect(outcome.failures.count == count && outcome.records.count == 0)
    }
}
