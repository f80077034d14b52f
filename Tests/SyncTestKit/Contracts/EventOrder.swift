import Foundation
package import SyncModel

/// Checks that the events of runs come in the promised order (S29–S31, S33). Fed one event at a time.
///
/// 1. `run.started` comes before everything else of its run, once for each process that works on it; only
///    `run.stopped` and `condition.…` may come before, of a run that waits, `pull.finished` of one that never starts, and
///    `run.summary` of a killed process whose own events the store did not take.
/// 2. A task ends once, `installed`, `failed` or `cancelled`, and says nothing after that; one that was not installed is
///    tried again by the process that takes the run up.
/// 3. `group.completed` comes once for each group; after that of `all` no task says anything.
/// 4. `hook.started` comes after its group's `group.completed`, with a higher attempt each time, and
///    `hook.finished` only for an attempt that has started.
/// 5. After `pull.finished` only hooks may speak: those that a person or a crash made owed once more.
package struct EventOrder: Sendable {
    /// The fields of an event that the order depends on.
    package struct Event: Sendable, Equatable {
        package var name: EventName
        package var run: String
        package var path: String?
        package var group: String?
        package var program: String?
        package var attempt: Int?
        /// Most files a call: tells a hook in batches from one of the same program that is called once.
        package var batch: Int?

        package init(
            _ name: EventName, run: String, path: String? = nil, group: String? = nil, program: String? = nil,
            attempt: Int? = nil, batch: Int? = nil
        ) {
            self.name = name
            self.run = run
            self.path = path
            self.group = group
            self.program = program
            self.attempt = attempt
            self.batch = batch
        }
    }

    private struct Hook: Hashable {
        let group: String
        let program: String
        let batch: Int?
    }

    private struct Run {
        var isFinished = false
        var tasks: [String: End] = [:]
        var groups: Set<String> = []
        var attempts: [Hook: Int] = [:]
        var running: Set<Hook> = []
    }

    private enum End { case installed, otherwise }

    private var runs: [String: Run] = [:]

    package init() {}

    /// Takes the next event.
    ///
    /// - Parameter event: The event.
    /// - Returns: What is wrong about its place, for people; `nil` when nothing is.
    package mutating func take(_ event: Event) -> String? {
        let complaint = problem(with: event)
        return complaint.map { "\(event.name.rawValue) of run \(event.run): \($0)" }
    }

    private mutating func problem(with event: Event) -> String? {
        if event.name == .runStarted {
            if runs[event.run]?.isFinished == true { return "the run has finished" }
            // A process that takes a run up tells it again; what was running in the one before is not, and what had
            // not been installed is tried again.
            var run = runs[event.run] ?? Run()
            run.running = []
            run.tasks = run.tasks.filter { $0.value == .installed }
            runs[event.run] = run
            return nil
        }
        guard var run = runs[event.run] else {
            if event.name == .pullFinished {
                runs[event.run] = Run(isFinished: true)
                return nil
            }
            let mayComeBefore = [.runStopped, .runSummary, .conditionBlocked, .conditionCleared].contains(event.name)
            return mayComeBefore ? nil : "run.started has not come"
        }
        defer { runs[event.run] = run }
        switch event.name {
        case .hookStarted: return started(event, &run)
        case .hookFinished:
            let isRunning = run.running.remove(Self.hook(event)) != nil
            return isRunning ? nil : "no attempt has started"
        case .pullFinished:
            defer { run.isFinished = true }
            return run.isFinished ? "it has occurred before" : nil
        case _ where run.isFinished: return "pull.finished has occurred"
        case .groupCompleted:
            return run.groups.insert(event.group ?? "").inserted ? nil : "group \(event.group ?? "") is complete"
        case .taskInstalled: return ended(event, .installed, &run)
        case .taskFailed, .taskCancelled: return ended(event, .otherwise, &run)
        case .taskRemoved, .taskRedirected: return ended(event, nil, &run)
        default: return nil
        }
    }

    private static func hook(_ event: Event) -> Hook {
        Hook(group: event.group ?? "", program: event.program ?? "", batch: event.batch)
    }

    private func started(_ event: Event, _ run: inout Run) -> String? {
        let hook = Self.hook(event)
        guard run.groups.contains(hook.group) else { return "group.completed has not come" }
        let last = run.attempts[hook] ?? 0
        let attempt = event.attempt ?? 0
        run.attempts[hook] = attempt
        run.running.insert(hook)
        return attempt > last ? nil : "attempt \(attempt) after attempt \(last)"
    }

    /// An event of a task, with how that ends it, where it does.
    private func ended(_ event: Event, _ end: End?, _ run: inout Run) -> String? {
        if run.groups.contains(RunRecipe.groupOfAll) { return "group 'all' is complete" }
        let path = event.path ?? ""
        if run.tasks[path] != nil { return "\(path) has ended" }
        run.tasks[path] = end
        return nil
    }
}

/// What is wrong with the order of events in the output of `--json` or of `syncagent events` (S29–S31, S33).
///
/// - Parameter lines: JSON objects, one a line; lines that are no event of a run are left out.
/// - Returns: One line a complaint; empty when all is in order.
public func orderComplaints(inEvents lines: [String]) -> [String] {
    var order = EventOrder()
    return lines.compactMap { line in
        // What is not JSON is no event.
        guard let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any],
            let name = (object["event"] as? String).flatMap(EventName.init(rawValue:)),
            let run = object["run"] as? String, !run.isEmpty
        else { return nil }
        return order.take(
            EventOrder.Event(
                name, run: run, path: object["path"] as? String, group: object["group"] as? String,
                program: object["program"] as? String, attempt: object["attempt"] as? Int,
                batch: object["batch_size"] as? Int))
    }
}
