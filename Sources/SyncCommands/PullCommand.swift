import ArgumentParser
import SyncControl
import SyncEngine
import SyncHooks
import SyncModel
import SyncReport
import SyncSettings

/// `syncagent pull`: brings the files of a manifest onto this machine.
struct PullCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pull",
        abstract: "Bring the files of a manifest onto this machine.",
        discussion: """
            Every file is verified before it becomes visible. Run the command again to go on where it \
            stopped, and every night to stay up to date: a run that finds nothing new costs one request.

            The first SIGINT or SIGTERM stops the work and keeps what has been fetched (exit 130 or 143); \
            a second one ends the process at once.

            Examples:

              syncagent pull https://cdn.example.com/tower/manifest.json --into /srv/tower
              syncagent pull https://cdn.example.com/tower/ --into tower --hook ./reindex
              syncagent pull site/manifest.json --into copy --dry-run -v
            """
    )

    @OptionGroup
    var target: TargetOptions

    @Option(
        name: .customLong("hook"),
        help: ArgumentHelp(
            "A program to run when the pull has ended; may be given more than once.",
            valueName: "program"
        ),
        completion: .file()
    )
    var hooks: [String] = []

    @Option(
        name: .customLong("group-hook"),
        help: ArgumentHelp("A program to run when a group is in place.", valueName: "name=program")
    )
    var groupHooks: [String] = []

    @OptionGroup
    var pruning: PruneOptions

    @Flag(help: "Install a manifest whose revision is older than what is installed.")
    var allowOlder = false

    @OptionGroup
    var handedOn: HandedOnOptions

    @Flag(help: "Print the plan; fetch and change nothing.")
    var dryRun = false

    @OptionGroup
    var trust: TrustOptions

    @OptionGroup
    var verbose: VerboseOption

    @OptionGroup(title: "Transfer")
    var limits: LimitOptions

    @OptionGroup(title: "Transfer")
    var transfer: TransferOptions

    @OptionGroup(title: "Hooks")
    var hookOptions: HookOptions

    @OptionGroup(title: "Background")
    var later: BackgroundOptions

    @OptionGroup(title: "When it may run, with --background")
    var conditionOptions: ConditionOptions

    @OptionGroup(title: "When it may run, with --background")
    var windowOption: WindowOption

    @OptionGroup(title: "Output")
    var reporting: ReportingOptions

    @Flag(help: "With --json: progress as lines, too, five a second.")
    var progress = false

    func validate() throws {
        if progress, !reporting.json { throw ValidationError("--progress: lines for programs; add --json.") }
        if dryRun, later.background {
            throw ValidationError("--dry-run and --background: print the plan, or hand it over; not both.")
        }
        if trust.stale != nil, later.background {
            throw ValidationError("--stale is for a pull that somebody looks at; not with --background.")
        }
        // S45: only the agent can keep to them.
        let condition = conditionOptions.given ?? windowOption.window.map { _ in "--window" }
        if let condition, !later.background {
            throw ValidationError(
                "\(condition): conditions need the agent, which looks at them before and while a pull runs; "
                    + "add --background."
            )
        }
        try hookOptions.check(hasHooks: !hooks.isEmpty || !groupHooks.isEmpty)
        _ = try hookSpecifications(environment: .ofProcess)
    }

    func run() async throws {
        let (output, end) = (reporting.output(), PullEnd())
        do {
            try await pull(output, end)
        } catch {
            if reporting.json { end.tell(error, on: output) }
            throw error
        }
    }

    private func pull(_ output: Output, _ end: PullEnd) async throws {
        let settings = try settings(environment: .ofProcess)
        let options = try pullOptions(environment: .ofProcess, settings)
        var tuning = try EngineTuning(settings, for: target)
        try trust.apply(to: &tuning.trust)
        let engine = EngineCall(
            reporting,
            on: output,
            tuning: tuning,
            tellsProgress: progress,
            end: end,
            detail: verbose.detail
        )
        if dryRun { return try await engine.plan(options) }

        for program in options.hooks.compactMap(\.arguments.first)
        where program.hasPrefix("/") && !EnvironmentPaths.isProgram(program) {
            output.warning("\(escaped(program)) is not an executable program now; the hook may fail.")
        }
        if later.background {
            return try await BackgroundPull(
                options: options,
                background: later,
                settings: settings,
                hasOwnFile: transfer.configurationFile != nil || transfer.noConfigurationFile,
                engine: engine,
                conditions: conditions(environment: .ofProcess)
            ).run()
        }
        let report = try await engine.pull(options)
        output.message(Self.summary(report))
        guard report.status == .done else { throw CommandFailure(report.status) }
    }

    /// How to transfer, from everywhere it is said, and the hooks of the configuration file.
    func settings(environment: EnvironmentPaths) throws -> LoadedSettings {
        let said = limits.settings.over(try transfer.settings(environment.pathBase))
        return try LoadedSettings(said, transfer, environment: environment)
    }

    /// The options as the engine takes them.
    func pullOptions(environment: EnvironmentPaths, _ settings: LoadedSettings) throws -> PullOptions {
        var options = PullOptions(manifest: target.manifest, stateDirectory: try environment.stateDirectory())
        options.destination = target.destination
        options.session = target.session
        options.groups = target.groups
        options.hooks = try hookSpecifications(environment: environment)
        options.namedHooks = settings.hooks.mapValues(HookSpecification.init(named:))
        try Self.check(options.hooks, .refused)
        try Self.check(options.namedHooks.values, .configuration)
        options.connections = settings.effective.plannedConnections
        options.rateLimit = settings.effective.rateLimit
        try pruning.apply(to: &options, settings, environment)
        options.allowOlder = allowOlder
        options.dryRun = dryRun
        handedOn.apply(to: &options)
        return options
    }

    /// What must hold for a background run. What a hook asks for waits until it suits the machine (S50).
    func conditions(environment: EnvironmentPaths) -> RunConditions {
        let isOfHook = later.origin(environment) == .hook
        var conditions = conditionOptions.conditions(isDiscretionary: isOfHook)
        conditions.window = windowOption.window
        return conditions
    }

    private func hookSpecifications(environment: EnvironmentPaths) throws -> [HookSpecification] {
        var specifications: [HookSpecification] = []
        for hook in hooks {
            let program = try environment.absoluteProgram(hook, option: "--hook")
            specifications.append(specification(program, group: "all"))
        }
        for hook in hookOptions.fileHooks {
            let program = try environment.absoluteProgram(hook, option: "--file-hook")
            var files = specification(program, group: "all")
            files.batch = hookOptions.batch
            specifications.append(files)
        }
        for hook in groupHooks {
            let parts = hook.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty else {
                throw ValidationError("--group-hook takes NAME=PROGRAM, not '\(escaped(hook))'.")
            }
            let group = String(parts[0])
            guard target.groups.isEmpty || target.groups.contains(group) || group == "all" else {
                throw ValidationError(
                    "--group-hook names '\(escaped(group))', a group that no --group selects."
                )
            }
            let program = try environment.absoluteProgram(String(parts[1]), option: "--group-hook")
            specifications.append(specification(program, group: group))
        }
        return specifications
    }

    /// Refuses programs that others could change, before anything is fetched for them. One that is missing may still come;
    /// it is looked at again when it is to run.
    private static func check(
        _ hooks: some Sequence<HookSpecification>,
        _ status: ExitStatus
    ) throws(CommandFailure) {
        for program in hooks.compactMap(\.arguments.first) where program.hasPrefix("/") {
            do throws(ProgramError) {
                try physicalProgram(program, role: "hook", destination: nil)
            } catch {
                if error.code == .changeable { throw CommandFailure(status, error.message) }
            }
        }
    }

    private func specification(_ program: String, group: String) -> HookSpecification {
        HookSpecification(
            group: group,
            arguments: [program],
            timeout: hookOptions.timeout,
            results: hookOptions.results
        )
    }

    /// One line about what a pull did.
    static func summary(_ report: PullReport) -> String {
        var parts = ["\(Figures.grouped(report.files.installed)) installed"]
        if report.files.reused > 0 { parts.append("\(Figures.grouped(report.files.reused)) reused") }
        parts.append("\(Figures.grouped(report.files.unchanged)) unchanged")
        if report.files.removed > 0 { parts.append("\(Figures.grouped(report.files.removed)) removed") }
        if report.files.failed > 0 { parts.append("\(Figures.grouped(report.files.failed)) failed") }
        let seconds = ProgressText.seconds(milliseconds: report.elapsedMilliseconds)
        return "\(escaped(report.session)): \(Figures.count(report.files.total, "file")): "
            + parts.joined(separator: ", ")
            + "; \(ByteCount(report.bytes.received)) in "
            + "\(Figures.count(report.requests, "request")), \(seconds) s"
    }
}
