package import SyncModel
package import SyncPlugins

package struct PluginRequest: Sendable {
    /// Such as `resolver.resolve`.
    package var method: String
    /// A JSON object.
    package var parameters: JSONLine
    /// From now to the answer; `nil` when the caller gives it up himself.
    package var timeout: Duration?
    /// Told of notifications about this request, on the plugin's thread; must not block.
    package var notified: (@Sendable (String, JSONValue) -> Void)?
    /// Called exactly once, on the plugin's thread or the caller's; must not block.
    package var completion: @Sendable (Result<RPCAnswer, PluginError>) -> Void

    // How it stands, for the thread that sends it.

    /// When it was written; `nil` while it waits.
    var sent: Duration?
    var isSent: Bool { sent != nil }
    /// When it is given up; `nil` never.
    var due: Duration?
    /// ``due`` is never set beyond this.
    var latest: Duration?
    var notifications = 0
}

/// Requests by number, those that were given up included. Confined to a plugin's thread.
struct RequestTable {
    private(set) var pending: [Int64: PluginRequest] = [:]
    /// Numbers whose caller has gone, sent and not answered.
    private(set) var abandoned: Set<Int64> = []

    var count: Int { pending.count }

    mutating func add(_ number: Int64, _ request: PluginRequest) { pending[number] = request }

    /// Its time begins: the plugin has it from now on.
    mutating func markSent(_ number: Int64, at now: Duration, progressFactor: Int) {
        pending[number]?.sent = now
        guard let time = pending[number]?.timeout else { return }
        pending[number]?.due = now + time
        pending[number]?.latest = now + time * progressFactor
    }

    /// Takes a request out; the number stays known until its answer comes, when it was sent.
    mutating func abandon(_ number: Int64) -> PluginRequest? {
        guard let entry = pending.removeValue(forKey: number) else { return nil }
        if entry.isSent { abandoned.insert(number) }
        return entry
    }

    /// Takes out what was answered: who waits for it, if anybody still does, and whether it was sent at all.
    @discardableResult mutating func answered(_ number: Int64) -> (request: PluginRequest?, wasSent: Bool) {
        guard let entry = pending[number], entry.isSent else { return (nil, abandoned.remove(number) != nil) }
        pending[number] = nil
        return (entry, true)
    }

    /// Who is told of a notification about a request, and how many there were before.
    mutating func notified(_ number: Int64) -> (told: @Sendable (String, JSONValue) -> Void, earlier: Int)? {
        guard let entry = pending[number], entry.isSent, let told = entry.notified else { return nil }
        pending[number]?.notifications += 1
        return (told, entry.notifications)
    }

    /// Begins a request's time anew, within its bound.
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

    /// Takes out what was sent: nobody will answer it. What was sent after `hang` waits to be sent again: a plugin that
    /// hung by then has not started on it.
    mutating func removeSent(before hang: Duration?) -> [PluginRequest] {
        for (number, entry) in pending {
            if let hang, let sent = entry.sent, sent >= hang { pending[number]?.sent = nil }
        }
        let sent = pending.filter(\.value.isSent)
        for number in sent.keys { pending[number] = nil }
        abandoned.removeAll()
        return sent.sorted { $0.key < $1.key }.map(\.value)
    }

    /// Takes out everything; the numbers of what was sent stay known.
    mutating func removeAll() -> [PluginRequest] {
        abandoned.formUnion(pending.filter(\.value.isSent).keys)
        defer { pending = [:] }
        return pending.sorted { $0.key < $1.key }.map(\.value)
    }
}
