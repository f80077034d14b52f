import ArgumentParser
import SyncEngine

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
        try await EngineCall(reporting, on: output).verify(options)
    }
}
