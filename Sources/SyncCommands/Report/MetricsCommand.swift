import ArgumentParser
import Foundation
import SyncAssembly
import SyncEngine
import SyncModel
import SyncReport
import SyncStore
import SyncSystem

struct MetricsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics", abstract: "Print metrics of all sessions in the Prometheus text format.",
        discussion: """
            Needs no agent. A running agent serves the same at GET /v1/metrics on its socket. With {"metrics": \
            {"textfile": "/path/syncagent.prom"}} in the configuration file, every run rewrites that file when it ends.
            """)

    @Option(
        help: ArgumentHelp(
            "Replace this file instead of printing: a name that ends in .prom, in the directory of node_exporter's "
                + "textfile collector; for a symbolic link, its target.", valueName: "file.prom"),
        completion: .file(extensions: ["prom"]))
    var textfile: String?

    func validate() throws {
        if let textfile, !MetricsFile.isName(textfile) {
            throw ValidationError("--textfile needs a name that ends in .prom, not '\(escaped(textfile))'.")
        }
    }

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        let store = try state.existingStore()
        guard let textfile else {
            let text = try MetricsFile.text(store)
            // `line` adds a newline itself.
            return output.line(text.hasSuffix("\n") ? String(text.dropLast()) : text)
        }
        try MetricsFile(path: textfile).write(store)
    }
}

/// The text file for node_exporter.
struct MetricsFile: Sendable {
    let path: String

    /// node_exporter ignores all other names.
    static func isName(_ path: String) -> Bool { path.hasSuffix(".prom") && !path.hasSuffix("/.prom") }

    /// - Parameter store: `nil` where there is no state yet.
    static func text(_ store: SyncStore?) throws(CommandFailure) -> String {
        let schedules = ReportSchedules(now: SystemTime.milliseconds())
        return try translating(
            metricsText(
                store, version: syncagentVersion, next: schedules.next, failingSchedules: schedules.failing))
    }

    /// As ``write(_:)``, for an engine that has ended.
    @Sendable static func keep(_ path: String, _ store: SyncStore) throws(EngineError) {
        do throws(CommandFailure) { try MetricsFile(path: path).write(store) } catch {
            throw EngineError(error.status, error.message, cause: error.cause)
        }
    }

    /// As ``write(_:)``, after an attempt that did not reach the engine. Errors are ignored: the attempt's own error
    /// has been reported.
    ///
    /// - Parameter path: The file; `nil` for the one of the usual settings, as far as they can be read.
    static func keepAfterTry(_ path: String?, _ store: SyncStore) {
        let environment = EnvironmentPaths.ofProcess
        let usual = try? ConfigurationFile.usual(environment.configurationFiles, home: environment.pathBase.home)
        guard let path = path ?? usual?.metricsFile else { return }
        try? MetricsFile(path: path).write(store)
    }

    /// As ``keepAfterTry(_:_:)``, after a change to schedules: what fails and is gone, or paused, no longer counts.
    static func keepAfterChange(_ output: Output) {
        guard let store = try? StateAccess(output: output).existingStore() else { return }
        keepAfterTry(nil, store)
    }

    /// Replaces the file with the store's current metrics; `nil` where there is no state yet.
    func write(_ store: SyncStore?) throws(CommandFailure) { try replaceFile(path, by: Self.text(store)) }
}
