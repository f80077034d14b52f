import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Creates entries that need no data: links and empty files.
struct SmallEntries: Sendable {
    private let context: RunContext
    private var manifest: Manifest { context.manifest }
    private var staging: Staging { context.staging }

    init(_ context: RunContext) { self.context = context }

    /// Stages every link and empty file among `rows` until a stop request; the rest is then no failure.
    ///
    /// - Returns: The rows that could not be made.
    func stage(_ rows: [Int]) -> [FetchRounds.Failure] {
        var failures: [FetchRounds.Failure] = []
        for row in rows where manifest.files.kind(row) == .link || manifest.files.size(row) == 0 {
            if context.isStopped { break }
            do throws(FileError) {
                context.committer.add(try stage(row))
            } catch {
                failures.append(FetchRounds.Failure(row: row, disk: error))
            }
        }
        return failures
    }

    private func stage(_ row: Int) throws(FileError) -> Committer.Staged {
        let name = StagedName(digest: manifest.files.digest(row), serial: UInt32(truncatingIfNeeded: row))
        var file = Staging.File(lane: context.laneOfSmallEntries, name: name)
        guard manifest.files.kind(row) == .link, let target = manifest.files.linkTarget(row) else {
            let executable = manifest.files.kind(row) == .executable
            let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
            if let member = try context.wholes.stage(
                row,
                of: manifest.files,
                file.name.digest,
                { (leaf, directory) throws(FileError) in
                    try staging.write(nothing, as: leaf, in: directory, executable: executable)
                }
            ) {
                return member
            }
            let status = try staging.write(nothing, to: file, executable: executable)
            return Committer.Staged(row: row, file: file, status)
        }
        do {
            file.name.digest = try sha256(target)
        } catch {
            throw FileError(step: "hash", path: target, code: 0, remark: "\(error)")
        }
        if let member = try context.wholes.stage(
            row,
            of: manifest.files,
            file.name.digest,
            { (leaf, directory) throws(FileError) in try staging.link(to: target, as: leaf, in: directory) }
        ) {
            return member
        }
        try staging.link(to: target, as: file)
        return Committer.Staged(row: row, file: file, nil)
    }
}
