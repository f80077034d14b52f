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
    private let numbers = SharedCounter()

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
            id: TransferID(rawValue: UInt64(numbers.take())), urls: [url(names)], range: range, objectSize: size,
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

/// Tasks that wait for a change that other threads make.
final class Waiters: Sendable {
    private let state = Mutex((waiting: [UInt64: CheckedContinuation<Void, Never>](), last: UInt64(0)))

    /// Waits until something holds, which is examined at once and after each ``wake()``.
    ///
    /// - Returns: `false` if the task was cancelled before.
    func wait(until holds: @Sendable () -> Bool) async -> Bool {
        while !holds() {
            if Task.isCancelled { return false }
            let number = state.withLock { state in
                state.last += 1
                return state.last
            }
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    state.withLock { $0.waiting[number] = continuation }
                    // Nobody wakes it for what came before.
                    if holds() || Task.isCancelled { wake(number) }
                }
            } onCancel: {
                wake(number)
            }
        }
        return true
    }

    /// Wakes every task, after a change.
    func wake() {
        let waiting = state.withLock { state in
            defer { state.waiting = [:] }
            return Array(state.waiting.values)
        }
        for continuation in waiting { continuation.resume() }
    }

    private func wake(_ number: UInt64) { state.withLock { $0.waiting.removeValue(forKey: number) }?.resume() }
}

/// The result of work that several tasks wait for.
final class Shared<Value: Sendable>: Sendable {
    private let result = Mutex<Value?>(nil)
    private let waiters = Waiters()

    func finish(_ value: Value) {
        result.withLock { $0 = .some(value) }
        waiters.wake()
    }

    /// Waits for the result; `nil` if the task is cancelled before.
    func value() async -> Value? {
        _ = await waiters.wait { self.result.withLock { $0 != nil } }
        return result.withLock(\.self)
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
    let counts = Monitor(CacheCounts())

    /// Reports that something could not be kept; nothing more is written for some seconds.
    func couldNotKeep(_ code: Errno) {
        store.recordTrouble()
        let remedy = code == .noSuchFileOrDirectory ? " A directory of it was removed: restart the cache." : ""
        warn("The store cannot be written; answers are sent without storing them: \(code).\(remedy)")
    }
}

/// The counters of a cache, besides the bytes of its origin and of its store.
struct CacheCounts: Sendable {
    var requests: UInt64 = 0
    var sentBytes: UInt64 = 0
    /// Answers that began with held bytes, and all other answers.
    var hits: UInt64 = 0
    var misses: UInt64 = 0
    /// Slices that were not what their names say: from the origin, and from the store.
    var refused: UInt64 = 0
    var damaged: UInt64 = 0
    /// Answers that were passed through, and answers with documents that could not be revalidated.
    var passed: UInt64 = 0
    var stale: UInt64 = 0
}
