package import SyncAgent
package import SyncModel

/// A schedule as it is kept: when, what and who starts it. One JSON file each, for people to read.
package struct ScheduleDefinition: Codable, Sendable, Equatable {
    /// `02:00`; one of this, ``everyMinutes`` and ``cron`` is there.
    package var nightly: String?
    /// `mon`, `tue` …, for ``nightly``; empty for all.
    package var days: [Weekday] = []
    package var everyMinutes: Int?
    /// Five fields, or `@daily` and its kin.
    package var cron: String?
    package var windowMinutes: Int?
    /// `07:00`.
    package var readyBy: String?
    /// Most **seconds** that a machine may begin later.
    package var jitterSeconds = 0
    /// An IANA name; `nil` for the machine's zone.
    package var timeZone: String?
    /// Whether a machine that was off runs later what it has missed; `nil` for yes.
    package var catchUp: Bool?
    /// `true` while nothing is to be started; `nil` for no.
    package var paused: Bool?
    /// The name of a ``ScheduleBackend``.
    package var backend: String
    /// What is enqueued, but for the night's own times.
    package var request: EnqueueRequest

    package init(_ timing: ScheduleTiming, backend: String, request: EnqueueRequest) {
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
    package init(from decoder: any Decoder) throws {
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
    package var isPaused: Bool { paused ?? false }

    /// When it runs.
    ///
    /// - Throws: ``ScheduleError`` for values that somebody has written into the file.
    package func timing() throws(ScheduleError) -> ScheduleTiming {
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
package struct ScheduleMemory: Codable, Sendable, Equatable {
    /// **Days** since 1970 of the last occurrence that was dealt with.
    package var handledDay: Int64?
    /// And its **minutes** after midnight; `nil` for all of that day, as older versions keep it.
    package var handledMinute: Int?
    /// When it was fired last.
    package var fired: WallTime?
    /// The session, once it is known.
    package var session: String?
    /// The run that the last firing asked for.
    package var run: String?
    /// Why it could not start the last time, and when, as long as it has no session to say so; `nil` when it could.
    package var failure: String?
    package var failed: WallTime?
    /// What that was, for reports; `nil` where an older program wrote it.
    package var cause: FailureCause?

    /// Of a schedule that is new.
    package init() {}

    /// The last occurrence that was dealt with.
    package var handled: Slot? {
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
