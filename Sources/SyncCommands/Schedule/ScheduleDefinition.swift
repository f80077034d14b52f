import SyncControl
import SyncModel
import SyncSchedule

/// A schedule as it is kept: when, what and who starts it. One JSON file each, for people to read.
struct ScheduleDefinition: Codable, Sendable, Equatable {
    /// `02:00`.
    var nightly: String
    /// `mon`, `tue` …; empty for all.
    var days: [Weekday] = []
    var windowMinutes: Int?
    /// `07:00`.
    var readyBy: String?
    /// Most **seconds** that a machine may begin later.
    var jitterSeconds = 0
    /// An IANA name; `nil` for the machine's zone.
    var timeZone: String?
    var backend: ScheduleBackend
    /// What is enqueued, but for the night's own times.
    var request: EnqueueRequest

    /// Puts a definition together.
    init(_ timing: ScheduleTiming, backend: ScheduleBackend, request: EnqueueRequest) {
        nightly = ScheduleTiming.time(timing.nightly)
        days = Weekday.allCases.filter(timing.days.contains)
        windowMinutes = timing.window
        readyBy = timing.readyBy.map(ScheduleTiming.time)
        jitterSeconds = timing.jitter
        timeZone = timing.timeZone
        self.backend = backend
        self.request = request
    }

    private enum CodingKeys: String, CodingKey {
        case nightly, days, windowMinutes, readyBy, jitterSeconds, timeZone, backend, request
    }

    /// Reads a definition; `nightly`, `backend` and `request` must be there.
    init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        nightly = try values.decode(String.self, forKey: .nightly)
        days = try values.decodeIfPresent([Weekday].self, forKey: .days) ?? []
        windowMinutes = try values.decodeIfPresent(Int.self, forKey: .windowMinutes)
        readyBy = try values.decodeIfPresent(String.self, forKey: .readyBy)
        jitterSeconds = try values.decodeIfPresent(Int.self, forKey: .jitterSeconds) ?? 0
        timeZone = try values.decodeIfPresent(String.self, forKey: .timeZone)
        backend = try values.decode(ScheduleBackend.self, forKey: .backend)
        request = try values.decode(EnqueueRequest.self, forKey: .request)
    }

    /// When it runs.
    ///
    /// - Throws: ``ScheduleError`` for values that somebody has written into the file.
    func timing() throws(ScheduleError) -> ScheduleTiming {
        func minutes(_ text: String, _ key: String) throws(ScheduleError) -> Int {
            guard let minutes = ScheduleTiming.minutes(text) else {
                throw ScheduleError(.invalid, "\(key) is no time such as 02:00")
            }
            return minutes
        }
        var timing = ScheduleTiming(nightly: try minutes(nightly, "nightly"))
        timing.days = Set(days)
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
    /// **Days** since 1970 of the last night that was dealt with.
    var handledDay: Int64?
    /// When it was fired last.
    var fired: WallTime?
    /// The session, once it is known.
    var session: String?
    /// The run that the last firing asked for.
    var run: String?
    /// Why it could not start the last time, and when, as long as it has no session to say so; `nil` when it could.
    var failure: String?
    var failed: WallTime?

    /// The last night that was dealt with.
    var handled: CivilDay? {
        get { handledDay.map(CivilDay.init(number:)) }
        set { handledDay = newValue?.number }
    }
}
