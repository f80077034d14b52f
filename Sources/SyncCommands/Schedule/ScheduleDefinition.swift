import Foundation
import SyncControl
import SyncModel
import SyncSchedule

/// A schedule as it is kept: when, what and who starts it. One JSON file each, for people to read.
struct ScheduleDefinition: Codable, Sendable, Equatable {
    /// `02:00`; one of this, ``everyMinutes`` and ``cron`` is there.
    var nightly: String?
    /// `mon`, `tue` …, for ``nightly``; empty for all.
    var days: [Weekday] = []
    var everyMinutes: Int?
    /// Five fields, or `@daily` and its kin.
    var cron: String?
    var windowMinutes: Int?
    /// `07:00`.
    var readyBy: String?
    /// Most **seconds** that a machine may begin later.
    var jitterSeconds = 0
    /// An IANA name; `nil` for the machine's zone.
    var timeZone: String?
    /// Whether a machine that was off runs later what it has missed; `nil` for yes.
    var catchUp: Bool?
    /// `true` while nothing is to be started; `nil` for no.
    var paused: Bool?
    /// The name of a ``ScheduleBackend``.
    var backend: String
    /// What is enqueued, but for the night's own times.
    var request: EnqueueRequest

    init(_ timing: ScheduleTiming, backend: String, request: EnqueueRequest) {
        switch timing.recurrence {
        case .daily(let minute, let weekdays):
            nightly = ScheduleTiming.time(minute)
            days = Weekday.allCases.filter(weekdays.contains)
        case .every(let minutes): everyMinutes = minutes
        case .cron(let expression): cron = expression.text
        }
        if !timing.catchesUp { catchUp = false }
        windowMinutes = timing.window
        readyBy = timing.readyBy.map(ScheduleTiming.time)
        jitterSeconds = timing.jitter
        timeZone = timing.timeZone
        self.backend = backend
        self.request = request
    }

    /// Reads a definition; a rule, `backend` and `request` must be there.
    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        nightly = try values.decodeIfPresent(String.self, forKey: .nightly)
        days = try values.decodeIfPresent([Weekday].self, forKey: .days) ?? []
        everyMinutes = try values.decodeIfPresent(Int.self, forKey: .everyMinutes)
        cron = try values.decodeIfPresent(String.self, forKey: .cron)
        windowMinutes = try values.decodeIfPresent(Int.self, forKey: .windowMinutes)
        readyBy = try values.decodeIfPresent(String.self, forKey: .readyBy)
        jitterSeconds = try values.decodeIfPresent(Int.self, forKey: .jitterSeconds) ?? 0
        timeZone = try values.decodeIfPresent(String.self, forKey: .timeZone)
        catchUp = try values.decodeIfPresent(Bool.self, forKey: .catchUp)
        paused = try values.decodeIfPresent(Bool.self, forKey: .paused)
        backend = try values.decode(String.self, forKey: .backend)
        request = try values.decode(EnqueueRequest.self, forKey: .request)
    }

    /// Whether nothing is to be started until somebody resumes it.
    var isPaused: Bool { paused ?? false }

    /// When it runs.
    ///
    /// - Throws: ``ScheduleError`` for values that somebody has written into the file.
    func timing() throws(ScheduleError) -> ScheduleTiming {
        func minutes(_ text: String, _ key: String) throws(ScheduleError) -> Int {
            guard let minutes = ScheduleTiming.minutes(text) else {
                throw ScheduleError(.invalid, "\(key) is not a time such as 02:00")
            }
            return minutes
        }
        let recurrence: Recurrence
        switch (nightly, everyMinutes, cron) {
        case (let text?, nil, nil): recurrence = .daily(at: try minutes(text, "nightly"), on: Set(days))
        case (nil, let minutes?, nil): recurrence = .every(minutes: minutes)
        case (nil, nil, let text?): recurrence = .cron(try CronExpression(text))
        default: throw ScheduleError(.invalid, "give exactly one of nightly, every_minutes and cron")
        }
        var timing = ScheduleTiming(recurrence)
        timing.catchesUp = catchUp ?? true
        timing.window = windowMinutes
        timing.readyBy = try readyBy.map { text throws(ScheduleError) in try minutes(text, "ready_by") }
        timing.jitter = jitterSeconds
        timing.timeZone = timeZone
        try timing.check()
        return timing
    }
}

/// What a schedule has come to: kept in the state directory, by whoever fires it.
struct ScheduleMemory: Codable, Sendable, Equatable {
    /// **Days** since 1970 of the last occurrence that was dealt with.
    var handledDay: Int64?
    /// And its **minutes** after midnight; `nil` for all of that day, as older versions keep it.
    var handledMinute: Int?
    /// When it was fired last.
    var fired: WallTime?
    /// The session, once it is known.
    var session: String?
    /// The run that the last firing asked for.
    var run: String?
    /// Why it could not start the last time, and when, as long as it has no session to say so; `nil` when it could.
    var failure: String?
    var failed: WallTime?
    /// What that was, for reports; `nil` where an older program wrote it.
    var cause: FailureCause?

    /// The last occurrence that was dealt with.
    var handled: Slot? {
        get {
            handledDay.map { number in
                let day = CivilDay(number: number)
                return handledMinute.map { Slot(day: day, minute: $0) } ?? .end(of: day)
            }
        }
        set {
            handledDay = newValue?.day.number
            handledMinute = newValue?.minute
        }
    }
}

/// A schedule that is to be, compared with what there is.
struct SchedulePlan: Sendable {
    let name: String
    var definition: ScheduleDefinition
    let clock: ScheduleClock
    let choice: BackendChoice

    /// What becomes of a schedule.
    enum Change: String, Sendable {
        case added, changed, unchanged, removed
    }

    /// What there is to do. Reads, and asks nobody but crontab(1).
    ///
    /// - Throws: ``ScheduleError`` when what is installed cannot be looked at.
    func change(_ records: ScheduleRecords, now: Int64) throws(ScheduleError) -> Change {
        guard try ScheduleFiles.read(records.path(name)) != nil else { return .added }
        // One that cannot be understood is written anew.
        guard let record = (try? records.find(name)) ?? nil, record.definition == definition else {
            return .changed
        }
        if definition.isPaused { return .unchanged }
        let start = try records.installation.start(name, clock, now: now)
        return try choice.backend.holds(start) ? .unchanged : .changed
    }
}
