import Foundation
import SyncAgent
import SyncDaemon
import SyncFiles
import SyncModel
import SyncReport
import SyncStore
import SyncSystem

extension Findings {
    /// Examines each session: its destination, its worker, and what it waits for.
    mutating func examineSessions(_ store: SyncStore) {
        do {
            let clock = ReportClock.here(SystemTime.milliseconds())
            var reader = ReportReader(store: store, clock: clock, version: syncagentVersion)
            reader.schedules = ReportSchedules(now: clock.now).bySession
            for session in try store.sessions() {
                destination(session)
                try work(session, store)
                try verdict(session, store, reader, clock.now)
            }
        } catch { problem("state", CommandFailure(error)?.message ?? "\(error)", "see above") }
    }

    private mutating func destination(_ session: StoredSession) {
        let subject = "session \(escaped(session.identifier))"
        let path = escaped(session.destination)
        guard let found = status(following: session.destination) else {
            let reason = Errno.last
            // A destination that is switched as a whole does not exist before its first revision is installed.
            let isAwaited = session.totals.ok == 0 && session.totals.partial == 0
            if isAwaited, reason == .noSuchFileOrDirectory { return }
            return problem(
                subject, "cannot read its destination \(path): \(reason)",
                "mount it, or pull again to create it; 'syncagent rm' removes the session")
        }
        guard found.kind == .directory else {
            return problem(subject, "\(path) is not a directory", "move it away, or pull --into elsewhere")
        }
        if !isPermitted(.change, session.destination) {
            problem(subject, "\(path) cannot be written to", "give this user write permission")
        }
        let place = try? Destination.open(path: session.destination, create: false, usesState: false)
        if !session.isAt(device: place?.device ?? found.device, inode: place?.inode ?? found.inode) {
            problem(
                subject, "\(path) is not the directory of the last pull",
                "mount the right one; if this is the right one, pull again: files are verified")
        }
        disk(of: session.destination, subject)
        index(session, subject)
    }

    private mutating func index(_ session: StoredSession, _ subject: String) {
        let directory = session.destination + "/" + Destination.stateName
        guard exists(directory) else { return }
        do throws(FileError) {
            let destination = try Destination.open(path: session.destination, create: false)
            // An empty index is not written, so one that reads as empty is damaged.
            if try StatIndex.load(from: destination).count == 0, isLarge(directory + "/index") {
                problem(
                    subject, "the index of what is installed is damaged",
                    "nothing to do: the next pull hashes the files again")
            }
            try IndexLog.requireReadable(destination)
        } catch {
            // Without a code, the error's own text says what to do.
            let isPlain = error.code == nil || error.code == .fileTooLarge
            problem(subject, "\(error)", isPlain ? "see above" : "give this user access to \(escaped(directory))")
        }
    }

    private func isLarge(_ path: String) -> Bool { status(following: path).map { $0.size > 256 } ?? false }

    private mutating func work(_ session: StoredSession, _ store: SyncStore) throws {
        let subject = "session \(escaped(session.identifier))"
        let status = try store.sessionStatus(session.identifier, now: SystemTime.milliseconds())
        let text = SessionText(now: SystemTime.milliseconds())
        if status.isInterrupted == true {
            problem(
                subject, "its run is recorded as running, but no process is working on it",
                "'syncagent resume \(escaped(session.identifier))' lets an agent continue it, and so does another pull")
        } else if status.state != .idle {
            note(subject, "its run is \(status.state)" + (text.why(status).map { ": \($0)" } ?? ""))
        }
        if let holder = status.holder { note(subject, "process \(holder) is working on it") }
        if status.owedHooks > 0 {
            // An agent leaves the hooks of a paused run alone.
            let who = status.state == .paused ? "'syncagent resume \(escaped(session.identifier))'" : "an agent"
            note(
                subject, "\(Figures.count(status.owedHooks, "hook")) still to run",
                "\(who), or the next pull, runs \(status.owedHooks == 1 ? "it" : "them")")
        }
        for held in status.held ?? [] {
            let since = text.moment(held.since)
            note(subject, "\(held.name) has been held since it was rolled back at \(since)", FailureCause.held.advice)
        }
    }

    /// The **milliseconds** that are examined in any case.
    private static let day: Int64 = 86_400_000

    /// Reports problems as `syncagent report` does, since the last run or for at least a day.
    private mutating func verdict(
        _ session: StoredSession, _ store: SyncStore, _ reader: ReportReader, _ now: Int64
    ) throws {
        let last = try store.runs(session: session.identifier, limit: 1).first
        let since = min(now - Self.day, last?.created ?? now)
        let report = try reader.report(of: [session.identifier], since: since, hasNights: false)
        guard let told = report.sessions.first, told.verdict.needsAttention else { return }
        let subject = "session \(escaped(session.identifier))"
        // A pause or a rollback by a person is not a fault: the session's state shows it.
        let open = told.problems.filter { !$0.isOver }
        let problems = open.filter { $0.kind != .stoppedByPerson && $0.kind != .held }
        for problem in problems { self.problem(subject, escaped(problem.summary), problem.advice) }
        guard problems.isEmpty, told.state != .paused, !open.contains(where: { $0.kind == .held }) else { return }
        problem(subject, escaped(told.headline), FailureCause.other.advice)
    }
}
