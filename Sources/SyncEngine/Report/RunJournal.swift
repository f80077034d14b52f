import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore

/// Reports the course of a run as events of the contract.
struct RunJournal: Sendable {
    let environment: EngineEnvironment
    let session: String
    let run: String

    private func event(_ name: EventName, note: String? = nil, _ fill: (inout JSONLine) -> Void) -> SyncEvent {
        SyncEvent(name, time: environment.now(), note: note, session: session, run: run, fields: fill)
    }

    private func emit(_ name: EventName, note: String? = nil, _ fill: (inout JSONLine) -> Void) {
        environment.events.emit(event(name, note: note, fill))
    }

    /// - Parameter former: The previous request, if the session followed another channel.
    func started(
        _ found: FoundManifest, destination: String, userData: String?, _ recipe: RunRecipe, former: RunRecipe?
    ) {
        func words(_ channel: String?) -> String { channel.map { "the channel \($0)" } ?? "the default channel" }
        let note = former.map {
            "\(escaped(destination)) now follows \(words(recipe.channel)) instead of \(words($0.channel))"
        }
        emit(.runStarted, note: note) {
            $0.field("project", found.project)
            $0.field("manifest", found.shown)
            $0.field("manifest_sha256", found.digest.hex)
            $0.field("channel", optional: recipe.channel)
            $0.field("revision", optional: recipe.revision)
            $0.field("destination", destination)
            $0.field("expected_bytes", optional: recipe.expectedBytes)
            $0.json("user_data", userData)
        }
    }

    /// Reports a revision that was accepted although it is older than the installed one, or is the same one with other
    /// content.
    func revision(_ revision: UInt64, installed: UInt64) {
        let isOlder = revision < installed
        let note =
            isOlder
            ? "revision \(revision), older than \(installed), which was installed"
            : "the same revision as the installed one, \(revision), but is a different one"
        emit(.manifestRevision, note: "the manifest has \(note)") {
            $0.field("reason", isOlder ? "older" : "repeated")
            $0.field("revision", revision)
            $0.field("installed", installed)
        }
    }

    func planned(_ plan: Plan, total: Int, unchanged: Int) {
        emit(.planReady) {
            $0.field("files", total)
            $0.field("unchanged", unchanged)
            $0.field("wanted", plan.files)
            $0.field("requests", plan.requestCount)
            $0.field("requests_avoided", plan.requestsAvoided)
            $0.field("bytes", plan.fetchBytes)
            $0.field("gap_bytes", plan.gapBytes)
        }
    }

    /// - Parameter isReused: Whether its bytes were local; `nil` if a process placed the file and was killed before it
    ///   reported that.
    func installed(_ row: Int, of manifest: Manifest, isReused: Bool?) {
        let (files, kind) = (manifest.files, manifest.files.kind(row))
        emit(.taskInstalled) {
            $0.field("path", files.path(row))
            $0.content(of: row, files)
            $0.field("source", isReused.map { $0 ? "reused" : kind == .link ? "manifest" : "network" } ?? "unknown")
        }
    }

    /// - Parameter cause: `cancelled` where a plugin refused the file's request.
    func failed(_ path: String, reason: String, _ cause: FailureCause) {
        emit(cause == .cancelled ? .taskCancelled : .taskFailed, note: "\(escaped(path)): \(reason)") {
            $0.field("path", path)
            $0.field("reason", reason)
            $0.field("cause", cause)
        }
    }

    /// Reports that readers see another tree.
    ///
    /// - Parameters:
    ///   - tree: Its number.
    ///   - gap: The duration of the exchange, in **nanoseconds**.
    func switched(_ manifest: SHA256Digest, revision: UInt64, tree: UInt64, gap: Int64, isRollback: Bool) {
        emit(.treeSwitched) {
            $0.field("revision", revision)
            $0.field("manifest_sha256", manifest.hex)
            $0.field("tree", tree)
            $0.field("gap_us", gap / 1_000)
            if isRollback { $0.field("rollback", true) }
        }
    }

    func removed(_ path: String, note: String? = nil) { emit(.taskRemoved, note: note) { $0.field("path", path) } }

    /// Reports an entry that could not be reached, backed up or removed: no file of the manifest has failed.
    func notRemoved(_ path: String, reason: String) {
        emit(.pruneFailed, note: "\(escaped(path)) is not removed: \(reason)") {
            $0.field("path", path)
            $0.field("reason", reason)
        }
    }

    /// Reports complete groups, recorded in one transaction with everything before.
    ///
    /// - Returns: The hooks that are owed now.
    func complete(_ groups: [CompletedGroup], _ report: PullReport) throws(StoreError) -> [StoredHook] {
        let events = groups.map { group in
            event(.groupCompleted) {
                $0.field("group", group.name)
                $0.field("result", group.result)
            }
        }
        var owed: [StoredHook] = []
        try environment.events.emit(events) { lines throws(StoreError) in
            owed = try environment.store.complete(
                groups, of: run, events: lines, counts: report.counts, now: environment.now())
        }
        return owed
    }

    /// Reports hooks that are not defined here, each once; the last event stands for those beyond the limit.
    func undefined(_ hooks: NamedHooks) {
        for (index, note) in hooks.notes.enumerated() {
            emit(.hookUnknown, note: note) {
                if index < hooks.unknown.count {
                    $0.field("group", hooks.unknown[index].group)
                    $0.field("hook", hooks.unknown[index].name)
                } else {
                    $0.field("more", hooks.more)
                }
            }
        }
    }

    /// - Parameter write: Adds fields behind those of the attempt.
    private func emit(
        _ name: EventName, _ hook: StoredHook, _ input: HookInput, attempt: Int, note: String?,
        _ write: (inout JSONLine) -> Void = { _ in }
    ) {
        emit(name, note: note) {
            $0.field("group", hook.group)
            $0.field("program", Self.program(hook))
            $0.field("attempt", attempt)
            if let size = hook.batch {
                $0.field("batch_size", size)
                $0.field("batches", input.calls)
                $0.field("entries_manifest_sha256", optional: input.otherManifest?.digest.hex)
            }
            write(&$0)
        }
    }

    private static func program(_ hook: StoredHook) -> String { shownHookProgram(hook.arguments.first ?? "") }

    func started(_ hook: StoredHook, _ input: HookInput, attempt: Int) {
        let note = input.otherManifest.map {
            "hook \(escaped(Self.program(hook))): its run's manifest is no longer kept; it gets the files of manifest "
                + $0.digest.hex
        }
        emit(.hookStarted, hook, input, attempt: attempt, note: note)
    }

    /// - Parameters:
    ///   - result: The outcome in a word.
    ///   - calls: Calls that were made.
    func finished(
        _ hook: StoredHook, _ input: HookInput, attempt: Int, _ outcome: HookOutcome, result: String, calls: Int
    ) {
        let lines = outcome.output.split(separator: "\n").suffix(20)
        let tail = lines.map { "\n    " + escaped(String($0)) }.joined()
        let place = hook.batch == nil ? "" : ", batch \(calls) of \(input.calls)"
        let note = outcome.succeeded ? nil : "hook \(escaped(Self.program(hook))): \(result)\(place)\(tail)"
        emit(.hookFinished, hook, input, attempt: attempt, note: note) {
            if hook.batch != nil { $0.field("calls", calls) }
            $0.field("result", result)
            $0.field("output", outcome.output)
            $0.field("elapsed_ms", outcome.milliseconds)
        }
    }

    /// Reports what this process did for the run, whether it ended or was stopped: the morning report adds these up.
    ///
    /// - Parameters:
    ///   - waited: **Milliseconds** that it waited for the time of the switch, which are not in the report's.
    ///   - origins: The amounts that each server delivered.
    ///   - otherBytes: **Bytes** whose server is not known.
    func summary(
        _ report: PullReport, waited: Int64 = 0, tasks steps: TaskTracker.Steps? = nil, stopped: StopReason? = nil,
        origins: [String: OriginLedger.Entry] = [:], otherBytes: UInt64
    ) {
        emit(.runSummary) { line in
            line.field("elapsed_ms", report.elapsedMilliseconds)
            if waited > 0 { line.field("waited_ms", waited) }
            line.field("requests", report.requests)
            line.field("received", report.bytes.received)
            line.field("reused", report.bytes.reused)
            line.field("stopped", optional: stopped?.rawValue)
            line.object("files") {
                $0.field("installed", report.files.installed)
                $0.field("reused", report.files.reused)
                $0.field("removed", report.files.removed)
                $0.field("failed", report.files.failed)
            }
            if let steps { line.object("tasks") { steps.write(to: &$0) } }
            line.list("origins", origins.sorted(by: { $0.key < $1.key })) { pair, line in
                let (origin, entry) = pair
                line.field("origin", origin)
                line.field("requests", entry.requests)
                line.field("bytes", entry.bytes)
                line.field("transfers", entry.transfers)
                line.field("failed", entry.failed)
            }
            if otherBytes > 0 { line.field("other_bytes", otherBytes) }
            line.list("directories", report.directories) { count, line in
                line.field("path", optional: count.path)
                line.field("files", count.files)
                line.field("bytes", count.bytes)
            }
        }
    }

    /// Reports that the run is stopped before its end. The final event is only shown and not recorded, since the run
    /// continues later.
    func stopped(_ report: PullReport, error: String? = nil, _ reason: StopReason) {
        emit(.runStopped) { $0.field("reason", reason.rawValue) }
        let event = Self.last(report, error: error, stopped: reason, at: environment.now())
        environment.events.notifyListener(event)
    }

    /// The last event; its fields are the contract's, in that order.
    ///
    /// - Parameter error: Why the run failed; `nil` if it did not.
    static func last(_ report: PullReport, error: String?, stopped: StopReason? = nil, at time: Int64) -> SyncEvent {
        SyncEvent(.pullFinished, time: time) {
            report.write(to: &$0)
            if report.status != .done, stopped == nil || error != nil {
                $0.object("error") {
                    $0.field("status", report.status.rawValue)
                    $0.field("message", error ?? report.shortfall)
                }
            }
            $0.field("stopped", optional: stopped?.rawValue)
        }
    }
}
