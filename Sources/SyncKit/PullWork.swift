import Foundation
import SyncAgent
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPlugins
import SyncSchedule
import SyncStore
import SyncSystem
import SyncTransfer

/// One pull on a thread of its own, and its events on their way to the task that consumes them.
///
/// A task that consumes events slowly slows the pull down: no more than ``limit`` of them wait.
final class PullWork: Sendable {
    /// The source of the files.
    enum Subject: Sendable {
        case manifest(String)
        case entries([Sync.Entry], project: String)
    }

    private struct State: Sendable {
        var isStarted = false
        var isStopped = false
        /// Whether a hook is running: all files are in place then.
        var isCallingHook = false
        /// Whether nobody consumes events any more.
        var isAbandoned = false
        /// Events; those of the engine are read by the task that consumes them.
        var items: [@Sendable () -> Sync.Event] = []
        /// The number of `items` that have been taken.
        var taken = 0
        /// Of each of these, only the latest counts.
        var progress: Sync.Progress?
        var requests: RequestList?
        var files: [Sync.FileProgress]?
        var end: Result<Void, any Error>?
        var waiter: CheckedContinuation<Void, Never>?
        /// The stop request of the present engine.
        var stop: StopRequest?

        /// The number of items that have not been taken yet.
        var waiting: Int { items.count - taken }

        /// Takes a value of a kind of which only the latest counts.
        mutating func takeLatest() -> Sync.Event? {
            requests.take().map { .requests($0) } ?? files.take().map { .files($0) }
                ?? progress.take().map { .progress($0) }
        }

        /// Drops taken items once they are the larger part: moving the rest up costs nothing beside that.
        mutating func forgetTaken() {
            guard taken * 2 > items.count else { return }
            items.removeFirst(taken)
            taken = 0
        }
    }

    /// The most events that wait.
    private static let limit = 4_096
    /// The time between checks of the conditions while the pull works.
    private static let pollInterval = Duration.seconds(5)
    /// The same while a condition blocks, in **milliseconds**.
    private static let blockedPollInterval: Int64 = 5_000

    private let pull: Sync.Pull
    private let state = Monitor(State())

    init(_ pull: Sync.Pull) { self.pull = pull }

    // MARK: The consuming task

    /// The next event; `nil` after the last. When the task is cancelled, the pull is stopped and its end is waited for.
    func next() async throws -> Sync.Event? {
        try start()
        return try await withTaskCancellationHandler {
            while true {
                if let next = take() { return try next.get() }
                await arrival()
            }
        } onCancel: {
            stop()
        }
    }

    /// The next event, or the result of the pull, with `nil` for a good end; `nil` while there is nothing.
    private func take() -> Result<Sync.Event?, any Error>? {
        let item = state.change { state -> (@Sendable () -> Sync.Event)? in
            guard state.taken < state.items.count else {
                guard let latest = state.takeLatest() else { return nil }
                return { latest }
            }
            defer { state.forgetTaken() }
            state.taken += 1
            return state.items[state.taken - 1]
        }
        if let item { return .success(item()) }
        return state.withLock(\.end)?.map { nil }
    }

    private func arrival() async {
        await withCheckedContinuation { continuation in
            let isThere = state.change { state in
                let isThere =
                    state.waiting > 0 || state.progress != nil || state.requests != nil || state.files != nil
                    || state.end != nil
                if !isThere { state.waiter = continuation }
                return isThere
            }
            if isThere { continuation.resume() }
        }
    }

    /// Requests a stop at a checkpoint.
    func stop() {
        let stop = state.change { state in
            state.isStopped = true
            return state.stop
        }
        stop?.stop(.user)
    }

    /// Stops the pull: nobody consumes its events any more.
    func abandon() {
        state.change { state in
            state.isAbandoned = true
            (state.items, state.taken) = ([], 0)
        }
        stop()
    }

    // MARK: The working thread

    private func start() throws {
        let isFirst = state.change { state in
            defer { state.isStarted = true }
            return !state.isStarted
        }
        guard isFirst else { return }
        do throws(ThreadError) {
            try WorkerThread(name: "pull") { [self] in
                let result = Result { try work() }
                finish(result)
            }
        } catch { throw Sync.Failure(.ioError, "\(error)") }
    }

    private func finish(_ result: Result<Void, any Error>) { deliver { $0.end = result } }

    private func deliver(_ event: @autoclosure @escaping @Sendable () -> Sync.Event) {
        // The consumer makes room.
        state.wait { state in state.waiting < Self.limit || state.isAbandoned || state.isStopped ? true : nil }
        deliver { state in if !state.isAbandoned { state.items.append(event) } }
    }

    private func deliver(_ progress: PullProgress) {
        guard progress.phase != .looking, progress.phase != .waiting else { return }
        deliver {
            $0.progress = Sync.Progress(
                filesDone: progress.filesDone, filesTotal: progress.filesTotal, bytesDone: progress.bytesDone,
                bytesTotal: progress.bytesTotal, received: progress.received)
        }
    }

    /// - Parameter json: The record that ``/SyncEngine/LiveRun`` writes.
    private func deliver(requests json: [UInt8]) {
        guard let list = try? JSONDecoder().decode(RequestList.self, from: Data(json)),
            let parts = JSONValue(text: String(decoding: json, as: UTF8.self))?["parts"]?.array
        else { return }
        let files = parts.compactMap { part -> Sync.FileProgress? in
            guard let path = part["path"]?.string, let done = part["bytes_done"]?.unsigned,
                let total = part["bytes_total"]?.unsigned
            else { return nil }
            return Sync.FileProgress(path: path, bytesDone: done, bytesTotal: total)
        }
        deliver { state in
            state.requests = list
            if !files.isEmpty { state.files = files }
        }
    }

    private func deliver(_ change: (inout State) -> Void) {
        let waiter = state.change { state -> CheckedContinuation<Void, Never>? in
            change(&state)
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    private func note(_ name: EventName) {
        guard name == .hookStarted || name == .hookFinished else { return }
        state.change { $0.isCallingHook = name == .hookStarted }
    }

    private var isStopped: Bool { state.withLock(\.isStopped) }
    private var isCallingHook: Bool { state.withLock(\.isCallingHook) }

    private func work() throws {
        let setup = try PullSetup(pull)
        let check = ConditionCheck(pull.plugins.conditions)
        var earlier: UInt64 = 0
        while true {
            try untilClear(check, setup.destination, received: earlier)
            let stop = StopRequest()
            let wasStopped = state.change { state in
                (state.stop, state.isCallingHook) = (stop, false)
                return state.isStopped
            }
            if wasStopped { throw CancellationError() }
            let engine = try setup.engine(stop: stop) { request in
                request.listener = { [self] event in
                    note(event.name)
                    // The end is reported later, with the exit status of the command.
                    if event.name != .pullFinished { deliver(Sync.Event(event.name.rawValue, event.json.text)) }
                }
                request.progress = { [self] in deliver($0) }
                request.requests = { [self] in deliver(requests: $0) }
            }
            let ended = StopFlag()
            let before = earlier
            let watch: WorkerThread?
            do throws(ThreadError) {
                watch = try self.watch(check, setup.destination, stop, ended) { before &+ engine.received }
            } catch {
                stop.stop()
                engine.end()
                throw Sync.Failure(.ioError, "\(error)")
            }
            let result = Result { () throws(EngineError) in try engine.engine.pull(setup.recipe) }
            earlier &+= engine.received
            ended.set()
            watch?.join()
            engine.end()
            // A condition has stopped the pull, perhaps before a hook; it continues when the condition clears. A hook
            // that failed is no reason to go on.
            if stop.reason == .policy, (try? result.get()).map({ $0.result != .ok || setup.owesHooks($0) }) ?? true {
                continue
            }
            return try finish(result, stop)
        }
    }

    private func finish(_ result: Result<PullReport, EngineError>, _ stop: StopRequest) throws {
        switch result {
        case .success(let report):
            if stop.isStopped, report.result != .ok { throw CancellationError() }
            // The latest progress is reported before the end.
            state.change { state in while let last = state.takeLatest() { state.items.append { last } } }
            deliver(.finished(Sync.Summary(report)))
        case .failure(let error):
            if stop.isStopped { throw CancellationError() }
            throw Sync.Failure(error.status, error.message)
        }
    }

    /// Waits until all conditions hold.
    private func untilClear(_ check: ConditionCheck, _ destination: String, received: UInt64) throws {
        var blocking: String?
        while !check.isEmpty {
            let now = SystemTime.milliseconds()
            let report = check.evaluate(ConditionContext(destination: destination, receivedBytes: received, now: now))
            guard let condition = report.condition, report.isBlocked else { break }
            if blocking != condition {
                blocking = condition
                deliver(.blocked(condition: condition, reason: report.reason ?? ""))
            }
            let due = report.nextCheck(after: now, every: Self.blockedPollInterval)
            let wait = Duration.milliseconds(min(max(1, due - now), Self.blockedPollInterval))
            // A stop is noticed at once.
            let end = ContinuousClock.now + wait
            state.wait(every: 200) { $0.isStopped || ContinuousClock.now >= end ? true : nil }
            if isStopped { throw CancellationError() }
        }
        if let blocking { deliver(.unblocked(condition: blocking)) }
    }

    /// Checks the conditions while the pull works; a hook is never stopped.
    private func watch(
        _ check: ConditionCheck, _ destination: String, _ stop: StopRequest, _ ended: StopFlag,
        received: @escaping @Sendable () -> UInt64
    ) throws(ThreadError) -> WorkerThread? {
        guard !check.isEmpty else { return nil }
        return try WorkerThread(name: "conditions") { [self] in
            var next = ContinuousClock.now + Self.pollInterval
            while !ended.isSet, !stop.isStopped {
                pauseThread(milliseconds: 50)
                guard ContinuousClock.now >= next, !isCallingHook else { continue }
                next = ContinuousClock.now + Self.pollInterval
                let now = SystemTime.milliseconds()
                let context = ConditionContext(destination: destination, receivedBytes: received(), now: now)
                if check.evaluate(context).isBlocked, !isCallingHook { stop.stop(.policy) }
            }
        }
    }
}

extension Sync.Summary {
    fileprivate init(_ report: PullReport) {
        self.init(
            session: report.session, run: report.run, result: report.result, status: report.status,
            files: report.files,
            received: report.bytes.received, requests: report.requests,
            elapsed: .milliseconds(report.elapsedMilliseconds))
    }
}
