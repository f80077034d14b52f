import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore

/// The standard input of one attempt of a hook: one JSON object with every file of its group and its result, or one
/// object for each batch of the files that changed.
///
/// A hook that is called after a crash, or once more, gets the recorded numbers. The result of each file is no longer
/// known then: only a batch hook gets files, those that it has not accepted.
struct HookInput {
    let report: PullReport
    let group: CompletedGroup
    let destination: String
    /// JSON to pass on, from the request of the run.
    let userData: String?
    /// SHA-256 of the run's manifest, and its revision.
    let digest: SHA256Digest
    let revision: UInt64?
    /// The most files per call; `nil` for one call.
    let batch: Int?
    /// The manifest that names the files: the run's, or a later one if that is no longer kept; `nil` if none are named.
    var manifest: Manifest?
    /// The result of each file; `nil` where it is no longer known.
    var files: RunFiles?
    /// The files that are listed, in the order of their paths.
    var rows: [Int] = []
    /// Why the hook cannot be called, for people; `nil` if it can.
    var obstacle: String?

    /// The most **bytes** of output kept, from the end, of all calls together, if there are several.
    static let outputLimit = 64 << 10
    /// A report is written in pieces of about this many **bytes**.
    private static let piece = 256 << 10

    /// The number of calls of one attempt; 0 if the hook need not be called.
    var calls: Int {
        guard let batch, obstacle == nil else { return 1 }
        return rows.count / max(1, batch) + (rows.count % max(1, batch) > 0 ? 1 : 0)
    }

    /// The manifest that names the files, if it is not that of the hook's run.
    var otherManifest: Manifest? { manifest.flatMap { $0.digest == digest ? nil : $0 } }

    /// Makes the calls of one attempt, in order; the first that fails ends it.
    ///
    /// - Parameter invocation: The values that all calls share.
    /// - Returns: The end of the last call, with the output and time of all, and the number of calls.
    func run(_ invocation: HookInvocation, by runner: any GroupHook) -> (outcome: HookOutcome, calls: Int) {
        var (all, made) = (HookOutcome(end: .exited(0), output: "", milliseconds: 0), 0)
        if let obstacle {
            all.end = .notStarted(obstacle)
            return (all, 0)
        }
        while made < calls {
            if made > 0, invocation.isStopped() {
                all.end = .stopped
                break
            }
            made += 1
            let outcome = runner.run(call(made, invocation))
            all = made == 1 ? outcome : Self.joined(all, outcome)
            if !outcome.succeeded { break }
        }
        return (all, made)
    }

    private func call(_ number: Int, _ invocation: HookInvocation) -> HookInvocation {
        var call = invocation
        call.writeInput = { write in self.write(number, to: write) }
        if batch != nil {
            call.environment["SYNCAGENT_BATCH"] = String(number)
            call.environment["SYNCAGENT_BATCHES"] = String(calls)
            if files == nil { call.environment["SYNCAGENT_LATE"] = "1" }
        }
        return call
    }

    private static func joined(_ earlier: HookOutcome, _ later: HookOutcome) -> HookOutcome {
        var both = later
        let text = earlier.output + later.output
        let isCut = text.utf8.count > outputLimit
        both.output = isCut ? "…" + String(decoding: text.utf8.suffix(outputLimit), as: UTF8.self) : text
        both.milliseconds &+= earlier.milliseconds
        both.outputBytes &+= earlier.outputBytes
        both.endedLeftovers = earlier.endedLeftovers || later.endedLeftovers
        return both
    }

    /// Writes the report of a call, piece by piece; calls count from 1.
    private func write(_ call: Int, to write: ([UInt8]) -> Bool) {
        var isWanted = true
        let end = JSONLine.object { line in
            line.field("format", "syncagent-report/1")
            line.field("project", optional: manifest?.project)
            line.field("revision", optional: revision ?? (otherManifest == nil ? manifest?.revision : nil))
            line.field("manifest_sha256", digest.hex)
            line.field("entries_manifest_sha256", optional: otherManifest?.digest.hex)
            line.field("entries_revision", optional: otherManifest?.revision)
            line.field("group", group.name)
            line.field("group_result", group.result)
            line.json("user_data", userData ?? manifest?.userData)
            line.json("manifest_user_data", manifest?.userData)
            line.json("group_user_data", manifest?.groups.first { $0.name == group.name }?.userData)
            line.field("changed", group.changed)
            line.field("destination", destination)
            report.write(to: &line)
            if files == nil { line.field("late", true) }
            if batch != nil {
                line.field("batch", call)
                line.field("batches", calls)
            }
            guard let manifest else { return }
            let size = batch.map { max(1, $0) } ?? rows.count
            let first = min(rows.count, (call - 1) * size)
            line.list("entries", rows[first..<min(rows.count, first + size)]) { row, line in
                guard isWanted else { return }
                line.field("path", manifest.files.path(row))
                line.field("state", state(row))
                line.content(of: row, manifest.files)
                line.json("user_data", manifest.files.userData[row])
                line.field("reason", optional: files?.reasons[row])
                if line.bytes.count >= Self.piece { isWanted = write(line.take()) }
            }
        }
        if isWanted { _ = write(end.bytes) }
    }

    private func state(_ row: Int) -> String {
        // How an earlier process placed a file is not known.
        guard let files, batch == nil || files[row] != .unchanged else { return "present" }
        return files[row].word
    }
}

extension JSONLine {
    /// The fields for the content of a file or link.
    mutating func content(of row: Int, _ files: FileTable) {
        if files.kind(row) == .link {
            field("link", files.linkTarget(row) ?? "")
        } else {
            field("size", files.size(row))
            field("sha256", files.digest(row).hex)
        }
    }
}
