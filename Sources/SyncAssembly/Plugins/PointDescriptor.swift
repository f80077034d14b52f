import SyncEngine
import SyncManifest
import SyncModel
import SyncPluginHost
package import SyncPlugins
import SyncSchedule
import SyncSystem
import SyncTransfer

/// An extension point: its keys in the configuration, its built-in plugins, how a plugin becomes part of an engine, and
/// the rules that a plugin must follow. A new point is a case of ``PluginPoint``, a file with its program's side in
/// SyncPluginHost, and a descriptor here; configuration, `plugins list` and `plugins check` read these.
package struct PointDescriptor: Sendable {
    /// The names of built-in plugins.
    package let builtIn: [String]
    /// The keys of `plugins.use` that the point uses, of those that only some points have.
    var keys: Set<String> = []
    /// Makes a configured use part of an engine.
    let install: @Sendable (PluginSettings.Use, PluginContext, inout PluginSet) throws(PluginError) -> Void
    /// Checks a plugin against the rules: a program, or a built-in one.
    let check: @Sendable (CheckSubject, PluginClient?) throws(PluginError) -> [CheckResult]
}

extension PluginPoint {
    /// The descriptor of the point.
    package var descriptor: PointDescriptor {
        switch self {
        case .transport: .transport
        case .resolver: .resolver
        case .credential: .credential
        case .condition: .condition
        case .verifier: .verifier
        case .hook: .hook
        case .observer: .observer
        case .source: .source
        }
    }
}

extension PointDescriptor {
    fileprivate static let resolver = PointDescriptor(builtIn: ["rewrite"], keys: ["for"]) {
        use, context, set throws(PluginError) in
        let plugin = try use.resolver(use.plugin == "rewrite" ? nil : set.client(use, context))
        set.resolvers.append(ConfiguredResolver(name: use.name, plugin: plugin, scope: use.scope))
    } check: { subject, client throws(PluginError) in
        let plugin = try subject.use(.resolver).resolver(client)
        return subject.url.map { SyncPluginHost.check(resolver: plugin, url: $0) }
            ?? SyncPluginHost.check(resolver: plugin)
    }

    fileprivate static let credential = PointDescriptor(builtIn: ["file"], keys: ["for"]) {
        use, context, set throws(PluginError) in
        let plugin = try use.credentials(use.plugin == "file" ? nil : set.client(use, context))
        set.credentialProviders.append(
            ConfiguredCredentialProvider(name: use.name, plugin: plugin, scope: use.scope))
    } check: { subject, client throws(PluginError) in
        let plugin = try subject.use(.credential).credentials(client)
        let now = SystemTime.milliseconds() / 1_000
        return subject.url.map { SyncPluginHost.check(credentials: plugin, origin: $0, now: now) }
            ?? SyncPluginHost.check(credentials: plugin, now: now)
    }

    fileprivate static let condition = PointDescriptor(builtIn: builtInConditions) { _, _, _ in
        // Runs ask for conditions, engines do not: see ConditionPlugins.
    } check: { subject, client throws(PluginError) in
        let plugin: any Condition =
            if let client { PluginCondition(client) } else {
                try builtInCondition(subject.name, for: RunConditions(), on: MachinePlaces())
            }
        return SyncPluginHost.check(
            condition: plugin, destination: subject.scratch, now: SystemTime.milliseconds())
    }

    fileprivate static let verifier = PointDescriptor(builtIn: ["program"], keys: ["include"]) {
        use, context, set throws(PluginError) in
        let include = use.include.map { Glob($0) }
        if use.plugin == "program" {
            let limit = use.timeout.map { Duration.seconds($0) }
            set.verifications.append(
                try PluginSet.verification(by: use.command, include: include, limit: limit, context))
            return
        }
        let plugin = try set.client(use, context)
        set.verifications.append(FileVerification(name: use.name, verifier: plugin, include: include))
    } check: { subject, client throws(PluginError) in
        let verifier: any FileVerifier
        if let client {
            verifier = client
        } else {
            // The settings of the built-in verifier name its program; without them there is nothing to check.
            if subject.point == nil { return [] }
            let command = try subject.use(.verifier).command
            let limit = Duration.seconds(subject.timeout)
            verifier = try PluginSet.verification(by: command, limit: limit, subject.context).verifier
        }
        let samples = try SampleFiles(in: subject.scratch, besides: subject.files)
        return SyncPluginHost.check(
            verifier: verifier, files: samples.files, isUnchanged: samples.isUnchanged)
    }

    fileprivate static let observer = PointDescriptor(builtIn: ["webhook"], keys: ["events"]) {
        use, context, set throws(PluginError) in
        let plugin = try use.observer(use.plugin == "webhook" ? nil : set.client(use, context), context.web ?? .plain)
        set.observers.append((use.name, plugin, Set(use.events)))
    } check: { subject, client throws(PluginError) in
        SyncPluginHost.check(observer: try subject.use(.observer).observer(client, .plain))
    }

    fileprivate static let source = PointDescriptor(builtIn: ["program"], keys: ["for"]) {
        use, context, set throws(PluginError) in
        // The program is looked for when it is needed: that of a scheme nobody uses may be missing.
        let source = LateSource(make: { () throws(PluginError) in try context.source(use) })
        set.sources.append(
            ConfiguredSource(
                name: use.name, source: source, setup: "\(use.plugin)\n\(use.settings)", schemes: use.scope.schemes,
                covers: { [scope = use.scope] in scope.covers($0) }))
    } check: { subject, _ throws(PluginError) in
        // The settings of the built-in source name its program; without them there is nothing to check.
        if subject.point == nil, subject.name == "program" { return [] }
        guard let url = subject.location else { throw subject.lacks("it needs --url, the URL of a set") }
        let program = try subject.context.source(subject.use(.source), timeout: subject.timeout)
        return SyncPluginHost.check(source: program, url: url) { text in
            var limits = ManifestLimits.standard
            (limits.learns, limits.schemes) = (true, nil)
            do throws(ManifestError) {
                var at: String?
                let whole = try SourceOrigin.put(into: text) { known in
                    at = known
                    return SourceOrigin(kind: "source", url: url, at: known ?? "unknown")
                }
                let manifest = try ManifestAssembly(whole, digest: .zero, limits: limits).finish()
                return (manifest.objectionToSource, at)
            } catch { return ("\(error)", nil) }
        }
    }

    fileprivate static let hook = PointDescriptor(builtIn: ["program", "webhook"]) {
        use, context, set throws(PluginError) in
        set.hooks[use.name] = try set.client(use, context)
    } check: { subject, client throws(PluginError) in
        var word = "plugin:\(subject.plainName)"
        let hook: any GroupHook
        if let client {
            hook = client
        } else if subject.name == "webhook" {
            guard let url = subject.url, isWebURL(url) else {
                throw subject.lacks("it needs --url, the URL of a webhook")
            }
            word = url
            hook = WebhookHook(TransportConfiguration.plain)
        } else {
            word = "/bin/true"
            hook = ProgramHook(environment: subject.context.host.variables)
        }
        let call = SampleFiles.invocation(word, directory: subject.scratch, timeout: subject.timeout)
        return SyncPluginHost.check(hook: hook, invocation: call)
    }

    fileprivate static let transport = PointDescriptor(builtIn: ["http", "file"], keys: ["for"]) {
        use, context, set throws(PluginError) in
        set.transports.append((use.scope, PluginTransport(try set.client(use, context))))
    } check: { subject, client throws(PluginError) in
        if subject.name == "file" {
            let path = try SampleFiles.object(in: subject.scratch)
            return SyncPluginHost.check(transport: fileURL(path: path), missing: fileURL(path: path + ".none")) {
                FileTransport()
            }
        }
        guard let url = subject.location ?? subject.served else {
            throw subject.lacks("it needs --url, the URL of an object")
        }
        let missing = subject.served.map { $0 + ".none" }
        guard let client else {
            guard let first = try? CurlTransport(configuration: .plain) else {
                throw subject.lacks("libcurl does not work here")
            }
            first.shutdown()
            // The transport could be made once, so it can be made again; otherwise every rule fails.
            return SyncPluginHost.check(transport: url, missing: missing) {
                (try? CurlTransport(configuration: .plain)) ?? first
            }
        }
        return SyncPluginHost.check(transport: url, missing: missing) {
            PluginTransport(PluginClient(client.configuration))
        }
    }
}

// MARK: Plugins that are programs, or built in and made with the settings of a configuration file

extension PluginSettings.Use {
    /// - Parameter client: `nil` for the built-in one.
    fileprivate func resolver(_ client: PluginClient?) throws(PluginError) -> any RequestResolver {
        if let client { return client }
        let texts = try setting("rules", "{ rules: [\"PREFIX REPLACEMENT\"] }") { $0.texts }
        return RewriteRules(
            try texts.map { text throws(PluginError) in
                try rethrowing(RewriteRule(text)) { (error: SyncSystem.URLError) in refused(error.description) }
            })
    }

    fileprivate func credentials(_ client: PluginClient?) throws(PluginError) -> any CredentialProvider {
        if let client { return client }
        let path = try setting("path", "{ path: \"/absolute/path\" }") { $0.string }
        return try rethrowing(Credentials.read(path: path)) { (refusal: Credentials.Refusal) in
            refused(refusal.description)
        }
    }

    /// The argv of a program that speaks no protocol.
    var command: [String] {
        get throws(PluginError) {
            let command = try setting("command", "{ command: [\"/absolute/path\", \"argument\"] }") { $0.texts }
            guard command.first?.hasPrefix("/") == true else {
                throw refused("settings.command must begin with an absolute path")
            }
            return command
        }
    }

    fileprivate func observer(_ client: PluginClient?, _ web: TransportConfiguration) throws(PluginError)
        -> any EventObserver
    {
        if let client { return client }
        let url = try setting("url", "{ url: \"https://…\" }") { $0.string }
        guard isWebURL(url) else { throw refused("settings.url must be an http or https URL") }
        if let fault = RunHook.objection(to: [url]) { throw refused("settings.url: \(fault)") }
        return WebhookObserver(url: url, name: name, hook: WebhookHook(web))
    }

    private func setting<Value>(_ key: String, _ form: String, _ read: (JSONValue) -> Value?) throws(PluginError)
        -> Value
    {
        guard let value = JSONValue(text: settings)?[key].flatMap(read) else {
            throw refused("settings must have the form \(form)")
        }
        return value
    }

    private func refused(_ message: String) -> PluginError {
        PluginError(plugin: name, code: .refused, message: message)
    }
}

extension JSONValue {
    /// The elements of a list of texts; `nil` for anything else.
    fileprivate var texts: [String]? {
        guard let list = array else { return nil }
        let texts = list.compactMap(\.string)
        return texts.count == list.count ? texts : nil
    }
}

/// A source that looks for its program when it is asked.
private struct LateSource: SetSource {
    let make: @Sendable () throws(PluginError) -> SourceProgram

    func manifest(of url: String, known: String?) throws(PluginError) -> SourceAnswer {
        try make().manifest(of: url, known: known)
    }
}

/// Sends events to a URL, one batch a request: `{"events":[…]}`.
private struct WebhookObserver: EventObserver {
    let url: String
    let name: String
    let hook: WebhookHook

    func observe(_ events: [SessionEvent]) throws(PluginError) {
        let body = "{\"events\":[" + events.map(\.json).joined(separator: ",") + "]}"
        let outcome = hook.run(
            HookInvocation(arguments: [url], directory: "/", environment: [:], input: Array(body.utf8), timeout: 30))
        guard !outcome.succeeded else { return }
        let text =
            switch outcome.end {
            case .notStarted(let reason), .unknown(let reason): reason
            default: outcome.output.split(separator: "\n").first.map(String.init) ?? "no answer in time"
            }
        let what = Figures.count(events.count, "event")
        throw PluginError(plugin: name, code: .refused, message: "it did not accept \(what): \(text)")
    }
}
