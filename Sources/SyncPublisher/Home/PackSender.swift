import SyncModel
import SyncSystem

/// Sends packs to a store while the next ones are made, a few at a time. If packs are made faster than they are sent,
/// their maker waits, so that few of them take up the disk.
final class PackSender: Sendable {
    private let store: any ObjectStore
    private let state = Monitor(State())

    private struct State {
        var waiting: [(object: NewObject, name: String, replaces: Bool)] = []
        var active = 0
        var workers = 0
        var sent: UInt64 = 0
        var bytes: UInt64 = 0
        var failure: PublishError?
        var isClosed = false
    }

    /// Packs that are sent at the same time.
    private static let most = 4
    /// Packs that may wait besides those.
    private static let mostWaiting = 2

    init(_ store: any ObjectStore) { self.store = store }

    /// Takes a pack to be sent.
    ///
    /// - Parameter replaces: Whether the store has one of the same name with wrong bytes.
    /// - Throws: ``PublishError`` of an earlier pack.
    func send(_ object: NewObject, as name: String, replacing replaces: Bool) throws(PublishError) {
        let failure = state.wait { state -> PublishError?? in
            if let failure = state.failure { return .some(failure) }
            guard state.waiting.count < Self.mostWaiting else { return nil }
            return .some(nil)
        }
        if let failure { throw failure }
        let needsWorker = state.change { state in
            state.waiting.append((object, name, replaces))
            state.bytes = state.bytes.saturatingAdd(object.size)
            guard state.workers < Self.most, state.workers < state.waiting.count + state.active else { return false }
            state.workers += 1
            return true
        }
        guard needsWorker else { return }
        do throws(ThreadError) { try WorkerThread(name: "send") { [self] in work() } } catch {
            let others = state.change { state in
                state.workers -= 1
                return state.workers
            }
            guard others > 0 else { throw .noThreads }
        }
    }

    /// Waits until everything was sent.
    ///
    /// - Parameter progress: Gets the **bytes** of packs that were sent, and of all packs, while this waits.
    func drain(progress: (UInt64, UInt64) -> Void = { _, _ in }) throws(PublishError) {
        let failure = state.wait(every: 250) { state -> PublishError?? in
            progress(state.sent, state.bytes)
            if let failure = state.failure { return state.active == 0 ? .some(failure) : nil }
            return state.waiting.isEmpty && state.active == 0 ? .some(nil) : nil
        }
        if let failure { throw failure }
    }

    /// Drops the packs that wait, and ends the workers.
    func close() {
        state.change { state in
            state.waiting = []
            state.isClosed = true
        }
    }

    private func work() {
        while true {
            let next = state.wait { state -> (object: NewObject, name: String, replaces: Bool)?? in
                if state.isClosed || state.failure != nil { return .some(nil) }
                guard !state.waiting.isEmpty else { return nil }
                state.active += 1
                return .some(state.waiting.removeFirst())
            }
            guard let next else { break }
            // Wakes a `send` that waits for room.
            state.change { _ in }
            var failure: PublishError?
            do throws(PublishError) { try put(next.object, as: next.name, replacing: next.replaces) } catch {
                failure = error
            }
            state.change { state in
                state.active -= 1
                state.sent = state.sent.saturatingAdd(next.object.size)
                state.failure = state.failure ?? failure
            }
        }
        state.change { $0.workers -= 1 }
    }

    private func put(_ object: NewObject, as name: String, replacing replaces: Bool) throws(PublishError) {
        if replaces {
            _ = try store.put(object, as: name, if: .always)
            return
        }
        guard try store.put(object, as: name, if: .absent) == nil else { return }
        // Another publisher has sent the pack meanwhile. One of another length, left by a publish that ended early, is
        // replaced.
        if try store.stat(name)?.size != object.size { _ = try store.put(object, as: name, if: .always) }
    }
}
