import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

// Entries that need no data, links and empty files, and files that are made from bytes in memory.
extension RunContext {
    /// Stages every link and empty file among `rows` until a stop request; the rest is then no failure.
    ///
    /// - Returns: The rows that could not be made.
    func stageSmallEntries(_ rows: [Int]) -> [RowFailure] {
        var failures: [RowFailure] = []
        for row in rows where manifest.files.kind(row) == .link || manifest.files.size(row) == 0 {
            if isStopped { break }
            do throws(FileError) { committer.add(try stageSmallEntry(row)) } catch {
                failures.append(RowFailure(row: row, disk: error))
            }
        }
        return failures
    }

    private func stageSmallEntry(_ row: Int) throws(FileError) -> Committer.Staged {
        let name = StagedName(digest: manifest.files.digest(row), serial: UInt32(truncatingIfNeeded: row))
        let lane = manifest.files.withPath(row) { staging.lane(laneOfSmallEntries, for: $0) }
        var file = Staging.File(lane: lane, name: name)
        guard manifest.files.kind(row) == .link, let target = manifest.files.linkTarget(row) else {
            return try stage(UnsafeRawBufferPointer(start: nil, count: 0), row, as: file)
        }
        do { file.name.digest = try sha256(target) } catch {
            throw FileError(step: "hash", path: target, remark: "\(error)")
        }
        if let member = try wholes.stage(
            row, of: manifest.files, file.name.digest,
            { (leaf, directory) throws(FileError) in try staging.link(to: target, as: leaf, in: directory) })
        {
            return member
        }
        try staging.link(to: target, as: file)
        return Committer.Staged(row: row, file: file, nil)
    }

    /// Stages a file with these bytes: in its directory if that is assembled in staging, or else as `file`.
    func stage(_ bytes: UnsafeRawBufferPointer, _ row: Int, as file: @autoclosure () -> Staging.File) throws(FileError)
        -> Committer.Staged
    {
        let executable = manifest.files.kind(row) == .executable
        let digest = manifest.files.digest(row)
        let member = try wholes.stage(row, of: manifest.files, digest) { leaf, directory throws(FileError) in
            try staging.write(bytes, as: leaf, in: directory, executable: executable)
        }
        if let member { return member }
        let file = file()
        return Committer.Staged(row: row, file: file, try staging.write(bytes, to: file, executable: executable))
    }
}
