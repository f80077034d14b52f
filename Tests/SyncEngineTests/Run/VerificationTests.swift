import Foundation
import SyncEngine
import SyncManifest
import SyncModel
import SyncPlugins
import SyncTestKit
import Synchronization
import Testing

/// Decides as a closure says, and keeps what it was shown: each file with the bytes it found there.
private final class ScriptedVerifier: FileVerifier {
    private let shown = Mutex<[(file: StagedFile, bytes: Data?)]>([])
    private let verdict: @Sendable (StagedFile) throws(PluginError) -> FileVerdict

    init(_ verdict: @escaping @Sendable (StagedFile) throws(PluginError) -> FileVerdict) { self.verdict = verdict }

    var files: [StagedFile] { shown.withLock { $0.map(\.file) } }
    var bytes: [Data?] { shown.withLock { $0.map(\.bytes) } }

    func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict] {
        var verdicts: [FileVerdict] = []
        for file in files {
            let bytes = FileManager.default.contents(atPath: file.stagedPath)
            shown.withLock { $0.append((file, bytes)) }
            verdicts.append(try verdict(file))
        }
        return verdicts
    }
}

@Suite("Verifiers look at files before they are installed", .timeLimit(.minutes(10)))
struct VerificationTests {
    private let scene: Scene
    private let tree: AssetTree

    init() throws {
        scene = try Scene()
        var tree = AssetTree()
        for name in ["a.png", "b.png", "c.txt"] { tree.addFile(name, size: 900, seed: UInt64(name.count)) }
        tree.addFile("large.png", size: 400_000, seed: 7)
        tree.nodes["link.png"] = .link("a.png")
        self.tree = tree
        try scene.publish(tree)
    }

    private func pull(_ verifier: ScriptedVerifier, _ include: [String] = [], stop: StopRequest = StopRequest()) throws
        -> Scene.Outcome
    {
        let verification = FileVerification(name: "look", verifier: verifier, include: include.map { Glob($0) })
        return try scene.pull(stop: stop, verifications: [verification])
    }

    @Test("They see the whole file, at a place where nobody else looks")
    func shown() throws {
        let verifier = ScriptedVerifier { _ in .accepted }
        #expect(try pull(verifier).status == .done)
        #expect(Set(verifier.files.map(\.path)) == ["a.png", "b.png", "c.txt", "large.png"])
        for (file, bytes) in zip(verifier.files, verifier.bytes) {
            #expect(bytes.map { [UInt8]($0) } == tree.bytes(file.path), "\(file.path)")
            #expect(file.stagedPath.hasPrefix("/") && file.stagedPath.contains("/.syncagent/staging/"))
            #expect(file.size == UInt64(bytes?.count ?? 0) && file.sha256.count == 64)
        }
        #expect(tree.problems(in: scene.destination) == [])
    }

    @Test("What one refuses is not installed, fails by name, and everything else is there")
    func refused() throws {
        let verifier = ScriptedVerifier { $0.path == "b.png" ? .refused(reason: "no image\u{1B}") : .accepted }
        let outcome = try pull(verifier, ["**/*.png", "*.png"])
        #expect(outcome.status == .incomplete && outcome.report?.files.failed == 1)
        #expect(!FileManager.default.fileExists(atPath: scene.destination + "/b.png"))
        let failed = outcome.events.filter { $0["event"] as? String == "task.failed" }
        #expect(failed.map { $0["path"] as? String } == ["b.png"])
        let reason = failed.first?["reason"] as? String
        #expect(reason?.hasPrefix("refused by verifier look: no image") == true && reason?.contains("\u{1B}") == false)
        #expect(!verifier.files.contains { $0.path == "c.txt" }, "it is for images only")
        var rest = tree
        rest.nodes["b.png"] = nil
        #expect(rest.problems(in: scene.destination) == [])
        // Asked again, the same verifier may have changed its mind.
        #expect(try pull(ScriptedVerifier { _ in .accepted }).status == .done)
        #expect(tree.problems(in: scene.destination) == [])
    }

    @Test("What one could not tell about is not installed, and the verifier is blamed, not the file")
    func unchecked() throws {
        let verifier = ScriptedVerifier { $0.path == "b.png" ? .unchecked(reason: "no database\u{1B}") : .accepted }
        let outcome = try pull(verifier)
        #expect(outcome.status == .incomplete && outcome.report?.files.failed == 1)
        #expect(!FileManager.default.fileExists(atPath: scene.destination + "/b.png"))
        let failed = outcome.events.filter { $0["event"] as? String == "task.failed" }
        let reason = failed.first?["reason"] as? String
        #expect(reason?.hasPrefix("could not be checked before installation: no database") == true)
        #expect(reason?.contains("\u{1B}") == false && failed.count == 1)
    }

    @Test(
        "One that writes to what it is shown fails the file by name, also when it restores size and time [S135]",
        arguments: ["a.png", "large.png"], [true, false])
    func rewriting(path: String, restoresTime: Bool) throws {
        let verifier = ScriptedVerifier { file in
            guard file.path == path else { return .accepted }
            var before = stat()
            #expect(stat(file.stagedPath, &before) == 0)
            let raw = open(file.stagedPath, O_WRONLY)
            #expect(write(raw, "other", 5) == 5)
            close(raw)
            if restoresTime { #expect(utimensat(AT_FDCWD, file.stagedPath, [before.st_atim, before.st_mtim], 0) == 0) }
            return .accepted
        }
        let outcome = try pull(verifier)
        #expect(outcome.status == .incomplete)
        let failed = outcome.events.filter { $0["event"] as? String == "task.failed" }
        #expect(failed.map { $0["path"] as? String } == [path])
        #expect((failed.first?["reason"] as? String)?.contains("verifier look") == true)
        #expect(!FileManager.default.fileExists(atPath: scene.destination + "/" + path))
        #expect(try pull(ScriptedVerifier { _ in .accepted }).status == .done)
        #expect(tree.problems(in: scene.destination) == [])
    }

    @Test("Bytes that somebody changes between a verifier's yes and the move are not installed")
    func changedAfterwards() throws {
        // It is asked about one file and changes them all: as if another process did.
        let second = ScriptedVerifier { [scene] file in
            for name in scene.staged { try? scene.root.write("x", to: "dest/.syncagent/staging/" + name) }
            return .accepted
        }
        let outcome = try scene.pull(verifications: [
            FileVerification(name: "second", verifier: second, include: [Glob("c.txt")])
        ])
        #expect(outcome.status != .done)
        for file in tree.paths where tree.bytes(file) != nil {
            let found = scene.root.read("dest/" + file)
            #expect(found == nil || found == tree.bytes(file), "\(file)")
        }
    }

    @Test("What a stop has kept from being checked stays in staging, and the next run checks it")
    func stopped() throws {
        let stop = StopRequest()
        let verifier = ScriptedVerifier { _ throws(PluginError) in
            stop.stop()
            throw PluginError(plugin: "look", code: .unavailable, message: "it was ended")
        }
        let outcome = try pull(verifier, ["*.png"], stop: stop)
        #expect(outcome.report?.result != .ok && outcome.count("task.failed") == 0)
        #expect(!FileManager.default.fileExists(atPath: scene.destination + "/a.png"))
        #expect(!scene.staged.isEmpty)
        let next = try pull(ScriptedVerifier { _ in .accepted })
        #expect(next.status == .done && next.requests.isEmpty)
        #expect(tree.problems(in: scene.destination) == [])
    }

    @Test("A check that did not happen has not passed [V66 F094]")
    func failing() throws {
        let verifier = ScriptedVerifier { _ throws(PluginError) in
            throw PluginError(plugin: "look", code: .timedOut, message: "no answer within 30 s")
        }
        let outcome = try pull(verifier, ["*.txt"])
        #expect(outcome.status == .incomplete)
        #expect(!FileManager.default.fileExists(atPath: scene.destination + "/c.txt"))
        #expect(FileManager.default.fileExists(atPath: scene.destination + "/a.png"))
    }
}

@Suite("Observers follow", .timeLimit(.minutes(10)))
struct ObserverFeedTests {
    private final class Listener: EventObserver {
        private let heard = Mutex<[[SessionEvent]]>([])
        private let body: @Sendable () throws(PluginError) -> Void

        init(_ body: @escaping @Sendable () throws(PluginError) -> Void = {}) { self.body = body }

        var events: [SessionEvent] { heard.withLock { $0.flatMap(\.self) } }

        func observe(_ events: [SessionEvent]) throws(PluginError) {
            try body()
            heard.withLock { $0.append(events) }
        }
    }

    private func event(_ number: Int) -> SyncEvent {
        SyncEvent(number % 2 == 0 ? .taskRemoved : .pruneFailed, time: 0) {
            if number % 2 != 0 { $0.field("reason", "x") }
            $0.field("path", "\(number)")
        }
    }

    @Test("Every wanted event comes, in order, before the feed is closed")
    func order() {
        let listener = Listener()
        let feed = ObserverFeed(listener, names: ["prune.failed"])
        for number in 0..<2_000 { feed.emit(event(number)) }
        #expect(feed.close(patience: .seconds(20)))
        #expect(listener.events.count == 1_000)
        #expect(listener.events.first?.json.hasSuffix("\"path\":\"1\"}") == true)
        #expect(listener.events.last?.json.hasSuffix("\"path\":\"1999\"}") == true)
    }

    @Test("A feed without events holds no thread and no observer, as where an engine could not be made")
    func unused() {
        weak var listener: Listener?
        do {
            let own = Listener()
            listener = own
            _ = ObserverFeed(own)
        }
        let isGone = listener == nil
        #expect(isGone)
        #expect(ObserverFeed(Listener()).close(patience: .zero))
    }

    @Test("One that hangs is not waited for, which is told of, and what does not fit is counted [V66]")
    func hanging() {
        let failures = Mutex<[PluginError]>([])
        let release = DispatchSemaphore(value: 0)
        let listener = Listener { release.wait() }
        let feed = ObserverFeed(listener, named: "chat") { error in failures.withLock { $0.append(error) } }
        for number in 0..<(ObserverFeed.capacity + 5_000) { feed.emit(event(number)) }
        #expect(!feed.close(patience: .milliseconds(40)))
        #expect(failures.withLock { $0 }.map(\.plugin) == ["chat"])
        for _ in 0..<100 { release.signal() }
        #expect(feed.close(patience: .seconds(20)))
        let dropped = listener.events.first { $0.name == "observer.dropped" }?.json ?? ""
        let told = listener.events.count { $0.name != "observer.dropped" }
        #expect(dropped.contains("\"count\":\(ObserverFeed.capacity + 5_000 - told)"), "\(dropped)")
    }

    @Test("One that fails is told of once and goes on being told [F094]")
    func failing() {
        let failures = Mutex<[PluginError]>([])
        let listener = Listener { () throws(PluginError) in
            throw PluginError(plugin: "chat", code: .refused, message: "no")
        }
        let feed = ObserverFeed(listener) { error in failures.withLock { $0.append(error) } }
        for number in 0..<1_200 { feed.emit(event(number)) }
        #expect(feed.close(patience: .seconds(20)))
        #expect(failures.withLock { $0 }.map(\.message) == ["no"])
    }
}
