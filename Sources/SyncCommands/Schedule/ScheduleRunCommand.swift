import ArgumentParser
import Foundation
import SyncAgent
import SyncControl
import SyncControlServer
import SyncModel
import SyncSchedule

/// `syncagent schedule run`: what systemd and cron start; also for people.
struct ScheduleRunCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Start a schedule's run for tonight, and wait for its end.",
        discussion: """
            systemd and cron call this. Outside of the schedule's window it does nothing but say so; --now starts a run \
            at once. The run is the agent's: ending this command leaves it as it is.

            Exit status: 0 every file is in place, or there was nothing to do; 2 the run ended incomplete; 5 files are \
            in place and a hook failed; 75 the night is over and work is left, with which the next night goes on; 130 or \
            143 by a signal. A manifest that cannot be fetched is asked for again until the night is over, then 69.
            """
    )

    @OptionGroup
    var schedule: ScheduleArgument

    @Flag(help: "At once, whatever the time is, and until it is done.")
    var now = false

    @Flag(help: "Only if the last night was missed and its window is still open.")
    var missed = false

    @Flag(name: .shortAndLong, help: "Say nothing but errors.")
    var quiet = false

    func validate() throws {
        if now, missed { throw ValidationError("--now and --missed exclude each other.") }
    }

    func run() async throws {
        let output = Output(quiet: quiet)
        let work = ScheduleRun(
            records: try ScheduleRecords(),
            state: try StateAccess(output: output),
            name: schedule.name,
            mode: now ? .now : missed ? .missed : .night
        )
        do {
            try await StopSignals.cancelling(notice: {}, atOnce: {}) { try await work.run() }
        } catch {
            if let status = StopSignals.requestedStatus { throw CommandFailure(status) }
            throw error
        }
    }
}

/// One firing of a schedule, from the look at the clock to the end of the night.
struct ScheduleRun: Sendable {
    enum Mode: Sendable { case night, now, missed }

    let records: ScheduleRecords
    let state: StateAccess
    let name: String
    let mode: Mode

    private var output: Output { state.output }
    private static let clock = EngineAssembly.milliseconds

    func run() async throws {
        var record = try scheduling { () throws(ScheduleError) in try records.get(name) }
        let now = Self.clock()
        var request = record.definition.request
        var night: Night?
        if mode == .now {
            request.origin = .schedule
        } else {
            guard let tonight = tonight(record, now) else { return }
            let history = NightRequest.history(
                record.memory.session ?? request.session,
                in: try state.existingStore()
            )
            let made = NightRequest(record, tonight, history: history, now: now)
            request = made.request
            night = tonight
            tell(made)
        }
        // The next night looks for a newer manifest.
        let end = night?.end ?? night.flatMap { _ in record.clock.next(after: now).map { $0.fire - 60_000 } }
        let reply: EnqueueReply
        do {
            reply = try await enqueue(request, until: end)
        } catch let error as CommandFailure {
            records.note(name, error.message, error.status, in: try state.existingStore())
            throw error
        }
        if let night { record.memory.handled = night.day }
        record.memory.fired = WallTime(milliseconds: now)
        record.memory.session = reply.session
        record.memory.run = reply.run
        record.memory.failure = nil
        let memory = record.memory
        try scheduling { () throws(ScheduleError) in try records.put(memory, for: name) }
        output.message(
            "\(name): run \(reply.run) of \(escaped(reply.session)) "
                + (reply.isNew ? "is" : "goes on and is")
                + " \(reply.state)."
        )
        if mode == .now {
            // It may be at rest until its window, or until somebody lets it go on: here is somebody.
            _ = try await AgentReach(state: state).ask { try await $0.resume(reply.session) }
        }
        try await wait(reply.session, until: end, record.clock)
    }

    /// The night to work for; `nil` when there is none, which is said.
    private func tonight(_ record: ScheduleRecords.Record, _ now: Int64) -> Night? {
        let clock = record.clock
        if mode == .missed { return clock.outlook(at: now, handled: record.memory.handled).due }
        // cron fires in whole minutes, before this machine's own second: the night counts from its beginning.
        let found = ScheduleClock(clock.timing, zone: clock.zone, delay: 0).latest(at: now)
            .flatMap { clock.timing.night(of: $0.day, in: clock.zone, delay: clock.delay) }
        if let found, now < found.end ?? .max { return found }
        let next =
            clock.next(after: now).map {
                "; the next night begins \(Self.text.moment(WallTime(milliseconds: $0.fire)))"
            } ?? ""
        output.message("\(name): not at this time\(next). --now starts it at once.")
        return nil
    }

    private static var text: SessionText { SessionText(now: clock(), hasAgent: true) }

    private func tell(_ made: NightRequest) {
        guard let plan = made.plan else { return }
        output.message("\(name): starts \(Self.text.moment(WallTime(milliseconds: plan.start))): \(plan)")
    }

    /// Hands the run to the agent; again and again while the manifest cannot be had (S51).
    private func enqueue(_ request: EnqueueRequest, until end: Int64?) async throws -> EnqueueReply {
        let reach = AgentReach(state: state)
        var seconds: Int64 = 30
        while true {
            do {
                return try await reach.ask { try await $0.enqueue(request) }
            } catch let error as CommandFailure {
                let due = Self.clock() + seconds * 1_000
                guard error.status == .unavailable, let end, due < end else { throw error }
                output.message("\(name): \(error.message) Again in \(seconds) s.")
                try await TaskThreads.sleep(for: .seconds(seconds))
                seconds = min(seconds * 2, 900)
            }
        }
    }

    /// Waits for the end of the run, or of the night.
    private func wait(_ session: String, until end: Int64?, _ clock: ScheduleClock) async throws {
        let watch = RunWatch(store: try state.store(), session: session)
        while true {
            let sight = try watch.look()
            if case .over(let status, let words) = sight {
                output.message("\(escaped(session)): \(words)")
                guard status == .done else { throw CommandFailure(status) }
                return
            }
            if case .open(let status) = sight, let end, Self.clock() >= end {
                let next =
                    clock.next(after: Self.clock()).map {
                        " It goes on \(Self.text.moment(WallTime(milliseconds: $0.fire)))."
                    } ?? ""
                output.message("\(escaped(session)): the night is over and the run \(status.state).\(next)")
                throw CommandFailure(.busy)
            }
            try await TaskThreads.sleep(for: .milliseconds(500))
        }
    }
}
