package import SyncModel
package import SyncPluginHost
package import SyncPlugins
import SyncSystem

/// A plugin to check, and what to check it with.
package struct CheckSubject: Sendable {
    package let name: String
    let context: PluginContext
    /// The only point to check, if one is named.
    let point: PluginPoint?
    /// Settings that replace the configured ones.
    private let json: String?
    /// The URL to ask about; `nil` for a made-up one.
    let url: String?
    /// Paths of further files for a verifier.
    let files: [String]
    /// The **seconds** that one answer may take.
    let timeout: Int
    /// A directory for the check alone, absolute.
    let scratch: String
    /// The URL of an object for transports, if one is served.
    package var served: String?

    /// - Parameters:
    ///   - name: The name of a built-in plugin or of a program, or an absolute path.
    ///   - notice: Receives notices about programs.
    package init(
        name: String, settings: PluginSettings, on host: HostEnvironment,
        notice: @escaping @Sendable (PluginNotice) -> Void, point: PluginPoint?, json: String?, url: String?,
        files: [String], timeout: Int, scratch: String
    ) {
        var host = host
        host.runtimeDirectory = scratch
        context = PluginContext(settings: settings, host: host, notice: notice)
        (self.name, self.point, self.json, self.url) = (name, point, json, url)
        (self.files, self.timeout, self.scratch) = (files, timeout, scratch)
    }

    /// The URL to ask a source or a transport about, as a pull would: `store:a` is `store:///a`.
    var location: String? {
        guard let url, let scheme = leadingScheme(of: url) else { return url }
        return withAuthority(url, schemes: [scheme])
    }

    /// The name in titles.
    var plainName: String { PluginSettings.Use(plugin: name, point: .hook).name }

    private func isBuiltIn(_ point: PluginPoint) -> Bool { point.descriptor.builtIn.contains(name) }

    private var isBuiltIn: Bool { PluginPoint.allCases.contains(where: isBuiltIn) }

    /// Whether it is a program that makes manifests: such a program speaks no protocol, and cannot be asked what it
    /// serves.
    private var isSource: Bool { point == .source || point == nil && !isBuiltIn && context.settings.isSource(name) }

    /// The points that the plugin serves and is to be checked for.
    ///
    /// - Throws: ``PluginError`` when there is no such plugin, or it is not for the point that was asked for.
    package func points() throws(PluginError) -> [PluginPoint] {
        let served: [PluginPoint]
        if isSource {
            served = [.source]
        } else if isBuiltIn {
            served = PluginPoint.allCases.filter(isBuiltIn)
        } else {
            let client = PluginClient(try configuration(nil))
            defer { client.close() }
            served = try client.describe().points
        }
        guard let point else { return served }
        guard served.contains(point) else {
            let list = served.map(\.rawValue).joined(separator: ", ")
            throw lacks("it does not serve \(point.rawValue); it serves: \(list.isEmpty ? "nothing" : list)")
        }
        return [point]
    }

    /// The configuration's entry for the plugin, with the settings of the command line if there are any.
    func use(_ point: PluginPoint) -> PluginSettings.Use {
        var use =
            context.settings.uses(of: point).first { $0.name == plainName || $0.plugin == name }
            ?? PluginSettings.Use(plugin: name, point: point)
        use.plugin = name
        if let json { use.settings = json }
        return use
    }

    private func configuration(_ point: PluginPoint?) throws(PluginError) -> PluginConfiguration {
        let directory = context.settings.directory ?? context.host.pluginDirectory
        let program = try rethrowing(PluginProgram(name, directory: directory, destination: nil)) {
            (error: PluginError) in
            error.naming(builtIn: Set(PluginPoint.allCases.flatMap(\.descriptor.builtIn)).sorted())
        }
        var configuration = context.host.configuration(program, point, notice: context.notice)
        if let point { configuration.settings = use(point).settings }
        configuration.limits.request = .seconds(timeout)
        return configuration
    }

    /// The report on the rules of the protocol, for a program.
    package func processReports(_ point: PluginPoint?) throws(PluginError) -> [PointReport] {
        if isBuiltIn || isSource { return [] }
        return [PointReport(plugin: plainName, point: nil, results: check(process: try configuration(point)))]
    }

    /// The report on the rules of one point.
    package func report(_ point: PluginPoint) throws(PluginError) -> PointReport {
        let client = isBuiltIn(point) || point == .source ? nil : PluginClient(try configuration(point))
        defer { client?.close() }
        return PointReport(plugin: plainName, point: point, results: try point.descriptor.check(self, client))
    }

    /// The error for something that a check lacks.
    func lacks(_ text: String) -> PluginError { PluginError(plugin: plainName, code: .unavailable, message: text) }
}

/// The results of one point's rules, or of the protocol's.
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
