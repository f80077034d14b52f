import SyncPlugins
import SyncSystem
import SyncTestKit
import Testing

@testable import SyncRemotes

@Suite("Copies of repositories", .timeLimit(.minutes(10)))
struct GitStoreTests {
    @Test("Whoever waits for a copy that is removed meanwhile keeps others out of the next one")
    func removedMeanwhile() throws {
        let directory = try TemporaryRoot()
        let path = directory.path("a.git.lock")
        let remover = Monitor<FileLock?>(try GitStore.lock(path, [.readWrite, .create], wait: 0))
        let long: Int64 = 1_000_000_000
        #expect(setModified(path, in: currentDirectory, long) == nil)
        let held = concurrently(2, name: "copy") { index -> FileLock? in
            if index == 0 { return (try? GitStore.lock(path, [.readWrite, .create], wait: 60_000)) ?? nil }
            // Whoever waits has opened the file, and said so.
            let deadline = ContinuousClock.now + .seconds(30)
            while ContinuousClock.now < deadline, status(following: path)?.modified == long {
                pauseThread(milliseconds: 2)
            }
            removeFile(path)
            remover.withLock { $0 = nil }
            return nil
        }
        #expect(held.contains { $0 != nil } && exists(path))
        #expect(try GitStore.lock(path, .readWrite, wait: 0) == nil)
        withExtendedLifetime(held) {}
    }

    @Test(
        "A copy is kept where the network broke off or the disk was full, and made again where git cannot use it",
        .enabled(if: (try? Git([:]) { false }) != nil, "SKIPPED: git is not installed"),
        arguments: [
            ("git fetch: RPC failed; curl 18 transfer closed with outstanding read data remaining", true),
            ("git fetch: unable to access 'http://h/a.git/': The requested URL returned error: 503", true),
            ("git fetch: write error: No space left on device", true), ("git fetch: bad shallow line: x", false),
        ])
    func failing(message: String, isKept: Bool) throws {
        let root = try TemporaryRoot()
        let git = try Git(["HOME": root.path]) { false }
        let repository = root.path("a.git")
        func name(_ output: [UInt8]) -> String { String(String(decoding: output, as: UTF8.self).prefix(40)) }
        _ = try git.run(["init", "--quiet", "--bare", "--", repository])
        let tree = name(try git.run(["mktree"], in: repository, reading: []))
        let commit = name(
            try git.run(
                ["-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-m", "x", tree], in: repository))
        _ = try git.run(["update-ref", "HEAD", commit], in: repository)
        let store = try GitStore("file://" + repository, git, stateDirectory: root.path, now: { 0 })
        try store.withCopy { () throws(PluginError) -> Void in }
        try replaceFile(store.indexPath, with: [], isDurable: false)
        var (calls, told) = (0, "")
        do throws(PluginError) {
            try store.withCopy { () throws(PluginError) -> Void in
                calls += 1
                throw PluginError.lfs(.unavailable, message)
            }
        } catch { told = error.message }
        #expect(told == message && calls == (isKept ? 1 : 2))
        #expect(exists(store.indexPath) == isKept)
    }
}
