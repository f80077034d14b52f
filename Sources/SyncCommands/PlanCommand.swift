import ArgumentParser
import SyncEngine

/// `syncagent plan`: what a pull would fetch, in which requests, and why.
struct PlanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Show what a pull would fetch, in which requests, and why.",
        discussion: "Reads the manifest and looks at the destination; fetches no file and changes nothing."
    )

    @OptionGroup
    var target: TargetOptions

    @OptionGroup(title: "Output")
    var reporting: ReportingOptions

    func run() async throws {
        let output = reporting.output()
        var options = PullOptions(
            manifest: target.manifest,
            stateDirectory: try EnvironmentPaths.ofProcess.stateDirectory()
        )
        options.destination = target.destination
        options.session = target.session
        options.groups = target.groups
        options.dryRun = true
        try await EngineCall(reporting, on: output).plan(options)
    }
}
