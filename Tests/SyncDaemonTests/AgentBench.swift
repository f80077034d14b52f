import Foundation
import SyncAgent
import SyncAssembly
import SyncDaemon
import SyncEngine
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncStore
import SyncTestKit
import SyncTransfer
import Synchronization
import Testing

import class SyncSystem.Monitor

/// A published set on a fault server, a state directory, and agents one after the other as processes would be.
final class AgentBench: Sendable {
    let root: TemporaryRoot
    let server: FaultServer
    let tree: AssetTree
    private let opened: Mutex<SyncStore>
    private let shift = Mutex<Int64>(0)
    private let clockReader = Mutex<(@Sendable () -> Void)?>(nil)
    /// Where the clock stands until it is moved, in milliseconds since 1970; `nil` for one that goes as the system's.
    private let stillClock: Int64?

    /// - Parameters:
    ///   - large: **Bytes** of one more file, `large`, that comes by itself; `nil` for none.
    ///   - hasStillClock: Whether time passes only where the test moves it, so that a slow machine changes nothing.
    init(files: Int = 12, large: Int? = nil, hasStillClock: Bool = false) throws {
        stillClock = hasStillClock ? Self.systemTime() : nil
        root = try TemporaryRoot()
        server = try FaultServer()
        var tree = AssetTree()
        for number in 0..<files { tree.addFile("f/\(number)", size: 3_000, seed: UInt64(number)) }
        if let large { tree.addFile("large", size: large, seed: 1_000) }
        self.tree = tree
        opened = Mutex(try SyncStore.open(directory: root.path("state"), now: 1))
        try publish(tree)
    }

    var store: SyncStore { opened.withLock { $0 } }

    /// Ends an agent as SIGKILL would: what is on the disk at this moment is all that is left of it.
    func kill(_ agent: Agent, _ running: Task<Void, Never>) async throws {
        let (left, files) = (root.path("left"), FileManager.default)
        try files.createDirectory(atPath: left, withIntermediateDirectories: true)
        for name in ["state", "files"] { try files.copyItem(atPath: root.path(name), toPath: left + "/" + name) }
        await agent.stop(.release)
        await running.value
        for name in ["state", "files"] {
            try files.removeItem(atPath: root.path(name))
            try files.moveItem(atPath: left + "/" + name, toPath: root.path(name))
        }
        let store = try SyncStore.open(directory: root.path("state"), now: 1)
        opened.withLock { $0 = store }
    }

    /// Files in staging with what they hold.
    var staged: [String: [UInt8]] {
        let below = AssetTree.read(root.path("files/.syncagent/staging"), ignoring: [])
        return Dictionary(uniqueKeysWithValues: below.paths.compactMap { path in below.bytes(path).map { (path, $0) } })
    }

    var destination: String { root.path("files") }
    var manifest: String { server.url("/tower/manifest.json") }

    func publish(_ tree: AssetTree, revision: Int = 1) throws {
        var builder = ManifestBuilder(tree)
        builder.revision = revision
        builder.packSize = 8_000
        builder.looseAbove = 100_000
        let set = try builder.build()
        server.serve(ServedObject(set.manifest), at: "/tower/manifest.json")
        for object in set.packs + set.loose { server.serve(ServedObject(object.bytes), at: "/tower/\(object.name)") }
    }

    /// Packs stop in the middle from here on, until ``free()``.
    func stall() {
        server.respondToOthers { _ in .status(404, text: "no") }
        for path in packPaths {
            let object = objects[path] ?? ServedObject([])
            // An answer that goes on where another one stalled brings nothing.
            server.respond(to: path) { request in
                let goesOn = request.header("range").map { !$0.hasPrefix("bytes=0-") } ?? false
                return .object(object).stalling(at: goesOn ? 0 : Self.stallPoint(path))
            }
        }
    }

    /// Where the large file is served.
    static let largePath = "/tower/files/large"

    /// Only the large file stops in the middle of each answer, until it is published again.
    ///
    /// - Parameter position: **Bytes** that each answer brings before it stops.
    func stallLarge(at position: Int = stallPoint(largePath)) {
        let path = AgentBench.largePath
        let object = objects[path] ?? ServedObject([])
        server.respond(to: path) { _ in .object(object).stalling(at: position) }
    }

    /// **Bytes** that come of an object before it stalls.
    static func stallPoint(_ path: String) -> Int { path.hasSuffix("large") ? 1_500_000 : 1_000 }

    /// Packs come whole again.
    func free() {
        for path in packPaths { server.serve(objects[path] ?? ServedObject([]), at: path) }
        server.releaseStalls()
    }

    /// What is served at one of ``packPaths``.
    func object(_ path: String) -> ServedObject { objects[path] ?? ServedObject([]) }

    /// Where packs are served.
    var packPaths: [String] { objects.keys.sorted() }

    /// What is served there.
    var objects: [String: ServedObject] {
        var builder = ManifestBuilder(tree)
        builder.packSize = 8_000
        builder.looseAbove = 100_000
        guard let set = try? builder.build() else { return [:] }
        return Dictionary(
            uniqueKeysWithValues: (set.packs + set.loose).map { ("/tower/\($0.name)", ServedObject($0.bytes)) })
    }

    func hook(_ body: String) throws -> String {
        try root.write(Array("#!/bin/sh\n\(body)\n".utf8), to: "hook.sh", executable: true)
        return root.path("hook.sh")
    }

    func request(hook: String? = nil) -> EnqueueRequest {
        var request = EnqueueRequest(manifest: manifest, destination: destination)
        if let hook { request.hooks = [.init(arguments: [hook])] }
        return request
    }

    /// Moves the wall clock.
    func advance(_ duration: Duration) { shift.withLock { $0 += Int64(duration / .milliseconds(1)) } }

    /// Has engines call this whenever their work looks at the clock, on whatever thread that is.
    func whenClockIsRead(_ call: @escaping @Sendable () -> Void) { clockReader.withLock { $0 = call } }

    private func clockIsRead() {
        let call = clockReader.withLock { $0 }
        call?()
    }

    func now() -> Int64 { (stillClock ?? Self.systemTime()) + shift.withLock { $0 } }

    private static func systemTime() -> Int64 { Int64((Date().timeIntervalSince1970 * 1000).rounded()) }

    func agent(
        onDemand: Bool = false, jobs: Int = 2, process: Int32 = 1, _ change: (inout AgentEnvironment) -> Void = { _ in }
    ) -> Agent {
        var environment = AgentEnvironment(
            store: store, stateDirectory: root.path("state"), version: "test", process: process,
            now: { [self] in now() },
            // A clock that is moved must be looked at now and then.
            sleep: { try await Task.sleep(for: min($0, .milliseconds(20))) }, log: { _ in },
            engine: { [self] needs in
                Self.engine(store, root.path("state"), needs, reading: { self.clockIsRead() }, now: { self.now() })
            })
        environment.isOnDemand = onDemand
        environment.maximumRuns = jobs
        environment.idleTime = .milliseconds(50)
        change(&environment)
        return Agent(environment)
    }

    private static func engine(
        _ store: SyncStore, _ stateDirectory: String, _ needs: EngineRequest, reading: @escaping @Sendable () -> Void,
        now: @escaping @Sendable () -> Int64
    ) -> Result<AssembledEngine, ControlError> {
        let start = ContinuousClock.now
        let client = Monitor(needs)
        let events = EventRecorder { client.withLock(\.listener)($0) }
        var configuration = TransportConfiguration(
            clock: TransportClock(now: { ContinuousClock.now - start }, unixTime: { now() / 1_000 }),
            random: { .random(in: .min ... .max) }, events: { events.emit(transfer: $0, time: now()) })
        configuration.connections = needs.recipe?.settings.connections ?? 4
        configuration.connectionsPerHost = needs.recipe?.settings.connections ?? 4
        if let deadline = needs.deadline { configuration.resourceDeadline = deadline }
        do {
            let transport = try CurlTransport(configuration: configuration)
            var environment = EngineEnvironment(
                transport: transport, localTransport: FileTransport(),
                now: {
                    reading()
                    return now()
                }, random: { .random(in: .min ... .max) },
                workers: 2, process: 1, store: store, stateDirectory: stateDirectory, events: events,
                progress: { step in
                    client.withLock(\.progress)(step)
                    try? events.flush()
                }, hooks: ProgramHook(environment: ["PATH": "/usr/bin:/bin"]), stop: needs.stop)
            environment.isDurable = false
            environment.releasesMemory = false
            environment.hookRetryWait = { _ in .zero }
            return .success(
                AssembledEngine(PullEngine(environment), for: client, web: transport) { transport.shutdown() })
        } catch { return .failure(ControlError(.internal, "\(error)", exitStatus: .internalError)) }
    }

    /// Waits until the session's newest run is in a state.
    func until(_ state: RunState, session: String = "com.example.tower") async throws {
        for _ in 0..<2_000 {
            if try store.runs(session: session, limit: 1).first?.state == state { return }
            try await Task.sleep(for: .milliseconds(5))
        }
        let found = try store.runs(session: session, limit: 1).first
        Issue.record("the run is \(found?.state.rawValue ?? "not there"), \(found?.error ?? "no error"), not \(state)")
    }

    func eventNames(_ session: String = "com.example.tower") throws -> [String] {
        try events(session).compactMap { $0["event"] as? String }
    }

    func events(_ session: String = "com.example.tower") throws -> [[String: Any]] {
        try store.events(of: session, after: 0, limit: .max).events.map { event in
            try #require(try JSONSerialization.jsonObject(with: Data(event.line)) as? [String: Any])
        }
    }

    /// What is wrong with the order of all events of a session, and with the store [S29 S30 S31].
    func disorder(_ session: String = "com.example.tower") throws -> [String] {
        let page = try store.events(of: session, after: 0, limit: .max)
        var found = orderComplaints(inEvents: page.events.map(\.text))
        if page.events.compactMap(\.sequence) != Array(page.prunedSequence..<page.lastSequence).map({ $0 + 1 }) {
            found.append("sequence numbers with gaps")
        }
        return try found + store.findings()
    }
}

/// Runs an agent for the time of `body`, then stops it.
func whileRunning<R>(_ agent: Agent, ending mode: AgentStop = .release, _ body: () async throws -> R) async throws -> R
{
    let running = Task { await agent.run() }
    let result: R
    do { result = try await body() } catch {
        await agent.stop(mode)
        await running.value
        throw error
    }
    await agent.stop(mode)
    await running.value
    return result
}
