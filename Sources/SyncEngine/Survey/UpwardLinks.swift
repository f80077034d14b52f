import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Links whose targets go up behind a name, as in `icons/../sounds`: if that name is itself a link, the same target can
/// lead out of the tree. Links of one manifest are checked when it is read (``ManifestRules``). Here they are checked
/// against the resulting tree, in which links of an earlier revision stay unless pruned, and a former directory may now
/// be a link.
struct UpwardLinks {
    let manifest: Manifest
    let destination: Destination
    let index: StatIndex
    private let directories: Directories

    init(_ manifest: Manifest, _ destination: Destination, _ index: StatIndex) {
        self.manifest = manifest
        self.destination = destination
        self.index = index
        directories = Directories(destination)
    }

    /// Links in the index that stay, are not placed by this run, and would lead out of the tree.
    ///
    /// - Parameters:
    ///   - unnamed: Positions in the index that the manifest does not name.
    ///   - rows: The rows that the run places, ascending.
    func escaping(_ unnamed: [Int], rows: [Int]) -> [Int] {
        var kept = unnamed.filter(index.isLink)
        if rows.count < manifest.files.count { kept += unselected(rows) }
        return kept.filter(leadsOut)
    }

    /// Links at paths of the manifest that the run does not place; targets equal to the manifest's were checked with
    /// it.
    private func unselected(_ rows: [Int]) -> [Int] {
        (0..<index.count).filter { position in
            guard index.isLink(position) else { return false }
            return index.withPath(position) { path in
                guard let row = manifest.files.row(of: path) else { return false }
                return !rows.hasRow(row)
                    && (manifest.files.kind(row) != .link
                        || manifest.files.contentDigest(row) != index.record(position)?.digest)
            }
        }
    }

    /// The error for a link of an earlier revision that leads out of the tree and is not ours to remove.
    func refusal(_ position: Int) -> EngineError {
        EngineError(
            .refused,
            "\(escaped(destination.path)): the link \(escaped(index.text(position))) is not in this manifest and would lead "
                + "out of the tree through a link that is; remove it and pull again", cause: .inTheWay)
    }

    /// Whether a link of the index is still there and leads out.
    private func leadsOut(_ position: Int) -> Bool {
        index.withPath(position) { path in
            // A path that cannot be entered counts as missing.
            let found = try? directories.withLeaf(of: path) { directory, leaf -> [UInt8]? in
                guard case .success(let found?) = status(directory, leaf),
                    index.record(position)?.matches(found) == true  // Otherwise it is somebody else's.
                else { return nil }
                return readLink(directory, leaf)
            }
            guard let found, let target = found, !target.isEmpty else { return false }
            return target.withUnsafeBufferPointer { leadsOut($0, at: path) { isLink($0) || isReachedThroughLink($0) } }
        }
    }

    /// Why a row for which ``isEscaping(_:)`` holds is not placed.
    static let escapingReason = "its target goes up (“..”) from a link or a file here, not a directory; move that away"

    /// Whether a row's target goes up behind a link in the destination. The manifest has a directory there, so the link
    /// is not ours: one that a pull installed would have been removed as an obstacle.
    func isEscaping(_ row: Int) -> Bool {
        manifest.files.withLinkTarget(row) { target in
            guard target.goesUpBehindName else { return false }
            return manifest.files.withPath(row) { leadsOut(target, at: $0, isReachedThroughLink) }
        } ?? false
    }

    private func leadsOut(
        _ target: UnsafeBufferPointer<UInt8>, at path: UnsafeBufferPointer<UInt8>, _ isUnsafe: ([UInt8]) -> Bool
    ) -> Bool {
        // A link that no manifest can have leads out.
        guard let directories = try? ManifestRules.check(link: target, at: path) else { return true }
        return directories.contains { !$0.isEmpty && isUnsafe($0) }
    }

    /// Whether the manifest has a link at a path, or at one above it.
    private func isLink(_ directory: [UInt8]) -> Bool {
        var prefix = directory[...]
        while !prefix.isEmpty {
            let row = prefix.withUnsafeBufferPointer(manifest.files.row(of:))
            if let row, manifest.files.kind(row) == .link { return true }
            prefix = prefix[..<(prefix.lastIndex(of: 0x2F) ?? prefix.startIndex)]
        }
        return false
    }

    private func isReachedThroughLink(_ directory: [UInt8]) -> Bool {
        directory.withUnsafeBufferPointer { path in
            do throws(FileError) {
                _ = try directories.descriptor(path, create: false)
                return false
            } catch { return error.code == .tooManySymbolicLinkLevels || error.code == .notDirectory }
        }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// Whether `..` may follow a name. Quick; a `false` is always right.
    var goesUpBehindName: Bool {
        var hasName = false
        var start = 0
        while start < count {
            let end = self[start...].firstIndex(of: 0x2F) ?? count
            let isUp = end - start == 2 && self[start] == 0x2E && self[start + 1] == 0x2E
            if isUp, hasName { return true }
            if !isUp { hasName = true }
            start = end + 1
        }
        return false
    }
}
