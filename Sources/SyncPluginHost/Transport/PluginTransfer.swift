import SyncPlugins
import SyncSystem

/// One transfer through a plugin. Confined to the pump's thread.
final class PluginTransfer {
    let request: TransferRequest
    let sink: any TransferSink
    let completion: TransferCompletion

    /// Offset in the object of the next byte that the sink wants; `nil` before it was asked.
    var wanted: UInt64?
    var attempt: TransferAttempt?
    var failures = 0
    var notBefore = Duration.zero
    /// Requests sent, as reported by the plugin.
    var requests = 0
    /// Body **bytes** received.
    var received: UInt64 = 0
    /// Transient failures by index of the URL.
    var failuresOfSource: [Int: Int] = [:]
    /// Indices of URLs that have failed permanently.
    var deadSources: Set<Int> = []
    /// Whether the last attempt found an object of another length than the manifest's.
    var isOtherSize = false
    /// The object's version in the last valid answer.
    var validator: Validator?
    /// Index of the URL of the last attempt.
    var lastSource: Int?

    init(_ request: TransferRequest, _ sink: any TransferSink, _ completion: @escaping TransferCompletion) {
        (self.request, self.sink, self.completion) = (request, sink, completion)
    }

    /// The URL for the next attempt; `nil` if all have failed permanently.
    func nextSource(isBlamed: (String) -> Bool) -> Int? {
        request.urls.indices.filter { !deadSources.contains($0) }.min { a, b in
            let left = (isBlamed(request.urls[a]) ? 1 : 0, failuresOfSource[a] ?? 0, a)
            let right = (isBlamed(request.urls[b]) ? 1 : 0, failuresOfSource[b] ?? 0, b)
            return left < right
        }
    }

    /// End of the **bytes** that may be accepted: those before the wanted ones do not count.
    var hardEnd: UInt64 {
        let first = request.range?.lowerBound ?? 0
        let (end, overflow) = first.addingReportingOverflow(request.limit)
        return overflow ? .max : end
    }

    /// Offset at which the next attempt begins.
    var start: UInt64 { max(wanted ?? 0, request.range?.lowerBound ?? 0) }

    /// Whether that attempt is for less than the whole object.
    var isPart: Bool { start > 0 || request.range != nil }
}

/// One request to the plugin, with the FIFO for its body, which this process reads. mkfifo(3), fifo(7).
final class TransferAttempt {
    /// Unique among the pump's attempts.
    let number: Int
    /// Index of its URL.
    let source: Int
    /// The path of the FIFO.
    let path: String
    private var pipe: SharedDescriptor?
    private var isLinked = true
    /// Capacity of a pipe, in **bytes**: the most that an unprivileged user may request, pipe(7).
    private static let capacity: Int32 = 1 << 20
    /// The number of its request to the plugin.
    var id: Int64?
    var head: ResponseHead?
    /// Offset in the object of the next byte from the pipe.
    var position: UInt64 = 0
    /// End of the wanted bytes, if known.
    var end: UInt64?
    /// Body **bytes** read from the pipe.
    var received: UInt64 = 0
    /// Bytes that the sink has not accepted yet; they begin at ``position``.
    var held: [UInt8] = []
    var isPaused = false
    /// Whether every wanted byte was delivered, or the plugin closed the pipe.
    var isBodyOver = false
    var answer: Result<RPCAnswer, PluginError>?
    /// Time of the last activity.
    var lastSign: Duration
    /// Time of the last activity other than a progress message.
    var lastByte: Duration

    /// Makes and opens the FIFO, so that the plugin need not wait for a reader.
    init(number: Int, source: Int, for client: PluginClient, at now: Duration) throws(PluginError) {
        (self.number, self.source) = (number, source)
        lastSign = now
        lastByte = now
        path = try client.directory.fifo(for: client)
        guard let opened = Descriptor(opening: path, .nonBlocking) else {
            let code = Errno.last
            removeFile(path)
            throw client.failure(.unavailable, "cannot open a pipe: \(code)")
        }
        setPipeSize(opened.raw, Self.capacity)
        pipe = SharedDescriptor(opened)
    }

    deinit { removeName() }

    /// The read end, non-blocking; -1 once closed.
    var reader: Int32 { pipe?.raw ?? -1 }

    /// Removes the name of the FIFO, so that nobody can open it any more.
    func removeName() {
        if isLinked { removeFile(path) }
        isLinked = false
    }

    /// Closes the read end; a plugin that continues to write gets EPIPE.
    func closePipe() { pipe = nil }
}
