import SyncModel
package import SyncPlugins
import SyncSystem

/// Passes events to an observer on a thread of its own. Nothing waits for the observer: events that do not fit the
/// queue are dropped, and their number is reported with the next ones.
package final class ObserverFeed: Sendable {
    /// The most events queued.
    package static let capacity = 10_000
    /// The most events per call.
    private static let batchSize = 500

    private struct State: Sendable {
        var waiting: [SessionEvent] = []
        var dropped = 0
        /// Whether a thread was started.
        var hasBegun = false
        var isClosed = false
        var hasEnded = false
        var hasFailed = false
    }

    private let state = Monitor(State())
    private let plugin: String
    private let names: Set<String>
    private let observer: any EventObserver
    private let failed: @Sendable (PluginError) -> Void

    /// - Parameters:
    ///   - plugin: The observer's name.
    ///   - names: The events that the observer wants; empty for all.
    ///   - failed: Called at most once, with the first failure.
    package init(
        _ observer: any EventObserver, named plugin: String = "observer", names: Set<String> = [],
        failed: @escaping @Sendable (PluginError) -> Void = { _ in }
    ) { (self.observer, self.plugin, self.names, self.failed) = (observer, plugin, names, failed) }

    /// Queues an event, if it is wanted and there is room. The first one starts the thread, so that a feed without
    /// events need not be closed.
    package func emit(_ event: SyncEvent) {
        guard names.isEmpty || names.contains(event.name.rawValue) else { return }
        let isFirst = state.change { state -> Bool in
            guard !state.isClosed else { return false }
            guard state.waiting.count < Self.capacity else {
                state.dropped += 1
                return false
            }
            state.waiting.append(SessionEvent(line: event.json.bytes))
            defer { state.hasBegun = true }
            return !state.hasBegun
        }
        if isFirst { begin() }
    }

    /// Starts the thread. It is not joined: a hanging observer must not prevent the end.
    private func begin() {
        do throws(ThreadError) { _ = try WorkerThread(name: "observer") { [self] in work() } } catch {
            // The observer gets nothing; a run does not depend on it.
            state.change { state in
                state.isClosed = true
                state.hasEnded = true
            }
            report(PluginError(plugin: plugin, code: .unavailable, message: "\(error)"))
        }
    }

    private func report(_ error: PluginError) {
        let isFirst = state.change { state in
            defer { state.hasFailed = true }
            return !state.hasFailed
        }
        if isFirst { failed(error) }
    }

    /// Takes no more events, and waits until the observer has received the queued ones. If it does not, that is a
    /// failure.
    ///
    /// - Parameter patience: The longest wait.
    /// - Returns: Whether the observer has received all of them.
    @discardableResult package func close(patience: Duration) -> Bool {
        state.change { state in
            state.isClosed = true
            if !state.hasBegun { state.hasEnded = true }
        }
        let ticks = max(1, Int(patience / .milliseconds(20)))
        var passed = 0
        let isWhole = state.wait(every: 20) { state -> Bool? in
            passed += 1
            if state.hasEnded { return true }
            return passed > ticks ? false : nil
        }
        if !isWhole {
            report(
                PluginError(plugin: plugin, code: .timedOut, message: "it has not accepted the last events in time"))
        }
        return isWhole
    }

    private func work() {
        while let batch = next() { do throws(PluginError) { try observer.observe(batch) } catch { report(error) } }
        state.change { $0.hasEnded = true }
    }

    private func next() -> [SessionEvent]? {
        state.wait { state -> [SessionEvent]?? in
            guard !state.waiting.isEmpty || state.isClosed else { return nil }
            guard !state.waiting.isEmpty else { return .some(nil) }
            var batch = Array(state.waiting.prefix(Self.batchSize))
            state.waiting.removeFirst(batch.count)
            if state.dropped > 0 {
                let line = JSONLine.event(.observerDropped) { [count = state.dropped] in $0.field("count", count) }
                batch.append(SessionEvent(line: line.bytes))
                state.dropped = 0
            }
            return .some(batch)
        }
    }
}
