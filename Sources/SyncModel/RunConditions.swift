/// The conditions under which a run proceeds: evaluated before it starts and while it runs.
///
/// While they do not hold, the run waits and keeps what it has fetched. Without conditions, it always proceeds.
public struct RunConditions: Sendable, Equatable, Codable, HasDefault {
    /// Only on mains power; a machine without a battery is always on it.
    @Omittable public var power = false
    /// Most body **bytes** that the run may receive on a metered network: `nil` for any number, 0 for none.
    public var meteredBudget: UInt64?
    /// Highest load average of the last minute, per core.
    public var maximumLoad: Double?
    /// Only if nobody has used the machine for this many **seconds**.
    public var idleSeconds: Int?
    /// **Bytes** that must stay free at the destination.
    public var freeSpace: UInt64?
    /// Only at this time of day.
    public var window: DailyWindow?
    /// Other rate limits at certain times of day; the first that applies is used.
    @Omittable public var rates: [RateWindow] = []
    /// Names of condition plugins.
    @Omittable public var plugins: [String] = []
    /// Programs to ask, each as argv with an absolute path first; they answer by their exit status.
    @Omittable public var programs: [[String]] = []

    /// No conditions.
    public init() {}

    /// Conditions for discretionary work: mains power, a network that is not metered, and less than one busy task per
    /// core.
    public static var discretionary: RunConditions {
        var conditions = RunConditions()
        conditions.power = true
        conditions.meteredBudget = 0
        conditions.maximumLoad = 1
        return conditions
    }

    /// Whether there are no conditions.
    public var isEmpty: Bool { self == RunConditions() }
}

/// A part of every day: it begins at a wall-clock time and has a fixed length.
public struct DailyWindow: Sendable, Hashable, Codable {
    /// **Minutes** after midnight, 0...1439, on the wall clock of ``timeZone``.
    public var startMinute: Int
    /// **Minutes** of real time, 1...1440.
    public var lengthMinutes: Int
    /// An IANA name such as `Europe/Berlin`; `nil` for the machine's zone.
    public var timeZone: String?
    /// The days of the week on which it begins, in order; `nil` for all.
    package var days: [Weekday]?

    /// Makes a window; see the properties. Values out of range are refused where it is decoded or checked.
    public init(startMinute: Int, lengthMinutes: Int, timeZone: String? = nil) {
        (self.startMinute, self.lengthMinutes, self.timeZone) = (startMinute, lengthMinutes, timeZone)
    }

    /// Whether both numbers are within their bounds, and there is a day on which it begins.
    public var isValid: Bool {
        (0..<1440).contains(startMinute) && (1...1440).contains(lengthMinutes) && days?.isEmpty != true
    }
}

/// A rate limit for a part of every day.
public struct RateWindow: Sendable, Hashable, Codable {
    /// When it applies.
    public var window: DailyWindow
    /// Most body **bytes** a second; `nil` for no limit.
    public var limit: UInt64?

    /// Makes a rate; see the properties.
    public init(window: DailyWindow, limit: UInt64?) { (self.window, self.limit) = (window, limit) }
}
