import ArgumentParser
import SyncModel
import SyncSchedule

/// When a schedule runs, and who starts it.
struct ScheduleOptions: ParsableArguments {
    @Option(help: ArgumentHelp("When the night begins, 24 hours: 02:00.", valueName: "time"))
    var nightly: String

    @Option(
        help: ArgumentHelp(
            "How long it lasts: 4h, 90m. Nothing is transferred after it.  (default: no end)",
            valueName: "time"
        ),
        transform: duration
    )
    var window: Duration?

    @Option(
        help: ArgumentHelp(
            "When everything is to be in place: 07:00. It starts as late as earlier nights allow.",
            valueName: "time"
        )
    )
    var readyBy: String?

    @Option(
        help: ArgumentHelp(
            "Begin up to this much later; each machine has a delay of its own: 30m.  (default: none)",
            valueName: "time"
        ),
        transform: duration
    )
    var jitter: Duration?

    @Option(
        name: .customLong("on"),
        help: ArgumentHelp("Only on these days: mon,tue,fri.  (default: all)", valueName: "days"),
        transform: weekdays
    )
    var days: Set<Weekday> = []

    @Option(
        help: ArgumentHelp(
            "The time zone of these times, such as Europe/Berlin.  (default: the machine's)",
            valueName: "zone"
        )
    )
    var timeZone: String?

    @Option(
        help: ArgumentHelp(
            "The schedule's name.  (default: the session's, or the destination's)",
            valueName: "name"
        )
    )
    var name: String?

    @Option(help: ArgumentHelp("What starts it: auto, systemd, cron or agent.", valueName: "what"))
    var backend: BackendChoice.Wish = .auto

    @Flag(help: "Run whatever suits the machine: without this it is --discretionary.")
    var interactive = false

    @Flag(help: "Install it for the machine instead of the user; needs root.")
    var system = false

    func validate() throws {
        do throws(ScheduleError) {
            if let name { try ScheduleName.check(name) }
        } catch {
            throw ValidationError("--name: \(error)")
        }
        _ = try timing()
    }

    /// When it runs.
    ///
    /// - Throws: `ValidationError` that names the option.
    func timing() throws -> ScheduleTiming {
        func minutes(_ text: String, _ option: String) throws -> Int {
            guard let minutes = ScheduleTiming.minutes(text) else {
                throw ValidationError("\(option): '\(escaped(text))' is not a time of day such as 02:00.")
            }
            return minutes
        }
        var timing = ScheduleTiming(nightly: try minutes(nightly, "--nightly"))
        timing.days = days
        if let window {
            let seconds = Int(window / .seconds(1))
            guard seconds % 60 == 0 else {
                throw ValidationError("--window takes whole minutes, such as 90m or 4h.")
            }
            timing.window = seconds / 60
        }
        timing.readyBy = try readyBy.map { try minutes($0, "--ready-by") }
        timing.jitter = jitter.map { Int($0 / .seconds(1)) } ?? 0
        timing.timeZone = timeZone
        do throws(ScheduleError) {
            try timing.check()
        } catch {
            throw ValidationError(error.description)
        }
        return timing
    }
}

/// Reads `mon,tue`.
@Sendable
private func weekdays(_ text: String) throws -> Set<Weekday> {
    let days = text.lowercased().split(separator: ",", omittingEmptySubsequences: false)
        .map { Weekday(rawValue: String($0)) }
    guard !days.isEmpty, !days.contains(nil) else {
        throw ValidationError("'\(escaped(text))' is not a list of days such as mon,tue,wed,thu,fri,sat,sun.")
    }
    return Set(days.compactMap(\.self))
}
