import Foundation
import SyncEngine

/// Checks the order of a run's events (S29–S31) and what its end says against what was told on the way.
struct RunStory {
    private(set) var violations: [String] = []
    private var installed: Set<String> = []
    private var failed: Set<String> = []
    private var removed: Set<String> = []
    private var groups: [String] = []
    /// Whether a process before this one had put files in place: the run counts them, and tells of some of them now.
    private var isTakenUp = false
    private var openHooks = 0
    private var names: [String] = []

    /// Of how many files earlier processes of the run have told that they are in place.
    private let earlier: Int

    init(_ events: [[String: Any]], earlier: Int = 0) {
        self.earlier = earlier
        for event in events { take(event) }
        // A try that came to no run has only its end.
        if names != ["pull.finished"], names.first.map({ $0 != "run.started" }) ?? false {
            violations.append("began with \(names[0])")
        }
        if openHooks != 0 { violations.append("a hook did not finish") }
    }

    private mutating func take(_ event: [String: Any]) {
        let name = event["event"] as? String ?? "?"
        let path = event["path"] as? String ?? ""
        if names.last == "pull.finished" { violations.append("\(name) after pull.finished") }
        names.append(name)
        if event["time"] == nil { violations.append("\(name) has no time") }
        if name != "pull.finished", event["run"] == nil { violations.append("\(name) has no run") }
        if name.hasPrefix("task."), !groups.isEmpty { violations.append("\(name) \(path) after group.completed") }
        switch name {
        case "task.installed":
            if !installed.insert(path).inserted { violations.append("\(path) installed twice") }
            if event["source"] as? String == "unknown" { isTakenUp = true }
        case "task.failed": if !failed.insert(path).inserted { violations.append("\(path) failed twice") }
        case "task.removed": if !removed.insert(path).inserted { violations.append("\(path) removed twice") }
        case "plan.ready": if names.filter({ $0 == name }).count > 1 { violations.append("two plans") }
        case "group.completed":
            let group = event["group"] as? String ?? "?"
            if groups.contains(group) { violations.append("group \(group) completed twice") }
            if groups.isEmpty, group != "all" { violations.append("group \(group) before all") }
            groups.append(group)
        case "hook.started":
            openHooks += 1
            if !groups.contains(event["group"] as? String ?? "?") { violations.append("a hook before its group") }
            if openHooks > 1 { violations.append("two hooks at a time") }
        case "hook.finished": openHooks -= 1
        case "pull.finished": finish(event)
        default: break
        }
        if !installed.isDisjoint(with: failed) { violations.append("\(path) installed and failed") }
    }

    private mutating func finish(_ event: [String: Any]) {
        let files = event["files"] as? [String: Int] ?? [:]
        func check(_ key: String, _ told: Int) {
            if files[key] != told { violations.append("\(key): \(files[key] ?? -1) at the end, \(told) told") }
        }
        let placed = (files["installed"] ?? 0) + (files["reused"] ?? 0)
        let isRight =
            isTakenUp || earlier > 0 ? placed >= installed.count : placed == installed.count
        if !isRight || !isTakenUp && placed > installed.count + earlier {
            violations.append("installed and reused: \(files), \(installed.count) told")
        }
        check("failed", failed.count)
        let done = ["installed", "unchanged", "reused", "failed"].reduce(0) { $0 + (files[$1] ?? 0) }
        if done > files["total"] ?? 0 { violations.append("more than all: \(files)") }
        if event["result"] as? String == "ok", done != files["total"] { violations.append("ok, but \(files)") }
    }
}
