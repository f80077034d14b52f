import ArgumentParser
import SyncAgent
import SyncDaemon
import SyncModel
import SyncPlugins
import SyncSchedule
import SyncStore
import SyncSystem

struct ScheduleListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List schedules: when each runs next, and how its last run ended.")

    @Flag(help: "Print JSON, one object per line.") var json = false

    func run() async throws {
        let output = Output()
        let records = try ScheduleRecords()
        let outlook = try ScheduleOutlook(output)
        var rows = [["NAME", "WHEN", "NEXT", "LAST", "BY"]]
        var notes: [String] = []
        let names = try records.names()
        for name in names {
            do throws(ScheduleError) {
                guard let record = try records.find(name) else { continue }
                let view = outlook.view(record)
                if json { output.event(view.json) }
                rows.append(outlook.row(view))
                notes += outlook.notes(view)
            } catch { output.warning("\(name): \(error)") }
        }
        if json { return output.flush() }
        guard !names.isEmpty else {
            return output.message("No schedules. 'syncagent schedule add MANIFEST --nightly 02:00' creates one.")
        }
        if rows.count > 1 { for line in tableLines(rows) + notes { output.line(line) } }
    }
}

struct ScheduleShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show everything about a schedule, and when it runs next.")

    @OptionGroup var schedule: ScheduleArgument

    func run() async throws {
        let output = Output()
        let records = try ScheduleRecords()
        let record = try records.get(schedule.name)
        for line in try ScheduleOutlook(output).details(record, file: records.path(record.name)) { output.line(line) }
    }
}

/// The state of schedules: their last results and next runs.
struct ScheduleOutlook: Sendable {
    let now: Int64
    private let store: SyncStore?
    private var text: SessionText { SessionText(now: now) }

    init(_ output: Output) throws(CommandFailure) {
        now = SystemTime.milliseconds()
        store = try StateAccess(output: output).existingStore()
    }

    struct View: Sendable {
        let record: ScheduleRecords.Record
        let isActive: Bool
        let next: Occurrence?
        let plan: ReadyBy?
        let last: StoredRun?

        /// Why the last run failed.
        var error: String? { record.memory.failure ?? last?.error }
    }

    func view(_ record: ScheduleRecords.Record) -> View {
        let next = record.next(after: now)
        return View(
            record: record, isActive: !record.definition.isPaused && record.backend.isInEffect(record.name), next: next,
            plan: next.flatMap { record.request(for: $0, in: store, now: now).plan },
            // A run that was removed with its session has no result.
            last: record.memory.run.flatMap { try? store?.run($0) })
    }

    func row(_ view: View) -> [String] {
        let record = view.record
        let next = view.next.map { text.moment(view.plan?.start ?? $0.fire) } ?? "never"
        let state = record.definition.isPaused ? "paused" : view.isActive ? next : "not in effect"
        return [record.name, text.rule(record.clock), state, last(view), record.backend.words]
    }

    private func last(_ view: View) -> String {
        // A failure is cleared when a run begins.
        view.record.memory.failure == nil ? view.last.map(outcome) ?? "-" : "failed"
    }

    private func outcome(_ run: StoredRun) -> String {
        switch run.state {
        case .finished where run.result == .failed: return "failed"
        case .finished: return "\(run.result?.rawValue ?? "finished"), \(ByteCount(run.counts.bytes.received))"
        case .waiting, .running, .paused, .cancelled, .superseded:
            return run.state.rawValue + (run.reason.map { " (\(escaped($0.words)))" } ?? "")
        }
    }

    func notes(_ view: View) -> [String] {
        var notes: [String] = []
        if let error = view.error { notes.append("\(view.record.name): \(escaped(error))") }
        if let plan = view.plan { notes.append("\(view.record.name): \(text.start(plan))") }
        if !view.isActive, !view.record.definition.isPaused {
            notes.append("\(view.record.name): not set up with \(view.record.backend.words); add it again.")
        }
        return notes
    }

    func details(_ record: ScheduleRecords.Record, file: String) -> [String] {
        let view = view(record)
        let request = record.definition.request
        let isPaused = record.definition.isPaused
        var rows = [
            ["schedule", record.name], ["manifest", redacted(url: request.manifest)],
            ["destination", escaped(request.destination ?? "")], ["when", text.rule(record.clock)],
            ["started by", record.backend.words + (view.isActive || isPaused ? "" : ", where it is not set up")],
            ["catches up", record.timing.catchesUp ? "yes" : "no"],
        ]
        for (what, chosen) in [("group", request.groups), ("includes", request.include), ("excludes", request.exclude)]
        {
            rows += chosen.map { [what, escaped($0)] }
        }
        if let trust = request.trust { rows.append(["trusts", escaped(trust)]) }
        if case .cron(let expression) = record.timing.recurrence { rows.append(["cron", expression.text]) }
        if isPaused { rows.append(["paused", "until 'syncagent schedule resume \(record.name)'"]) }
        if record.timing.jitter > 0 {
            let most = Figures.period(Int64(record.timing.jitter) * 1_000)
            rows.append(["delay", "\(Figures.period(Int64(record.clock.delay) * 1_000)) of at most \(most)"])
        }
        if let rate = request.settings.limitRate { rows.append(["most", "\(ByteCount(rate))/s"]) }
        for hook in request.hooks {
            let words = hook.arguments.prefix(1).map(shownHookProgram) + hook.arguments.dropFirst()
            rows.append(["hook", words.map(escaped).joined(separator: " ")])
        }
        if let session = record.session { rows.append(["session", escaped(session)]) }
        if let fired = record.memory.fired { rows.append(["fired last", text.moment(fired.milliseconds)]) }
        if let run = record.memory.run {
            rows.append(["last run", "\(escaped(run)): \(view.last.map(outcome) ?? "-")"])
        }
        if let error = view.error { rows.append(["last error", escaped(error)]) }
        for (place, time) in (isPaused ? [] : text.nextTimes(record.clock)).enumerated() {
            rows.append([place == 0 ? "next" : "", time])
        }
        if let plan = view.plan { rows.append(["starts", "\(text.moment(plan.start)): \(plan)"]) }
        rows.append(["file", escaped(file)])
        return tableLines(rows, width: nil)
    }
}

extension ScheduleOutlook.View {
    /// The line of `list --json`.
    var json: JSONLine {
        let (request, recurrence) = (record.definition.request, record.timing.recurrence)
        return JSONLine.object { line in
            line.field("name", record.name)
            line.field("manifest", redacted(url: request.manifest))
            line.field("destination", request.destination ?? "")
            line.field("session", optional: record.session)
            line.field("when", recurrence.words(until: record.timing.window))
            line.field("nightly", optional: recurrence.nightly)
            line.field("days", recurrence.weekdays.map(\.rawValue))
            line.field("every_minutes", optional: recurrence.everyMinutes)
            line.field("cron", optional: recurrence.cron)
            line.field("paused", record.definition.isPaused)
            line.field("catch_up", record.timing.catchesUp)
            line.field("window_minutes", optional: record.timing.window)
            line.field("ready_by", optional: record.timing.readyBy.map(ScheduleTiming.time))
            line.field("switch_at", optional: record.timing.switchAt.map(ScheduleTiming.time))
            line.field("delay_seconds", record.clock.delay)
            line.field("time_zone", optional: record.timing.timeZone)
            line.field("backend", record.backend.name)
            line.field("active", isActive)
            line.time("next", next?.fire)
            if let plan {
                line.time("starts", plan.start)
                line.field("expected_bytes", optional: plan.forecast?.bytes)
                line.field("nights_known", plan.forecast?.nights ?? 0)
                line.field("why", plan.description)
            }
            line.time("fired", record.memory.fired?.milliseconds)
            line.field("run", optional: record.memory.run)
            line.field("state", optional: last?.state.rawValue)
            let failed = record.memory.failure.map { _ in RunResult.failed }
            line.field("result", optional: failed ?? last?.result)
            line.field("error", optional: error)
        }
    }
}

/// Schedules in words.
extension SessionText {
    /// `every night 02:00-06:00`.
    func rule(_ clock: ScheduleClock) -> String {
        let timing = clock.timing
        var text = timing.recurrence.words(until: timing.window)
        if let zone = timing.timeZone { text += " \(escaped(zone))" }
        if let readyBy = timing.readyBy { text += ", ready by \(ScheduleTiming.time(readyBy))" }
        if let switchAt = timing.switchAt { text += ", shown at \(ScheduleTiming.time(switchAt))" }
        return text
    }

    /// The next times, at most three.
    func nextTimes(_ clock: ScheduleClock) -> [String] {
        var times: [Int64] = []
        while times.count < 3, let next = clock.next(after: times.last ?? now) { times.append(next.fire) }
        return times.map { moment($0) }
    }

    /// When a run starts, and the reason.
    func start(_ plan: ReadyBy) -> String { "starts \(moment(plan.start)): \(plan)" }

    func moment(_ milliseconds: Int64) -> String { moment(WallTime(milliseconds: milliseconds)) }
}
