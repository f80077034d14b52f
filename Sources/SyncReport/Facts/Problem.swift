package import SyncModel

/// A problem, with the number of affected files and a remedy.
package struct Problem: Sendable, Equatable {
    package var kind: FailureCause
    /// A description of one occurrence, in the original words.
    package var detail: String
    /// Number of files; 0 if it does not concern single files.
    package var files = 0
    /// Some of their paths.
    package var examples: [String] = []
    package var time: Int64
    /// Number of affected runs.
    package var runs = 1
    /// The hook's number, if it concerns one.
    package var hook: Int64?
    /// Whether a later run succeeded, so that nothing is left to do.
    package var isOver = false

    package init(kind: FailureCause, detail: String, time: Int64) {
        (self.kind, self.detail, self.time) = (kind, detail, time)
    }
}

extension Problem {
    /// A summary: files, description and number of runs; external text is not escaped.
    package var summary: String {
        let count = files > 1 || files == 1 && examples.isEmpty ? "\(Figures.count(files, "file")): " : ""
        let path = files == 1 ? examples.first.map { "\($0): " } ?? "" : ""
        return count + path + detail + (runs > 1 ? " (in \(Figures.count(runs, "run")))" : "")
    }

    /// Some of the paths, and the number of others; `nil` if ``summary`` contains them.
    package var paths: String? {
        guard files > 1, !examples.isEmpty else { return nil }
        let more = files - examples.count
        return examples.joined(separator: ", ") + (more > 0 ? " and \(Figures.grouped(more)) more" : "")
    }
}

extension Problem {
    /// Whether it concerns a check of a new tree, which is not a hook: it cannot be listed or replayed.
    private var isOfCheck: Bool { hook == nil && (kind == .hookFailed || kind == .hookNotStarted) }

    /// A few words that follow the outcome.
    var words: String {
        if isOfCheck { return kind == .hookFailed ? "its check did not accept it" : "its check could not be started" }
        return redirectFault(kind, detail)?.words ?? kind.words
    }

    /// A remedy: one or two sentences.
    package var advice: String {
        guard isOfCheck else { return kind.advice(on: detail) }
        return kind == .hookFailed
            ? "Fix what the check complains about, or the check, then pull again; until then readers see what they saw before."
            : "The check's program is not there or cannot be run: put it in place, then pull again."
    }
}

/// The words and the remedy for a fault of a redirect that no policy forbids; `nil` for a redirect that one forbids, and
/// for other causes. Events have the same cause for all of these, so what they say distinguishes them.
private func redirectFault(_ cause: FailureCause, _ detail: String) -> (words: String, advice: String)? {
    guard cause == .refusedRedirect else { return nil }
    let place = "tell its operator, or name the URL where the set really is."
    if detail.contains("a redirect loop") {
        return ("redirects lead in a circle", "The server redirects in a circle: \(place)")
    }
    if detail.contains("a redirect without a usable target") {
        return ("a redirect leads nowhere", "The server redirects to no usable URL: \(place)")
    }
    guard let limit = detail.firstRange(of: "more than "),
        detail[limit.upperBound...].drop(while: \.isNumber).hasPrefix(" redirects")
    else { return nil }
    return (
        "there were too many redirects",
        "If so many are intended, allow more with --max-redirects; otherwise tell the server's operator."
    )
}

extension FailureCause {
    /// A remedy for a known description, which may say more than the cause.
    package func advice(on detail: String) -> String {
        if self == .pruneRefused, detail.contains("more than --max-delete") {
            return "If the manifest is the right one, pull once with a higher --max-delete; nothing was changed."
        }
        if self == .notThere, detail.contains("file:///"), !detail.contains("/packs/") {
            return "Put the missing files there, then pull again; for a checksum list, --base can name another place."
        }
        if self == .notThere, detail.contains("LFS server") {
            return "Push the large files ('git lfs push --all'), or use the repository's new URL, then pull again."
        }
        if self == .access, ["git's credential helpers", "git ls-remote: "].contains(where: detail.contains) {
            return "Let git's credential helpers know the user name and the password or token for it, then pull again."
        }
        if self == .wrongBytes, detail.contains("Content-Encoding: ") {
            return "Make the server, or a cache in front of it, send these files uncompressed, then pull again."
        }
        if self == .wrongBytes, detail.contains("of the former revision") {
            return "Somebody has changed that revision: see 'syncagent revisions NAME' for others, or pull."
        }
        if self == .diskTrouble, detail.contains("ulimit -n") {
            return "Raise the limit on open files as the message says, then pull again; the disk is all right."
        }
        if self == .trust, detail.contains("--cert and --key") {
            return "Name a client certificate and its own key, both PEM and without a passphrase, then pull again."
        }
        if self == .other, ["the manifest has no group", "'syncagent ls' lists"].contains(where: detail.contains) {
            return "Correct what the pull or its schedule selects: 'syncagent ls MANIFEST' lists files and groups."
        }
        return redirectFault(self, detail)?.advice ?? advice
    }

    /// A remedy: one or two sentences.
    package var advice: String {
        switch self {
        case .notThere:
            "Upload the missing files (of a published set everything again: packs first, the manifest last), then pull again."
        case .access:
            "Give the credentials that the server takes (--credentials or credentials_file, HF_TOKEN, a docker login, AWS keys), or renew an expired link."
        case .serverTrouble:
            "The server was overloaded or broken; the next run tries again. If it persists, tell its operator."
        case .unreachable:
            "Check network, name and port ('syncagent plan MANIFEST --explain'); the next run continues where this one stopped."
        case .trust:
            "Check this machine's clock, and name your own authority with --cacert. An expired certificate has to be renewed by its owner."
        case .loginPage: "Open any page of that host in a browser, log in, and pull again."
        case .signature:
            "Ask the publisher; 'syncagent trust show' shows the keys that this machine trusts. Nothing was changed."
        case .refusedRedirect:
            "If intended, allow the host (--allow-redirect-downgrade, --allow-private-redirect), or list the place under the plugin's 'for'."
        case .wrongBytes:
            "The server, or a cache in front of it, has a different version: purge the cache or upload the set again, then pull."
        case .diskFull:
            "Free some space ('syncagent gc --dry-run' shows what can be removed), then 'syncagent resume' or pull again."
        case .noPermission: "Give the user write permission there, or choose another directory with --into."
        case .diskTrouble: "Check the disk (dmesg, smartctl), then 'syncagent verify MANIFEST'."
        case .inTheWay: "Move what is in the way, then pull again."
        case .pruneRefused: "If the manifest is the right one, pull once with --force; nothing was changed."
        case .olderRevision:
            "Ask the publisher why the server offers an older set. If that is intended, pull once with --allow-older."
        case .held:
            "Nothing to do if a newer revision will come; 'syncagent rollback NAME --release' lets the held one come back."
        case .badManifest: "Check the URL of the manifest, or publish it again; what is in place stays."
        case .rejected:
            "Refused files were not installed: check them at their source. If they could not be checked, fix the verifier and pull again."
        case .cancelled: "A plugin has cancelled the requests for these files; see its settings."
        case .late: "The time was too short: give it a longer window, a higher rate, or start earlier."
        case .lostWorker:
            "Its process was killed repeatedly: look for the reason (dmesg, journalctl), then 'syncagent resume'."
        case .stoppedByPerson: "'syncagent resume' resumes it."
        case .busy: "Another process was using the destination; nothing to do unless it happens again."
        case .hookFailed: "See what it wrote ('syncagent hooks list --output'), then 'syncagent hooks replay NUMBER'."
        case .hookNotStarted:
            "Put its program or plugin in place, or correct its path or its settings; then 'syncagent hooks replay NUMBER'."
        case .notRun:
            "See 'systemctl --user list-timers', or whether the agent or cron is running; 'syncagent doctor' helps."
        case .configuration: "Fix the configuration where the message points, then pull again."
        case .other: "'syncagent events' has every step that led there."
        }
    }
}
