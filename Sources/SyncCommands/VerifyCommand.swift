import ArgumentParser
import SyncEngine
import SyncSettings

/// `syncagent verify`: re-hashes what is here.
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Re-hash the files that are here and name those that differ from the manifest.",
        discussion: """
            Every byte is read again; no recorded state is trusted. Prints one line for each file that is missing \
            or differs. Exit status: 0 all files are as the manifest says, 2 some are not.
            """
    )

    @OptionGroup
    var target: TargetOptions

    @OptionGroup
    var trust: TrustOptions

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
        options.connections = settings.effective.plannedConnections
        var tuning = try EngineTuning(settings, for: target)
        try trust.apply(to: &tuning.trust)
        try await EngineCall(reporting, on: output, tuning: tuning).verify(options)
    }
}
