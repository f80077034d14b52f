import Foundation
import SyncContent
import SyncFiles
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem
import SyncTestKit
import Testing

import struct Synchronization.Atomic

@testable import SyncEngine

/// A destination, a state directory and a transport of a test's own, and pulls that check themselves.
final class Scene: Sendable {
    static let base = "http://assets.test/tower/"
    static let mirror = "http://mirror.test/tower/"

    let root: TemporaryRoot
    let transport = MemoryTransport()
    let store: SyncStore
    private let numbers = Atomic<UInt64>(42)

    /// - Parameter isDurable: Whether the store is a file, in the state directory.
    init(isDurable: Bool = false) throws {
        root = try TemporaryRoot()
        store = try isDurable ? SyncStore.open(directory: root.path("state"), now: 1, wait: 100) : SyncStore.inMemory()
    }

    deinit { transport.shutdown() }

    var destination: String { root.path("dest") }

    /// Serves a set; with `mirror`, its packs and files there as well.
    @discardableResult func publish(
        _ tree: AssetTree, revision: Int = 1, atMirror: Bool = false, sharing: Bool = false,
        _ configure: (inout ManifestBuilder) -> Void = { _ in }
    ) throws -> PublishedSet {
        var builder = ManifestBuilder(tree)
        builder.revision = revision
        if atMirror { builder.mirrors = [Self.base, Self.mirror] }
        configure(&builder)
        var set = try builder.build()
        if sharing { set.manifest = try Self.sharingBlobs(set.manifest) }
        transport.serve(set.manifest, at: Self.base + "manifest.json")
        for object in set.packs + set.loose {
            transport.serve(object.bytes, at: Self.base + percentEncoded(object.name))
            if atMirror { transport.serve(object.bytes, at: Self.mirror + percentEncoded(object.name)) }
        }
        return set
    }

    /// The manifest with every file pointing at the blobs of the first file with the same content.
    private static func sharingBlobs(_ manifest: [UInt8]) throws -> [UInt8] {
        var document = try #require(try JSONSerialization.jsonObject(with: Data(manifest)) as? [String: Any])
        var known: [String: Any] = [:]
        document["files"] = (document["files"] as? [[String: Any]])?.map { file in
            guard let digest = file["sha256"] as? String, let blobs = file["blobs"] else { return file }
            var file = file
            file["blobs"] = known[digest] ?? blobs
            known[digest] = file["blobs"]
            return file
        }
        return Array(try JSONSerialization.data(withJSONObject: document, options: [.sortedKeys]))
    }

    /// How one pull went.
    struct Outcome {
        var report: PullReport?
        var error: EngineError?
        var events: [[String: Any]]
        var progress: [PullProgress]
        /// Requests of this pull, but not those for the manifest.
        var requests: [MemoryTransport.Asked]
        var manifestRequests: Int
        var received: UInt64

        var status: ExitCode? { report?.status ?? error?.status }

        func count(_ name: String) -> Int { events.count { $0["event"] as? String == name } }

        /// Values of a key in all events of a name.
        func values(_ key: String, of name: String) -> [String] {
            events.filter { $0["event"] as? String == name }.compactMap { $0[key] as? String }
        }
    }

    /// What a pull of this scene is asked to do.
    func options(_ manifest: String = Scene.base + "manifest.json") -> RunRecipe {
        RunRecipe(manifest: manifest, destination: destination)
    }

    /// A disk on which files are made durable.
    struct Disk: Sendable {
        let synchronize: @Sendable (Destination) throws(FileError) -> Void

        /// Its syncfs fails at the call of this number, and never again: the kernel reports a lost write once.
        static func failing(at number: Int) -> Disk {
            let calls = SharedCounter()
            return Disk { destination throws(FileError) in
                if calls.take() + 1 == number { throw FileError(step: "sync", path: destination.path, code: .ioError) }
            }
        }
    }

    /// An engine over this scene's transport.
    func engine(
        _ ear: Ear = Ear(), hooks: (any GroupHook)? = nil, stop: StopRequest = StopRequest(), store: SyncStore? = nil,
        verifications: [FileVerification] = [], disk: Disk? = nil, foldsCase: (@Sendable (Destination) -> Bool)? = nil,
        directoryFoldsCase: (@Sendable (Int32) -> Bool)? = nil
    ) -> PullEngine {
        var environment = EngineEnvironment(
            transport: transport, localTransport: transport, now: { 1_780_000_000_000 },
            random: { [self] in numbers.wrappingAdd(1, ordering: .relaxed).newValue }, workers: 2, process: 1,
            store: store ?? self.store, stateDirectory: root.path("state"), events: EventRecorder { ear.hear($0) },
            progress: { ear.hear($0) }, hooks: hooks, stop: stop)
        environment.isDurable = disk != nil
        if let disk { environment.synchronize = disk.synchronize }
        environment.releasesMemory = false
        environment.verifications = verifications
        if let foldsCase { environment.foldsCase = foldsCase }
        if let directoryFoldsCase { environment.directoryFoldsCase = directoryFoldsCase }
        environment.hookRetryWait = { _ in .zero }
        return PullEngine(environment)
    }

    /// Pulls, and checks the order of events, the progress, and that listeners hear one event at a time.
    func pull(
        hooks: (any GroupHook)? = nil, stop: StopRequest = StopRequest(), store: SyncStore? = nil,
        manifest: String = Scene.base + "manifest.json", verifications: [FileVerification] = [], disk: Disk? = nil,
        location: SourceLocation = #_sourceLocation, _ configure: (inout RunRecipe) -> Void = { _ in }
    ) throws -> Outcome {
        var options = options(manifest)
        configure(&options)
        let ear = Ear()
        let engine = engine(ear, hooks: hooks, stop: stop, store: store, verifications: verifications, disk: disk)
        transport.forget()
        let before = transport.totals.bytesReceived
        var outcome = Outcome(events: [], progress: [], requests: [], manifestRequests: 0, received: 0)
        do throws(EngineError) { outcome.report = try engine.pull(options) } catch { outcome.error = error }
        let heard = ear.all
        outcome.events = try heard.events.map { event in
            try #require(try JSONSerialization.jsonObject(with: Data(event.json.bytes)) as? [String: Any])
        }
        outcome.progress = heard.progress
        outcome.requests = transport.asked.filter { !$0.url.contains("manifest.json") }
        outcome.manifestRequests = transport.asked.count - outcome.requests.count
        outcome.received = transport.totals.bytesReceived - before
        // Hooks that an earlier run owed may come first.
        let own = outcome.report?.run ?? outcome.events.last?["run"] as? String
        let told = outcome.events.filter { $0["run"] as? String == own }
        let story = RunStory(told, earlier: try toldEarlier(in: store ?? self.store, own, told))
        #expect(story.violations == [], sourceLocation: location)
        #expect(try disorder(in: store ?? self.store) == [], sourceLocation: location)
        #expect(heard.overlaps == 0, "listeners hear one event at a time", sourceLocation: location)
        if outcome.report != nil {
            #expect(outcome.events.last?["event"] as? String == "pull.finished", sourceLocation: location)
        }
        Self.check(heard.progress, location)
        #expect(refusedTaskSteps(inEvents: outcome.events) == 0, sourceLocation: location)
        return outcome
    }

    /// Of how many files other processes of a run have told that they are in place.
    private func toldEarlier(in store: SyncStore, _ run: String?, _ told: [[String: Any]]) throws -> Int {
        guard let run, let found = try? store.run(run) else { return 0 }
        let page = try store.events(of: found.session, after: 0, limit: .max)
        let all = page.events.map(\.text).count {
            $0.hasPrefix("{\"event\":\"task.installed\"") && $0.contains("\"run\":\"\(run)\"")
        }
        return all - told.count { $0["event"] as? String == "task.installed" }
    }

    /// Totals are constant, nothing goes back, nothing is more than the total [S117].
    private static func check(_ progress: [PullProgress], _ location: SourceLocation) {
        let progress = progress.drop { $0.phase != .fetching }
        for (earlier, later) in zip(progress, progress.dropFirst()) {
            #expect(earlier.filesTotal == later.filesTotal, sourceLocation: location)
            #expect(earlier.bytesTotal == later.bytesTotal, sourceLocation: location)
            #expect(earlier.filesDone <= later.filesDone, sourceLocation: location)
            #expect(earlier.bytesDone <= later.bytesDone, sourceLocation: location)
        }
        for step in progress {
            #expect(step.filesDone <= step.filesTotal, sourceLocation: location)
            #expect(step.bytesDone <= step.bytesTotal, sourceLocation: location)
        }
    }

    /// What is wrong with the order of all events on record, pulls of other processes included [S29 S30 S31].
    func disorder(in store: SyncStore) throws -> [String] {
        var found: [String] = []
        for session in try store.sessions() {
            let page = try store.events(of: session.identifier, after: 0, limit: .max)
            found += orderComplaints(inEvents: page.events.map(\.text))
            let numbers = page.events.compactMap(\.sequence)
            if numbers != Array(session.prunedSequence..<session.lastSequence).map({ $0 + 1 }) {
                found.append("sequence numbers with gaps")
            }
        }
        return try found + store.findings()
    }

    /// What is wrong in the destination.
    func problems(_ tree: AssetTree, partial: Bool = false) -> [String] {
        tree.problems(in: destination, partial: partial)
    }

    /// The name of every file in staging, below its lane.
    var staged: [String] { AssetTree.read(root.path("dest/.syncagent/staging"), ignoring: []).paths }

    /// Runs `body` while somebody else has the destination.
    func whileLocked<R>(_ body: () throws -> R) throws -> R {
        let other = try Destination.open(path: destination, create: true)
        let lock = try other.lock()
        let result = try body()
        _ = consume lock
        return result
    }

    static func digest(_ bytes: [UInt8]) throws -> SHA256Digest { try bytes.withUnsafeBytes { try sha256($0) } }
}

/// Steps of tasks that the table of their states does not have [S98 S104].
func refusedTaskSteps(inEvents events: [[String: Any]]) -> Int {
    events.filter { $0["event"] as? String == "run.summary" }.reduce(0) {
        $0 + (($1["tasks"] as? [String: Int])?["refused"] ?? 0)
    }
}

/// Keeps what the engine tells.
final class Ear: Sendable {
    struct Heard: Sendable {
        var events: [SyncEvent] = []
        var progress: [PullProgress] = []
        var overlaps = 0
    }
    private let heard = Monitor(Heard())
    private let inside = Atomic(0)

    func hear(_ event: SyncEvent) {
        let others = inside.wrappingAdd(1, ordering: .sequentiallyConsistent).oldValue
        heard.withLock {
            $0.events.append(event)
            if others > 0 { $0.overlaps += 1 }
        }
        inside.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    }

    func hear(_ progress: PullProgress) { heard.withLock { $0.progress.append(progress) } }

    var all: Heard { heard.withLock { $0 } }
}

/// A hook that keeps its calls and answers from a list, then with 0.
final class RecordingHook: GroupHook {
    private struct State: Sendable {
        var calls: [HookInvocation] = []
        var ends: [HookOutcome.End]
    }
    private let state: Monitor<State>
    private let isTransient: Bool
    private let isExhaustion: Bool

    /// - Parameters:
    ///   - isTransient: Whether another call may be better than these.
    ///   - isExhaustion: Whether the system had no process for these.
    init(_ ends: HookOutcome.End..., isTransient: Bool = false, isExhaustion: Bool = false) {
        state = Monitor(State(ends: ends))
        (self.isTransient, self.isExhaustion) = (isTransient, isExhaustion)
    }

    var calls: [HookInvocation] { state.withLock(\.calls) }

    func run(_ invocation: HookInvocation) -> HookOutcome {
        state.withLock { state in
            state.calls.append(invocation)
            let isScripted = !state.ends.isEmpty
            return HookOutcome(
                end: isScripted ? state.ends.removeFirst() : .exited(0), output: "said something\n", milliseconds: 3,
                isTransient: isScripted && isTransient, isExhaustion: isScripted && isExhaustion)
        }
    }
}

/// Foundation has an `ExitStatus` as well.
typealias ExitCode = SyncModel.ExitStatus

extension PullEngine {
    /// Prepares a run and records it for another process.
    func enqueue(preparing recipe: RunRecipe) throws(EngineError) -> (
        run: StoredRun, isContinued: Bool, superseded: [String]
    ) {
        let (start, found, _) = try prepare(recipe)
        return try enqueue(start, of: found)
    }
}
