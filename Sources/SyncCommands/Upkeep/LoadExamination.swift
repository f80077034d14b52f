import SyncAgent
import SyncConfiguration
import SyncDaemon
import SyncEngine
import SyncModel
import SyncPluginHost
import SyncReport
import SyncSchedule
import SyncSettings
import SyncStore
import SyncSystem

/// What findings are about that every pull would meet.
private let everyPull = "configuration"

extension Examination {
    /// Whether a pull could begin: loads configuration, credentials, plugins and hooks as one does, and says what it would
    /// say. Nothing is started or asked.
    static func configuration(_ access: StateAccess, _ findings: inout Findings) {
        let subject = everyPull
        do {
            let settings = try RunSettings(TransferSettings(), .usual, EnvironmentPaths.ofProcess.settings)
            let directory = access.place.stateDirectory
            try load(try EngineTuning(settings, nil, stateDirectory: directory), subject, &findings)
            hooks(settings.hooks.keys.sorted().compactMap { settings.hooks[$0] }, subject, &findings)
        } catch { findings.problem(subject, words(error), FailureCause.configuration.advice) }
    }

    /// The same for what a schedule asks for.
    static func load(_ record: ScheduleRecords.Record, _ access: StateAccess, _ findings: inout Findings) {
        let (subject, request) = ("schedule \(record.name)", record.definition.request)
        let environment = EnvironmentPaths.ofProcess
        do {
            let needs = EngineNeeds(request, deadline: .seconds(60), patience: nil, stop: StopRequest())
            let directory = access.place.stateDirectory
            let tuning = try EngineTuning(needs, environment.settings, stateDirectory: directory)
            try load(tuning, subject, &findings)
            let conditions = ConditionPlugins(
                in: environment.pluginPlace, on: environment.machinePlaces, settings: { tuning.settings.plugins },
                notice: { _ in })
            _ = try conditions.check(request.conditions, blockedSince: [:])
        } catch {
            let what = words(error)
            // What is wrong for every pull has been said.
            guard !findings.all.contains(where: { $0.what == what && $0.subject == everyPull }) else { return }
            findings.problem(subject, what, FailureCause.configuration.advice)
        }
        hooks(request.hooks, subject, &findings)
    }

    private static func load(_ tuning: EngineTuning, _ subject: String, _ findings: inout Findings) throws {
        let notes = Mutex<[String]>([])
        let assembly = EngineAssembly(
            store: try SyncStore.inMemory(), tuning: tuning, plugins: EnvironmentPaths.ofProcess.pluginPlace,
            listener: { event in if let note = event.note { notes.withLock { $0.append(note) } } }, progress: { _ in },
            metrics: nil)
        assembly.end(try assembly.parts(stop: StopRequest()), isStopped: true)
        for note in notes.withLock({ $0 }) { findings.note(subject, escaped(note)) }
    }

    /// Programs that a hook could not be started with.
    private static func hooks(_ hooks: [RunHook], _ subject: String, _ findings: inout Findings) {
        var seen: Set<String> = []
        for program in hooks.compactMap(\.arguments.first) where program.hasPrefix("/") && seen.insert(program).inserted
        {
            do throws(ProgramError) { try physicalProgram(program, role: "hook", destination: nil) } catch {
                findings.problem(subject, error.message, FailureCause.hookNotStarted.advice)
            }
        }
    }

    private static func words(_ error: any Error) -> String { CommandFailure(error)?.message ?? "\(error)" }
}
