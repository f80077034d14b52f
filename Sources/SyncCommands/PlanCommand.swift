import ArgumentParser
import SyncEngine
import SyncModel
import SyncSettings

/// `syncagent plan`: what a pull would fetch, in which requests, and why.
struct PlanCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plan",
        abstract: "Show what a pull would fetch, in which requests, and why.",
        discussion: """
            Reads the manifest and looks at the destination; fetches no file and changes nothing. Ends with the exit \
            status of the pull, where it is known before: 73 for a place where nothing can be made, 74 where the disk is \
            too full, 75 while somebody else works there, 77 for an older revision.

            --explain tells for each place that files come from which rule, credentials, proxy and TLS settings \
            apply, and where the servers redirect to. To find that out it asks for the first byte of one object of \
            each place.

            Examples:

              syncagent plan https://cdn.example.com/tower/manifest.json --into /srv/tower -v
            """
    )

    @OptionGroup
    var target: TargetOptions

    @Flag(help: "Plan a manifest whose revision is older than what is installed.")
    var allowOlder = false

    @Flag(help: "Explain where the requests go; sends a request of one byte to each place.")
    var explain = false

    @OptionGroup
    var trust: TrustOptions

    @OptionGroup
    var verbose: VerboseOption

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
        recipe.allowOlder = allowOlder
        try trust.apply(to: &recipe, environment)
        let tuning = try EngineTuning(settings, recipe, stateDirectory: try environment.stateDirectory())
        try await EngineCall(reporting, on: output, tuning: tuning, detail: verbose.detail)
            .plan(recipe, explains: explain)
    }
}
