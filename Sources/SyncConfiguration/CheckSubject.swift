import SyncAssembly
package import SyncModel
package import SyncPluginHost
package import SyncPlugins
import SyncSchedule
package import SyncSettings
import SyncSystem
import SyncTransfer

/// A plugin that is to be checked, and what it is checked with.
package struct CheckSubject: Sendable {
    package let name: String
    private let settings: PluginSettings
    private let place: PluginPlace
    private let notice: @Sendable (PluginNotice) -> Void
    private let point: PluginPoint?
    private let json: String?
    private let url: String?
    private let files: [String]
    private let timeout: Int
    private let scratch: String

    /// - Parameters:
    ///   - name: A built-in's, a program's, or an absolute path.
    ///   - notice: Told of what happens to programs.
    ///   - json: Settings that replace the configured ones.
    ///   - url: What to ask about; `nil` for a made-up one.
    ///   - files: Paths of files that a verifier looks at as well.
    ///   - timeout: **Seconds** for one answer.
    ///   - scratch: A directory of its own, absolute.
    package init(
        name: String, settings: PluginSettings, place: PluginPlace, notice: @escaping @Sendable (PluginNotice) -> Void,
        point: PluginPoint?, json: String?, url: String?, files: [String], timeout: Int, scratch: String
    ) {
        (self.name, self.settings, self.place, self.notice) = (name, settings, place, notice)
        (self.point, self.json, self.url, self.files) = (point, json, url, files)
        (self.timeout, self.scratch) = (timeout, scratch)
    }

    /// As titles have it.
    private var plainName: String { PluginSettings.Use(plugin: name, point: .hook).name }

    private func isBuiltIn(_ point: PluginPoint) -> Bool { BuiltInPlugins.names(point).contains(name) }

    private var isBuiltIn: Bool { PluginPoint.allCases.contains(where: isBuiltIn) }

    /// What it serves and is to be checked for.
    ///
    /// - Throws: ``PluginError`` when there is no such plugin, or it is not for the point that was asked for.
    package func points() throws(PluginError) -> [PluginPoint] {
        let served: [PluginPoint]
        if isBuiltIn {
            served = PluginPoint.allCases.filter(isBuiltIn)
        } else {
            let client = PluginClient(try configuration(nil))
            defer { client.close() }
            served = try client.describe().points
        }
        guard let point else { return served }
        guard served.contains(point) else {
            let list = served.map(\.rawValue).joined(separator: ", ")
            throw PluginError(
                plugin: plainName, code: .unavailable,
                message: "it does not serve \(point.rawValue); it serves: \(list.isEmpty ? "nothing" : list)")
        }
        return [point]
    }

    /// The configuration's words about it, or those of the command line.
    private func use(_ point: PluginPoint) -> PluginSettings.Use {
        var use =
            settings.uses(of: point).first { $0.name == plainName || $0.plugin == name }
            ?? PluginSettings.Use(plugin: name, point: point)
        use.plugin = name
        if let json { use.settings = json }
        return use
    }

    private func configuration(_ point: PluginPoint?) throws(PluginError) -> PluginConfiguration {
        let directory = settings.directory ?? place.directory
        let program = try rethrowing(PluginProgram(name, directory: directory, destination: nil)) {
            (error: PluginError) in
            error.naming(builtIn: Set(PluginPoint.allCases.flatMap(BuiltInPlugins.names)).sorted())
        }
        var configuration = place.configuration(program, point, notice: notice)
        if let point { configuration.settings = use(point).settings }
        configuration.runtimeDirectory = scratch
        configuration.limits.request = .seconds(timeout)
        return configuration
    }

    /// The rules of the protocol, for a program.
    package func processReports(_ point: PluginPoint?) throws(PluginError) -> [PointReport] {
        if isBuiltIn { return [] }
        return [PointReport(plugin: plainName, point: nil, results: check(process: try configuration(point)))]
    }

    /// The rules of one point.
    ///
    /// - Parameter served: The URL of an object for transports.
    package func report(_ point: PluginPoint, served: String?) throws(PluginError) -> PointReport {
        let client = isBuiltIn(point) ? nil : PluginClient(try configuration(point))
        defer { client?.close() }
        return PointReport(plugin: plainName, point: point, results: try results(point, client, served))
    }

    private func results(_ point: PluginPoint, _ client: PluginClient?, _ served: String?) throws(PluginError)
        -> [CheckResult]
    {
        let now = SystemTime.milliseconds()
        switch point {
        case .resolver:
            let resolver: any RequestResolver =
                if let client { PluginResolver(client) } else { try make(BuiltInPlugins.resolvers) }
            return url.map { check(resolver: resolver, url: $0) } ?? check(resolver: resolver)
        case .credential:
            let provider: any CredentialProvider =
                if let client { PluginCredentials(client) } else { try make(BuiltInPlugins.credentials) }
            return url.map { check(credentials: provider, origin: $0, now: now / 1_000) }
                ?? check(credentials: provider, now: now / 1_000)
        case .condition:
            let condition: any Condition =
                if let client { PluginCondition(client) } else {
                    try builtInConditions.make(name, ConditionSettings(RunConditions(), on: MachinePlaces()))
                }
            return check(condition: condition, destination: scratch, now: now)
        case .verifier:
            guard let client else { return [] }
            let samples = try SampleFiles(in: scratch, besides: files)
            return check(verifier: PluginVerifier(client), files: samples.files, isUnchanged: samples.isUnchanged)
        case .observer:
            let observer: any EventObserver =
                if let client { PluginObserver(client) } else { try make(BuiltInPlugins.observers) }
            return check(observer: observer)
        case .hook: return try hookResults(client)
        case .transport: return try transportResults(served)
        }
    }

    private func make<Plugin>(_ registry: PluginRegistry<Plugin, BuiltInPlugins.Needs>) throws(PluginError) -> Plugin {
        let needs = BuiltInPlugins.Needs(use: use(registry.point), web: BuiltInPlugins.plainConfiguration)
        return try registry.make(name, needs)
    }

    private func hookResults(_ client: PluginClient?) throws(PluginError) -> [CheckResult] {
        var word = "plugin:\(plainName)"
        let hook: any GroupHook
        if let client {
            hook = PluginHook(client)
        } else if name == "webhook" {
            guard let url, WebhookHook.isFor(url) else { throw wanting("the webhook's URL: --url https://…") }
            word = url
            hook = WebhookHook(BuiltInPlugins.plainConfiguration)
        } else {
            word = "/bin/true"
            hook = ProgramHook(environment: place.environment)
        }
        return check(hook: hook, invocation: SampleFiles.invocation(word, directory: scratch, timeout: timeout))
    }

    private func transportResults(_ served: String?) throws(PluginError) -> [CheckResult] {
        if name == "file" {
            let path = try SampleFiles.object(in: scratch)
            let subject = TransportSubject(url: fileURL(path: path), missing: fileURL(path: path + ".none"))
            return check(transport: subject) { FileTransport() }
        }
        guard let url = url ?? served else { throw wanting("--url says what to fetch") }
        let subject = TransportSubject(url: url, missing: served.map { $0 + ".none" })
        if name == "http" {
            let made: Result<CurlTransport, TransferError> = Result { () throws(TransferError) in
                try CurlTransport(configuration: BuiltInPlugins.plainConfiguration)
            }
            guard case .success(let first) = made else { throw wanting("libcurl does not work here") }
            first.shutdown()
            // What could be made once can be made again; where it cannot, every rule says so.
            return check(transport: subject) {
                (try? CurlTransport(configuration: BuiltInPlugins.plainConfiguration)) ?? first
            }
        }
        let configuration = try configuration(.transport)
        return check(transport: subject) { PluginTransport(PluginClient(configuration)) }
    }

    private func wanting(_ text: String) -> PluginError {
        PluginError(plugin: plainName, code: .unavailable, message: text)
    }
}

/// What came of one point's rules, or of the protocol's.
package struct PointReport: Sendable {
    package let plugin: String
    /// `nil` for the protocol itself.
    package let point: PluginPoint?
    package let results: [CheckResult]

    package var title: String { "\(plugin): \(point?.rawValue ?? "protocol")" }

    package func json(_ result: CheckResult) -> JSONLine {
        JSONLine.object { line in
            line.field("plugin", plugin)
            line.field("point", point?.rawValue ?? "protocol")
            line.field("rule", result.rule)
            line.field("passed", result.passed)
            line.field("failure", optional: result.failure)
            if !result.passed { line.field("advice", result.advice) }
        }
    }
}
