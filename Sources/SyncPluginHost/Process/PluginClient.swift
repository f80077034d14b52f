package import SyncModel
package import SyncPlugins
import SyncSystem

/// A plugin that is a program of its own, for any thread.
///
/// 1. The program is started with the first request; standard input and output carry JSON-RPC 2.0, one message a line.
/// 2. Requests are answered in any order; each has a deadline, and whoever waits longer gets ``PluginError``.
/// 3. A plugin that ends is started again for the next request, later each time; one that ends too often, or speaks
///    another version, is given up, and every request fails at once with `unavailable`.
/// 4. A plugin that floods, writes garbage or answers nothing any more is ended with its whole process group.
///
/// One thread for each plugin, see ``PluginWorker``; it begins with the first request and ends with ``close()``.
package final class PluginClient: Sendable {
    /// Answered by this side, as soon as the plugin is ready.
    static let describeMethod = "$/describe"

    package let configuration: PluginConfiguration
    /// For reports and pipes.
    let directory: PrivateDirectory
    private let inbox = Inbox<PluginWorker.Command>()
    private let numbers = SharedCounter()
    private let warnings: Mutex<Allowance>
    private let made = SuspendingClock().now

    /// Makes a client; nothing is started yet.
    package init(_ configuration: PluginConfiguration) {
        self.configuration = configuration
        warnings = Mutex(configuration.limits.errorLines)
        directory = PrivateDirectory(in: configuration.runtimeDirectory)
    }

    deinit {
        // The worker ends the program by itself.
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

    /// Gives a request up: it fails with `cancelled`, unless it has ended. The plugin is told.
    package func cancel(_ number: Int64) { inbox.post(.cancel(number)) }

    /// Sends a request and waits for its result.
    ///
    /// - Parameters:
    ///   - method: Such as `resolver.resolve`.
    ///   - timeout: To the answer; `nil` for the configured time.
    ///   - isStopped: Asked several times a second; `true` gives the request up.
    ///   - parameters: Fills a JSON object.
    /// - Throws: ``PluginError``; `refused` when the plugin answered with an error.
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
        // It always comes, also of a request that was given up.
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

    /// Starts the plugin where it is not started, and says what it says of itself.
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

    /// Ends the plugin: asks it to, then makes it. Waits until it has ended. Harmless a second time.
    package func close() {
        inbox.close(.close)
        directory.remove()
    }

    func failure(_ code: PluginError.Code, _ message: String) -> PluginError {
        PluginError(plugin: name, code: code, message: message)
    }

    /// Tells people something about the plugin, as rarely as its standard error.
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
    /// A number that no request of this plugin has had.
    func nextRequest() -> Int64 { Int64(take()) + 1 }
}
