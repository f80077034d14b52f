import Foundation
import SyncAgent
import SyncControl
import SyncEngine
import SyncModel
import SyncSettings

/// Hands a pull to the agent: everything it needs is made absolute here, where the user is.
struct BackgroundPull: Sendable {
    let options: PullOptions
    let background: BackgroundOptions
    let settings: LoadedSettings
    /// Whether the client named a configuration file, or none.
    let hasOwnFile: Bool
    /// To look into the manifest when nobody says where files go.
    let engine: EngineCall
    /// What must hold.
    var conditions = RunConditions()

    private var output: Output { engine.output }

    func run() async throws {
        let environment = EnvironmentPaths.ofProcess
        let state = try StateAccess(environment: environment, output: output)
        let request = try await request(environment)
        let reply = try await AgentReach(state: state).ask { try await $0.enqueue(request) }
        for warning in reply.warnings ?? [] { output.warning(warning) }
        if engine.json { return output.event(Self.event(reply), flushing: true) }
        let text = SessionText(now: EngineAssembly.milliseconds(), hasAgent: true)
        let name = escaped(reply.session)
        var words =
            "\(name): run \(reply.run) " + (reply.isNew ? "is" : "was there already and is")
            + " \(reply.state)"
        if let start = reply.notBefore { words += ", not to start before \(text.moment(start))" }
        if reply.state == .paused { words += "; 'syncagent resume \(name)' starts it" }
        output.message(words + ". 'syncagent status' and 'syncagent attach' show it.")
        if !conditions.words.isEmpty {
            output.message("It runs only \(conditions.words.joined(separator: ", ")).")
        }
        let agent = try await AgentReach(state: state).ask { try await $0.status() }
        output.message(
            agent.onDemand
                ? "It survives logging out and a crash. After a restart of the machine it goes on with the next command that "
                    + "needs the agent; 'syncagent agent run' as a service goes on by itself."
                : "It survives a restart of the machine as soon as the agent runs again."
        )
        if !reply.superseded.isEmpty {
            output.message("It takes the place of \(reply.superseded.joined(separator: ", ")).")
        }
    }

    /// What is asked of the agent.
    func request(_ environment: EnvironmentPaths) async throws -> EnqueueRequest {
        let manifest = options.manifest.contains("://") ? options.manifest : Self.absolute(options.manifest)
        let text = try BackgroundSettings(settings, isWhole: hasOwnFile).text()
        var (options, project) = (options, String?.none)
        // The manifest's project tells the destination, and its groups name hooks of the configuration file. Whom to believe is
        // settled here: the agent keeps to the pins.
        if options.destination == nil || !options.namedHooks.isEmpty || engine.tuning.trust.anchor != nil {
            (options, project) = try await engine.lookedUp(options)
        }
        var request = EnqueueRequest(
            manifest: manifest,
            destination: Self.absolute(options.destination ?? project ?? ".")
        )
        request.session = options.session
        request.groups = options.groups
        request.hooks = options.hooks.map {
            EnqueueRequest.Hook(
                group: $0.group,
                arguments: $0.arguments,
                timeout: $0.timeout,
                results: RunResult.allCases.filter($0.results.contains),
                batch: $0.batch
            )
        }
        // What the agent plans with; the caps themselves are in the settings.
        if settings.effective.connections != nil {
            request.connections = settings.effective.plannedConnections
        }
        request.limitRate = options.rateLimit
        request.prune = options.prune
        request.force = options.force
        request.maxDelete = options.maximumRemovals
        request.backupDir = options.backupDirectory
        request.allowOlder = options.allowOlder ? true : nil
        request.notBefore = background.notBefore.map(WallTime.init)
        request.deadlineSeconds = settings.effective.deadline.map { Int64($0 / .seconds(1)) }
        request.paused = background.paused
        // Work that a hook asks for is held back when it asks again and again (S50).
        request.origin = background.origin(environment)
        if request.origin == .hook { request.originRun = environment.hookRun() }
        request.conditions = conditions
        request.settings = text
        request.label = background.label
        request.userData = options.userData.flatMap(JSONValue.init(text:))
        request.expectedBytes = options.expectedBytes
        return request
    }

    private static func absolute(_ path: String) -> String {
        let full = path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
        return URL(fileURLWithPath: full).standardizedFileURL.path
    }

    private static func event(_ reply: EnqueueReply) -> JSONLine {
        SyncEvent("run.enqueued", time: EngineAssembly.milliseconds()) { line in
            line.field("session", reply.session)
            line.field("run", reply.run)
            line.field("is_new", reply.isNew)
            line.field("state", reply.state)
            line.key("superseded")
            line.array { list in for run in reply.superseded { list.value(run) } }
            line.field(
                "not_before",
                optional: reply.notBefore.map { timestamp(milliseconds: $0.milliseconds) }
            )
        }.json
    }
}

extension EngineCall {
    /// The options with the hooks that the manifest names, and its project; everything that can be checked of the
    /// pull is checked, too.
    fileprivate func lookedUp(_ options: PullOptions) async throws -> (PullOptions, String?) {
        var unnamed = options
        unnamed.session = nil
        let prepared = try await looking(unnamed) { [unnamed] engine, _ in
            try engine.prepare(unnamed)
        }
        var found = prepared.options
        found.session = options.session
        return (found, prepared.session)
    }
}
