import ArgumentParser
import SyncAssembly
import SyncModel
import SyncPlugins
import SyncSchedule

/// The conditions of a run besides the time of day. The agent checks them before it starts the run and while the run
/// is running.
struct ConditionOptions: ParsableArguments {
    @Flag(help: "Run only when the machine can spare it: --on-power --metered deny --max-load 1.")
    var discretionary = false

    @Flag(help: "Only on mains power; a machine without a battery always counts.") var onPower = false

    @Option(
        help: "On a metered network: allow, deny, or budget=500M to allow that many bytes per run.  (default: allow)"
            .taking("policy"), transform: { MeteredPolicy(budget: try setting(SettingValue.metered($0))) })
    var metered: MeteredPolicy?

    @Option(help: "Only while other processes load each core less than this on average.".taking("n"))
    var maxLoad: Double?

    @Option(help: "Only when nobody has used the machine for this long: 10m.".taking("time"), transform: duration)
    var idle: Duration?

    @Option(
        help: "Only while the destination keeps this much space free: 5G.".taking("bytes"), transform: positiveByteCount
    )
    var keepFree: ByteCount?

    @Option(
        name: .customLong("condition"), help: "Only while this condition plugin allows it; repeatable.".taking("plugin")
    )
    var plugins: [String] = []

    @Option(
        help: "Only while this program exits with 0; on 1 the run waits and asks again; repeatable.".taking("command"),
        transform: { try smallProgram($0, option: "--condition-program") })
    var conditionProgram: [[String]] = []

    @Option(
        help: "A --limit-rate for a time of day: 08:00-18:00=2M, or =none; repeatable, the first match applies.".taking(
            "times=rate"),
        transform: { text in
            let rate = try setting(SettingValue.rateWindow(text))
            try checkZone(of: rate.window)
            return rate
        })
    var rateWindow: [RateWindow] = []

    func validate() throws {
        if let maxLoad, !(maxLoad > 0 && maxLoad <= 1_000) {
            throw ValidationError("--max-load takes a number above 0 and up to 1000, such as 0.7.")
        }
        for plugin in plugins {
            if builtInConditions.contains(plugin) {
                throw ValidationError("--condition names plugins; '\(plugin)' is built in and has its own option.")
            }
            let isPath = plugin.hasPrefix("/")
            guard isPath || RunRecipe.isIdentifier(plugin) else {
                throw ValidationError(
                    "--condition takes the name of a plugin or an absolute path, not '\(escaped(plugin))'.")
            }
        }
    }

    /// The first of these options that was given; `nil` if none was.
    var given: String? {
        let all = [
            ("--discretionary", discretionary), ("--on-power", onPower), ("--metered", metered != nil),
            ("--max-load", maxLoad != nil), ("--idle", idle != nil), ("--keep-free", keepFree != nil),
            ("--condition", !plugins.isEmpty), ("--condition-program", !conditionProgram.isEmpty),
            ("--rate-window", !rateWindow.isEmpty),
        ]
        return all.first { $0.1 }?.0
    }

    /// Applies the options to a recipe.
    ///
    /// - Parameter isDiscretionary: Whether the default set applies even without `--discretionary`: for runs that a
    ///   hook or a schedule enqueues.
    /// - Throws: ``CommandFailure`` for a program in a working directory that is gone.
    func apply(to recipe: inout RunRecipe, isDiscretionary: Bool = false) throws(CommandFailure) {
        var conditions = discretionary || isDiscretionary ? RunConditions.discretionary : RunConditions()
        if onPower { conditions.power = true }
        if let metered { conditions.meteredBudget = metered.budget }
        if let maxLoad { conditions.maximumLoad = maxLoad }
        conditions.idleSeconds = idle.map { Int($0.components.seconds) }
        conditions.freeSpace = keepFree?.bytes
        conditions.rates = rateWindow
        conditions.plugins = plugins
        conditions.programs = try absoluteCommands(conditionProgram)
        recipe.conditions = conditions
    }
}

/// How much a run may receive on a metered network.
struct MeteredPolicy: Sendable, Equatable {
    /// **Bytes**; `nil` for any number.
    var budget: UInt64?
}

/// The time of day at which a run may work.
struct WindowOption: ParsableArguments {
    @Option(
        help: "Only at this time of day: 22:00-06:00 or 02:00+4h.".taking("times"),
        transform: { text in
            let window = try setting(SettingValue.window(text))
            try checkZone(of: window)
            return window
        })
    var window: DailyWindow?
}

private func checkZone(of window: DailyWindow) throws {
    guard wallClock(window, 0) == nil, let zone = window.timeZone else { return }
    throw ValidationError("There is no time zone '\(escaped(zone))' on this machine; names look like Europe/Berlin.")
}

extension RunConditions {
    /// The conditions in words; empty if there are none.
    var words: [String] {
        var words: [String] = []
        if let window { words.append("at \(window.text)") }
        if power { words.append("on mains power") }
        if let meteredBudget {
            words.append(
                meteredBudget == 0
                    ? "on a network that is not metered"
                    : "with at most \(ByteCount(meteredBudget)) on a metered network")
        }
        if let maximumLoad { words.append("while other processes load each core less than \(maximumLoad)") }
        if let idleSeconds { words.append("when nobody has used the machine for \(idleSeconds) s") }
        if let freeSpace { words.append("while at least \(ByteCount(freeSpace)) stays free") }
        for program in programs { words.append("when \(escaped(program.joined(separator: " "))) allows it") }
        if !plugins.isEmpty { words.append("when \(escaped(plugins.joined(separator: " and "))) allows it") }
        return words
    }
}
