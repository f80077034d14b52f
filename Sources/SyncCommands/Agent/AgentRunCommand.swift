import ArgumentParser
import Foundation
import Logging
import SyncAgent
import SyncAssembly
import SyncDaemon
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSchedule
import SyncSystem
import SyncTransfer

struct AgentRunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Process background runs until SIGTERM or SIGINT.",
        discussion: """
            Runs in the foreground and logs to standard error; under systemd use Type=notify. Commands that need an \
            agent start one themselves with --on-demand, and it exits when there is nothing left to do.

            On SIGTERM or SIGINT, runs in progress stop at a checkpoint within two seconds, and the next agent continues \
            them. Exit status: 0 stopped, 75 another agent is running.
            """)

    @Flag(help: "Exit when there is nothing left to do, and silently if another agent is running.") var onDemand = false

    @Option(help: "How many runs to process at a time, 1 to 64.".taking("n")) var jobs = 2

    @Option(
        help: "The most bytes per second for all runs together, such as 10MB.  (default: agent_limit_rate)".taking(
            "rate"), transform: positiveByteCount)
    var limitRate: ByteCount?

    @Flag(help: "Take over from a running agent, as an upgrade does.") var replace = false

    func validate() throws {
        guard (1...64).contains(jobs) else { throw ValidationError("--jobs takes 1 to 64, not \(jobs).") }
    }

    func run() async throws {
        CurrentProcess.clearUmask()
        let output = Output()
        let state = try StateAccess(output: output)
        let lock = try await lock(state)
        var logger = Logger(label: "agent") { _ in AgentLog(output: output) }
        logger.logLevel = .info

        try await Self.serve(try agent(state, logger), lock, logger)
    }

    /// Takes the agent's lock. With `--replace`, first asks its holder to hand over.
    private func lock(_ state: StateAccess) async throws -> FileLock {
        if let lock = try Self.takeLock(of: state.place) { return lock }
        guard replace else {
            // If two clients start an agent each, both use the same one.
            throw CommandFailure(.busy, onDemand ? "" : "Another agent is running. --replace takes over from it.")
        }
        let end = ContinuousClock.now + .seconds(30)
        var next = ContinuousClock.now
        var problem = ""
        while ContinuousClock.now < end {
            if ContinuousClock.now >= next {
                // Again and again: an agent that is just starting cannot be asked yet, and another may take its place.
                do {
                    try await state.sayingWhatKeeps { try await state.client.stop(.handover) }
                    problem = ""
                } catch let error as ControlError {
                    // The agent may be ending already: the lock tells.
                    problem = " It cannot be asked to hand over: \(error.message)"
                }
                next = .now + .seconds(1)
            }
            if let lock = try Self.takeLock(of: state.place) { return lock }
            try await Task.sleep(for: .milliseconds(20))
        }
        throw CommandFailure(.busy, "The running agent did not exit within 30 s.\(problem)")
    }

    /// Takes the right to be a user's agent: a lock on `agent.lock` in the state directory. One process at a time has
    /// it, and the kernel releases it when that process ends. `nil` if another process has it, or had it and still
    /// listens, after somebody has removed the file.
    private static func takeLock(of place: AgentPlace) throws(CommandFailure) -> FileLock? {
        let path = place.stateDirectory + "/agent.lock"
        do throws(FileError) {
            let directory = try openStateDirectory(place.stateDirectory, create: true)
            let file = try openFile(
                "agent.lock", in: directory.raw, [.readWrite, .create], trust: .ownState, shown: path)
            let lock = try FileLock.take(file, path: path)
            if place.isServed { return nil }
            lock?.sign("\(CurrentProcess.identifier)")
            return lock
        } catch { throw CommandFailure(.cannotCreate, error.ofState) }
    }

    /// Runs the agent with its control API until it is stopped by a client, a signal or itself.
    private static func serve(_ agent: Agent, _ lock: FileLock, _ logger: Logger) async throws {
        let stopRequest = StopSignals.firstRequest()
        let notice = ServiceNotice()
        let turns = ServingTurns()
        // Two of the tasks are the agent; the others only watch, and end with it.
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                await stopRequest()
                if !Task.isCancelled { await agent.stop(.release) }
                return false
            }
            group.addTask {
                await watch(notice)
                return false
            }
            group.addTask {
                do { try await answerInTurns(agent, turns, lock, notice, logger) } catch {
                    // An agent without a control API is of no use.
                    await agent.stop(.release)
                    throw error
                }
                return true
            }
            group.addTask {
                await agent.run()
                notice.stopping()
                turns.finish()
                return true
            }
            var ended = 0
            while ended < 2, let isPart = try await group.next() { ended += isPart ? 1 : 0 }
            group.cancelAll()
        }
        withExtendedLifetime(lock) {}
        logger.info("stopped")
    }

    /// Answers clients until the agent has ended, on a new socket whenever the last one is lost.
    ///
    /// - Throws: If the socket cannot be created: at the start at once, or after one more attempt if another agent has
    ///   it; later after ten more attempts.
    private static func answerInTurns(
        _ agent: Agent, _ turns: ServingTurns, _ lock: FileLock, _ notice: ServiceNotice, _ logger: Logger
    ) async throws {
        var tries = 0
        while let isOver = turns.next() {
            do {
                try await answer(agent, until: isOver, lock, notice, logger)
                tries = 10
            } catch let error as ControlError where tries > 0 || tries == 0 && error.code == .busy {
                // If the directory is just being removed, as when a login ends, it is gone a moment later; and
                // an agent that started at the same moment is found then.
                tries -= 1
                logger.warning("\(error.message) It is tried again.")
                try? await Task.sleep(for: .seconds(1))
            }
        }
    }

    /// Answers clients until the agent has ended, or until its socket is gone or replaced: no client would find it any
    /// more.
    private static func answer(
        _ agent: Agent, until isOver: AsyncStream<Void>, _ lock: FileLock, _ notice: ServiceNotice, _ logger: Logger
    ) async throws {
        // An agent that listens there has another state directory, since this one is locked.
        let place = try EnvironmentPaths.ofProcess.ownAgentPlace().unshared
        lock.sign(place.signature)
        let server = ControlServer(
            of: agent, socketPath: place.socketPath, claim: place.claim, version: syncagentVersion,
            now: { SystemTime.milliseconds() / 1_000 }, logger: logger)
        try await server.run(
            listening: {
                logger.info("ready on \(place.socketPath), process \(CurrentProcess.identifier)")
                notice.ready()
                releaseMemory()  // Frees the memory that starting needed.
            },
            until: {
                await withTaskGroup(of: Void.self) { group in
                    group.addTask { for await _ in isOver {} }
                    group.addTask {
                        // The sleep fails only if cancelled, which is the end.
                        while (try? await Task.sleep(for: .seconds(1))) != nil, server.hasSocket {}
                    }
                    _ = await group.next()
                    group.cancelAll()
                }
            })
    }

    private static func watch(_ notice: ServiceNotice) async {
        guard let interval = notice.watchdogInterval else { return }
        // The sleep fails only if cancelled, which is the end.
        while (try? await Task.sleep(for: interval)) != nil { notice.alive() }
    }
}

/// Periods in which an agent answers its clients. The next one begins when the socket is gone, until the agent has
/// ended.
private final class ServingTurns: Sendable {
    private let state = Mutex<(end: AsyncStream<Void>.Continuation?, isOver: Bool)>((nil, false))

    /// - Returns: A stream that ends with the agent; `nil` if the agent has ended already.
    func next() -> AsyncStream<Void>? {
        let (isOver, end) = AsyncStream.makeStream(of: Void.self)
        return state.withLock { state in
            guard !state.isOver else { return nil }
            state.end = end
            return isOver
        }
    }

    func finish() {
        state.withLock { state in
            state.isOver = true
            state.end?.finish()
        }
    }
}

// MARK: Composition root

extension AgentRunCommand {
    /// Assembles the agent: store, clock, engines with libcurl and hooks.
    private func agent(_ state: StateAccess, _ logger: Logger) throws(CommandFailure) -> Agent {
        let store = try StateAccess.open(state.place.stateDirectory) { logger.warning("\($0)") }
        var environment = AgentEnvironment(
            store: store, stateDirectory: state.place.stateDirectory, version: syncagentVersion,
            process: CurrentProcess.identifier, now: SystemTime.milliseconds,
            sleep: { try await Task.sleep(for: $0) }, log: { logger.info("\($0)") },
            engine: { request in
                do throws(EngineError) {
                    return .success(
                        try AssembledEngine(
                            request, on: EnvironmentPaths.ofProcess.host, store: store,
                            stateDirectory: state.place.stateDirectory, metrics: MetricsFile.keep))
                } catch { return .failure(ControlError(.failed, error.message, exitStatus: error.status)) }
            })
        environment.maximumRuns = jobs
        environment.rateLimit = limitRate?.bytes
        if limitRate == nil {
            let settings = try translating(RunSettings(of: nil, EnvironmentPaths.ofProcess.host))
            environment.rateLimit = settings.agentRateLimit
        }
        environment.scheduled = {
            let schedules = ReportSchedules(now: SystemTime.milliseconds())
            return (schedules.next, schedules.failing)
        }
        let conditions = ConditionPlugins(
            on: EnvironmentPaths.ofProcess.host, EnvironmentPaths.ofProcess.machinePlaces,
            settings: { run throws(SettingsError) in
                try RunSettings(of: run, EnvironmentPaths.ofProcess.host).plugins
            }, notice: { logger.info("\($0.line)") })
        environment.conditionCheck = { run, since in
            Result { () throws(PluginError) in try conditions.check(run, blockedSince: since) }
                .mapError { ControlError(.invalid, "\($0)", exitStatus: .configuration) }
        }
        environment.isOnDemand = onDemand
        var schedules = AgentSchedules(
            try ScheduleRecords(), store: store, now: SystemTime.milliseconds,
            reason: { SessionText(now: $1).start($0) }, log: { logger.info("\($0)") })
        schedules.failed = { [failed = schedules.failed] name, error in
            failed(name, error)
            MetricsFile.keepAfterTry(nil, store)
        }
        environment.schedules = schedules
        return Agent(environment)
    }
}

/// The agent's log: plain lines on standard error, `2026-11-20T02:00:00.000Z warning: …`; journald adds the rest.
struct AgentLog: LogHandler {
    var metadata: Logger.Metadata = [:]
    var logLevel: Logger.Level = .info
    let output: Output

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let level = event.level == .info ? "" : "\(event.level): "
        let time = timestamp(milliseconds: SystemTime.milliseconds())
        output.message("\(time) \(level)\(escaped("\(event.message)"))")
    }
}

/// Reports the agent's state to systemd: sd_notify(3), a datagram to the socket that `NOTIFY_SOCKET` names.
struct ServiceNotice: Sendable {
    private let path = EnvironmentPaths.ofProcess.notifySocket()
    /// The interval of signs of life for the watchdog, or `nil`: half of `WATCHDOG_USEC`, sd_watchdog_enabled(3).
    let watchdogInterval = EnvironmentPaths.ofProcess.watchdogMicroseconds(process: CurrentProcess.identifier).map {
        Duration.microseconds($0 / 2)
    }

    func ready() { send("READY=1") }
    func stopping() { send("STOPPING=1") }
    func alive() { send("WATCHDOG=1") }

    /// Sends a datagram; does nothing if nobody listens, since the agent works all the same.
    private func send(_ text: String) {
        guard let path, path.utf8.count > 1, path.hasPrefix("/") || path.hasPrefix("@"), let address = UnixAddress(path)
        else { return }
        _ = address.send(Array(text.utf8))
    }
}
