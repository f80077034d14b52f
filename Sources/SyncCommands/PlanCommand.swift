import ArgumentParser
import SyncEngine
import SyncSettings

/// `syncagent plan`: what a pull would fetch, in which requests, and why.
struct PlanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Show what a pull would fetch, in which requests, and why.",
        discussion: "Reads the manifest and looks at the destination; fetches no file and changes nothing."
    )

    @OptionGroup
    var target: TargetOptions

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
        options.connections = settings.effective.plannedConnections
        var tuning = EngineTuning()
        tuning.transfer = settings.effective
        tuning.home = target.home
        try await EngineCall(reporting, on: output, tuning: tuning).plan(options)
    }
}
