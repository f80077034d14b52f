import SyncModel
package import SyncPlugins
import SyncSystem

/// The published directory that is cached, and the transport that fetches from it.
package struct CacheOrigin: Sendable {
    /// Its URL, with a slash at the end and without a query.
    package let base: String
    /// The name of the origin in a store.
    let name: String
    let transport: any Transport
    private let last = Counter()

    package init(base: String, name: String, transport: any Transport) {
        (self.base, self.name, self.transport) = (base, name, transport)
    }

    /// The URL of a file below the directory: each name encoded anew, so that it can lead nowhere else.
    func url(_ names: [[UInt8]]) -> String { base + Self.path(names) }

    /// The part of that URL behind the directory. It is ASCII, so names that look the same, or that are not valid text,
    /// are not confused.
    static func path(_ names: [[UInt8]]) -> String {
        names.map { percentEncoded(bytes: $0, keepsSlash: false) }.joined(separator: "/")
    }

    /// A request for a file below the directory.
    func request(_ names: [[UInt8]], range: Range<UInt64>? = nil, size: UInt64? = nil, reload: Bool = false)
        -> TransferRequest
    {
        TransferRequest(
            id: TransferID(rawValue: last.next()), urls: [url(names)], range: range, objectSize: size,
            limit: UInt64(Int64.max), reload: reload)
    }

    /// Starts a transfer, see ``Download/start(_:on:isNamed:)``.
    func start(_ request: TransferRequest, isNamed: Bool = false) -> Download {
        Download.start(request, on: transport, isNamed: isNamed)
    }

    /// The path that a URL in a manifest leads to, as names; `nil` if it is not below the directory, or has a query.
    ///
    /// - Parameter directory: The names of the manifest's own directory.
    func names(of url: String, from directory: [[UInt8]]) -> [[UInt8]]? {
        guard !url.contains("?"), !url.contains("#") else { return nil }
        var names = directory
        var rest = url[...]
        if url.hasPrefix(base) {
            (names, rest) = ([], rest.dropFirst(base.count))
        } else if leadingScheme(of: url) != nil || url.hasPrefix("/") {
            return nil
        }
        for part in rest.utf8.split(separator: 0x2F, omittingEmptySubsequences: false) {
            guard let name = percentDecoded(part), !name.isEmpty, !name.contains(0x2F) else { return nil }
            if name == [0x2E] { continue }
            if name == [0x2E, 0x2E] {
                guard !names.isEmpty else { return nil }
                names.removeLast()
            } else {
                names.append(name)
            }
        }
        return names.isEmpty ? nil : names
    }
}

/// Numbers in order, from any thread.
final class Counter: Sendable {
    private let state = Mutex<UInt64>(0)

    var value: UInt64 { state.withLock(\.self) }

    func next() -> UInt64 { add(1) }

    @discardableResult func add(_ count: UInt64) -> UInt64 {
        state.withLock { state in
            state = state.saturatingAdd(count)
            return state
        }
    }
}

/// The result of work that several tasks wait for.
final class Shared<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var waiters: [UInt64: CheckedContinuation<Value?, Never>] = [:]
        var last: UInt64 = 0
    }

    private let state = Mutex(State())

    func finish(_ value: Value) {
        let waiters = state.withLock { state in
            state.value = value
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        for waiter in waiters { waiter.resume(returning: value) }
    }

    /// Waits for the result; `nil` if the task is cancelled before.
    func value() async -> Value? {
        let number = state.withLock { state in
            state.last += 1
            return state.last
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isReady, value) = state.withLock { state -> (Bool, Value?) in
                    if let value = state.value { return (true, value) }
                    if Task.isCancelled { return (true, nil) }
                    state.waiters[number] = continuation
                    return (false, nil)
                }
                if isReady { continuation.resume(returning: value) }
            }
        } onCancel: {
            state.withLock { $0.waiters.removeValue(forKey: number) }?.resume(returning: nil)
        }
    }
}

/// The state that every part of a cache shares: its store and its origin, messages to its operator, and its counters.
struct CacheContext: Sendable {
    let store: CacheStore
    let origin: CacheOrigin
    /// Passes a line to the operator, the same one at most once a minute.
    let warn: @Sendable (String) -> Void
    /// Runs work that nobody waits for, until the cache ends.
    let start: @Sendable (_ work: @escaping @Sendable () async -> Void) -> Void
    /// **Seconds** since 1970.
    let now: @Sendable () -> Int64
    let counts = CacheCounts()

    /// Reports that something could not be kept; nothing more is written for some seconds.
    func couldNotKeep(_ code: Errno) {
        store.recordTrouble()
        let remedy = code == .noSuchFileOrDirectory ? " A directory of it was removed: restart the cache." : ""
        warn("The store cannot be written; answers are sent without storing them: \(code).\(remedy)")
    }
}

/// The counters of a cache, besides the bytes of its origin and of its store.
struct CacheCounts: Sendable {
    let requests = Counter()
    let sentBytes = Counter()
    /// Answers that began with held bytes, and all other answers.
    let hits = Counter()
    let misses = Counter()
    /// Slices that were not what their names say: from the origin, and from the store.
    let refused = Counter()
    let damaged = Counter()
    /// Answers that were passed through, and answers with documents that could not be revalidated.
    let passed = Counter()
    let stale = Counter()
}
