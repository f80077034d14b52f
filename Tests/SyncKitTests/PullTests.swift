import Foundation
import SyncKit
import SyncModel
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
        for name in ["a.png", "b.png", "sheets/c.txt"] { tree.addFile(name, size: 900, seed: UInt64(name.count)) }
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
    var installed: Set<String> { Set(compactMap { if case .installed(let file) = $0 { file.path } else { nil } }) }

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

@Suite("Options that no pull can be made with", .timeLimit(.minutes(10)))
struct OptionTests {
    private static let year = 366 * 86_400
    private typealias Change = @Sendable (inout Sync.Options) -> Void

    /// The word that must be in the message, and what is wrong.
    private static let faults: [(word: String, set: Change)] = {
        var faults: [(word: String, set: Change)] = [
            ("limitRate", { $0.settings.limitRate = 0 }), ("revision", { $0.revision = 0 }),
            ("channel", { $0.channel = "../x" }), ("stateDirectory", { $0.stateDirectory = "" }),
            ("hook", { $0.hooks = [RunHook(arguments: [])] }),
            ("hook", { $0.hooks = [RunHook(arguments: ["relative"])] }),
            ("hook", { $0.hooks = [RunHook(arguments: ["https://u:p@chat.example/"])] }),
            ("hook", { $0.hooks = [RunHook(arguments: ["plugin:none"])] }),
            ("results", { $0.hooks = [RunHook(arguments: ["/bin/true"], results: [RunResult]())] }),
        ]
        for count in [-1, 0, 65, Int.max, .min] { faults.append(("connections", { $0.settings.connections = count })) }
        for time in [Duration.zero, .seconds(-1), .seconds(Int64.min)] {
            faults.append(("patience", { $0.settings.patience = time }))
        }
        for seconds in [-1, 0, year + 1, Int.max, .min] {
            faults.append(("timeout", { $0.hooks = [RunHook(arguments: ["/bin/true"], timeout: seconds)] }))
        }
        for count in [-1, 0, 10_001, Int.max, .min] {
            faults.append(("batch", { $0.hooks = [RunHook(arguments: ["/bin/true"], batch: count)] }))
        }
        return faults
    }()

    @Test("Each is refused by its name, and nothing happens", arguments: faults.indices)
    func refused(index: Int) async throws {
        let root = try TemporaryRoot()
        var options = Sync.Options()
        options.stateDirectory = root.path("state")
        Self.faults[index].set(&options)
        let pull = Sync.pull("http://127.0.0.1:1/m.json", into: root.path("tower"), options: options)
        let error = await #expect(throws: Sync.Failure.self) { for try await _ in pull {} }
        #expect(error?.status == .usage)
        #expect(error?.description.contains(Self.faults[index].word) == true, "\(error?.description ?? "")")
        #expect(!FileManager.default.fileExists(atPath: root.path("tower")))
    }

    @Test("The largest and the smallest that there are work")
    func extremes() async throws {
        let scene = try KitScene()
        for (rate, patience) in [(UInt64.max, Duration.seconds(Int64.max)), (UInt64(1 << 20), .seconds(6))] {
            var options = scene.options
            options.settings.limitRate = rate
            (options.settings.patience, options.settings.connections) = (patience, 64)
            options.hooks = [RunHook(arguments: ["/bin/true"], timeout: Self.year, batch: 10_000)]
            for try await event in Sync.pull(scene.manifest, into: scene.destination, options: options) {
                if case .finished(let summary) = event { #expect(summary.status == .done) }
            }
        }
    }

    @Test("A list of files with sizes that nobody has ends with an error", arguments: [UInt64.max, 1 << 62])
    func sizes(size: UInt64) async throws {
        let root = try TemporaryRoot()
        var options = Sync.Options()
        options.stateDirectory = root.path("state")
        options.settings.patience = .seconds(6)
        let digest = String(repeating: "0", count: 64)
        let files = (0..<8).map {
            Sync.Entry(path: "\($0)", size: size, sha256: digest, urls: ["http://127.0.0.1:1/\($0)"])
        }
        var status: SyncModel.ExitStatus?
        do {
            for try await event in Sync.pull(files, project: "p", into: root.path("tower"), options: options) {
                if case .finished(let summary) = event { status = summary.status }
            }
        } catch let error as Sync.Failure { status = error.status }
        #expect(status.map { ![.done, .internalError].contains($0) } == true, "\(status.debugDescription)")
    }

    @Test("No destination is none, and not the current directory")
    func nowhere() async throws {
        let pull = Sync.pull("http://127.0.0.1:1/m.json", into: "")
        let error = await #expect(throws: Sync.Failure.self) { for try await _ in pull {} }
        #expect(error?.status == .usage && error?.description.contains("destination") == true)
    }
}

@Suite("Pulls in a program of one's own", .timeLimit(.minutes(10)))
struct PullTests {
    @Test("A pull can be planned, waited for and verified without its events")
    func withoutEvents() async throws {
        let scene = try KitScene()
        func verify() async throws -> [Sync.FailedFile] {
            try await Sync.verify(scene.manifest, into: scene.destination, options: scene.options)
        }
        let plan = try await Sync.plan(scene.manifest, into: scene.destination, options: scene.options)
        #expect(plan.files == 4 && plan.unchanged == 0 && plan.requests > 0 && plan.bytes >= 2_700)
        #expect(!FileManager.default.fileExists(atPath: scene.destination + "/a.png"))
        let missing = await #expect(throws: Sync.Failure.self) { try await verify() }
        #expect(missing?.status == .noInput)
        let summary = try await scene.pull().summary()
        #expect(summary.status == .done && summary.files.installed == 4)
        #expect(try await verify() == [])
        try Data("other".utf8).write(to: URL(fileURLWithPath: scene.destination + "/a.png"))
        #expect(try await verify().map(\.path) == ["a.png"])
    }

    @Test("Patterns, headers and files of trust are options as those of the command")
    func sameOptions() async throws {
        let scene = try KitScene()
        var options = scene.options
        options.include = ["sheets"]
        options.settings.headers = [.line("X-Key: canary")]
        let pull = Sync.pull(scene.manifest, into: scene.destination, options: options)
        #expect(try await pull.summary().files.installed == 1)
        #expect(scene.server.log.entries.allSatisfy { $0.request.header("x-key") == "canary" })
        // No secret is kept with the run.
        let state = AssetTree.read(scene.root.path("state"))
        #expect(state.paths.contains("syncagent.sqlite"))
        #expect(state.paths.filter { state.bytes($0)?.firstRange(of: Array("canary".utf8)) != nil } == [])
        options.settings.authorities = scene.root.path("none.pem")
        let refused = Sync.pull(scene.manifest, into: scene.destination, options: options)
        let error = await #expect(throws: Sync.Failure.self) { try await refused.summary() }
        #expect(error?.status == .configuration && error?.description.contains("none.pem") == true)
        options.notBefore = WallTime(milliseconds: 1)
        let late = Sync.pull(scene.manifest, into: scene.destination, options: options)
        let usage = await #expect(throws: Sync.Failure.self) { try await late.summary() }
        #expect(usage?.status == .usage)
    }

    @Test("Every file comes, every event is a value, the summary is last")
    func whole() async throws {
        let scene = try KitScene()
        let events = try await scene.events()
        #expect(scene.tree.problems(in: scene.destination) == [])
        guard case .started(let started)? = events.first(where: { if case .started = $0 { true } else { false } })
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
        plugins.verifiers = [Verifier { $0.path == "b.png" ? .refused(reason: "no image") : .accepted }]
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
            })
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
            do { summary = try await scene.events().summary } catch let failure as Sync.Failure
                where failure.status == .busy
            { try await Task.sleep(for: .milliseconds(20)) }
        }
        #expect(summary?.result == .ok)
        #expect(scene.tree.problems(in: scene.destination) == [])
    }

    @Test("What cannot be tried is thrown, with what the command would exit with")
    func failures() async throws {
        let scene = try KitScene()
        let missing = Sync.pull(scene.server.url("/nothing.json"), into: scene.destination, options: scene.options)
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
        let document = try #require(try JSONSerialization.jsonObject(with: Data(set.manifest)) as? [String: Any])
        let files = try #require(document["files"] as? [[String: Any]])
        let entries = files.compactMap { file -> Sync.Entry? in
            guard let path = file["path"] as? String, let size = file["size"] as? Int,
                let digest = file["sha256"] as? String, let urls = file["urls"] as? [String]
            else { return nil }
            let absolute = urls.map { scene.server.url("/loose/\($0)") }
            return Sync.Entry(path: path, size: UInt64(size), sha256: digest, urls: absolute)
        }
        try #require(entries.count == 3)
        let pull = Sync.pull(entries, project: "com.example.list", into: scene.destination, options: scene.options)
        var last: Sync.Event?
        for try await event in pull { last = event }
        guard case .finished(let summary)? = last else {
            Issue.record("\(String(describing: last))")
            return
        }
        #expect(summary.result == .ok && summary.session == "com.example.list" && summary.files.installed == 3)
        #expect(scene.tree.bytes("sheets/c.txt") == scene.root.read("tower/sheets/c.txt"))
    }

    @Test("Lists of files of projects with long names are kept apart, also where the names begin alike")
    func longNames() async throws {
        let scene = try KitScene()
        scene.server.serve(ServedObject(Array("one".utf8)), at: "/one")
        let digest = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
        let entry = Sync.Entry(path: "one", size: 3, sha256: digest, urls: [scene.server.url("/one")])
        let projects = ["one", "two"].map { String(repeating: "a", count: 200) + $0 }
        for project in projects {
            let pull = Sync.pull([entry], project: project, into: scene.root.path(project), options: scene.options)
            for try await _ in pull {}
        }
        let lists = try FileManager.default.contentsOfDirectory(atPath: scene.root.path("state/entries")).map {
            String(decoding: scene.root.read("state/entries/\($0)") ?? [], as: UTF8.self)
        }
        #expect(lists.count == 2)
        for project in projects { #expect(lists.contains { $0.contains(project) }) }
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
            for try await event in pull { if case .blocked = event { withUnsafeCurrentTask { $0?.cancel() } } }
        }
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    private final class Ear: EventObserver {
        let names = Mutex<[String]>([])

        func observe(_ events: [SessionEvent]) { names.withLock { $0 += events.map(\.name) } }
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
            .deletingLastPathComponent().appendingPathComponent("Documentation/reference/Events.md")
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
