import ArgumentParser
import Foundation
import SyncAgent
import SyncDaemon
import SyncModel
import SyncSchedule
import SyncStore
import SyncSystem

struct ScheduleRunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run", abstract: "Start a schedule's run and wait for it to end.",
        discussion: """
            systemd and cron call this command. Outside the schedule's window it only says so; --now starts a run at \
            once. The agent does the run, so ending this command does not stop it.

            Exit status: 0 every file is in place, or there was nothing to do; 2 the run ended incomplete; 5 files are \
            in place but a hook failed; 75 the window ended before the work did, and the next run continues; 130 or 143 \
            ended by a signal. A manifest that cannot be fetched is retried until the window ends, then 69.
            """)

    @OptionGroup var schedule: ScheduleArgument

    @Flag(help: "Start now, at any time of day, and run until it is done.") var now = false

    @Flag(help: "Run only if the last time was missed and its window is still open; an interrupted run goes on.")
    var missed = false

    @Flag(name: .shortAndLong, help: "Print only errors.") var quiet = false

    func validate() throws { if now, missed { throw ValidationError("--now and --missed are mutually exclusive.") } }

    func run() async throws {
        let output = Output(quiet: quiet)
        let work = ScheduleRun(
            records: try ScheduleRecords(), state: try StateAccess(output: output), name: schedule.name,
            isNow: now, isMissed: missed)
        try await StopSignals.ending { try await work.run() }
    }
}

/// One firing of a schedule, from reading the clock to the end of the time.
struct ScheduleRun: Sendable {
    let records: ScheduleRecords
    let state: StateAccess
    let name: String
    /// Whether to start it at any time of day.
    let isNow: Bool
    /// Whether to catch up only.
    let isMissed: Bool

    private var output: Output { state.output }
    private static let clock = SystemTime.milliseconds

    func run() async throws {
        let record = try records.get(name)
        let now = Self.clock()
        var request = record.definition.request
        var occurrence: Occurrence?
        if isNow {
            request.origin = .schedule
        } else {
            guard let current = current(record, now) else {
                // A reboot has ended the agent, too, whose work may still be open.
                if isMissed, let run = record.memory.run, let open = try? state.existingStore()?.run(run),
                    open.state == .waiting || open.state == .running
                {
                    try await state.reachAgent()
                }
                return
            }
            let made = record.request(for: current, in: try state.existingStore(), now: now)
            request = made.request
            occurrence = current
            if let plan = made.plan { output.message("\(name): \(Self.text.start(plan))") }
        }
        // The next firing fetches a newer manifest.
        let end = occurrence.flatMap { $0.end ?? Self.lastMoment(record.clock, now) }
        let reply: EnqueueReply
        do { reply = try await enqueue(request, until: end) } catch let error as CommandFailure {
            records.note(name, error, in: try state.existingStore())
            throw error
        }
        try records.remember(name, occurrence?.slot, reply, fired: now)
        if isNow {
            // The run may wait for its window, or be paused until a person resumes it, and here is a person.
            _ = try await state.askAgent { try await $0.resume(reply.session) }
        }
        let what: String =
            if isNow, reply.state == .paused {
                reply.isNew ? "starts" : "continues"
            } else {
                (reply.isNew ? "is" : "continues and is") + " \(reply.state)"
            }
        output.message("\(name): run \(reply.run) of \(escaped(reply.session)) \(what).")
        try await wait(reply.session, until: end, record.clock)
    }

    /// The occurrence to work for; `nil`, after a message, if there is none.
    private func current(_ record: ScheduleRecords.Record, _ now: Int64) -> Occurrence? {
        let clock = record.clock
        guard !record.definition.isPaused else {
            output.message("\(name): paused. 'syncagent schedule resume \(name)' resumes it, --now starts it once.")
            return nil
        }
        if isMissed { return clock.outlook(at: now, handled: record.memory.handled).due }
        // cron fires at whole minutes, before this machine's own second, so the occurrence counts from its beginning.
        let found = ScheduleClock(clock.timing, zone: clock.zone, delay: 0).latest(at: now).map {
            clock.timing.occurrence($0.slot, in: clock.zone, delay: clock.delay)
        }
        if let found, !clock.isOver(found, at: now) { return found }
        let next = clock.next(after: now).map { "; the next run starts \(Self.text.moment($0.fire))" } ?? ""
        output.message("\(name) does not run at this time\(next). --now starts it at once.")
        return nil
    }

    /// A time shortly before the next occurrence.
    private static func lastMoment(_ clock: ScheduleClock, _ now: Int64) -> Int64? {
        clock.next(after: now).map { $0.fire - min(60_000, ($0.fire - now) / 10) }
    }

    private static var text: SessionText { SessionText(now: clock()) }

    /// Hands the run to the agent, again and again while the manifest cannot be fetched.
    private func enqueue(_ request: EnqueueRequest, until end: Int64?) async throws -> EnqueueReply {
        var seconds: Int64 = 30
        while true {
            do { return try await state.askAgent { try await $0.enqueue(request) } } catch let error as CommandFailure {
                let due = Self.clock() + seconds * 1_000
                guard error.status == .unavailable, let end, due < end else { throw error }
                records.note(name, error, in: try state.existingStore())
                output.message("\(name): \(error.message); retrying in \(seconds) s")
                try await Task.sleep(for: .seconds(seconds))
                seconds = min(seconds * 2, 900)
            }
        }
    }

    /// Waits for the end of the run, or of its time. If the agent is lost meanwhile, another one is started.
    private func wait(_ session: String, until end: Int64?, _ clock: ScheduleClock) async throws {
        let watch = RunWatch(store: try state.store(), session: session)
        try await watch.wait(state, isScheduled: true, every: .milliseconds(500)) { status, _ in
            guard let end, Self.clock() >= end else { return }
            let now = Self.clock()
            let window = clock.dailyWindow.flatMap { wallClock($0, now)?.nextBegin }
            let next = (window ?? clock.next(after: now)?.fire).map { " It continues \(Self.text.moment($0))." }
            output.message("\(escaped(session)): its window is over and the run is \(status.state)." + (next ?? ""))
            throw CommandFailure(.busy)
        }
    }
}
