import SyncPlugins

/// One transfer through a plugin. Confined to the pump's thread.
final class PluginTransfer {
    let request: TransferRequest
    let sink: any TransferSink
    let completion: TransferCompletion

    /// Offset in the object of the next byte the sink wants; `nil` before it was asked.
    var wanted: UInt64?
    var attempt: TransferAttempt?
    var failures = 0
    var notBefore = Duration.zero
    /// Requests sent, as the plugin tells.
    var requests = 0
    /// Body **bytes** received.
    var received: UInt64 = 0
    /// By index of the URL: failures that another attempt may cure.
    var failuresOfSource: [Int: Int] = [:]
    /// Indices of URLs that have failed for good.
    var deadSources: Set<Int> = []
    /// What the last good answer said of the object's version.
    var validator: Validator?
    /// The URL asked last, by index.
    var lastSource: Int?

    init(_ request: TransferRequest, _ sink: any TransferSink, _ completion: @escaping TransferCompletion) {
        (self.request, self.sink, self.completion) = (request, sink, completion)
    }

    /// The URL to ask next; `nil` when all have failed for good.
    func nextSource(isBlamed: (String) -> Bool) -> Int? {
        request.urls.indices.filter { !deadSources.contains($0) }.min { a, b in
            let left = (isBlamed(request.urls[a]) ? 1 : 0, failuresOfSource[a] ?? 0, a)
            let right = (isBlamed(request.urls[b]) ? 1 : 0, failuresOfSource[b] ?? 0, b)
            return left < right
        }
    }

    /// One past the last **byte** that may be taken: those before the wanted ones do not count.
    var hardEnd: UInt64 {
        let first = request.range?.lowerBound ?? 0
        let (end, overflow) = first.addingReportingOverflow(request.limit)
        return overflow ? .max : end
    }

    /// Where the next attempt begins.
    var start: UInt64 { max(wanted ?? 0, request.range?.lowerBound ?? 0) }

    /// Whether that attempt is for less than the whole object.
    var isPart: Bool { start > 0 || request.range != nil }
}

/// One request to the plugin, and the pipe its body comes through.
final class TransferAttempt {
    /// Unique among the pump's attempts.
    let number: Int
    /// Index of its URL.
    let source: Int
    let pipe: BodyPipe
    /// What the plugin knows the request by.
    var id: Int64?
    var head: ResponseHead?
    /// Offset in the object of the next byte out of the pipe.
    var position: UInt64 = 0
    /// Where the wanted bytes end, where that is known.
    var end: UInt64?
    /// Body **bytes** that came out of the pipe.
    var received: UInt64 = 0
    /// Bytes that the sink did not take yet; they begin at ``position``.
    var held: [UInt8] = []
    var isPaused = false
    /// Every wanted byte was delivered, or the pipe was closed by the plugin.
    var isBodyOver = false
    var answer: Result<RPCAnswer, PluginError>?
    /// When something happened last.
    var lastSign: Duration
    /// When that was more than a word of the plugin.
    var lastByte: Duration

    init(number: Int, source: Int, pipe: BodyPipe, at now: Duration) {
        (self.number, self.source, self.pipe) = (number, source, pipe)
        lastSign = now
        lastByte = now
    }
}
