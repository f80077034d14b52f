import Foundation
package import SyncEngine
import SyncManifest
import SyncModel
package import SyncPluginHost
package import SyncPlugins
import SyncSystem
package import SyncTransfer

/// Everything at the plugin points of an engine: built in, in this process, or in programs.
///
/// Making a set starts nothing: a program is started by the first question to it.
package struct PluginSet: Sendable {
    package var resolvers: [ConfiguredResolver] = []
    package var credentialProviders: [ConfiguredCredentialProvider] = []
    package var verifications: [FileVerification] = []
    package var transports: [(scope: URLScope, transport: any Transport)] = []
    /// By the names in `plugin:NAME`.
    package var hooks: [String: any GroupHook] = [:]
    package var sources: [ConfiguredSource] = []
    package var observers: [(name: String, observer: any EventObserver, names: Set<String>)] = []
    /// Clients of programs; they are closed when the engine ends.
    var clients: [PluginClient] = []

    /// An empty set.
    package init() {}

    /// The plugins of this process, then those of a configuration, then the programs that a recipe names.
    ///
    /// - Throws: ``/SyncEngine/EngineError`` with status 78.
    init(_ own: PluginSet, _ context: PluginContext, verifiers: [[String]]) throws(EngineError) {
        self = own
        do throws(PluginError) {
            for use in context.settings.uses { try use.point.descriptor.install(use, context, &self) }
            for command in verifiers { verifications.append(try Self.verification(by: command, context)) }
        } catch { throw EngineError(.configuration, "\(error)") }
    }

    /// A verification by a program that answers by its exit status.
    static func verification(
        by command: [String], include: [Glob] = [], limit: Duration? = nil, _ context: PluginContext
    ) throws(PluginError) -> FileVerification {
        let program = try SmallProgram(
            command, destination: context.destination, limit: limit ?? ProgramVerifier.limit,
            environment: context.host.variables, isStopped: context.isStopped)
        let instances = ProgramVerifier.instances(cores: ProcessInfo.processInfo.activeProcessorCount)
        let verifier = ProgramVerifier(program, instances: instances)
        return FileVerification(name: program.name, verifier: verifier, include: include)
    }

    /// A client for a program; it is closed with this set.
    mutating func client(_ use: PluginSettings.Use, _ context: PluginContext) throws(PluginError) -> PluginClient {
        let client = try context.client(use)
        clients.append(client)
        return client
    }

    /// The schemes that a URL may have: http, https, and those of transports; in lower case.
    package var schemes: Set<String> { transports.reduce(into: webSchemes) { $0.formUnion($1.scope.schemes) } }

    /// The schemes of the URLs that sources make manifests of; in lower case.
    package var sourceSchemes: Set<String> { sources.reduce(into: []) { $0.formUnion($1.schemes) } }

    /// Ends the programs, and waits until they have ended, for seconds at most.
    func close() { for client in clients { client.close() } }
}

/// What plugins are made from: their configuration, and this machine.
struct PluginContext: Sendable {
    var settings: PluginSettings
    var host: HostEnvironment
    /// Nothing below it is a plugin; `nil` when nothing is pulled.
    var destination: String?
    /// The proxies and the trust of built-in plugins that send requests of their own.
    var web: TransportConfiguration?
    /// The longest silence, if one is set for the run; `nil` otherwise.
    var patience: Duration?
    /// Whether verifiers, and programs that make manifests, are to be ended early.
    var isStopped: @Sendable () -> Bool = { false }
    /// Receives notices about programs.
    var notice: @Sendable (PluginNotice) -> Void

    /// A program that makes manifests: a plugin's, or a command that gets the URL as its last argument.
    func source(_ use: PluginSettings.Use, timeout: Int? = nil) throws(PluginError) -> SourceProgram {
        let time = (timeout ?? use.timeout).map { Duration.seconds($0) }
        let silence = use.timeout == nil ? patience : nil
        if use.plugin == "program" {
            return try SourceProgram(
                command: try use.command, time: time, silence: silence, environment: host.variables,
                destination: destination, isStopped: isStopped)
        }
        let program = try PluginProgram(
            use.plugin, directory: settings.directory ?? host.pluginDirectory, destination: destination)
        return SourceProgram(
            program, settings: use.settings, time: time, silence: silence, environment: host.variables,
            destination: destination, isStopped: isStopped)
    }

    func client(_ use: PluginSettings.Use) throws(PluginError) -> PluginClient {
        let program = try PluginProgram(
            use.plugin, directory: settings.directory ?? host.pluginDirectory, destination: destination)
        var configuration = host.configuration(program, use.point, notice: notice)
        configuration.settings = use.settings
        configuration.destination = destination
        // An agent keeps its conditions for weeks; the plugins of a run end with it.
        if use.point == .condition { configuration.restart.rest = .seconds(600) }
        if let timeout = use.timeout { configuration.limits.request = .seconds(timeout) }
        return PluginClient(configuration)
    }
}

extension HostEnvironment {
    /// - Parameter point: `nil` for a program that is only asked to describe itself.
    package func configuration(
        _ program: PluginProgram, _ point: PluginPoint?, notice: @escaping @Sendable (PluginNotice) -> Void
    ) -> PluginConfiguration {
        var configuration = PluginConfiguration(
            program: program, point: point, environment: variables, version: syncagentVersion, notice: notice)
        configuration.runtimeDirectory = runtimeDirectory
        return configuration
    }
}

extension PluginNotice {
    /// The notice as a line for people.
    package var line: String { "plugin \(plugin): \(text)" }

    /// The event of a notice, which belongs to no run's record.
    var event: SyncEvent {
        SyncEvent(.pluginNotice, time: SystemTime.milliseconds(), note: line) {
            $0.field("plugin", plugin)
            $0.field("kind", kind.rawValue)
            $0.field("text", text)
        }
    }
}

extension PluginError {
    /// The same error, with the names of built-in plugins.
    package func naming(builtIn names: [String]) -> PluginError {
        let text = "\(message); built in: \(names.joined(separator: ", "))"
        return PluginError(plugin: plugin, code: code, message: text)
    }
}
