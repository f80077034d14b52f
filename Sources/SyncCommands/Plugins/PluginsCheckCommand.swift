import ArgumentParser
import Foundation
import SyncAssembly
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncSystem

struct PluginsCheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check a plugin against the contract of its extension points, and explain its faults.",
        discussion: """
            The plugin really runs: a hook runs several times with a made-up report, an observer gets made-up events. \
            Settings come from the configuration unless --settings is given. A transport fetches from a server that this \
            command starts, unless --url names an object. Exit status: 0 the plugin follows every rule, 2 it breaks \
            some, 64 wrong arguments, 78 there is no such plugin, or it lacks settings, a URL or a file.
            """)

    @Argument(help: "The name of a built-in plugin, the NAME of a syncagent-plugin-NAME, or a path.".taking("plugin"))
    var plugin: String

    @Option(
        help: "Check only this extension point.  (default: all that the plugin serves)".taking("point"),
        transform: { try oneWord($0, "--point") })
    var point: PluginPoint?

    @Option(help: "The plugin's settings, a JSON object.".taking("json")) var settings: String?

    @Option(
        help:
            "What to ask the plugin about: an object's URL for a transport or resolver, an origin for credentials, a set's URL for a source, a webhook's URL."
            .taking("url"))
    var url: String?

    @Option(help: "A file to give a verifier in addition to the usual ones; repeatable.".taking("file"))
    var file: [String] = []

    @Option(help: "How many seconds one answer may take.".taking("s")) var timeout = 30

    @OptionGroup(title: "Plugins") var source: PluginSource

    @Flag(help: "Print JSON, one object per line.") var json = false

    func validate() throws {
        guard (1...3_600).contains(timeout) else { throw ValidationError("--timeout takes 1 to 3600.") }
        if let settings {
            guard case .object = JSONParser.parse(settings) else {
                throw ValidationError("--settings needs a JSON object such as '{\"key\": 1}'.")
            }
        }
    }

    func run() async throws {
        let output = Output()
        let environment = EnvironmentPaths.ofProcess
        let name = plugin.contains("/") ? try EnvironmentPaths.absolute(plugin) : plugin
        let configured = try source.settings(environment)
        // Only this user can access it.
        let parent = environment.host.runtimeDirectory
        guard let scratch = makeTemporaryDirectory("\(parent)/syncagent-check-") else {
            throw CommandFailure(.cannotCreate, "Cannot make a directory in \(escaped(parent)).")
        }
        // If it cannot be removed, it stays in a directory for temporary files.
        defer { try? FileManager.default.removeItem(atPath: scratch) }
        let subject = CheckSubject(
            name: name, settings: configured, on: environment.host, notice: { output.message($0.line) }, point: point,
            json: settings, url: url, files: file, timeout: timeout, scratch: scratch)
        let reports: [PointReport]
        do {
            let points = try await onThread("check", cancellable: { _ in try subject.points() })
            if points.contains(.transport), url == nil, subject.name != "file" {
                reports = try await whileServed(in: scratch) { url in
                    var subject = subject
                    subject.served = url
                    return try await Self.check(subject, points)
                }
            } else {
                reports = try await Self.check(subject, points)
            }
        } catch let error as PluginError { throw CommandFailure(.configuration, "\(error)") }
        for report in reports { write(report, output) }
        if reports.contains(where: { !$0.results.allSatisfy(\.passed) }) { throw CommandFailure(.incomplete) }
    }

    private static func check(_ subject: CheckSubject, _ points: [PluginPoint]) async throws -> [PointReport] {
        try await onThread("check") { _ in
            var reports = try subject.processReports(points.first)
            // A program that violates the protocol is not checked further.
            guard reports.allSatisfy({ $0.results.allSatisfy(\.passed) }) else { return reports }
            for point in points { reports.append(try subject.report(point)) }
            return reports
        }
    }

    private func write(_ report: PointReport, _ output: Output) {
        if json {
            for result in report.results { output.line(report.json(result).text) }
            return
        }
        output.line(report.title)
        for result in report.results {
            output.line("  \(result.passed ? "ok    " : "FAILED")  \(result.rule)")
            guard let failure = result.failure else { continue }
            output.line("          \(escaped(failure))")
            output.line("          \(result.advice)")
        }
        output.line("  \(report.results.count(where: \.passed)) of \(report.results.count) rules followed.")
    }
}
