package import SyncPlugins
import SyncSystem

import func Foundation.exp

/// The machine has little else to do: the one-minute load average per core is below a limit.
///
/// The kernel counts threads that run, want to run or wait for a disk, including those of this process. So that a run
/// does not block itself, and then start again as soon as it has stopped, these are subtracted: each evaluation counts
/// the threads of this process in the same states and decays the number as the kernel does, by e^(-t/60 s). The rest is
/// the load of other processes. A run in progress continues until that is a quarter above the limit.
package final class LoadCondition: Condition {
    package let name = "load"
    private let limit: Double
    private let places: MachinePlaces
    private let memory = Mutex(Memory())

    /// State between evaluations.
    struct Memory: Sendable, Equatable {
        /// This process's part in the load average.
        var own: Double?
        /// When that was computed, in **milliseconds** since 1970.
        var time: Int64 = 0
        var isOpen = false

        /// Adds this process's `busy` threads, and tests whether the remaining load is below the limit.
        mutating func take(load: Double, busy: Int, at now: Int64, cores: Int, limit: Double) -> ConditionState {
            let seconds = Double(max(0, now - time)) / 1_000
            let kept = exp(-seconds / 60)
            let own = self.own.map { $0 * kept + Double(busy) * (1 - kept) } ?? Double(busy)
            (self.own, time) = (own, now)
            let others = max(0, load - own) / Double(max(1, cores))
            isOpen = others < (isOpen ? limit * 1.25 : limit)
            guard !isOpen else { return .ok }
            let number = { (value: Double) in "\((value * 100).rounded() / 100)" }
            return .blocked(
                reason: "other processes keep the machine busy: load \(number(others)) per core, the limit is "
                    + number(limit))
        }
    }

    /// - Parameters:
    ///   - limit: Per core.
    ///   - places: Where the values come from.
    package init(limit: Double, places: MachinePlaces = MachinePlaces()) { (self.limit, self.places) = (limit, places) }

    package func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        guard let load = load() else {
            return .unknown(reason: "the load average cannot be read: \(places.loadAverage)")
        }
        // This thread itself is running, too.
        let busy = max(0, Self.busyThreads(places.ownThreads) - 1)
        return memory.withLock { $0.take(load: load, busy: busy, at: context.now, cores: places.cores, limit: limit) }
    }

    private func load() -> Double? {
        if let line = systemLine(places.loadAverage) {
            return line.split(separator: " ").first.flatMap { Double($0) }.flatMap { $0 >= 0 ? $0 : nil }
        }
        return exists(places.loadAverage) ? nil : loadAverage
    }

    /// Threads in the states R and D, proc_pid_stat(5).
    private static func busyThreads(_ directory: String) -> Int {
        ((try? directoryEntries(directory)) ?? []).count { name in
            // The second field is a name in parentheses, which may hold anything.
            guard let line = systemLine("\(directory)/\(name)/stat"), let end = line.lastIndex(of: ")") else {
                return false
            }
            return ["R", "D"].contains(line[end...].dropFirst(2).first)
        }
    }
}
