import SyncManifest
import SyncModel
import SyncPlanner
import Synchronization

/// Where a row's bytes came from.
enum RowOrigin: Sendable, Equatable {
    case network
    case reused
}

/// Tells what happens in a run, in the contract's words.
struct RunJournal: Sendable {
    let environment: EngineEnvironment
    let session: String
    let run: String

    /// Events come from the run's thread and the committer's; listeners hear one at a time.
    private let turn = Turn()

    init(environment: EngineEnvironment, session: String, run: String) {
        self.environment = environment
        self.session = session
        self.run = run
    }

    private final class Turn: Sendable {
        private let lock = Mutex(())
        func take(_ body: () -> Void) { lock.withLock { _ in body() } }
    }

    private func tell(
        _ name: String,
        note: String? = nil,
        _ fill: @escaping @Sendable (inout JSONLine) -> Void
    ) {
        let (session, run) = (session, run)
        turn.take {
            environment.observer(
                SyncEvent(name, time: environment.now(), note: note) {
                    $0.field("session", session)
                    $0.field("run", run)
                    fill(&$0)
                }
            )
        }
    }

    func started(_ found: FoundManifest, destination: String) {
        tell("run.started") {
            $0.field("project", found.project)
            $0.field("manifest", found.shown)
            $0.field("manifest_sha256", found.digest.hex)
            $0.field("destination", destination)
        }
    }

    func planned(_ plan: Plan, total: Int, unchanged: Int) {
        let (requests, files, fetch, gaps) = (plan.requestCount, plan.files, plan.fetchBytes, plan.gapBytes)
        let avoided = plan.requestsAvoided
        tell("plan.ready") {
            $0.field("files", total)
            $0.field("unchanged", unchanged)
            $0.field("wanted", files)
            $0.field("requests", requests)
            $0.field("requests_avoided", avoided)
            $0.field("bytes", fetch)
            $0.field("gap_bytes", gaps)
        }
    }

    func installed(_ row: Int, of manifest: Manifest, from origin: RowOrigin) {
        let files = manifest.files
        let kind = files.kind(row)
        tell("task.installed") {
            $0.field("path", files.path(row))
            if kind == .link {
                $0.field("link", files.linkTarget(row) ?? "")
            } else {
                $0.field("size", files.size(row))
                $0.field("sha256", files.digest(row).hex)
            }
            $0.field("source", origin == .reused ? "reused" : kind == .link ? "manifest" : "network")
        }
    }

    func failed(_ path: String, reason: String) {
        tell("task.failed", note: "\(escaped(path)): \(reason)") {
            $0.field("path", path)
            $0.field("reason", reason)
        }
    }

    func removed(_ path: String) { tell("task.removed") { $0.field("path", path) } }

    func groupCompleted(_ group: String, result: PullReport.Result) {
        tell("group.completed") {
            $0.field("group", group)
            $0.field("result", result.rawValue)
        }
    }

    func hookStarted(_ group: String, program: String, attempt: Int) {
        tell("hook.started") {
            $0.field("group", group)
            $0.field("program", program)
            $0.field("attempt", attempt)
        }
    }

    func hookFinished(_ group: String, program: String, result: String, output: String, milliseconds: Int64) {
        let tail = output.split(separator: "\n").suffix(20).map { "\n    " + escaped(String($0)) }.joined()
        let note = result == "exit 0" ? nil : "hook \(escaped(program)): \(result)\(tail)"
        tell("hook.finished", note: note) {
            $0.field("group", group)
            $0.field("program", program)
            $0.field("result", result)
            $0.field("output", output)
            $0.field("elapsed_ms", milliseconds)
        }
    }

    /// The last event; its fields are the contract's, in the contract's order.
    func finished(_ report: PullReport) {
        turn.take {
            environment.observer(
                SyncEvent("pull.finished", time: environment.now()) { report.write(to: &$0) }
            )
        }
    }
}
