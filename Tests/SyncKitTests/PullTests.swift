import Foundation
import SyncKit
import SyncTestKit
import Synchronization
import Testing

/// A published set behind a server, and a directory for everything else.
struct KitScene: Sendable {
    let server: FaultServer
    let root: TemporaryRoot
    let tree: AssetTree

    init(_ tree: AssetTree = KitScene.small) throws {
        server = try FaultServer()
        root = try TemporaryRoot()
        self.tree = tree
        try ManifestBuilder(tree).build().mount(on: server)
    }

    static var small: AssetTree {
        var tree = AssetTree()
        for name in ["a.png", "b.png", "sheets/c.txt"] {
            tree.addFile(name, size: 900, seed: UInt64(name.count))
        }
        tree.nodes["link.png"] = .link("a.png")
        return tree
    }

    var manifest: String { server.url("/tower/manifest.json") }
    var destination: String { root.path("tower") }

    var options: Sync.Options {
        var options = Sync.Options()
        options.stateDirectory = root.path("state")
        return options
    }

    func pull(_ plugins: Sync.Plugins = Sync.Plugins()) -> Sync.Pull {
        Sync.pull(manifest, into: destination, options: options, plugins: plugins)
    }

    /// All events of a pull.
    func events(_ plugins: Sync.Plugins = Sync.Plugins()) async throws -> [Sync.Event] {
        var events: [Sync.Event] = []
        for try await event in pull(plugins) { events.append(event) }
        return events
    }
}

extension [Sync.Event] {
    var installed: Set<String> {
        Set(compactMap { if case .installed(let file) = $0 { file.path } else { nil } })
    }

    /// `nil` unless it is the last of them.
    var summary: Sync.Summary? { if case .finished(let summary)? = last { summary } else { nil } }
}

/// Decides as a closure says.
private struct Verifier: FileVerifier {
    let verdict: @Sendable (StagedFile) -> FileVerdict

    func verify(_ files: [StagedFile]) -> [FileVerdict] { files.map(verdict) }
}

private struct Hook: GroupHook {
    let seen: @Sendable (HookInvocation) -> Void

    func run(_ invocation: HookInvocation) -> HookOutcome {
        seen(invocation)
        return HookOutcome(end: .exited(0), output: "", milliseconds: 1)
    }
}

@Suite("Pulls in a program of one's own", .timeLimit(.minutes(10)))
struct PullTests {
    @Test("Every file comes, every event is a value, the summary is last")
    func whole() async throws {
        let scene = try KitScene()
        let events = try await scene.events()
        #expect(scene.tree.problems(in: scene.destination) == [])
        guard
            case .started(let started)? = events.first(where: {
                if case .started = $0 { true } else { false }
            })
        else {
            Issue.record("it was not started: \(events)")
            return
        }
        #expect(started.project == "com.example.tower" && started.destination == scene.destination)
        #expect(events.installed == ["a.png", "b.png", "sheets/c.txt", "link.png"])
        #expect(events.contains { if case .planned(let plan) = $0 { plan.files == 4 } else { false } })
        #expect(events.contains { $0 == .groupCompleted(name: "all", result: .ok) })
        let summary = try #require(events.summary)
        #expect(summary.result == .ok && summary.status == .done && summary.files.installed == 4)
        #expect(summary.run == started.run && summary.received > 0 && summary.requests > 0)

        // Walked through again, there is nothing to do.
        let again = try #require(try await scene.events().summary)
        #expect(again.files.unchanged == 4 && again.files.installed == 0)
    }

    @Test("A verifier in Swift keeps a file out, by name; a hook in Swift is called")
    func plugins() async throws {
        let scene = try KitScene()
        var plugins = Sync.Plugins()
        plugins.verifiers = [
            Verifier { $0.path == "b.png" ? .refused(reason: "no image") : .accepted }
        ]
        let called = Mutex<[String: String]>([:])
        plugins.hooks["reindex"] = Hook { invocation in called.withLock { $0 = invocation.environment } }
        let events = try await scene.events(plugins)
        let failed = events.compactMap { if case .failed(let file) = $0 { file } else { nil } }
        #expect(failed.map(\.path) == ["b.png"] && failed[0].cause == .rejected)
        #expect(failed[0].reason.contains("no image"))
        #expect(!FileManager.default.fileExists(atPath: scene.destination + "/b.png"))
        #expect(events.summary?.result == .partial && events.summary?.status == .incomplete)
        #expect(called.withLock { $0["SYNCAGENT_RESULT"] } == "partial")
        #expect(
            events.contains {
                if case .hookFinished(let call, _, _) = $0 { call.program == "plugin:reindex" } else { false }
            }
        )
    }

    @Test("Cancelling the task stops the pull, keeps what came, and says so")
    func cancelled() async throws {
        var tree = AssetTree()
        tree.addFile("first.bin", size: 60_000, seed: 1)
        tree.addFile("last.bin", size: 60_000, seed: 2)
        let scene = try KitScene(tree)
        // Shown the second file, the verifier waits until the pull has been cancelled.
        let isHeld = Mutex(false)
        let goesOn = DispatchSemaphore(value: 0)
        var plugins = Sync.Plugins()
        plugins.verifiers = [
            Verifier { _ in
                isHeld.withLock { $0 = true }
                goesOn.wait()
                goesOn.signal()
                return .accepted
            }
        ]
        let pull = scene.pull(plugins)
        let task = Task {
            var summaries = 0
            for try await event in pull { if case .finished = event { summaries += 1 } }
            return summaries
        }
        while !isHeld.withLock({ $0 }) { try await Task.sleep(for: .milliseconds(5)) }
        task.cancel()
        goesOn.signal()
        switch await task.result {
        case .success(let summaries): #expect(summaries == 1, "it was done before it heard of it")
        case .failure(let error): #expect(error is CancellationError, "\(error)")
        }
        // Nobody holds the session: the next one goes on.
        let next = try #require(try await scene.events().summary)
        #expect(next.result == .ok)
        #expect(tree.problems(in: scene.destination) == [])
    }

    @Test("Leaving the loop stops the pull; the next one waits for nobody")
    func left() async throws {
        let scene = try KitScene(.manySmall(300))
        for try await event in scene.pull() { if case .started = event { break } }
        var summary: Sync.Summary?
        // The one before it may still be at its checkpoint.
        while summary == nil {
            do {
                summary = try await scene.events().summary
            } catch let failure as Sync.Failure where failure.status == .busy {
                try await Task.sleep(for: .milliseconds(20))
            }
        }
        #expect(summary?.result == .ok)
        #expect(scene.tree.problems(in: scene.destination) == [])
    }

    @Test("What cannot be tried is thrown, with what the command would exit with")
    func failures() async throws {
        let scene = try KitScene()
        let missing = Sync.pull(
            scene.server.url("/nothing.json"),
            into: scene.destination,
            options: scene.options
        )
        let error = await #expect(throws: Sync.Failure.self) { for try await _ in missing {} }
        #expect(error?.status == .noInput && error?.description.contains("nothing.json") == true)
    }

    @Test("Files can be named without a manifest that somebody has published")
    func entries() async throws {
        let scene = try KitScene()
        var builder = ManifestBuilder(scene.tree)
        builder.looseAbove = 0
        let set = try builder.build()
        set.mount(on: scene.server, under: "/loose")
        let document = try #require(
            try JSONSerialization.jsonObject(with: Data(set.manifest)) as? [String: Any]
        )
        let files = try #require(document["files"] as? [[String: Any]])
        let entries = files.compactMap { file -> Sync.Entry? in
            guard let path = file["path"] as? String, let size = file["size"] as? Int,
                let digest = file["sha256"] as? String, let urls = file["urls"] as? [String]
            else { return nil }
            let absolute = urls.map { scene.server.url("/loose/\($0)") }
            return Sync.Entry(path: path, size: UInt64(size), sha256: digest, urls: absolute)
        }
        try #require(entries.count == 3)
        let pull = Sync.pull(
            entries,
            project: "com.example.list",
            into: scene.destination,
            options: scene.options
        )
        var last: Sync.Event?
        for try await event in pull { last = event }
        guard case .finished(let summary)? = last else {
            Issue.record("\(String(describing: last))")
            return
        }
        #expect(
            summary.result == .ok && summary.session == "com.example.list" && summary.files.installed == 3
        )
        #expect(scene.tree.bytes("sheets/c.txt") == scene.root.read("tower/sheets/c.txt"))
    }

    /// Blocks until somebody says otherwise.
    private struct Gate: Condition {
        let name = "gate"
        let isOpen: @Sendable () -> Bool

        func state(in context: ConditionContext) -> ConditionState {
            isOpen() ? .ok : .blocked(reason: "closed", until: context.now + 100)
        }
    }

    @Test("A condition in Swift lets it wait, and says why; a cancelled wait ends")
    func conditions() async throws {
        let scene = try KitScene()
        let looks = Atomic(0)
        var plugins = Sync.Plugins()
        plugins.conditions = [Gate { looks.add(1, ordering: .relaxed).newValue > 1 }]
        let events = try await scene.events(plugins)
        #expect(events.first == .blocked(condition: "gate", reason: "closed"))
        #expect(events.dropFirst().first == .unblocked(condition: "gate"))
        #expect(events.summary?.result == .ok)

        plugins.conditions = [Gate { false }]
        let pull = scene.pull(plugins)
        let task = Task {
            for try await event in pull {
                if case .blocked = event { withUnsafeCurrentTask { $0?.cancel() } }
            }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    private final class Ear: EventObserver {
        let names = Mutex<[String]>([])

        func observe(_ events: [ObservedEvent]) { names.withLock { $0 += events.map(\.name) } }
    }

    @Test("An observer hears every event")
    func observer() async throws {
        let scene = try KitScene()
        let ear = Ear()
        var plugins = Sync.Plugins()
        plugins.observers = [ear]
        _ = try await scene.events(plugins)
        let names = ear.names.withLock { $0 }
        #expect(names.contains("run.started") && names.contains("pull.finished"))
    }

    @Test("Every cause that a file's failure has on record is a case; what later versions know is another")
    func causes() throws {
        let page = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Documentation/Events.md")
        let lines = try String(contentsOf: page, encoding: .utf8).split(separator: "\n")
        let start = try #require(lines.firstIndex { $0.hasPrefix("### `task.failed`") })
        let line = try #require(lines[start...].first { $0.hasPrefix("| `cause` |") })
        let said = Set(line.matches(of: /`([a-z_]+)`/).map { String($0.1) }).subtracting(["cause"])
        #expect(said.isSubset(of: Set(FailureCause.allCases.map(\.rawValue))), "\(said)")
        #expect(said.count >= 10)
        let later = #"{"event":"task.failed","path":"a","reason":"r","cause":"of_the_future"}"#
        guard case .failed(let file)? = Sync.Event(json: Array(later.utf8)) else {
            Issue.record("it is no event")
            return
        }
        #expect(file.cause == .other)
    }

    @Test("Events of the agent are the same values")
    func ofAgent() {
        let line =
            #"{"seq":7,"event":"task.removed","time":"2026-11-23T04:22:55.109Z","session":"t","run":"r","path":"a/b"}"#
        #expect(Sync.Event(json: Array(line.utf8)) == .removed(path: "a/b"))
        #expect(Sync.Event(json: Array("no event".utf8)) == nil)
        let other = #"{"event":"metrics.failed","reason":"x"}"#
        #expect(Sync.Event(json: Array(other.utf8)) == .other(name: "metrics.failed", json: other))
        // A field that a later version has changed does not lose the event.
        let odd = #"{"event":"task.installed","path":7}"#
        #expect(Sync.Event(json: Array(odd.utf8)) == .other(name: "task.installed", json: odd))
    }
}
