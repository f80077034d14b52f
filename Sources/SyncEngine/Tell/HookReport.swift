import SyncManifest
import SyncModel
import SyncStore

/// The standard input of a hook: one JSON object with every file of its group and its result.
struct HookReport {
    let manifest: Manifest
    let report: PullReport
    let group: CompletedGroup
    let destination: String
    /// JSON to be handed on, from whoever requested the run.
    let userData: String?
    let states: RowStates
    /// Those of the group; `nil` for all.
    let rows: RowSelection?

    /// The input of a hook of the group: the whole report, or the changed files in batches.
    ///
    /// - Parameter earlier: Files that this run, or one that it replaces, had put in place before this process began.
    func input(for hook: StoredHook, earlier: Set<Int>) -> HookInput {
        guard let size = hook.batch else { return HookInput(json(nil, nil)) }
        let changed = manifest.files.indices.filter { row in
            guard rows?.contains(row) ?? true else { return false }
            return states[row] == .installed || states[row] == .reused || earlier.contains(row)
        }
        return HookInput(batchesOf: changed, size: size) { json($0, $1) }
    }

    /// - Parameter some: The files that are listed; `nil` for all of the group.
    private func json(_ some: ArraySlice<Int>?, _ batch: HookBatch?) -> [UInt8] {
        JSONLine.object { line in
            line.field("format", "syncagent-report/1")
            line.field("project", manifest.project)
            line.field("revision", manifest.revision)
            line.field("manifest_sha256", manifest.digest.hex)
            line.group(group, in: manifest, userData: userData)
            line.field("destination", destination)
            report.write(to: &line)
            if let batch {
                line.field("batch", batch.number)
                line.field("batches", batch.count)
            }
            line.array("entries") { entries in
                if let some {
                    for row in some { entries.object { write(row, isChanged: true, to: &$0) } }
                    return
                }
                for row in manifest.files.indices where rows?.contains(row) ?? true {
                    guard states[row] != .unselected else { continue }
                    entries.object { write(row, isChanged: false, to: &$0) }
                }
            }
        }.bytes
    }

    private func write(_ row: Int, isChanged: Bool, to entry: inout JSONLine) {
        // How a file was placed by an earlier process is not known.
        let state = isChanged && states[row] == .unchanged ? Self.present : states[row].rawValue
        Self.write(row, of: manifest.files, state: state, to: &entry)
        entry.field("reason", optional: states.reasons[row])
    }

    /// The state of a file that is in place and may have changed.
    static let present = "present"

    static func write(_ row: Int, of files: FileTable, state: String, to entry: inout JSONLine) {
        entry.field("path", files.path(row))
        entry.field("state", state)
        entry.content(of: row, files)
        entry.json("user_data", files.userData[row])
    }
}

extension JSONLine {
    /// A group, its result, and what is handed on with it.
    mutating func group(_ group: CompletedGroup, in manifest: Manifest?, userData: String?) {
        field("group", group.name)
        field("group_result", group.result)
        json("user_data", userData ?? manifest?.userData)
        json("manifest_user_data", manifest?.userData)
        json("group_user_data", manifest?.groups.first { $0.name == group.name }?.userData)
        field("changed", group.changed)
    }

    /// What a file or link of a manifest contains.
    mutating func content(of row: Int, _ files: FileTable) {
        if files.kind(row) == .link {
            field("link", files.linkTarget(row) ?? "")
        } else {
            field("size", files.size(row))
            field("sha256", files.digest(row).hex)
        }
    }
}
