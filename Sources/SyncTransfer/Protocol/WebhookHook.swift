import CCurl
import SyncModel
package import SyncPlugins

/// Sends the report of a completed group to an http or https URL, as `POST` with a JSON body.
///
/// 2xx is success. No redirect is followed: who moved shall say so in the configuration. 408, 429, 5xx and failed
/// connections ask to be called again, as a program does with exit status 75. `Idempotency-Key` is the same for every
/// attempt, so that a receiver can tell a repetition; each batch of files has its own.
package struct WebhookHook: GroupHook {
    private let tls: TLSConfiguration
    private let proxy: @Sendable (Origin) -> ProxyConfiguration?
    private let userAgent: String
    private let connectTimeout: Duration

    /// Most **bytes** of an answer that are kept.
    static let outputLimit = 4096

    /// Trust, proxies and time to connect are the configuration's; nothing else of it goes to a webhook.
    package init(_ configuration: TransportConfiguration) {
        tls = configuration.tls
        proxy = { configuration.proxy(for: $0) }
        userAgent = configuration.userAgent
        connectTimeout = configuration.connectTimeout
    }

    /// Whether the first word of a hook's argv is for this hook.
    package static func isFor(_ word: String) -> Bool {
        word.hasPrefix("https://") || word.hasPrefix("http://")
    }

    package func run(_ invocation: HookInvocation) -> HookOutcome {
        let start = ContinuousClock.now
        var outcome = answer(to: invocation)
        outcome.milliseconds = Int64((ContinuousClock.now - start) / .milliseconds(1))
        return outcome
    }

    private func answer(to invocation: HookInvocation) -> HookOutcome {
        func failed(_ text: String) -> HookOutcome {
            HookOutcome(end: .notStarted(text), output: "", milliseconds: 0)
        }
        let url: CurlURL
        do {
            url = try CurlURL(invocation.arguments.first ?? "")
        } catch {
            return failed(error.description)
        }
        guard let multi = MultiHandle() else { return failed("curl_multi_init: out of memory") }
        defer { curl_multi_cleanup(multi.raw) }
        let body = Body(invocation.input)
        do throws(CurlError) {
            let easy = try EasyHandle()
            try prepare(easy, url, invocation, body)
            guard curl_multi_add_handle(multi.raw, easy.raw) == CURLM_OK else {
                return failed("curl_multi_add_handle: out of memory")
            }
            let end = perform(multi.raw, easy, invocation)
            _ = curl_multi_remove_handle(multi.raw, easy.raw)
            return withExtendedLifetime(body) { outcome(end, easy, body, url) }
        } catch {
            return failed(error.detail)
        }
    }

    private func prepare(
        _ easy: EasyHandle,
        _ url: CurlURL,
        _ invocation: HookInvocation,
        _ body: Body
    ) throws(CurlError) {
        try easy.restrictProtocols()
        try easy.set(CURLOPT_NOSIGNAL, 1)
        try easy.set(CURLOPT_URL, url.text)
        try easy.set(CURLOPT_USERAGENT, userAgent)
        try easy.set(CURLOPT_NETRC, Int(CURL_NETRC_IGNORED.rawValue))
        try easy.set(CURLOPT_CONNECTTIMEOUT_MS, Int(connectTimeout / .milliseconds(1)))
        try easy.set(CURLOPT_FOLLOWLOCATION, 0)
        try easy.applyProxy(proxy(url.origin))
        try easy.applyTLS(tls, showsCertificate: false)
        try easy.set(CURLOPT_POST, 1)
        try easy.set(CURLOPT_POSTFIELDSIZE, body.count)
        try easy.set(CURLOPT_POSTFIELDS, pointer: body.bytes)
        try easy.set(headers: Self.headers(invocation))
        try easy.set(CURLOPT_WRITEDATA, pointer: Unmanaged.passUnretained(body).toOpaque())
        _ = sa_curl_set_callback(easy.raw, CURLOPT_WRITEFUNCTION) { bytes, size, count, context in
            guard let bytes, let context else { return 0 }
            Unmanaged<Body>.fromOpaque(context).takeUnretainedValue()
                .take(UnsafeRawBufferPointer(start: bytes, count: size * count))
            return size * count
        }
    }

    private static func headers(_ invocation: HookInvocation) -> [String] {
        func value(_ name: String) -> String {
            String(
                decoding: (invocation.environment[name] ?? "").utf8.filter { $0 > 0x20 && $0 < 0x7F },
                as: UTF8.self
            )
        }
        let run = value("SYNCAGENT_RUN_ID")
        let group = value("SYNCAGENT_GROUP")
        let (batch, batches) = (value("SYNCAGENT_BATCH"), value("SYNCAGENT_BATCHES"))
        // What is sent late has other files in it.
        let part = (value("SYNCAGENT_LATE").isEmpty ? "" : "/late") + "/\(batch)-of-\(batches)"
        let ofBatch = ["Syncagent-Batch: \(batch)", "Syncagent-Batches: \(batches)"]
        return [
            "Content-Type: application/json", "Expect:", "Syncagent-Session: \(value("SYNCAGENT_SESSION"))",
            "Syncagent-Run: \(run)", "Syncagent-Group: \(group)",
            "Syncagent-Result: \(value("SYNCAGENT_RESULT"))",
            "Syncagent-Attempt: \(value("SYNCAGENT_ATTEMPT"))",
            "Idempotency-Key: \(run)/\(group)\(batch.isEmpty ? "" : part)",
        ] + (batch.isEmpty ? [] : ofBatch)
    }

    /// How libcurl ended it; `nil` for the deadline, `.stopped` when the caller stopped.
    private enum End {
        case answered
        case failed(CURLcode)
        case timedOut
        case stopped
    }

    private func perform(_ multi: UnsafeMutableRawPointer, _ easy: EasyHandle, _ invocation: HookInvocation)
        -> End
    {
        let deadline = ContinuousClock.now + .seconds(max(1, invocation.timeout))
        while true {
            var active: Int32 = 0
            guard curl_multi_perform(multi, &active) == CURLM_OK else { return .failed(CURLE_OUT_OF_MEMORY) }
            var left: Int32 = 0
            if let message = curl_multi_info_read(multi, &left), message.pointee.msg == CURLMSG_DONE {
                let code = sa_curl_message_result(message)
                return code == CURLE_OK ? .answered : .failed(code)
            }
            if invocation.isStopped() { return .stopped }
            if ContinuousClock.now >= deadline { return .timedOut }
            _ = curl_multi_poll(multi, nil, 0, 200, nil)
        }
    }

    private func outcome(_ end: End, _ easy: EasyHandle, _ body: Body, _ url: CurlURL) -> HookOutcome {
        switch end {
        case .stopped: return HookOutcome(end: .stopped, output: "", milliseconds: 0)
        case .timedOut: return HookOutcome(end: .timedOut, output: "", milliseconds: 0)
        case .failed(let code):
            let text = "\(url.origin): \(easy.message(for: code))"
            return HookOutcome(end: .exited(75), output: text, milliseconds: 0, isTransient: true)
        case .answered:
            let status = easy.long(CURLINFO_RESPONSE_CODE)
            let text = "HTTP \(status)\n" + body.answer
            let isTransient = status == 408 || status == 429 || status >= 500
            return HookOutcome(
                end: .exited((200..<300).contains(status) ? 0 : isTransient ? 75 : 1),
                output: text,
                milliseconds: 0,
                outputBytes: body.received,
                isTransient: isTransient
            )
        }
    }
}

/// What is sent, at a fixed address, and what comes back.
private final class Body {
    let bytes: UnsafeMutableRawPointer
    let count: Int
    private(set) var received: UInt64 = 0
    private var kept: [UInt8] = []

    init(_ input: [UInt8]) {
        count = input.count
        bytes = .allocate(byteCount: max(1, input.count), alignment: 1)
        bytes.copyMemory(from: input, byteCount: input.count)
    }

    deinit { bytes.deallocate() }

    func take(_ part: UnsafeRawBufferPointer) {
        received &+= UInt64(part.count)
        kept += part.prefix(max(0, WebhookHook.outputLimit - kept.count))
    }

    var answer: String { String(decoding: kept, as: UTF8.self) }
}
