import ArgumentParser
import SyncAgent
import SyncAssembly
import SyncModel
import SyncSchedule
import SyncSystem

struct ScheduleAddCommand: AsyncParsableCommand, RunOptions {
    static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Pull a manifest on a schedule: every night, every week, every 6 hours.",
        discussion: """
            Takes the options of 'syncagent pull' for what to pull, how, and with which hooks. Replaces a schedule of \
            the same name.

            Times are wall-clock times. If daylight saving skips a time, the run starts right after the gap; if a time \
            occurs twice, it starts at the first. A machine that was off or asleep catches up once if the window is still \
            open, unless --catch-up is no. When the window ends the run stops at a checkpoint, and the next one continues.

            Examples:

              syncagent schedule add https://example.com/maps/ --into maps --nightly 02:00
              syncagent schedule add https://cdn.example.com/tower/ --into tower --every 6h
              syncagent schedule add s3://acme-sets/maps --into maps --weekly sun 03:00
              syncagent schedule add s3://acme-sets/maps --into maps --cron '0 3 * * 1-5'
            """)

    @OptionGroup(title: "Schedule") var schedule: ScheduleOptions

    @OptionGroup var target: TargetOptions

    @OptionGroup(title: "Release and trust") var release: ReleaseOptions

    @OptionGroup var listing: ListingOptions

    @OptionGroup var bucket: BucketOptions

    @Flag(help: "Print what would be set up; change nothing.") var dryRun = false

    @OptionGroup var reporting: ReportingOptions

    @OptionGroup(title: "Hooks") var hookOptions: HookOptions

    @OptionGroup(title: "Destination") var placement: DestinationOptions

    @OptionGroup(title: "Release and trust") var downgrade: DowngradeOption

    @OptionGroup(title: "Release and trust") var trust: TrustOptions

    @OptionGroup(title: "Transfer") var limits: LimitOptions

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @OptionGroup(title: "Conditions") var conditionOptions: ConditionOptions

    @OptionGroup(title: "For hooks and reports") var metadata: MetadataOptions

    func validate() throws {
        try checkHooks()
        try checkPlacement()
        if schedule.interactive, conditionOptions.discretionary {
            throw ValidationError("--interactive and --discretionary are mutually exclusive.")
        }
        if schedule.switchAt != nil, placement.atomic == nil {
            throw ValidationError("--switch-at needs --atomic: without it files become visible one by one.")
        }
        if trust.stale != nil { throw ValidationError("--stale is for a pull in the foreground, not for a schedule.") }
    }

    func run() async throws {
        let output = reporting.output()
        let (plan, reason) = try await plan(output, keeping: nil, isReadOnly: dryRun)
        if dryRun { return try show(plan, output) }
        let records = try ScheduleRecords()
        let replaced = try records.replace(plan, output: output)
        MetricsFile.keepAfterChange(output)
        let state = try StateAccess(output: output)
        if plan.backend.needsAgent { try await state.reachAgent() }
        write(plan, reason, isReplaced: replaced, state, output)
        records.warn(ofRivals: plan, output: output)
    }

    /// The planned schedule.
    ///
    /// - Parameters:
    ///   - kept: The current backend. It is kept if it fits the options, and no other backend is examined then.
    ///   - isReadOnly: Whether nothing is recorded yet, not even a trusted root.
    func plan(_ output: Output, keeping kept: (any ScheduleBackend)?, isReadOnly: Bool) async throws -> (
        plan: ScheduleRecords.Record, reason: String
    ) {
        let environment = EnvironmentPaths.ofProcess
        let timing = try schedule.timing()
        let (request, plugins) = try await request(environment, output, isReadOnly)
        // Not again if only the root is still to be recorded.
        if kept == nil || isReadOnly { output.warn(ofHooks: request.hooks, plugins: plugins) }
        let name = try name(request)
        let state = try StateAccess(environment: environment, output: output)
        let hasZone = timing.timeZone != nil
        let choice: (backend: any ScheduleBackend, reason: String)
        let named = schedule.backend.named
        if let kept, kept.accepts(named, isForMachine: schedule.system, hasZone: hasZone) {
            choice = (kept, "as before")
        } else {
            choice = try chooseBackend(
                named, of: ScheduleInstallation(environment).backends, isForMachine: schedule.system, hasZone: hasZone,
                MachineFacts(state, environment))
        }
        let definition = ScheduleDefinition(timing, backend: choice.backend.name, request: request)
        return (try ScheduleRecords.Record(name, definition, by: choice.backend), choice.reason)
    }

    /// The request that is enqueued every time, and the plugins that its hooks may name.
    private func request(_ environment: EnvironmentPaths, _ output: Output, _ isReadOnly: Bool) async throws -> (
        EnqueueRequest, PluginSettings
    ) {
        var (recipe, settings) = try runRecipe(environment)
        recipe.origin = .schedule
        try conditionOptions.apply(to: &recipe, isDiscretionary: !schedule.interactive)
        let call = EngineCall(reporting, on: output, EngineRequest(recipe, settings))
        return (try await call.enqueueRequest(environment, isReadOnly: isReadOnly), settings.plugins)
    }

    private func name(_ request: EnqueueRequest) throws -> String {
        if let name = schedule.name { return name }
        let last = (request.destination ?? "").split(separator: "/").last.map(String.init)
        guard let name = (request.session ?? last).flatMap(ScheduleName.derived) else {
            throw ValidationError("The schedule needs a name: --name.")
        }
        return name
    }

    private func show(_ plan: ScheduleRecords.Record, _ output: Output) throws {
        let installation = ScheduleInstallation()
        let now = SystemTime.milliseconds()
        output.line(try plan.backend.preview(try installation.start(plan.name, plan.clock, now: now)))
        let words = SessionText(now: now)
        output.message("\(plan.name): \(words.rule(plan.clock)), by \(plan.backend.words).")
        for (place, time) in words.nextTimes(plan.clock).enumerated() {
            output.message((place == 0 ? "Next: " : "      ") + time)
        }
        writeConditions(plan, output)
        warnOfZone(plan, output)
        output.message("Nothing was changed.")
    }

    /// Warns if the times that are shown here need not be those of what starts the schedule.
    private func warnOfZone(_ plan: ScheduleRecords.Record, _ output: Output) {
        guard !plan.backend.needsAgent, plan.timing.timeZone == nil, let zone = EnvironmentPaths.ofProcess.lookup("TZ"),
            !zone.isEmpty
        else { return }
        // Many users set TZ to the machine's own zone, or to its file. A leading colon is optional: tzset(3).
        let name = zone.hasPrefix(":") ? String(zone.dropFirst()) : zone
        let file = name.hasPrefix("/") ? name : "/usr/share/zoneinfo/\(name)"
        if let own = realPath("/etc/localtime"), own == realPath(file) { return }
        output.warning(
            "TZ is \(escaped(zone)) here, but \(plan.backend.words) goes by the machine's own time zone: run this "
                + "without TZ to see when it starts.")
    }

    private func writeConditions(_ plan: ScheduleRecords.Record, _ output: Output) {
        let conditions = plan.definition.request.conditions.words
        if !conditions.isEmpty { output.message("It runs only \(conditions.joined(separator: ", ")).") }
    }

    private func write(
        _ plan: ScheduleRecords.Record, _ reason: String, isReplaced: Bool, _ state: StateAccess, _ output: Output
    ) {
        let (clock, backend) = (plan.clock, plan.backend)
        let words = SessionText(now: SystemTime.milliseconds())
        output.message(
            "\(plan.name): \(isReplaced ? "replaced; " : "")\(words.rule(clock)), by \(backend.words): \(reason).")
        if clock.timing.jitter > 0 {
            output.message(
                "This machine always starts \(Figures.period(Int64(clock.delay) * 1_000)) after the earliest possible start."
            )
        }
        if let next = clock.next(after: words.now) { output.message("Next: \(words.moment(next.fire)).") }
        if let concern = backend.concern(MachineFacts(state)) {
            output.warning("\(concern.problem): \(concern.remedy).")
        }
        warnOfZone(plan, output)
        if let advice = backend.advice { output.message(advice) }
        writeConditions(plan, output)
    }
}
