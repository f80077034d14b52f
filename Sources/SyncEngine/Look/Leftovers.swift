import SyncContent
import SyncFiles
import SyncManifest
import SyncModel

/// Takes over the parts of large files and the partial blobs that an interrupted run left in staging.
struct Leftovers {
    let context: RunContext

    struct Adopted: Sendable {
        /// Rows whose parts turned out to be complete; handed to the committer.
        var complete: Set<Int> = []
        /// What is missing of files that are fetched by their own URLs, by row, in **bytes**.
        var gaps: [Int: [Range<UInt64>]] = [:]
        /// **Bytes** that need not be fetched, of both kinds, by row.
        var kept: [Int: UInt64] = [:]
        /// **Bytes** of all of them.
        var bytes: UInt64 { present(of: kept.keys) }
        /// Parts that are no longer wanted but may hold useful chunks. To be removed at the end.
        var unwanted: [Staging.File] = []

        /// **Bytes** of these rows that need not be fetched.
        func present(of rows: some Sequence<Int>) -> UInt64 { rows.reduce(0) { $0 &+ (kept[$1] ?? 0) } }
    }

    func adopt(_ wanted: [Int]) throws(DigestError) -> Adopted {
        var adopted = Adopted()
        let (manifest, staging, parts) = (context.manifest, context.staging, context.parts)
        /// Of files with the same content, each can take over one part.
        var rows: [SHA256Digest: [Int]] = [:]
        let found = staging.leftovers().filter(\.file.name.isPart)
        guard !found.isEmpty else { return adopted }
        let digests = Set(found.map(\.file.name.digest))
        for row in wanted where digests.contains(manifest.files.digest(row)) && manifest.files.size(row) > 0 {
            rows[manifest.files.digest(row), default: []].append(row)
        }
        var hasher = try SHA256Hasher()
        for (file, size) in found {
            // The rest stays for the next run.
            if context.isStopped { break }
            guard !file.name.isPartialBlob else {
                if !context.partialBlobs.adopt(file, size: size) { staging.remove(file) }
                continue
            }
            let same = rows[file.name.digest] ?? []
            let place = same.lastIndex { row in manifest.files.withPath(row) { staging.fits(file, $0) } }
            guard let place else {
                adopted.unwanted.append(file)
                continue
            }
            let row = same[place]
            var kept = manifest.files.blobs(row).isEmpty ? parts.adoptRanges(file, row: row) : 0
            if kept > 0 {
                adopted.gaps[row] = parts.gaps(row: row)
            } else if let (part, outcome) = parts.adopt(file, row: row, hasher: &hasher) {
                kept = part.doneBytes
                if case .verified = outcome {
                    context.committer.add(Committer.Staged(row: row, file: part.staged, part.fileStatus))
                    adopted.complete.insert(row)
                }
            }
            if kept > 0 {
                adopted.kept[row] = kept
                rows[file.name.digest]?.remove(at: place)
            } else if !context.isStopped {
                staging.remove(file)
            }
        }
        return adopted
    }
}

extension Staging {
    /// Makes single files of those in directories that an interrupted run was assembling.
    func takeApart(for manifest: Manifest, wanted: [Int]) {
        guard !members().isEmpty else { return }
        var rows: [Directory: [String: Int]] = [:]
        for row in wanted where manifest.files.kind(row) != .link && manifest.files.size(row) > 0 {
            manifest.files.withPath(row) { path in
                let parent = path.parentPath
                guard !parent.isEmpty else { return }
                let leaf = String(decoding: path[(parent.count + 1)...], as: UTF8.self)
                rows[Directory(path: parent), default: [:]][leaf] = row
            }
        }
        takeApart { directory, leaf in rows[directory]?[leaf].map { manifest.files.digest($0) } }
    }
}
