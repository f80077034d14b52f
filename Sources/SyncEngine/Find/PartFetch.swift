import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// Fetches parts of a manifest as ranges of packs, neighbours together, a few requests ahead of the reader.
final class PartFetch: Sendable {
    /// The text of a part to fetch, or the dictionary.
    struct Wanted: Sendable {
        /// The number of the text, in the order in which the texts are read.
        var index: Int
        var own: Manifest.OwnBlob
        /// Absolute, best first, of one kind.
        var urls: [String]
        /// **Bytes** of its pack.
        var packSize: UInt64
        /// The referrer of requests for ``urls``.
        var referrer: TransferRequest.Referrer?

        var blob: Blob { own.blob }
    }

    /// The bytes of a part, and the URL that sent them; `nil` if several did.
    typealias Received = (bytes: [UInt8], url: String?)

    private typealias Request = (range: Range<UInt64>, members: [Wanted])

    private struct State: Sendable {
        var started = 0
        var identifiers: [TransferID] = []
        var ends: [Int: Result<MemorySink, TransferError>] = [:]
        /// Requests whose parts were handed out.
        var taken: Set<Int> = []
    }

    /// Neighbours are fetched together, in spans of at most this many **bytes**, which a killed run fetches again …
    private static let longestSpan: UInt64 = 2 << 20
    /// … and at least this many, to be worth a request.
    private static let shortestSpan: UInt64 = 512 << 10
    /// The most requests that run or wait to be read …
    private static let window = 8
    /// … and their **bytes**, unless a single one has more.
    private static let windowBytes: UInt64 = 32 << 20
    /// How many requests a long manifest is divided into: connections to a distant server double their rate with each
    /// round trip, and the first texts are read while others arrive. Fewer than ``window``, since spans end with a
    /// text.
    private static let division: UInt64 = 6

    private let source: ManifestSource
    private let requests: [Request]
    /// The request for each part.
    private let places: [Int: Int]
    private let state = Monitor(State())

    /// - Parameter wanted: By ascending index.
    init(_ wanted: [Wanted], _ source: ManifestSource) {
        self.source = source
        let rule = Self.rule(total: wanted.reduce(0) { $0.addingReportingOverflow($1.blob.storedLength).partialValue })
        var requests: [Request] = []
        for pack in Dictionary(grouping: wanted, by: \.blob.pack).values {
            let parts = pack.sorted { ($0.blob.offset, $0.index) < ($1.blob.offset, $1.index) }
            for span in coalesce(parts.map(\.blob.range), rule: rule) {
                requests.append((span.range, Array(parts[span.members])))
            }
        }
        requests.sort { ($0.members.first?.index ?? 0) < ($1.members.first?.index ?? 0) }
        self.requests = requests
        var places: [Int: Int] = [:]
        for (number, request) in requests.enumerated() { for part in request.members { places[part.index] = number } }
        self.places = places
    }

    /// The coalescing rule for parts of this many **bytes** in total.
    static func rule(total: UInt64) -> CoalescingRule {
        CoalescingRule(spanLength: max(shortestSpan, min(longestSpan, total / division)))
    }

    /// Waits for the request with a part.
    ///
    /// - Returns: Every part that came with it, by index; empty the second time.
    func take(_ index: Int) -> Result<[Int: Received], TransferError> {
        guard let number = places[index], state.withLock({ $0.taken.insert(number).inserted }) else {
            return .success([:])
        }
        start(from: number)
        let end = state.wait { $0.ends.removeValue(forKey: number) }
        return end.map { sink in
            let (request, whole) = (requests[number], sink.bytes)
            var parts: [Int: Received] = [:]
            for part in request.members {
                let start = Int(part.blob.offset - request.range.lowerBound)
                let end = start + Int(part.blob.storedLength)
                guard end <= whole.count else { continue }
                let bytes = end - start == whole.count ? whole : Array(whole[start..<end])
                parts[part.index] = (bytes, Self.sender(of: start..<end, sink, part))
            }
            return parts
        }
    }

    private static func sender(of range: Range<Int>, _ sink: MemorySink, _ part: Wanted) -> String? {
        sink.source(of: range) ?? (part.urls.count == 1 ? part.urls.first : nil)
    }

    /// Starts fetching the first parts before they are needed.
    func begin() { start(from: 0) }

    /// Cancels what is still running.
    func cancel() {
        for identifier in state.withLock(\.identifiers) {
            source.transport.cancel(identifier)
            source.localTransport.cancel(identifier)
        }
    }

    private func start(from first: Int) {
        var (last, bytes) = (first - 1, UInt64(0))
        for number in first..<min(first + Self.window, requests.count) {
            bytes = bytes &+ requests[number].range.length
            guard number == first || bytes <= Self.windowBytes else { break }
            last = number
        }
        let next = state.change { state in
            defer { state.started = max(state.started, min(last + 1, requests.count)) }
            return state.started..<max(state.started, min(last + 1, requests.count))
        }
        for number in next {
            guard let part = requests[number].members.first else { continue }
            let identifier = TransferID.next()
            state.change { $0.identifiers.append(identifier) }
            Self.start(identifier, part, requests[number].range, source) { [state] end in
                state.change { $0.ends[number] = end }
            }
        }
    }

    /// Fetches one part alone, bypassing caches.
    static func again(_ part: Wanted, _ source: ManifestSource) -> Result<Received, TransferError> {
        let end = Monitor<Result<Received, TransferError>?>(nil)
        start(TransferID.next(), part, part.blob.range, source, reload: true) { result in
            end.change { $0 = result.map { ($0.bytes, Self.sender(of: 0..<$0.bytes.count, $0, part)) } }
        }
        return end.wait { $0 }
    }

    private static func start(
        _ identifier: TransferID, _ part: Wanted, _ range: Range<UInt64>, _ source: ManifestSource,
        reload: Bool = false, _ completion: @escaping @Sendable (Result<MemorySink, TransferError>) -> Void
    ) {
        let isLocal = isLocal(part.urls)
        let transport = isLocal ? source.localTransport : source.transport
        let sink = MemorySink(limit: Int(clamping: range.length), from: range.lowerBound)
        let request = TransferRequest(
            part.urls, range, of: part.packSize, id: identifier, reload: reload, referrer: part.referrer)
        source.stop.onStop { transport.cancel(identifier) }
        transport.start(request, sink: sink) { result in
            completion(
                result.map { report in
                    if !isLocal { source.counts.withLock { $0.bytes &+= report.bytesReceived } }
                    return sink
                })
        }
    }
}
