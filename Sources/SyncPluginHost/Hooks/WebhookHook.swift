import CCurl
package import SyncPlugins
package import SyncSystem

/// Sends the report of a complete group to an http or https URL, as `POST` with a JSON body.
///
/// 2xx is success. Redirects are not followed: when a receiver moves, the configuration must change. 408, 429, 5xx and
/// failed connections request another attempt, as a program does with exit status 75. `Idempotency-Key` is the same for
/// every attempt, so that a receiver can detect a repetition; each batch of files has its own.
package struct WebhookHook: GroupHook {
    private let tls: TLSConfiguration
    private let proxy: @Sendable (Origin) -> ProxyConfiguration?
    private let userAgent: String
    private let connectTimeout: Duration

    /// Most **bytes** of an answer that are kept.
    static let outputLimit = 4096

    /// - Parameters:
    ///   - tls: Trusted certificates; no client certificate is sent.
    ///   - userAgent: The `User-Agent` header.
    ///   - connectTimeout: Longest time for name resolution, TCP and TLS together.
    ///   - proxy: The proxy for an origin.
    package init(
        tls: TLSConfiguration = TLSConfiguration(), userAgent: String, connectTimeout: Duration,
        proxy: @escaping @Sendable (Origin) -> ProxyConfiguration? = { _ in nil }
    ) {
        (self.tls, self.userAgent, self.connectTimeout, self.proxy) = (tls, userAgent, connectTimeout, proxy)
    }

    package func run(_ invocation: HookInvocation) -> HookOutcome {
        let start = ContinuousClock.now
        var outcome = answer(to: invocation)
        outcome.milliseconds = Int64((ContinuousClock.now - start) / .milliseconds(1))
        return outcome
    }

    private func answer(to invocation: HookInvocation) -> HookOutcome {
        func failed(_ text: String) -> HookOutcome { HookOutcome(end: .notStarted(text), output: "", milliseconds: 0) }
        let url: CurlURL
        do { url = try CurlURL(invocation.arguments.first ?? "") } catch { return failed(error.description) }
        var kept: [UInt8] = []
        var received: UInt64 = 0
        do throws(CurlError) {
            let call = try HTTPCall(url.text, headers: Self.headers(invocation), body: invocation.input)
            try call.easy.set(CURLOPT_USERAGENT, userAgent)
            try call.easy.set(CURLOPT_CONNECTTIMEOUT_MS, Int(connectTimeout / .milliseconds(1)))
            try call.easy.apply(proxy(url.origin))
            try call.easy.apply(tls, showsCertificate: false)
            let end = try call.perform(
                until: ContinuousClock.now + .seconds(max(1, invocation.timeout)), every: 200,
                isStopped: invocation.isStopped
            ) { bytes, _ in
                received &+= UInt64(bytes.count)
                kept += bytes.prefix(max(0, Self.outputLimit - kept.count))
                return true
            }
            switch end {
            case .stopped: return HookOutcome(end: .stopped, output: "", milliseconds: 0)
            case .timedOut: return HookOutcome(end: .timedOut, output: "", milliseconds: 0)
            case .failed(let code):
                let text = "\(url.origin): \(call.easy.message(for: code))"
                return HookOutcome(end: .exited(75), output: text, milliseconds: 0, isTransient: true)
            case .answered(let status):
                let isTransient = status == 408 || status == 429 || status >= 500
                return HookOutcome(
                    end: .exited((200..<300).contains(status) ? 0 : isTransient ? 75 : 1),
                    output: "HTTP \(status)\n\(Self.shown(kept, url))", milliseconds: 0, outputBytes: received,
                    isTransient: isTransient)
            }
        } catch { return failed(error.detail) }
    }

    /// An answer without the path and the query of its URL, and without their longer parts: they are often a secret,
    /// and many servers repeat them, some without the first slash, or with `\/` for each.
    private static func shown(_ answer: [UInt8], _ url: CurlURL) -> String {
        let query = (url.query ?? "").split(separator: "&")
        let whole = ([url.target, Substring(url.path)] + query).filter { $0.utf8.count > 4 }
        let parts = url.target.split { "/?&=".contains($0) }.filter { $0.utf8.count > 7 }
        // Longer ones first, since one may contain another.
        return (whole + parts).sorted { $0.utf8.count > $1.utf8.count }
            .reduce(String(decoding: answer, as: UTF8.self)) { $0.replacing($1, with: "…") }
    }

    private static func headers(_ invocation: HookInvocation) -> [String] {
        func value(_ name: String) -> String {
            String(decoding: (invocation.environment[name] ?? "").utf8.filter { $0 > 0x20 && $0 < 0x7F }, as: UTF8.self)
        }
        let run = value("SYNCAGENT_RUN_ID")
        // Events are of no call of a hook: with one key for all, a receiver would take each request for the first one.
        guard !run.isEmpty else { return ["Content-Type: application/json"] }
        let group = value("SYNCAGENT_GROUP")
        // One of several of its group, which may have the same receiver.
        let number = value("SYNCAGENT_HOOK")
        let (batch, batches) = (value("SYNCAGENT_BATCH"), value("SYNCAGENT_BATCHES"))
        // A late report contains other files.
        let part = (value("SYNCAGENT_LATE").isEmpty ? "" : "/late") + "/\(batch)-of-\(batches)"
        let ofBatch = batch.isEmpty ? [] : ["Syncagent-Batch: \(batch)", "Syncagent-Batches: \(batches)"]
        let ofRollback = value("SYNCAGENT_ROLLBACK").isEmpty ? [] : ["Syncagent-Rollback: 1"]
        return [
            "Content-Type: application/json", "Syncagent-Session: \(value("SYNCAGENT_SESSION"))",
            "Syncagent-Run: \(run)", "Syncagent-Group: \(group)", "Syncagent-Result: \(value("SYNCAGENT_RESULT"))",
            "Syncagent-Attempt: \(value("SYNCAGENT_ATTEMPT"))",
            "Idempotency-Key: \(run)/\(group)\(number.isEmpty ? "" : "/\(number)")\(batch.isEmpty ? "" : part)",
        ] + ofBatch + ofRollback
    }
}
