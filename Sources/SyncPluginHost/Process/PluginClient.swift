package import SyncModel
package import SyncPlugins
import SyncSystem

/// A plugin that is a separate program. Thread-safe.
///
/// 1. The program is started with the first request; standard input and output carry JSON-RPC 2.0, one message a line.
/// 2. Requests may be answered in any order; each has a deadline, after which its caller gets ``PluginError``.
/// 3. A plugin that ends is restarted for the next request, with increasing delays. One that ends too often, or speaks
///    another version, is abandoned: every request then fails at once with `unavailable`.
/// 4. A plugin that floods its output, writes garbage or stops answering is ended with its whole process group.
///
/// Each plugin has one thread, see ``PluginWorker``; it starts with the first request and ends with ``close()``.
package final class PluginClient: Sendable {
    /// Answered by this process, as soon as the plugin is ready.
    static let describeMethod = "$/describe"

    package let configuration: PluginConfiguration
    /// Holds reports and pipes.
    let directory: PrivateDirectory
    private let inbox = Inbox<PluginWorker.Command>()
    private let numbers = SharedCounter()
    private let warnings: Mutex<Allowance>
    private let made = SuspendingClock().now

    /// Makes a client; the plugin is not started yet.
    package init(_ configuration: PluginConfiguration) {
        self.configuration = configuration
        warnings = Mutex(configuration.limits.errorLines)
        directory = PrivateDirectory(in: configuration.runtimeDirectory)
    }

    deinit {
        // The worker then ends the program.
        inbox.post(.close)
    }

    package var name: String { configuration.program.name }

    /// Starts a request. Its completion is called exactly once.
    @discardableResult package func start(_ request: PluginRequest) -> Int64 {
        let number = numbers.nextRequest()
        do throws(ThreadError) {
            let isTaken = try inbox.start(with: .request(number, request), configuration, "plugin-\(name)") {
                [configuration, inbox, numbers] in PluginWorker(configuration, inbox, numbers).run()
            }
            if !isTaken { request.completion(.failure(failure(.cancelled, "it has been shut down"))) }
        } catch {
            var failure = failure(.unavailable, error.description)
            failure.isExhaustion = true
            request.completion(.failure(failure))
        }
        return number
    }

    /// Cancels a request: it fails with `cancelled`, unless it has ended. The plugin is notified.
    package func cancel(_ number: Int64) { inbox.post(.cancel(number)) }

    /// Sends a request and waits for its result.
    ///
    /// - Parameters:
    ///   - method: For example `resolver.resolve`.
    ///   - timeout: Until the answer; `nil` for the configured time.
    ///   - isStopped: Asked several times a second; `true` cancels the request.
    ///   - parameters: Fills a JSON object.
    /// - Throws: ``PluginError``; `refused` if the plugin answered with an error.
    package func call(
        _ method: String, timeout: Duration? = nil, isStopped: (@Sendable () -> Bool)? = nil,
        _ parameters: (inout JSONLine) -> Void
    ) throws(PluginError) -> JSONValue {
        let slot = Monitor<Result<RPCAnswer, PluginError>?>(nil)
        let id = start(
            PluginRequest(
                method: method, parameters: JSONLine.object(parameters),
                timeout: timeout ?? configuration.limits.request
            ) { answer in slot.change { $0 = answer } })
        var isCancelled = false
        // An answer always comes, even for a cancelled request.
        let answer = slot.wait(every: isStopped == nil ? nil : 100) { answer in
            if answer == nil, !isCancelled, let isStopped, isStopped() {
                isCancelled = true
                cancel(id)
            }
            return answer
        }
        switch try answer.get() {
        case .success(let value): return value
        case .failure(let error): throw refusal(error, method)
        }
    }

    /// Starts the plugin if necessary, and returns its description.
    ///
    /// - Throws: ``PluginError``.
    package func describe() throws(PluginError) -> PluginDescription {
        let answer = try call(Self.describeMethod, timeout: configuration.limits.start + configuration.limits.request) {
            _ in
        }
        return try rethrowing(PluginDescription(answer, for: configuration.point)) { (fault: WireFault) in
            failure(.badAnswer, fault.reason)
        }
    }

    /// Ends the plugin, if necessary by force, and waits until it has ended. Idempotent.
    package func close() {
        inbox.close(.close)
        directory.remove()
    }

    func failure(_ code: PluginError.Code, _ message: String) -> PluginError {
        PluginError(plugin: name, code: code, message: message)
    }

    /// Reports a warning about the plugin, rate limited like its standard error.
    func warn(_ text: String) {
        let time = SuspendingClock().now - made
        guard warnings.withLock({ $0.use(1, at: time) }) else { return }
        configuration.notice(PluginNotice(plugin: name, kind: .warning, text: text))
    }

    private func refusal(_ error: RPCError, _ method: String) -> PluginError {
        switch error.code {
        case RPCError.methodNotFound: failure(.badAnswer, "it does not know the method \(method)")
        case RPCError.cancelled: failure(.cancelled, error.text)
        default: failure(.refused, error.text)
        }
    }
}

extension SharedCounter {
    /// A number that no request of this plugin has used.
    func nextRequest() -> Int64 { Int64(take()) + 1 }
}
