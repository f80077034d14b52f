import Foundation
import SyncAgent
import SyncAssembly
import SyncContent
import SyncEngine
import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem
import SyncTransfer

/// Everything that a pull is made from, as its caller gave it.
struct PullSetup {
    /// The request, without what its settings hold of secrets, since it is stored with the run.
    let recipe: RunRecipe
    private let settings: TransferSettings
    /// The destination, absolute.
    let destination: String
    private let stateDirectory: String
    private let store: SyncStore
    private let plugins: PluginSet

    /// - Throws: ``Sync/Failure``.
    init(_ pull: Sync.Pull) throws {
        try Self.check(pull)
        let options = pull.options
        destination = try Self.absolute(pull.destination)
        guard let state = try options.stateDirectory.map(Self.absolute) ?? Self.usualStateDirectory else {
            throw Sync.Failure(.cannotCreate, "Cannot determine the home directory: set the state directory.")
        }
        stateDirectory = state
        do throws(StoreError) { store = try openState(state) { _ in } } catch {
            throw Sync.Failure(error.status, error.message)
        }
        plugins = try Self.plugins(pull.plugins)
        let manifest: String
        switch pull.subject {
        case .manifest(let text):
            let named = withAuthority(text, schemes: plugins.schemes.union(plugins.sourceSchemes))
            manifest = urlScheme(of: named) == nil ? try Self.absolute(named) : named
        case .entries(let entries, let project): manifest = try Self.write(entries, project, under: state)
        }
        var recipe = options.run
        (recipe.manifest, recipe.destination) = (manifest, destination)
        for name in pull.plugins.hooks.keys.sorted() {
            let word = "plugin:\(name)"
            guard !recipe.hooks.contains(where: { $0.arguments.first == word }) else { continue }
            recipe.hooks.append(RunHook(arguments: [word]))
        }
        recipe.settings.patience = recipe.settings.patience.map { min($0, .seconds(SettingValue.seconds.upperBound)) }
        settings = recipe.settings
        recipe.settings.removeInlineSecrets()
        self.recipe = recipe
    }

    /// Refuses options that no pull can be made with.
    private static func check(_ pull: Sync.Pull) throws(Sync.Failure) {
        let options = pull.options
        func refuse(unless isGood: Bool, _ reason: @autoclosure () -> String) throws(Sync.Failure) {
            guard isGood else { throw Sync.Failure(.usage, reason()) }
        }
        try refuse(unless: !pull.destination.isEmpty, "The destination is an empty string: name a directory.")
        let fault = options.session.flatMap(RunRecipe.objection(toSession:))
        try refuse(unless: fault == nil, "session: \(fault ?? "")")
        try refuse(
            unless: options.stateDirectory != "",
            "stateDirectory is an empty string: name a directory, or leave it nil.")
        if let reason = options.channel.flatMap(ChannelName.objection) { throw Sync.Failure(.usage, reason) }
        try refuse(unless: options.revision != 0, "revision counts from 1.")
        let settings = options.settings
        if let count = settings.connections {
            try refuse(
                unless: TransferSettings.connectionsOfRun.contains(count),
                "connections must be 1 to 64, not \(count).")
        }
        try refuse(
            unless: settings.limitRate != 0, "limitRate must be at least 1 byte per second; use nil for no limit.")
        if let patience = settings.patience {
            try refuse(unless: patience > .zero, "patience must be above 0, not \(patience).")
        }
        try refuse(
            unless: options.notBefore == nil && !options.paused && options.conditions.isEmpty
                && options.deadlineSeconds == nil,
            "notBefore, paused, conditions and deadlineSeconds are for an agent; conditions of your own are plugins.")
        for hook in options.hooks {
            let word = hook.arguments.first ?? ""
            let fault = RunHook.objection(to: hook.arguments)
            try refuse(unless: fault == nil, "hooks: \(fault ?? "").")
            let name = escaped(shownHookProgram(word))
            if let plugin = hookPlugin(word) {
                try refuse(
                    unless: pull.plugins.hooks[plugin] != nil, "'\(name)' is not among the hooks of the plugins.")
            }
            try refuse(
                unless: RunHook.timeouts.contains(hook.timeout),
                "The timeout of the hook \(name) must be 1 to \(RunHook.timeouts.upperBound) seconds, not \(hook.timeout)."
            )
            try refuse(unless: !hook.results.isEmpty, "The results of the hook \(name) must not be empty.")
            if let batch = hook.batch {
                try refuse(
                    unless: RunHook.batches.contains(batch),
                    "The batch of the hook \(name) must be 1 to \(RunHook.batches.upperBound), not \(batch).")
            }
        }
    }

    /// An engine for one attempt.
    ///
    /// - Parameter listen: Sets who listens.
    /// - Throws: ``Sync/Failure`` with status 78 for settings that cannot be used.
    func engine(stop: StopRequest, _ listen: (inout EngineRequest) -> Void = { _ in }) throws(Sync.Failure)
        -> AssembledEngine
    {
        let host = HostEnvironment(
            base: PathBase(directory: nil, home: nil), variables: ProcessInfo.processInfo.environment)
        var asked = recipe
        asked.settings = settings
        do throws(EngineError) {
            let settings = try rethrowing(RunSettings(of: asked, host)) { (error: SettingsError) in EngineError(error) }
            var request = EngineRequest(recipe, settings)
            request.isEmbedded = true
            request.stop = stop
            listen(&request)
            return try AssembledEngine(
                request, on: host, store: store, stateDirectory: stateDirectory, own: plugins)
        } catch { throw Sync.Failure(error.status, error.message) }
    }

    /// Whether hooks of a run are still to be called.
    func owesHooks(_ report: PullReport) -> Bool {
        (try? store.owedHooks(session: report.session))?.contains { $0.run == report.run } ?? false
    }

    /// Works with an engine on a thread of its own; cancelling the task stops it.
    static func inspect<R: Sendable>(
        _ pull: Sync.Pull, _ work: @escaping @Sendable (PullEngine, RunRecipe) throws(EngineError) -> R
    ) async throws -> R {
        let stop = StopRequest()
        return try await onThread("look", onCancel: { stop.stop() }) { _ in
            let setup = try PullSetup(pull)
            let engine = try setup.engine(stop: stop)
            defer { engine.end() }
            do throws(EngineError) { return try work(engine.engine, setup.recipe) } catch {
                if stop.isStopped { throw CancellationError() }
                throw Sync.Failure(error.status, error.message)
            }
        }
    }

    private static func plugins(_ said: Sync.Plugins) throws(Sync.Failure) -> PluginSet {
        var plugins = PluginSet()
        do throws(SyncSystem.URLError) {
            for (prefix, transport) in said.transports {
                plugins.transports.append((try .prefixes([prefix]), transport))
            }
            for (prefix, source) in said.sources {
                let scope = try URLScope.prefixes([prefix])
                plugins.sources.append(
                    ConfiguredSource(
                        name: prefix, source: source, schemes: scope.schemes, covers: { scope.covers($0) }))
            }
            for (index, resolver) in said.resolvers.enumerated() {
                plugins.resolvers.append(
                    ConfiguredResolver(name: "resolver-\(index + 1)", plugin: resolver, scope: .all))
            }
            for (origin, provider) in said.credentialProviders {
                plugins.credentialProviders.append(
                    ConfiguredCredentialProvider(name: origin, plugin: provider, scope: try .origins([origin])))
            }
        } catch { throw Sync.Failure(.usage, "a plugin's URL is \(error.description)") }
        // A manifest from elsewhere could name this machine's files.
        guard !plugins.schemes.union(plugins.sourceSchemes).contains("file") else {
            throw Sync.Failure(.usage, URLScope.fileIsBuiltIn)
        }
        plugins.verifications = said.verifiers.enumerated().map {
            FileVerification(name: "verifier-\($0.offset + 1)", verifier: $0.element)
        }
        plugins.hooks = said.hooks
        plugins.observers = said.observers.enumerated().map { ("observer-\($0.offset + 1)", $0.element, []) }
        return plugins
    }

    /// Stores a list of files as a manifest, where the next pull of the project and other commands find it.
    private static func write(_ entries: [Sync.Entry], _ project: String, under state: String) throws(Sync.Failure)
        -> String
    {
        let name = project.utf8.map { byte in
            let isPlain = (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte | 0x20) || byte == 0x2E
            return isPlain ? String(UnicodeScalar(byte)) : "_\(byte)"
        }.joined()
        // A file's name has at most 255 bytes; no other name has a `-`.
        let file = name.utf8.count <= 200 ? name : "sha256-\(try digest(of: project))"
        let path = "\(state)/entries/\(file).json"
        do throws(FileError) {
            try makeDirectories(state + "/entries", mode: 0o700)
            try entries.writeManifest(of: project, to: path)
        } catch { throw Sync.Failure(.ioError, "\(escaped(path)): \(error.reason)") }
        return path
    }

    private static func digest(of project: String) throws(Sync.Failure) -> SHA256Digest {
        do throws(DigestError) { return try sha256(Array(project.utf8)) } catch {
            throw Sync.Failure(.internalError, "\(error)")
        }
    }

    private static func absolute(_ path: String) throws(Sync.Failure) -> String {
        do throws(FileError) { return URL(fileURLWithPath: try absolutePath(path)).standardizedFileURL.path } catch {
            throw Sync.Failure(.cannotCreate, "\(error).")
        }
    }

    private static var usualStateDirectory: String? {
        let home = FileManager.default.homeDirectoryForCurrentUser.path
        let variables = ProcessInfo.processInfo.environment
        return BaseDirectories(home: home, lookup: { variables[$0] }).state.map { $0 + "/syncagent" }
    }
}
