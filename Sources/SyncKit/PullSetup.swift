import Foundation
import SyncAgent
import SyncAssembly
import SyncCurl
import SyncEngine
import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem
import SyncTransfer

/// Everything a pull is made with, from what its caller has said.
struct PullSetup {
    let recipe: RunRecipe
    /// Absolute.
    let destination: String
    private let stateDirectory: String
    private let store: SyncStore
    private let options: Sync.Options
    private let plugins: EnginePlugins

    /// - Throws: ``Sync/Failure``.
    init(_ pull: Sync.Pull) throws {
        try Self.check(pull)
        options = pull.options
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
            let named = withAuthority(text, schemes: Self.schemes(plugins))
            manifest = urlScheme(of: named) == nil ? try Self.absolute(named) : named
        case .entries(let entries, let project): manifest = try Self.write(entries, project, under: state)
        }
        var recipe = RunRecipe(manifest: manifest, destination: destination)
        recipe.session = options.session
        recipe.groups = options.groups
        (recipe.channel, recipe.revision) = (options.channel, options.revision)
        recipe.hooks = options.hooks
        for name in pull.plugins.hooks.keys.sorted() {
            let word = "plugin:\(name)"
            guard !options.hooks.contains(where: { $0.arguments.first == word }) else { continue }
            recipe.hooks.append(RunHook(arguments: [word]))
        }
        recipe.prune = options.prunes
        recipe.allowOlder = options.allowsOlder
        recipe.connections = options.connections
        recipe.limitRate = options.rateLimit
        self.recipe = recipe
    }

    /// Refuses what no pull can be made with.
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
        if let count = options.connections {
            try refuse(unless: (1...64).contains(count), "connections must be 1 to 64, not \(count).")
        }
        try refuse(
            unless: options.rateLimit != 0, "rateLimit must be at least 1 byte per second; use nil for no limit.")
        try refuse(unless: options.patience > .zero, "patience must be above 0, not \(options.patience).")
        for hook in options.hooks {
            let name = escaped(shownHookProgram(hook.arguments.first ?? ""))
            try refuse(
                unless: isHookProgram(hook.arguments.first ?? ""),
                "'\(name)' is not a hook: an absolute path, a URL or plugin:NAME is expected.")
            try refuse(
                unless: RunHook.timeouts.contains(hook.timeout),
                "The timeout of the hook \(name) must be at most \(RunHook.timeouts.upperBound) seconds, not \(hook.timeout)."
            )
            if let batch = hook.batch {
                try refuse(
                    unless: RunHook.batches.contains(batch),
                    "The batch of the hook \(name) must be 1 to \(RunHook.batches.upperBound), not \(batch).")
            }
        }
    }

    /// An engine for one attempt.
    ///
    /// - Throws: ``Sync/Failure`` with status 78 for what libcurl refuses.
    func engine(
        stop: StopRequest, listener: @escaping @Sendable (SyncEvent) -> Void,
        progress: @escaping @Sendable (PullProgress) -> Void, requests: @escaping @Sendable ([UInt8]) -> Void
    ) throws(Sync.Failure) -> AssembledEngine {
        var web = TransportConfiguration(
            clock: SystemTime.clock, random: { .random(in: .min ... .max) }, events: { _ in })
        web.userAgent = "syncagent-kit"
        let patience = min(options.patience, .seconds(366 * 86_400))
        web.patience = Patience(firstContact: patience / 6, silence: patience)
        web.homes = (try? CurlURL(recipe.manifest).origin).map { [$0] }
        web.rateLimit = options.rateLimit
        if let connections = options.connections {
            web.connections = connections
            web.connectionsPerHost = connections
            web.initialConnections = min(web.initialConnections, connections)
        }
        do throws(TransferError) {
            return try AssembledEngine(
                store: store, stateDirectory: stateDirectory, web: web, plugins: plugins, stop: stop,
                listener: listener, progress: progress,
                adjust: { environment in
                    environment.manifestLimits.schemes?.formUnion(Self.schemes(plugins))
                    // The program around it has heaps of its own.
                    environment.releasesMemory = false
                    environment.requests = requests
                })
        } catch { throw Sync.Failure(.configuration, "\(error)") }
    }

    /// What the transports of a program are for, in lower case.
    private static func schemes(_ plugins: EnginePlugins) -> Set<String> {
        plugins.transports.reduce(into: []) { $0.formUnion($1.scope.schemes) }
    }

    private static func plugins(_ said: Sync.Plugins) throws(Sync.Failure) -> EnginePlugins {
        var plugins = EnginePlugins()
        do throws(SyncCurl.URLError) {
            for (prefix, transport) in said.transports {
                plugins.transports.append((try .prefixes([prefix]), transport))
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
        guard !schemes(plugins).contains("file") else { throw Sync.Failure(.usage, URLScope.fileIsBuiltIn) }
        plugins.verifications = said.verifiers.enumerated().map {
            FileVerification(name: "verifier-\($0.offset + 1)", verifier: $0.element)
        }
        plugins.hooks = said.hooks
        plugins.observers = said.observers.map { ($0, []) }
        return plugins
    }

    /// Keeps a list of files as a manifest of the session: the next pull, and whoever looks at the session, finds it.
    private static func write(_ entries: [Sync.Entry], _ project: String, under state: String) throws(Sync.Failure)
        -> String
    {
        let name = project.utf8.map { byte in
            let isPlain = (0x30...0x39).contains(byte) || (0x61...0x7A).contains(byte | 0x20) || byte == 0x2E
            return isPlain ? String(UnicodeScalar(byte)) : "_\(byte)"
        }.joined()
        let path = "\(state)/entries/\(name.prefix(200)).json"
        do throws(FileError) {
            try makeDirectories(state + "/entries", mode: 0o700)
            try entries.writeManifest(of: project, to: path)
        } catch { throw Sync.Failure(.ioError, "\(escaped(path)): \(error.reason)") }
        return path
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
