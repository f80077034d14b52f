package import SyncModel

/// A stored schedule: when, what, and which backend starts it. One JSON file each, readable for people.
package struct ScheduleDefinition: Codable, Sendable, Equatable {
    package var timing: ScheduleTiming
    /// Whether nothing starts until the schedule is resumed.
    package var isPaused = false
    /// The name of a ``ScheduleBackend``.
    package var backend: String
    /// The request that is enqueued, without the times of the occurrence.
    package var request: RunRecipe

    package init(_ timing: ScheduleTiming, backend: String, request: RunRecipe) {
        (self.timing, self.backend, self.request) = (timing, backend, request)
    }

    private enum CodingKeys: String, CodingKey {
        case nightly, days, everyMinutes, cron, windowMinutes, readyBy, switchAt, jitterSeconds, timeZone, catchUp,
            paused, backend
        case request
    }

    /// Reads a definition; a rule, `backend` and `request` must be there.
    ///
    /// - Throws: ``ScheduleError`` for invalid values in the file; `DecodingError`.
    package init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        func text(_ key: CodingKeys) throws -> String? { try values.decodeIfPresent(String.self, forKey: key) }
        func number(_ key: CodingKeys) throws -> Int? { try values.decodeIfPresent(Int.self, forKey: key) }
        func flag(_ key: CodingKeys) throws -> Bool? { try values.decodeIfPresent(Bool.self, forKey: key) }
        func minutes(_ text: String, _ key: String) throws(ScheduleError) -> Int {
            guard let minutes = ScheduleTiming.minutes(text) else {
                throw ScheduleError(.invalid, "\(key) is not a time such as 02:00")
            }
            return minutes
        }
        switch (try text(.nightly), try number(.everyMinutes), try text(.cron)) {
        case (let text?, nil, nil):
            let days = try values.decodeIfPresent([Weekday].self, forKey: .days) ?? []
            timing = ScheduleTiming(.daily(at: try minutes(text, "nightly"), on: Set(days)))
        case (nil, let minutes?, nil): timing = ScheduleTiming(.every(minutes: minutes))
        case (nil, nil, let text?): timing = ScheduleTiming(.cron(try CronExpression(text)))
        default: throw ScheduleError(.invalid, "give exactly one of nightly, every_minutes and cron")
        }
        timing.window = try number(.windowMinutes)
        timing.readyBy = try text(.readyBy).map { try minutes($0, "ready_by") }
        timing.switchAt = try text(.switchAt).map { try minutes($0, "switch_at") }
        timing.jitter = try number(.jitterSeconds) ?? 0
        timing.timeZone = try text(.timeZone)
        timing.catchesUp = try flag(.catchUp) ?? true
        try timing.check()
        isPaused = try flag(.paused) ?? false
        backend = try values.decode(String.self, forKey: .backend)
        request = try values.decode(RunRecipe.self, forKey: .request)
    }

    /// Writes all values except defaults.
    package func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        let recurrence = timing.recurrence
        try values.encodeIfPresent(recurrence.nightly, forKey: .nightly)
        try values.encode(recurrence.weekdays, forKey: .days)
        try values.encodeIfPresent(recurrence.everyMinutes, forKey: .everyMinutes)
        try values.encodeIfPresent(recurrence.cron, forKey: .cron)
        try values.encodeIfPresent(timing.window, forKey: .windowMinutes)
        try values.encodeIfPresent(timing.readyBy.map(ScheduleTiming.time), forKey: .readyBy)
        try values.encodeIfPresent(timing.switchAt.map(ScheduleTiming.time), forKey: .switchAt)
        try values.encode(timing.jitter, forKey: .jitterSeconds)
        try values.encodeIfPresent(timing.timeZone, forKey: .timeZone)
        if !timing.catchesUp { try values.encode(false, forKey: .catchUp) }
        if isPaused { try values.encode(true, forKey: .paused) }
        try values.encode(backend, forKey: .backend)
        try values.encode(request, forKey: .request)
    }
}

// The rule as it is written in JSON: one of three.
extension Recurrence {
    /// `02:00`.
    package var nightly: String? { if case .daily(let minute, _) = self { ScheduleTiming.time(minute) } else { nil } }

    /// With ``nightly``: the days; empty for all.
    package var weekdays: [Weekday] {
        if case .daily(_, let days) = self { Weekday.allCases.filter(days.contains) } else { [] }
    }

    package var everyMinutes: Int? { if case .every(let minutes) = self { minutes } else { nil } }

    /// Five fields, or a name such as `@daily`.
    package var cron: String? { if case .cron(let expression) = self { expression.text } else { nil } }
}

/// The state of a schedule, written to the state directory by whatever fires it.
package struct ScheduleMemory: Codable, Sendable, Equatable {
    /// **Days** since 1970 of the last handled occurrence.
    package var handledDay: Int64?
    /// Its **minutes** after midnight.
    package var handledMinute: Int?
    /// When it last fired.
    package var fired: WallTime?
    /// The session, once it is known.
    package var session: String?
    /// The run that the last firing asked for.
    package var run: String?
    /// Why the last start failed, as long as no session records it; `nil` if it succeeded.
    package var failure: String?
    package var failed: WallTime?
    /// The cause of that failure, for reports.
    package var cause: FailureCause?

    /// The state of a new schedule.
    package init() {}

    /// The last handled occurrence.
    package var handled: Slot? {
        get {
            guard let handledDay, let handledMinute else { return nil }
            return Slot(day: CivilDay(number: handledDay), minute: handledMinute)
        }
        set {
            handledDay = newValue?.day.number
            handledMinute = newValue?.minute
        }
    }
}
