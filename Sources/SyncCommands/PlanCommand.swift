import ArgumentParser
import SyncEngine
import SyncSettings

/// `syncagent plan`: what a pull would fetch, in which requests, and why.
struct PlanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Show what a pull would fetch, in which requests, and why.",
        discussion: """
            Reads the manifest and looks at the destination; fetches no file and changes nothing.

            --explain tells for each place that files come from which rule, credentials, proxy and TLS settings \
            apply, and where the servers redirect to. To find that out it asks for the first byte of one object of \
            each place.
            """
    )

    @OptionGroup
    var target: TargetOptions

    @Flag(help: "Plan a manifest whose revision is older than what is installed.")
    var allowOlder = false

    @Flag(help: "Explain where the requests go; sends a request of one byte to each place.")
    var explain = false

    @OptionGroup(title: "Transfer")
    var transfer: TransferOptions

    @OptionGroup(title: "Output")
    var reporting: ReportingOptions

    func run() async throws {
        let output = reporting.output()
        let environment = EnvironmentPaths.ofProcess
        let settings = try LoadedSettings(
            try transfer.settings(environment.pathBase),
            transfer,
            environment: environment
        )
        var options = PullOptions(
            manifest: target.manifest,
            stateDirectory: try environment.stateDirectory()
        )
        options.destination = target.destination
        options.session = target.session
        options.groups = target.groups
        options.dryRun = true
        options.allowOlder = allowOlder
        options.connections = settings.effective.plannedConnections
        let tuning = try EngineTuning(settings, for: target)
        try await EngineCall(reporting, on: output, tuning: tuning).plan(options, explains: explain)
    }
}
