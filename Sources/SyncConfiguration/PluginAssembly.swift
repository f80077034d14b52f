import Foundation
import SyncAssembly
import SyncEngine
import SyncManifest
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncSettings
import SyncSystem
import SyncTransfer

/// The plugins of one engine, made as the configuration says: built-ins by name, others as programs.
///
/// Making them starts nothing: a program is started by the first question to it.
struct PluginAssembly: Sendable {
    private(set) var made = EnginePlugins()
    private var clients: [PluginClient] = []

    private let place: PluginPlace
    private let tuning: EngineTuning
    private let web: TransportConfiguration
    private let isStopped: @Sendable () -> Bool
    private let notice: @Sendable (PluginNotice) -> Void

    /// - Parameters:
    ///   - place: Where programs are.
    ///   - web: Proxies and trust of built-ins that send requests of their own.
    ///   - isStopped: Whether programs are to be ended early.
    ///   - notice: Told of what happens to programs.
    init(
        _ tuning: EngineTuning, in place: PluginPlace, web: TransportConfiguration,
        isStopped: @escaping @Sendable () -> Bool, notice: @escaping @Sendable (PluginNotice) -> Void
    ) throws(EngineError) {
        (self.tuning, self.place, self.web) = (tuning, place, web)
        (self.isStopped, self.notice) = (isStopped, notice)
        do throws(PluginError) {
            for use in tuning.settings.plugins.uses { try add(use) }
            for command in tuning.verifiers { try add(verifier: command) }
        } catch { throw EngineError(.configuration, "\(error)") }
    }

    private mutating func add(_ use: PluginSettings.Use) throws(PluginError) {
        switch use.point {
        case .condition: break  // Asked for by runs, not by engines: see ConditionPlugins.
        case .resolver:
            let resolver = try make(BuiltInPlugins.resolvers, use) { PluginResolver($0) }
            made.resolvers.append(ConfiguredResolver(name: use.name, plugin: resolver, scope: use.scope))
        case .credential:
            let provider = try make(BuiltInPlugins.credentials, use) { PluginCredentials($0) }
            made.credentialProviders.append(
                ConfiguredCredentialProvider(name: use.name, plugin: provider, scope: use.scope))
        case .verifier:
            let include = use.include.map { Glob($0) }
            if use.plugin == "program" {
                let limit = use.timeout.map { Duration.seconds($0) }
                return try add(verifier: try BuiltInPlugins.command(use), include: include, limit: limit)
            }
            let verifier = PluginVerifier(try client(use))
            made.verifications.append(FileVerification(name: use.name, verifier: verifier, include: include))
        case .observer:
            let observer = try make(BuiltInPlugins.observers, use) { PluginObserver($0) }
            made.observers.append((observer, Set(use.events)))
        case .hook: made.hooks[use.name] = PluginHook(try client(use))
        case .transport: made.transports.append((use.scope, PluginTransport(try client(use))))
        }
    }

    /// A program that answers by its exit status.
    private mutating func add(verifier command: [String], include: [Glob] = [], limit: Duration? = nil)
        throws(PluginError)
    {
        let program = try SmallProgram(
            command, destination: tuning.destination, limit: limit ?? ProgramVerifier.limit,
            environment: place.environment, isStopped: isStopped)
        let instances = ProgramVerifier.instances(cores: ProcessInfo.processInfo.activeProcessorCount)
        let verifier = ProgramVerifier(program, instances: instances)
        made.verifications.append(FileVerification(name: program.name, verifier: verifier, include: include))
    }

    /// A plugin that is built in, or else a program's.
    private mutating func make<Plugin>(
        _ builtIn: PluginRegistry<Plugin, BuiltInPlugins.Needs>, _ use: PluginSettings.Use,
        program: (PluginClient) -> Plugin
    ) throws(PluginError) -> Plugin {
        guard builtIn.names.contains(use.plugin) else { return program(try client(use)) }
        return try builtIn.make(use.plugin, BuiltInPlugins.Needs(use: use, web: web))
    }

    private mutating func client(_ use: PluginSettings.Use) throws(PluginError) -> PluginClient {
        let client = try place.client(use, in: tuning.settings.plugins, destination: tuning.destination, notice: notice)
        clients.append(client)
        return client
    }

    /// Ends the programs; waits until they have ended, for seconds at most.
    func close() { for client in clients { client.close() } }
}
