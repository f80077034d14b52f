/// Every event there is, by its name in JSON, in the store and in `syncagent events`. `Documentation/Events.md` has a section
/// for each.
package enum EventName: String, Sendable, CaseIterable, Codable {
    // A run's life.
    case runEnqueued = "run.enqueued"
    case runStarted = "run.started"
    case planReady = "plan.ready"
    case runSummary = "run.summary"
    case runStopped = "run.stopped"
    case pullFinished = "pull.finished"

    // Files.
    case taskInstalled = "task.installed"
    case taskFailed = "task.failed"
    case taskCancelled = "task.cancelled"
    case manifestRevision = "manifest.revision"
    case sourceWrongBytes = "source.wrong_bytes"
    case taskRemoved = "task.removed"
    case pruneFailed = "prune.failed"
    case taskRedirected = "task.redirected"

    // Groups and hooks.
    case groupCompleted = "group.completed"
    case hookStarted = "hook.started"
    case hookFinished = "hook.finished"
    case hookUnknown = "hook.unknown"

    // Conditions.
    case conditionBlocked = "condition.blocked"
    case conditionCleared = "condition.cleared"

    // Transfers.
    case transferRetrying = "transfer.retrying"
    case transferWaiting = "transfer.waiting"
    case sourcePenalised = "source.set_back"

    // Signatures.
    case trustPinned = "trust.pinned"
    case trustRefused = "trust.refused"
    case trustStale = "trust.stale"

    // Plugins and metrics.
    case pluginFailed = "plugin.failed"
    case pluginNotice = "plugin.notice"
    case metricsFailed = "metrics.failed"
    case scheduleFailed = "schedule.failed"

    // Other commands.
    case plan = "plan"
    case planFile = "plan.file"
    case planRoute = "plan.route"
    case verifyFinished = "verify.finished"
    case publishFinished = "publish.finished"
    case lsFile = "ls.file"
    case diffFile = "diff.file"
    case diffFinished = "diff.finished"
    case publishPlanned = "publish.planned"
    case publishFile = "publish.file"

    // Stream notices.
    case progress = "progress"
    case eventsPruned = "events.pruned"
    case observerDropped = "observer.dropped"
}
