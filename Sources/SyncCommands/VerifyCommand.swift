import ArgumentParser
import SyncEngine
import SyncModel
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
        let said = try transfer.settings(environment.pathBase)
        let settings = try transfer.runSettings(said, environment)
        var recipe = try target.recipe(settings)
        try trust.apply(to: &recipe, environment)
        let tuning = try EngineTuning(settings, recipe, stateDirectory: try environment.stateDirectory())
        try await EngineCall(reporting, on: output, tuning: tuning).verify(recipe)
    }
}
