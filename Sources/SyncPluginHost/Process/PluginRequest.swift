package import SyncModel
package import SyncPlugins

/// A request to a plugin, with its state while it is open.
package struct PluginRequest: Sendable {
    /// For example `resolver.resolve`.
    package var method: String
    /// A JSON object.
    package var parameters: JSONLine
    /// From sending to the answer; `nil` if the caller cancels it itself.
    package var timeout: Duration?
    /// Receives notifications about this request, on the plugin's thread; must not block.
    package var notified: (@Sendable (String, JSONValue) -> Void)?
    /// Called exactly once, on the plugin's thread or the caller's; must not block.
    package var completion: @Sendable (Result<RPCAnswer, PluginError>) -> Void

    // The state of the request, for the thread that sends it.

    /// When it was sent; `nil` while it waits.
    var sent: Duration?
    var isSent: Bool { sent != nil }
    /// When it times out; `nil` for never.
    var due: Duration?
    /// ``due`` is never set beyond this.
    var latest: Duration?
    var notifications = 0
}

/// Requests by number, including abandoned ones. Confined to a plugin's thread.
struct RequestTable {
    private(set) var pending: [Int64: PluginRequest] = [:]
    /// Numbers of requests that were sent and abandoned before an answer.
    private(set) var abandoned: Set<Int64> = []

    var count: Int { pending.count }

    mutating func add(_ number: Int64, _ request: PluginRequest) { pending[number] = request }

    /// Marks a request as sent; its time starts now.
    mutating func markSent(_ number: Int64, at now: Duration, progressFactor: Int) {
        pending[number]?.sent = now
        guard let time = pending[number]?.timeout else { return }
        pending[number]?.due = now + time
        pending[number]?.latest = now + time * progressFactor
    }

    /// Removes a request; if it was sent, its number stays known until its answer comes.
    mutating func abandon(_ number: Int64) -> PluginRequest? {
        guard let entry = pending.removeValue(forKey: number) else { return nil }
        if entry.isSent { abandoned.insert(number) }
        return entry
    }

    /// Removes an answered request: the request, if its caller still waits, and whether it was sent at all.
    @discardableResult mutating func answered(_ number: Int64) -> (request: PluginRequest?, wasSent: Bool) {
        guard let entry = pending[number], entry.isSent else { return (nil, abandoned.remove(number) != nil) }
        pending[number] = nil
        return (entry, true)
    }

    /// The receiver of notifications about a request, and their number so far.
    mutating func notified(_ number: Int64) -> (handler: @Sendable (String, JSONValue) -> Void, earlier: Int)? {
        guard let entry = pending[number], entry.isSent, let handler = entry.notified else { return nil }
        pending[number]?.notifications += 1
        return (handler, entry.notifications)
    }

    /// Restarts a request's time, within its limit.
    mutating func extend(_ number: Int64, by time: Duration, at now: Duration) -> Bool {
        guard let entry = pending[number], entry.isSent else { return abandoned.contains(number) }
        if entry.due != nil { pending[number]?.due = min(now + time, entry.latest ?? now + time) }
        return true
    }

    func expired(at now: Duration) -> [Int64] {
        pending.filter { $0.value.due.map { $0 <= now } ?? false }.keys.sorted()
    }

    var nextDue: Duration? { pending.values.compactMap(\.due).min() }

    var unsent: [Int64] { pending.filter { !$0.value.isSent }.keys.sorted() }

    /// Removes the sent requests, which nobody will answer. Those sent after `hang` are kept to be sent again: a plugin
    /// that was already hanging has not started on them.
    mutating func removeSent(before hang: Duration?) -> [PluginRequest] {
        for (number, entry) in pending {
            if let hang, let sent = entry.sent, sent >= hang { pending[number]?.sent = nil }
        }
        let sent = pending.filter(\.value.isSent)
        for number in sent.keys { pending[number] = nil }
        abandoned.removeAll()
        return sent.sorted { $0.key < $1.key }.map(\.value)
    }

    /// Removes all requests; the numbers of sent ones stay known.
    mutating func removeAll() -> [PluginRequest] {
        abandoned.formUnion(pending.filter(\.value.isSent).keys)
        defer { pending = [:] }
        return pending.sorted { $0.key < $1.key }.map(\.value)
    }
}
