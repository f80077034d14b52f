import ArgumentParser
import SyncEngine
import SyncModel

/// `syncagent pull`: brings the files of a manifest onto this machine.
struct PullCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pull",
        abstract: "Bring the files of a manifest onto this machine.",
        discussion: """
            Every file is verified before it becomes visible. Run the command again to go on where it \
            stopped, and every night to stay up to date: a run that finds nothing new costs one request.

            The first SIGINT or SIGTERM stops the work and keeps what has been fetched (exit 130 or 143); \
            a second SIGINT ends the process at once.
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

    @Option(help: ArgumentHelp("Connections at a time, 1 to 64.", valueName: "n"))
    var connections = 4

    @Option(
        help: ArgumentHelp("Most bytes a second, such as 500K or 10MB.", valueName: "rate"),
        transform: positiveByteCount
    )
    var limitRate: ByteCount?

    @Option(
        help: ArgumentHelp(
            "Give up after this time, waiting included: 90s, 15m, 6h.  (default: 7d)",
            valueName: "time"
        ),
        transform: duration
    )
    var deadline: Duration?

    @Flag(help: "Remove files that an earlier pull installed and the manifest no longer names.")
    var prune = false

    @Flag(help: "Prune even if more than half of the installed files go.")
    var force = false

    @Flag(help: "Print the plan; fetch and change nothing.")
    var dryRun = false

    @OptionGroup(title: "Output")
    var reporting: ReportingOptions

    func validate() throws {
        guard (1...64).contains(connections) else {
            throw ValidationError("--connections takes 1 to 64, not \(connections).")
        }
        if force, !prune {
            throw ValidationError("--force is for --prune; without it there is nothing to force.")
        }
        _ = try hookSpecifications(environment: .ofProcess)
    }

    func run() async throws {
        let output = reporting.output()
        let options = try pullOptions(environment: .ofProcess)
        var tuning = EngineTuning()
        tuning.deadline = deadline
        let engine = EngineCall(reporting, on: output, tuning: tuning)
        if dryRun { return try await engine.plan(options) }

        for program in options.hooks.compactMap(\.arguments.first) where !EnvironmentPaths.isProgram(program)
        {
            output.warning("\(escaped(program)) is not an executable program now; the hook may fail.")
        }
        let report = try await engine.pull(options)
        output.message(Self.summary(report))
        guard report.status == .done else { throw CommandFailure(report.status) }
    }

    /// The options as the engine takes them.
    func pullOptions(environment: EnvironmentPaths) throws -> PullOptions {
        var options = PullOptions(manifest: target.manifest, stateDirectory: try environment.stateDirectory())
        options.destination = target.destination
        options.session = target.session
        options.groups = target.groups
        options.hooks = try hookSpecifications(environment: environment)
        options.connections = connections
        options.rateLimit = limitRate?.bytes
        options.prune = prune
        options.force = force
        options.dryRun = dryRun
        return options
    }

    private func hookSpecifications(environment: EnvironmentPaths) throws -> [HookSpecification] {
        var specifications: [HookSpecification] = []
        for hook in hooks {
            let program = try environment.absoluteProgram(hook, option: "--hook")
            specifications.append(HookSpecification(group: "all", arguments: [program]))
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
            specifications.append(HookSpecification(group: group, arguments: [program]))
        }
        return specifications
    }

    /// One line about what a pull did.
    static func summary(_ report: PullReport) -> String {
        var parts = ["\(ProgressText.grouped(report.files.installed)) installed"]
        if report.files.reused > 0 { parts.append("\(ProgressText.grouped(report.files.reused)) reused") }
        parts.append("\(ProgressText.grouped(report.files.unchanged)) unchanged")
        if report.files.removed > 0 { parts.append("\(ProgressText.grouped(report.files.removed)) removed") }
        if report.files.failed > 0 { parts.append("\(ProgressText.grouped(report.files.failed)) failed") }
        let seconds = ProgressText.seconds(milliseconds: report.elapsedMilliseconds)
        return "\(escaped(report.session)): \(ProgressText.grouped(report.files.total)) files: "
            + parts.joined(separator: ", ")
            + "; \(ByteCount(report.bytes.received)) in \(ProgressText.grouped(report.requests)) "
            + (report.requests == 1 ? "request" : "requests") + ", \(seconds) s"
    }
}
