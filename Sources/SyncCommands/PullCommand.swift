import ArgumentParser
import SyncAgent
import SyncAssembly
import SyncEngine
import SyncManifest
import SyncModel
import SyncReport
import SyncStore
import SyncSystem

struct PullCommand: AsyncParsableCommand, RunOptions {
    static let configuration = CommandConfiguration(
        commandName: "pull", abstract: "Make a directory match a manifest.",
        discussion: """
            Every file is verified before it becomes visible. Run the command again to resume an interrupted pull, \
            and every night to stay up to date: a run that finds nothing new costs one request.

            The first SIGINT or SIGTERM stops the run and keeps everything fetched so far (exit 130 or 143); a second \
            one ends the process at once.

            Examples:

              syncagent pull https://cdn.example.com/tower/manifest.json --into /srv/tower
              syncagent pull https://cdn.example.com/tower/ --into tower --hook ./reindex
              syncagent pull site/manifest.json --into copy --dry-run -v
            """)

    @OptionGroup var target: TargetOptions

    @OptionGroup(title: "Release and trust") var release: ReleaseOptions

    @OptionGroup var listing: ListingOptions

    @OptionGroup var bucket: BucketOptions

    @Flag(help: "Print the plan; fetch nothing and change nothing.") var dryRun = false

    @OptionGroup var verbose: VerboseOption

    @OptionGroup var reporting: ReportingOptions

    @Flag(help: "With --json: print progress as well, five lines per second.") var progress = false

    @OptionGroup(title: "Hooks") var hookOptions: HookOptions

    @OptionGroup(title: "Destination") var placement: DestinationOptions

    @OptionGroup(title: "Shards") var pieces: ShardOptions

    @OptionGroup(title: "Release and trust") var downgrade: DowngradeOption

    @OptionGroup(title: "Release and trust") var trust: TrustOptions

    @OptionGroup(title: "Transfer") var limits: LimitOptions

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @OptionGroup(title: "Background") var later: BackgroundOptions

    @OptionGroup(title: "Conditions for background pulls") var conditionOptions: ConditionOptions

    @OptionGroup(title: "Conditions for background pulls") var windowOption: WindowOption

    @OptionGroup(title: "For hooks and reports") var metadata: MetadataOptions

    func validate() throws {
        try checkHooks()
        try checkPlacement()
        try checkPieces()
        if progress, !reporting.json { throw ValidationError("--progress needs --json.") }
        if dryRun, later.background { throw ValidationError("--dry-run and --background are mutually exclusive.") }
        if trust.stale != nil, later.background {
            throw ValidationError("--stale is for a pull in the foreground; it cannot be combined with --background.")
        }
        // Only the agent can apply them.
        let condition = conditionOptions.given ?? windowOption.window.map { _ in "--window" }
        if let condition, !later.background {
            throw ValidationError(
                "\(condition): conditions need the agent, which checks them before and during a pull; "
                    + "add --background.")
        }
    }

    func run() async throws {
        let (output, end) = (reporting.output(), PullEnd())
        do {
            try await pull(output, end)
            if reporting.json { end.write(nil, on: output) }
        } catch {
            if !dryRun, !later.background, !end.hasEnded { record(error) }
            if reporting.json { end.write(error, on: output) }
            throw error
        }
    }

    /// Records a pull that failed before the engine was called, as for a wrong configuration, if its session is known.
    private func record(_ error: any Error) {
        guard let failure = CommandFailure(error), ![.busy, .interrupted, .terminated].contains(failure.status),
            // Without a state directory there is no session. If it cannot be read, that has been reported already.
            let store = (try? StateAccess(output: Output(quiet: true)).existingStore()) ?? nil
        else { return }
        let recipe = target.recipe(at: target.manifest)
        let told = EngineError(failure.status, failure.message, cause: failure.cause)
        _ = store.recordTry(recipe, told, now: SystemTime.milliseconds())
        MetricsFile.keepAfterTry((try? self.recipe(.ofProcess))?.1.metricsFile, store)
    }

    private func pull(_ output: Output, _ end: PullEnd) async throws {
        let (recipe, settings) = try self.recipe(.ofProcess)
        let engine = EngineCall(
            reporting, on: output, EngineRequest(recipe, settings), tellsProgress: progress, end: end,
            detail: verbose.detail)
        if dryRun { return try await engine.plan() }

        output.warn(ofHooks: recipe.hooks, plugins: settings.plugins)
        if later.background {
            // A reader of JSON lines waits for the last line, too; for a person, the command ends within a second.
            let limit = reporting.json ? .seconds(5) : StopSignals.onlooker
            return try await StopSignals.ending(within: limit) { try await engine.pullInBackground() }
        }
        CurrentProcess.clearUmask()  // The recipe has one.
        let report = try await engine.pull()
        output.message(Self.summary(report))
        for note in Self.notes(report, backupDir: recipe.backupDir, isShard: recipe.shard != nil) {
            output.message(note)
        }
        guard report.status == .done else { throw CommandFailure(report.status) }
    }

    /// Refuses options that do not work with shards.
    private func checkPieces() throws {
        guard let option = pieces.given else { return }
        for (isGiven, name) in [
            (dryRun, "--dry-run"), (later.background, "--background"), (placement.atomic != nil, "--atomic"),
        ] where isGiven { throw ValidationError("\(option) and \(name) are mutually exclusive.") }
        guard pieces.shard != nil else { return }
        if !(hookOptions.hooks + hookOptions.groupHooks + hookOptions.fileHooks).isEmpty {
            throw ValidationError("--shard runs no hooks; give them to --join.")
        }
        if placement.prune { throw ValidationError("--shard removes nothing; give --prune to --join.") }
    }

    /// The recipe, with the options that only the agent applies.
    func recipe(_ environment: EnvironmentPaths) throws -> (RunRecipe, RunSettings) {
        var (recipe, settings) = try runRecipe(environment)
        (recipe.shard, recipe.join) = (pieces.shard?.text, pieces.join)
        guard later.background else {
            settings.keepForAgent(in: &recipe)
            return (recipe, settings)
        }
        later.apply(to: &recipe, environment)
        // A hook's request waits until it suits the machine.
        try conditionOptions.apply(to: &recipe, isDiscretionary: recipe.origin == .hook)
        recipe.conditions.window = windowOption.window
        return (recipe, settings)
    }

    /// Notes on the destination: which files were replaced, and which are left over.
    static func notes(_ report: PullReport, backupDir: String?, isShard: Bool = false) -> [String] {
        var notes: [String] = []
        if report.replaced > 0 {
            let (files, were) = (Figures.count(report.replaced, "file"), report.replaced == 1 ? "was" : "were")
            let end = backupDir.map { "; see \(escaped($0))" } ?? "; with --backup-dir DIR such files are kept"
            notes.append("\(files) \(were) replaced that no pull had installed, or that had been edited since" + end)
        }
        if report.obsolete > 0 {
            let (files, are) = (Figures.count(report.obsolete, "file"), report.obsolete == 1 ? "is" : "are")
            let remedy = isShard ? "--join with --prune" : "--prune"
            notes.append("\(files) from earlier pulls \(are) no longer in the manifest; \(remedy) removes such files")
        }
        // One has been named; of several, perhaps not all.
        if report.notRemoved > 1 {
            let count = Figures.grouped(report.notRemoved)
            notes.append(
                "\(count) files or directories could not be removed; the next pull tries again, and "
                    + "'syncagent events \(escaped(report.session))' names them all")
        }
        return notes
    }

    static func summary(_ report: PullReport) -> String {
        let files = report.files
        let parts = [
            (files.installed, "installed"), (files.reused, "reused"), (files.unchanged, "unchanged"),
            (files.removed, "removed"), (files.failed, "failed"),
        ].filter { $0.0 > 0 || ["installed", "unchanged"].contains($0.1) }.map { "\(Figures.grouped($0.0)) \($0.1)" }
        var folders: [String] = []
        for (count, what) in [(report.folders.made, "made"), (report.folders.removed, "removed")] where count > 0 {
            let name = folders.isEmpty ? Figures.count(count, "directory", "directories") : Figures.grouped(count)
            folders.append("\(name) \(what)")
        }
        return "\(escaped(report.session)): \(Figures.count(report.files.total, "file")): "
            + parts.joined(separator: ", ") + (folders.isEmpty ? "" : "; " + folders.joined(separator: ", "))
            + "; \(ByteCount(report.bytes.received)) in " + "\(Figures.count(report.requests, "request")), "
            + Figures.period(report.elapsedMilliseconds)
    }
}
