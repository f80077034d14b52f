import SyncAgent
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPluginHost
import SyncReport
import SyncSchedule
import SyncStore
import SyncSystem

/// The subject of findings that concern every pull.
private let everyPull = "configuration"

extension Findings {
    /// Examines whether a pull could begin: loads configuration, credentials, plugins and hooks as a pull does, and
    /// reports its errors. Nothing is started, and no server is asked.
    mutating func examineConfiguration(_ access: StateAccess) {
        let subject = everyPull
        do {
            let settings = try RunSettings(TransferSettings(), .usual, EnvironmentPaths.ofProcess.host)
            try load(EngineRequest(nil, settings), access, subject)
            hooks(settings.hooks.keys.sorted().compactMap { settings.hooks[$0] }, subject)
            if let file = settings.metricsFile { metrics(file, subject) }
        } catch { problem(subject, words(error), FailureCause.configuration.advice) }
    }

    /// The same for a schedule's request.
    mutating func load(_ record: ScheduleRecords.Record, _ access: StateAccess) {
        let (subject, recipe) = ("schedule \(record.name)", record.definition.request)
        let environment = EnvironmentPaths.ofProcess
        do {
            let asked = EngineRequest(recipe, deadline: .seconds(60), patience: nil, stop: StopRequest())
            let (request, settings) = try asked.resolved(on: environment.host)
            try load(request, access, subject)
            let conditions = ConditionPlugins(
                on: environment.host, environment.machinePlaces, settings: { _ in settings.plugins }, notice: { _ in })
            _ = try conditions.check(recipe, blockedSince: [:])
        } catch {
            let what = words(error)
            // An error that concerns every pull has been reported.
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

    /// Examines whether the metrics file can be replaced.
    private mutating func metrics(_ file: String, _ subject: String) {
        do throws(CommandFailure) { try replaceable(file) } catch {
            problem(
                subject, "metrics: \(error.message)",
                "create its directory, give this user write permission there, or name another file in config.json")
        }
    }

    /// Reports programs of hooks that could not be started.
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
