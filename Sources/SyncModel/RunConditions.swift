/// What must hold for a run to be worked on: checked before it starts and again while it runs.
///
/// A run whose conditions do not hold waits; what it has fetched stays. Nothing set: it always may.
public struct RunConditions: Sendable, Equatable, Codable, HasDefault {
    /// Only on mains power; a machine without a battery is always on it.
    @Omittable public var power = false
    /// Most body **bytes** that the run may receive on a metered network: `nil` any, 0 none.
    public var meteredBudget: UInt64?
    /// Highest load average of the last minute, for each core.
    public var maximumLoad: Double?
    /// Only when nobody has used the machine for so many **seconds**.
    public var idleSeconds: Int?
    /// **Bytes** that must stay free where the destination is.
    public var freeSpace: UInt64?
    /// Only at this time of day.
    public var window: DailyWindow?
    /// Other limits on the rate at certain times of day; the first that holds counts.
    @Omittable public var rates: [RateWindow] = []
    /// Names of condition plugins.
    @Omittable public var plugins: [String] = []
    /// Programs that are asked, argv each, an absolute path first; they answer by their exit status.
    @Omittable public var programs: [[String]] = []

    /// Everything always holds.
    public init() {}

    /// What "when it suits the machine" means: mains power, a network that is not metered, and less than one
    /// busy task a core.
    public static var discretionary: RunConditions {
        var conditions = RunConditions()
        conditions.power = true
        conditions.meteredBudget = 0
        conditions.maximumLoad = 1
        return conditions
    }

    /// Whether nothing is asked for.
    public var isEmpty: Bool { self == RunConditions() }
}

/// A part of every day: begins at a wall-clock time and lasts so long.
public struct DailyWindow: Sendable, Hashable, Codable {
    /// **Minutes** after midnight, 0...1439, on the wall clock of ``timeZone``.
    public var startMinute: Int
    /// **Minutes** of real time, 1...1440.
    public var lengthMinutes: Int
    /// An IANA name such as `Europe/Berlin`; `nil` for the machine's zone.
    public var timeZone: String?
    /// The days of the week on which it begins, in order; `nil` for all.
    package var days: [Weekday]?

    /// Makes a window; see the properties. Out of bounds it is refused where it is read or checked.
    public init(startMinute: Int, lengthMinutes: Int, timeZone: String? = nil) {
        (self.startMinute, self.lengthMinutes, self.timeZone) = (startMinute, lengthMinutes, timeZone)
    }

    /// Whether both numbers are within their bounds, and there is a day on which it begins.
    public var isValid: Bool {
        (0..<1440).contains(startMinute) && (1...1440).contains(lengthMinutes) && days?.isEmpty != true
    }
}

/// A rate that holds for a part of every day.
public struct RateWindow: Sendable, Hashable, Codable {
    /// When.
    public var window: DailyWindow
    /// Most body **bytes** a second then; `nil` for no limit.
    public var limit: UInt64?

    /// Makes a rate; see the properties.
    public init(window: DailyWindow, limit: UInt64?) { (self.window, self.limit) = (window, limit) }
}
