import Foundation
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPlugins
import SyncReport
import SyncStore
import SyncSystem

/// The call of the engine by a command: transports, clocks and hooks are assembled only here.
struct EngineCall: Sendable {
    let output: Output
    let display: ProgressDisplay
    let json: Bool
    /// Whether progress is printed as JSON lines, too.
    let tellsProgress: Bool
    let request: EngineRequest
    let end: PullEnd
    /// Which files are listed one by one.
    let detail: PlanDetail
    private let notes = MessageDeduplicator(most: 1_000)
    private let failures = Monitor(FailureSums())

    init(
        _ reporting: ReportingOptions, on output: Output, _ request: EngineRequest, tellsProgress: Bool = false,
        end: PullEnd = PullEnd(), detail: PlanDetail = .totals
    ) {
        (self.detail, self.end, self.output) = (detail, end, output)
        display = reporting.display(on: output)
        json = reporting.json
        (self.tellsProgress, self.request) = (tellsProgress, request)
    }

    /// The recipe of the request.
    var recipe: RunRecipe { request.recipe ?? RunRecipe(manifest: "") }

    /// Runs a pull; its last JSON line is printed here.
    func pull() async throws -> PullReport { try await changing { [self] in try $0.pull(recipe) } }

    /// Rolls a session back to a former revision; its last JSON line is printed here.
    func rollback(_ session: String, to choice: String?, keepForeign: Bool) async throws -> PullReport {
        try await changing { try $0.rollback(session, to: choice, keepForeign: keepForeign) }
    }

    private func changing(_ work: @escaping @Sendable (PullEngine) throws -> PullReport) async throws -> PullReport {
        defer { writeFailures() }
        return try await stoppable { [self] in
            let store = try StateAccess.open(EnvironmentPaths.ofProcess.stateDirectory(), warn: output.warning)
            return try await withEngine(store: store) { engine, stop in
                let report = try work(engine)
                // The fetched data is kept; the process still reports that it was stopped.
                if stop.isStopped, stop.reason != .late, report.result != .ok { throw CancellationError() }
                if stop.reason == .late,
                    try store.owedHooks(session: report.session).contains(where: { $0.run == report.run })
                {
                    output.message(
                        "The deadline passed before all hooks had ended; the next pull calls those that are left.")
                }
                return report
            }
        }
    }

    /// Plans a pull and prints the plan. `explains` adds where its requests go, for which the servers are asked. Ends
    /// with the pull's status, as far as that is known in advance.
    func plan(explains: Bool = false) async throws {
        let (report, routes) = try await stoppable { [self] in
            let report = try await withReadOnlyEngine { [self] engine in
                try engine.plan(recipe, emitting: detail.isWanted ? { write($0) } : nil)
            }
            return (report, explains ? try await self.routes(of: report) : [])
        }
        for route in routes { write(route.event(time: SystemTime.milliseconds()), route.lines) }
        write(SyncEvent(.plan, time: SystemTime.milliseconds()) { report.write(to: &$0) }, report.lines)
        if report.status != .done { throw CommandFailure(report.status, report.refusal?.message ?? "") }
    }

    /// Prints a result: as an event with `--json`, and otherwise as lines.
    private func write(_ event: SyncEvent, _ lines: [String]) {
        if json { return output.event(event.json, flushing: true) }
        for line in lines { output.line(line) }
    }

    private func write(_ file: PlannedFile) {
        guard detail.shows(file) else { return }
        if json {
            let event = SyncEvent(.planFile, time: SystemTime.milliseconds()) { file.write(to: &$0) }
            output.event(event.json)
        } else {
            output.line(file.line, flushing: false)
        }
    }

    func verify() async throws {
        let report = try await stoppable { [self] in
            try await withReadOnlyEngine { engine in try engine.verify(recipe) }
        }
        write(SyncEvent(.verifyFinished, time: SystemTime.milliseconds()) { report.write(to: &$0) }, report.lines)
        if !report.isWhole { throw CommandFailure(.incomplete) }
    }

    /// Reads manifests, with progress and signals as ``plan(explains:)``. Nothing is recorded.
    func reading<R: Sendable>(_ work: @escaping @Sendable (PullEngine) throws -> R) async throws -> R {
        try await stoppable { [self] in try await withReadOnlyEngine(work) }
    }

    /// Runs blocking work of the engine on a thread of its own. If the task is cancelled, the work is asked to stop.
    func withEngine<R: Sendable>(
        store: SyncStore, keepsMetrics: Bool = true, _ work: @escaping @Sendable (PullEngine, StopRequest) throws -> R
    ) async throws -> R {
        let stop = StopRequest()
        var request = request
        request.stop = stop
        (request.listener, request.progress) = ({ [self] in observe($0) }, { [self] in write($0) })
        // The deadline applies to the whole command, whatever it waits for, and not to each transfer.
        let deadline = request.settings?.transfer.deadline
        request.settings?.transfer.deadline = nil
        async let _: Void = pass(deadline, stop)
        let environment = EnvironmentPaths.ofProcess
        let engine = try AssembledEngine(
            request, on: environment.host, store: store, stateDirectory: try environment.stateDirectory(),
            metrics: keepsMetrics ? MetricsFile.keep : nil)
        end.count(engine.transport)
        do {
            return try await onThread("engine", onCancel: { stop.stop(StopSignals.hasHungUp ? .hangUp : .user) }) { _ in
                defer { engine.end() }
                return try work(engine.engine, stop)
            }
        } catch {
            if error is ThreadError { engine.end() }
            throw Self.failure(error, after: stop.reason)
        }
    }

    /// Requests a stop at the deadline.
    private func pass(_ deadline: Duration?, _ stop: StopRequest) async {
        guard let deadline, (try? await Task.sleep(for: deadline)) != nil else { return }
        stop.stop(.late)
    }

    /// As ``withEngine(store:keepsMetrics:_:)``, for work that records nothing and leaves the recorded metrics as they
    /// are.
    func withReadOnlyEngine<R: Sendable>(_ work: @escaping @Sendable (PullEngine) throws -> R) async throws -> R {
        // Existing sessions and their holders are looked up. If there is no store, none is created.
        let known = try StateAccess(output: output).existingStore()
        let store = try known ?? SyncStore.inMemory()
        return try await withEngine(store: store, keepsMetrics: false) { engine, _ in try work(engine) }
    }

    private func write(_ progress: PullProgress) {
        display.report(ProgressSnapshot(progress))
        guard tellsProgress else { return }
        output.event(SyncEvent(progress: progress, time: SystemTime.milliseconds()).json, flushing: true)
    }

    private func observe(_ event: SyncEvent) {
        let isEnd = end.keeps(event)
        if json {
            if !isEnd { output.event(event.json) }
            return
        }
        let isFailure = event.name == .taskFailed || event.name == .sourceWrongBytes
        if isFailure, let fields = JSONValue(text: event.json.text) {
            failures.withLock { $0.take(event.name, fields, time: event.time) }
        }
        if detail.isWanted { return name(event) }
        // Failures of files are summed up at the end, one line for each cause.
        guard !isFailure, let note = event.note else { return }
        // "after 1 ms" and "after 2 ms" count as the same note, but not `hook1` and `hook2`.
        let isOfHook = event.name == .hookFinished || event.name == .hookUnknown
        if notes.isNew(isOfHook ? note : note.filter { !$0.isNumber }) { output.warning(note) }
    }

    /// Prints the file of an event.
    private func name(_ event: SyncEvent) {
        if let note = event.note { return output.warning(note) }
        guard let word = [.taskInstalled: "installed", .taskRemoved: "removed"][event.name] as String?,
            let path = JSONValue(text: event.json.text)?["path"]?.string
        else { return }
        output.line("\(word.padded(to: 9))  \(escaped(path))", flushing: false)
    }

    /// Prints why files are missing, each cause once: how many files, some of their names, and what to do.
    private func writeFailures() {
        let problems = failures.withLock(\.problems)
        for (place, problem) in problems.prefix(Self.shownCauses).enumerated() {
            var lines = [problem.summary, problem.paths].compactMap(\.self)
            // The same advice is printed once, too.
            let isLast = !problems.prefix(Self.shownCauses).dropFirst(place + 1).contains {
                $0.advice == problem.advice
            }
            if isLast { lines.append("-> \(problem.advice)") }
            output.warning(lines.map(escaped).joined(separator: "\n    "))
        }
        let more = problems.count - Self.shownCauses
        if more > 0 { output.warning("\(Figures.count(more, "more cause")); 'syncagent report' and -v list them all") }
    }

    private static let shownCauses = 8

    private static func failure(_ error: any Error, after reason: StopReason?) -> any Error {
        guard let error = (error as? EngineError)?.after(reason) else { return error }
        return CommandFailure(error.status, error.message, cause: error.cause)
    }

    /// Runs `work` with a progress display. SIGINT and SIGTERM are requests to stop.
    ///
    /// - Throws: The errors of `work`; after a signal, in any case, ``CommandFailure`` with status 130 or 143.
    private func stoppable<R: Sendable>(_ work: @escaping @Sendable () async throws -> R) async throws -> R {
        try await StopSignals.ending(
            notice: { [output] in output.message("Stopping; everything fetched so far is kept.") },
            atOnce: { [output] in output.clearProgress() }, { [display] in try await display.whileRunning(work) })
    }
}

extension ProgressSnapshot {
    /// The engine's progress as shown to people.
    fileprivate init(_ progress: PullProgress) {
        switch progress.phase {
        case .finding: self.init(phase: "Manifest", unit: .bytes, bytesDone: progress.received)
        case .looking where progress.filesTotal == 0: self.init(phase: "Looking", unit: .nothing)
        case .waiting: self.init(phase: "Waiting", unit: .nothing)
        case .looking, .fetching:
            self.init(
                phase: progress.phase == .looking ? "Checking" : "Fetching", filesDone: progress.filesDone,
                filesTotal: progress.filesTotal, bytesDone: progress.bytesDone, bytesTotal: progress.bytesTotal)
        }
        received = progress.received
        isTransferring =
            progress.phase == .finding || progress.phase == .fetching && progress.bytesDone < progress.bytesTotal
        wait = progress.wait
    }
}

extension SyncEvent {
    /// The progress of a pull as an event that is not recorded.
    fileprivate init(progress: PullProgress, time: Int64) {
        self.init(.progress, time: time) {
            progress.write(to: &$0)
            $0.field("received", progress.received)
            guard let wait = progress.wait else { return }
            $0.field("host", wait.host)
            $0.field("attempt", optional: wait.attempt)
            $0.time("until", wait.until)
        }
    }
}
