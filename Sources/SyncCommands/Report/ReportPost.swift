import Foundation
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncReport
import SyncSystem
import SyncTransfer

/// Parses the value of `--post`.
///
/// - Parameter word: An http or https URL; `@FILE` for a URL with a secret, which ps(1) would show.
/// - Throws: ``CommandFailure`` with status 64, or 78 for a file that others may read.
func reportReceiver(_ word: String) throws(CommandFailure) -> String {
    var url = word
    if word.hasPrefix("@") {
        let path = String(word.dropFirst())
        let text = try rethrowing(readSecret(path, limit: 1 << 16)) { (error: FileError) in
            CommandFailure(.configuration, "\(escaped(path)): \(error.reason)")
        }
        url = text.split(whereSeparator: \.isWhitespace).first.map(String.init) ?? ""
    }
    guard isWebURL(url), (try? CurlURL(url)) != nil else {
        throw CommandFailure(
            .usage, "--post needs an http or https URL without a user name, or @FILE with such a URL in it.")
    }
    return url
}

extension MorningReport {
    /// Sends it to a webhook, the JSON object as `POST`, with the trust and the proxies of the configuration file and the
    /// environment; blocks.
    ///
    /// - Parameter host: Where those are: of the user whose report it is.
    func post(to url: String, on host: HostEnvironment) throws(CommandFailure) {
        let request = EngineRequest(deadline: .seconds(60), patience: .seconds(60), stop: StopRequest())
        let hook = try rethrowing(WebhookHook(request.configuration(on: host))) {
            (error: EngineError) in CommandFailure(error)
        }
        let outcome = hook.run(
            HookInvocation(
                arguments: [url], directory: "/",
                environment: [
                    // Lets a receiver recognize a repeated report.
                    "SYNCAGENT_RUN_ID": "\(self.host ?? "host")-\(timestamp(milliseconds: generated))",
                    "SYNCAGENT_GROUP": "report", "SYNCAGENT_RESULT": needingAttention == 0 ? "ok" : "attention",
                    "SYNCAGENT_ATTEMPT": "1",
                ], input: json.bytes, timeout: 60))
        guard outcome.end != .exited(0) else { return }
        // The path of a webhook is often its secret.
        let place = (try? CurlURL(url)).map { escaped("\($0.origin)") } ?? "the webhook"
        switch outcome.end {
        case .timedOut: throw CommandFailure(.unavailable, "\(place): no answer within 60 s.")
        case .notStarted(let reason), .unknown(let reason):
            throw CommandFailure(.unavailable, "\(place): \(escaped(reason))")
        case .exited, .signalled, .stopped:
            let line = outcome.output.split(separator: "\n").first.map(String.init) ?? "no answer"
            // A failed connection names the place itself.
            let isNamed = line.hasPrefix(place + ": ")
            throw CommandFailure(
                .unavailable, isNamed ? escaped(line) : "\(place): the report was not accepted: \(escaped(line))")
        }
    }
}
