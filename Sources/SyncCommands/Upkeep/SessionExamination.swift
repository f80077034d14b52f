import Foundation
import SyncControl
import SyncDaemon
import SyncFiles
import SyncModel
import SyncReport
import SyncStore
import SyncSystem

extension Examination {
    /// Each session: its destination, who works on it, what waits and why.
    static func sessions(_ store: SyncStore, _ findings: inout Findings) {
        do {
            for session in try store.sessions() {
                destination(session, &findings)
                try work(session, store, &findings)
            }
        } catch {
            findings.problem("state", CommandFailure(error)?.message ?? "\(error)", "see above")
        }
    }

    private static func destination(_ session: StoredSession, _ findings: inout Findings) {
        let subject = "session \(escaped(session.identifier))"
        let path = escaped(session.destination)
        guard let found = status(following: session.destination) else {
            let reason = errnoText
            return findings.problem(
                subject,
                "cannot read its destination \(path): \(reason)",
                "mount it, or pull again to create it; 'syncagent rm' removes the session"
            )
        }
        guard found.kind == .directory else {
            return findings.problem(
                subject,
                "\(path) is not a directory",
                "move it away, or pull --into elsewhere"
            )
        }
        if !isPermitted(.change, session.destination) {
            findings.problem(subject, "\(path) cannot be written to", "give this user write permission")
        }
        if found.device != session.device || found.inode != session.inode {
            findings.problem(
                subject,
                "\(path) is not the directory of the last pull",
                "mount the right one; if this is the right one, pull again: files are verified"
            )
        }
        disk(of: session.destination, subject, &findings)
        index(session, subject, &findings)
    }

    private static func index(_ session: StoredSession, _ subject: String, _ findings: inout Findings) {
        let directory = session.destination + "/" + Destination.stateName
        guard exists(directory + "/index") else { return }
        do throws(FileError) {
            let destination = try Destination.open(path: session.destination, create: false)
            // An index without entries is not written: one that reads as empty is damaged.
            if StatIndex.read(from: destination).count == 0, isLarge(directory + "/index") {
                findings.problem(
                    subject,
                    "the index of what is installed is damaged",
                    "nothing to do: the next pull hashes the files again"
                )
            }
        } catch {
            findings.problem(subject, "\(error)", "give this user access to \(escaped(directory))")
        }
    }

    private static func isLarge(_ path: String) -> Bool {
        status(following: path).map { $0.size > 256 } ?? false
    }

    private static func work(
        _ session: StoredSession,
        _ store: SyncStore,
        _ findings: inout Findings
    ) throws {
        let subject = "session \(escaped(session.identifier))"
        let status = try StateAccess.reader(store).session(session.identifier)
        let text = SessionText(now: SystemTime.milliseconds(), hasAgent: true)
        if status.isInterrupted == true {
            findings.problem(
                subject,
                "its run is recorded as running, but no process is working on it",
                "'syncagent resume \(escaped(session.identifier))' lets an agent continue it, and so does another pull"
            )
        } else if status.state != .idle {
            findings.note(subject, "its run is \(status.state)" + (text.why(status).map { ": \($0)" } ?? ""))
        }
        if let holder = status.holder { findings.note(subject, "process \(holder) is working on it") }
        let hooks = try store.hooks(session: session.identifier)
        let latest = hooks.map(\.run).max()
        for hook in hooks where hook.run == latest && hook.state == .failed {
            findings.note(
                subject,
                "hook \(hook.identifier) of its latest run failed (\(escaped(hook.ended ?? "?")))",
                "'syncagent hooks list --output' shows what it wrote, 'syncagent hooks replay \(hook.identifier)' runs it again"
            )
        }
        if status.owedHooks > 0 {
            findings.note(
                subject,
                "\(Figures.count(status.owedHooks, "hook")) still to run",
                "an agent, or the next pull, runs them"
            )
        }
    }
}
