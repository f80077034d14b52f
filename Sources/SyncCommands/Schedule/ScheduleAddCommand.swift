import ArgumentParser
import SyncControl
import SyncModel
import SyncSchedule

extension BackendChoice.Wish: ExpressibleByArgument {}

/// `syncagent schedule add`: makes a schedule, or a new one in the place of one of that name.
struct ScheduleAddCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "add",
        abstract: "Pull a manifest every night.",
        discussion: """
            Options about what is pulled, how and with which hooks are as with 'syncagent pull'. A schedule of the same \
            name is replaced.

            The night begins at --nightly, by the wall clock: where summer time leaves that time out, at the \
            first moment after it; where it comes twice, the first time. A machine that was off catches up one night, \
            if its window is still open. At the window's end work stops at a checkpoint, and the next night goes on.

            Examples:

              syncagent schedule add https://cdn.example.com/tower/ --into tower --nightly 02:00
            """
    )

    @OptionGroup(title: "Schedule")
    var schedule: ScheduleOptions

    @OptionGroup
    var asked: RunOptions

    @Flag(help: "Print what would be installed; change nothing.")
    var dryRun = false

    @OptionGroup(title: "When it may run")
    var conditionOptions: ConditionOptions

    @OptionGroup(title: "Output")
    var reporting: ReportingOptions

    func validate() throws {
        if schedule.interactive, conditionOptions.discretionary {
            throw ValidationError("--interactive and --discretionary exclude each other.")
        }
        if asked.trust.stale != nil {
            throw ValidationError("--stale is for a pull that somebody looks at; not for a schedule.")
        }
    }

    func run() async throws {
        let output = reporting.output()
        let environment = EnvironmentPaths.ofProcess
        let timing = try schedule.timing()
        let request = try await request(environment, output)
        let name = try name(request)
        let records = try ScheduleRecords(environment)
        let commands = SystemCommands(environment: environment)
        let choice = try scheduling { () throws(ScheduleError) in
            try BackendChoice.choose(
                schedule.backend,
                isForMachine: schedule.system,
                hasZone: timing.timeZone != nil,
                commands.abilities()
            )
        }
        let clock = try scheduling { () throws(ScheduleError) in
            ScheduleClock(
                timing,
                zone: try Zone.of(timing.timeZone),
                delay: Jitter.delay(machine: ScheduleRecords.machine, schedule: name, most: timing.jitter)
            )
        }
        let definition = ScheduleDefinition(timing, backend: choice.backend, request: request)
        if dryRun { return try show(name, definition, clock, output) }

        let replaced = try scheduling { () throws(ScheduleError) in
            try records.replace(name, definition, clock, output: output)
        }
        if choice.backend == .agent {
            _ = try await AgentReach(state: try StateAccess(output: output)).client()
        }
        tell(name, clock, choice, isReplaced: replaced, commands, output)
        if !request.conditions.words.isEmpty {
            output.message("It runs only \(request.conditions.words.joined(separator: ", ")).")
        }
    }

    /// What is enqueued every night.
    private func request(_ environment: EnvironmentPaths, _ output: Output) async throws -> EnqueueRequest {
        var (recipe, settings) = try asked.recipe(environment)
        recipe.origin = .schedule
        conditionOptions.apply(to: &recipe, isDiscretionary: !schedule.interactive)
        let tuning = try EngineTuning(settings, recipe, stateDirectory: try environment.stateDirectory())
        let engine = EngineCall(reporting, on: output, tuning: tuning)
        return try await BackgroundPull(recipe: recipe, engine: engine).request(environment)
    }

    private func name(_ request: EnqueueRequest) throws -> String {
        if let name = schedule.name { return name }
        let last = (request.destination ?? "").split(separator: "/").last.map(String.init)
        guard let name = (request.session ?? last).flatMap(ScheduleName.derived) else {
            throw ValidationError("The schedule needs a name: --name.")
        }
        return name
    }

    /// Prints what would be installed.
    private func show(
        _ name: String,
        _ definition: ScheduleDefinition,
        _ clock: ScheduleClock,
        _ output: Output
    ) throws {
        let installation = ScheduleInstallation()
        let now = EngineAssembly.milliseconds()
        let text = try scheduling { () throws(ScheduleError) in
            switch definition.backend {
            case .systemdUser, .systemdSystem:
                let units = try installation.units(name, clock, on: definition.backend, now: now)
                return "# \(units.service)\n\(units.serviceText)\n# \(units.timer)\n\(units.timerText)"
            case .cron, .cronSystem:
                let lines = try CronLines(
                    clock.timing,
                    delay: clock.delay,
                    program: try installation.program(name),
                    user: definition.backend == .cronSystem ? "root" : nil
                )
                return lines.lines.joined(separator: "\n")
            case .agent: return "The agent's own clock; nothing is installed."
            }
        }
        output.line(text)
        let words = ScheduleText(now: now)
        output.message("\(name): \(words.nights(clock)), by \(words.by(definition.backend)).")
        for line in words.nextNights(clock, 3) { output.message(line) }
        let conditions = definition.request.conditions.words
        if !conditions.isEmpty { output.message("It runs only \(conditions.joined(separator: ", ")).") }
        output.message("Nothing was changed.")
    }

    private func tell(
        _ name: String,
        _ clock: ScheduleClock,
        _ choice: BackendChoice,
        isReplaced: Bool,
        _ commands: SystemCommands,
        _ output: Output
    ) {
        let now = EngineAssembly.milliseconds()
        let words = ScheduleText(now: now)
        output.message(
            "\(name): \(isReplaced ? "replaced; " : "")\(words.nights(clock)), by \(words.by(choice.backend)): \(choice.reason)."
        )
        if clock.timing.jitter > 0 {
            output.message(
                "This machine begins \(ScheduleTiming.length(seconds: clock.delay)) later than others may, every night."
            )
        }
        if let next = clock.next(after: now) { output.message("Next: \(words.moment(next.fire)).") }
        switch choice.backend {
        case .systemdUser where !commands.doesLinger:
            output.warning(
                "systemd stops your units when you log out: 'loginctl enable-linger \(escaped(commands.userName))' keeps "
                    + "them."
            )
        case .agent:
            output.message(
                "An agent is running and stays for it. After a restart of the machine nothing starts one: let "
                    + "'syncagent agent run' be a service, or the container's main process."
            )
        default: break
        }
    }
}
