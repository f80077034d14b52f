import SyncAgent
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPluginHost
import SyncReport
import SyncSchedule
import SyncStore
import SyncSystem

/// What findings are about that every pull would meet.
private let everyPull = "configuration"

extension Findings {
    /// Whether a pull could begin: loads configuration, credentials, plugins and hooks as one does, and says what it would
    /// say. Nothing is started or asked.
    mutating func examineConfiguration(_ access: StateAccess) {
        let subject = everyPull
        do {
            let settings = try RunSettings(TransferSettings(), .usual, EnvironmentPaths.ofProcess.host)
            try load(EngineRequest(nil, settings), access, subject)
            hooks(settings.hooks.keys.sorted().compactMap { settings.hooks[$0] }, subject)
            if let file = settings.metricsFile { metrics(file, subject) }
        } catch { problem(subject, words(error), FailureCause.configuration.advice) }
    }

    /// The same for what a schedule asks for.
    mutating func load(_ record: ScheduleRecords.Record, _ access: StateAccess) {
        let (subject, recipe) = ("schedule \(record.name)", record.definition.request)
        let environment = EnvironmentPaths.ofProcess
        do {
            let asked = EngineRequest(recipe, deadline: .seconds(60), patience: nil, stop: StopRequest())
            let (request, settings) = try asked.resolved(on: environment.host)
            try load(request, access, subject)
            let conditions = ConditionPlugins(
                on: environment.host, environment.machinePlaces, settings: { settings.plugins }, notice: { _ in })
            _ = try conditions.check(recipe.conditions, blockedSince: [:])
        } catch {
            let what = words(error)
            // What is wrong for every pull has been said.
            guard !all.contains(where: { $0.what == what && $0.subject == everyPull }) else { return }
            problem(subject, what, FailureCause.configuration.advice)
        }
        hooks(recipe.hooks, subject)
    }

    private mutating func load(_ asked: EngineRequest, _ access: StateAccess, _ subject: String) throws {
        let notes = Mutex<[String]>([])
        var request = asked
        request.listener = { event in if let note = event.note { notes.withLock { $0.append(note) } } }
        request.stop.stop()
        try AssembledEngine(
            request, on: EnvironmentPaths.ofProcess.host, store: try SyncStore.inMemory(),
            stateDirectory: access.place.stateDirectory
        ).end()
        for note in notes.withLock({ $0 }) { self.note(subject, escaped(note)) }
    }

    /// Whether the file of metrics can be replaced.
    private mutating func metrics(_ file: String, _ subject: String) {
        do throws(CommandFailure) { try replaceable(file) } catch {
            problem(
                subject, "metrics: \(error.message)",
                "create its directory, give this user write permission there, or name another file in config.json")
        }
    }

    /// Programs that a hook could not be started with.
    private mutating func hooks(_ hooks: [RunHook], _ subject: String) {
        var seen: Set<String> = []
        for program in hooks.compactMap(\.arguments.first) where program.hasPrefix("/") && seen.insert(program).inserted
        {
            do throws(ProgramError) { try physicalProgram(program, role: "hook", destination: nil) } catch {
                problem(subject, error.message, FailureCause.hookNotStarted.advice)
            }
        }
    }

    private func words(_ error: any Error) -> String { CommandFailure(error)?.message ?? "\(error)" }
}
