import SyncModel
import SyncPlugins
import SyncSystem

/// Checks the rules for every plugin that is a separate program, whatever its point.
///
/// - Parameter configuration: Includes the point and the settings. The program is started several times.
package func check(process configuration: PluginConfiguration) -> [CheckResult] {
    var book: [CheckResult] = []
    let notices = Mutex<[PluginNotice]>([])
    func client(_ change: (inout PluginConfiguration) -> Void = { _ in }) -> PluginClient {
        var configuration = configuration
        let notify = configuration.notice
        configuration.notice = { notice in
            notices.withLock { $0.append(notice) }
            notify(notice)
        }
        // One start is enough to find out what is wrong with it.
        configuration.restart.mostEnds = 1
        change(&configuration)
        return PluginClient(configuration)
    }
    func fault<R>(_ result: Result<R, PluginError>) -> String? {
        guard case .failure(let error) = result else { return nil }
        return error.message
    }

    book.rule(
        "It starts, and answers initialize with protocol, name and points",
        "Read a line, answer it in one line, and flush standard output after it. It may need settings."
    ) {
        let client = client()
        defer { client.close() }
        return fault(Result { () throws(PluginError) in try client.describe() })
    }
    guard book.allSatisfy(\.passed) else { return book }
    book.rule(
        "Asked without a point and settings, it lists its points",
        "When plugins are listed there is no 'point': answer, and ignore settings."
    ) {
        let client = client {
            $0.point = nil
            $0.settings = "{}"
        }
        defer { client.close() }
        return fault(Result { () throws(PluginError) in try client.describe() })
    }
    let client = client()
    book.rule("A method that it does not know is answered with an error", "Answer with the error code -32601.") {
        let result = Result { () throws(PluginError) in
            try client.call("check.unknown", timeout: .seconds(5)) { $0.field("why", "to see what happens") }
        }
        guard case .failure(let error) = result else { return "it answered it" }
        return error.code == .refused || error.code == .badAnswer ? nil : error.message
    }
    book.rule(
        "It ignores a cancellation of a request that it has answered",
        "$/cancelRequest is a notification: it has no id and gets no answer."
    ) {
        _ = Result { () throws(PluginError) in
            try client.call("check.unknown", timeout: .seconds(5), isStopped: { true }) { _ in }
        }
        return fault(Result { () throws(PluginError) in try client.describe() })
    }
    book.rule(
        "It exits when it is asked to shut down", "Answer shutdown and exit; also exit at the end of standard input."
    ) {
        client.close()
        return notices.withLock { notices in notices.first { $0.text.contains("did not exit") }?.text }
    }
    book.rule(
        "Its standard output contains only messages",
        "Log to standard error, and send the output of libraries there, too."
    ) { notices.withLock { notices in notices.first { $0.kind == .warning }?.text } }
    return book
}
