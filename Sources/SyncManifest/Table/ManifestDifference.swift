import SyncModel

/// The difference between two manifests, and what a reader that holds the old one has to fetch for the new one. Pure.
package struct ManifestDifference: Sendable, Equatable {
    /// Files and links that differ or are in only one of the manifests, in path order; behind them,
    /// directories.
    package private(set) var changes: [Change] = []
    /// Files and links that are the same.
    package private(set) var unchanged = 0
    /// **Bytes** to fetch: blobs that no file of the old manifest has, as they are stored, or their deltas, each
    /// counted once, and a new dictionary if it is needed. Gaps that a request reads, and the manifest itself, are not
    /// included.
    package private(set) var fetchBytes: UInt64 = 0

    /// One file, link or directory.
    package struct Change: Sendable, Equatable {
        package enum Kind: String, Sendable, CaseIterable { case added, changed, renamed, removed }

        /// What differs between two entries.
        package enum Aspect: String, Sendable, CaseIterable { case kind, content, target, mode, time }

        package let kind: Kind
        package let path: String
        /// The former path, of a renamed file.
        package var from: String?
        /// **Bytes** of content; 0 for links; for a removed file, its former size.
        package var size: UInt64
        /// **Bytes** of ``ManifestDifference/fetchBytes``.
        package var fetch: UInt64 = 0
        /// What changed, in the order of the cases; empty unless `kind` is `changed`.
        package var aspects: [Aspect] = []

    }

    package var isEmpty: Bool { changes.isEmpty }

    /// The number of changes of one kind.
    package func count(_ kind: Change.Kind) -> Int { changes.count { $0.kind == kind } }

    /// - Complexity: O(*n*) for all files and blobs of both.
    package init(from old: Manifest, to new: Manifest) {
        var holdings = Holdings(old)
        let (former, files) = (old.files, new.files)
        var gone: [SHA256Digest: ArraySlice<Int>] = [:]
        var added: [Int] = []
        Self.forEachPair(former, files) { a, b in
            guard let b else {
                guard let a else { return }
                gone[former.digest(a), default: []].append(a)
                return changes.append(Change(kind: .removed, path: former.path(a), size: former.size(a)))
            }
            let aspects = a.map { Self.aspects(former, $0, files, b) }
            if aspects?.isEmpty == true { return unchanged += 1 }
            if a == nil { added.append(changes.count) }
            changes.append(
                Change(
                    kind: a == nil ? .added : .changed, path: files.path(b), size: files.size(b),
                    fetch: holdings.fetch(b, of: new), aspects: aspects ?? []))
        }
        findRenames(added, gone, former, files)
        compareDirectories(old.directories, new.directories)
        fetchBytes = changes.reduce(0) { $0.addingReportingOverflow($1.fetch).partialValue }
        if holdings.needsDictionary, let dictionary = new.dictionary, dictionary.digest != old.dictionary?.digest {
            fetchBytes = fetchBytes.addingReportingOverflow(dictionary.blob.storedLength).partialValue
        }
    }

    /// Calls `body` with the rows of each path that one of two tables has, in path order.
    private static func forEachPair(_ old: FileTable, _ new: FileTable, _ body: (_ old: Int?, _ new: Int?) -> Void) {
        var (a, b) = (0, 0)
        while a < old.count || b < new.count {
            let order =
                a == old.count
                ? 1 : b == new.count ? -1 : old.withPath(a) { left in new.withPath(b) { PathOrder.compare(left, $0) } }
            body(order <= 0 ? a : nil, order >= 0 ? b : nil)
            (a, b) = (order <= 0 ? a + 1 : a, order >= 0 ? b + 1 : b)
        }
    }

    private static func aspects(_ old: FileTable, _ a: Int, _ new: FileTable, _ b: Int) -> [Change.Aspect] {
        let (before, after) = (old.traits(a), new.traits(b))
        let (wasLink, isLink) = (old.kind(a) == .link, new.kind(b) == .link)
        return Change.Aspect.allCases.filter { aspect in
            switch aspect {
            case .kind: wasLink != isLink
            case .content: !wasLink && !isLink && old.digest(a) != new.digest(b)
            case .target: wasLink && isLink && old.linkTarget(a) != new.linkTarget(b)
            case .mode: before.mode != after.mode || !wasLink && !isLink && old.kind(a) != new.kind(b)
            case .time: before.modified != after.modified
            }
        }
    }

    /// Adds directories that come and go, with a `/` at the end, and those with another mode. Times are not compared:
    /// they follow from what changes in a directory.
    private mutating func compareDirectories(_ old: FileTable, _ new: FileTable) {
        func add(_ kind: Change.Kind, _ table: FileTable, _ row: Int, _ aspects: [Change.Aspect] = []) {
            changes.append(Change(kind: kind, path: table.path(row) + "/", size: 0, aspects: aspects))
        }
        Self.forEachPair(old, new) { a, b in
            switch (a, b) {
            case (let a?, nil): if new.rows(below: Array(old.path(a).utf8)).isEmpty { add(.removed, old, a) }
            case (nil, let b?): add(.added, new, b)
            case (let a?, let b?): if old.traits(a).mode != new.traits(b).mode { add(.changed, new, b, [.mode]) }
            case (nil, nil): break
            }
        }
    }

    /// Turns a removed file and an added one with the same content into one renamed file.
    private mutating func findRenames(
        _ added: [Int], _ gone: [SHA256Digest: ArraySlice<Int>], _ former: FileTable, _ files: FileTable
    ) {
        var gone = gone
        var renamed: Set<String> = []
        for index in added {
            let path = changes[index].path
            let row = Array(path.utf8).withUnsafeBufferPointer { files.row(of: $0) }
            guard let row, files.kind(row) != .link, files.size(row) > 0, let old = gone[files.digest(row)]?.first,
                former.kind(old) != .link
            else { continue }
            gone[files.digest(row)]?.removeFirst()
            let from = former.path(old)
            renamed.insert(from)
            changes[index] = Change(kind: .renamed, path: path, from: from, size: changes[index].size)
        }
        if !renamed.isEmpty { changes.removeAll { $0.kind == .removed && renamed.contains($0.path) } }
    }
}

/// The content that a reader with a manifest's files has, and what was counted already.
private struct Holdings {
    private var content: Set<SHA256Digest> = []
    private(set) var needsDictionary = false

    init(_ manifest: Manifest) {
        for row in manifest.files.indices where manifest.files.kind(row) != .link {
            content.insert(manifest.files.digest(row))
            for blob in manifest.files.blobs(row) { content.insert(manifest.files.digest(of: blob, in: row)) }
        }
    }

    /// **Bytes** to fetch for a row; from then on its content counts as held.
    mutating func fetch(_ row: Int, of manifest: Manifest) -> UInt64 {
        let files = manifest.files
        guard files.kind(row) != .link, files.size(row) > 0, !content.contains(files.digest(row)) else { return 0 }
        var sum: UInt64 = files.blobs(row).isEmpty ? files.size(row) : 0
        var deltas = files.deltas(row)
        for (index, blob) in files.blobs(row).enumerated() {
            guard content.insert(files.digest(of: blob, in: row)).inserted else { continue }
            while let first = deltas.first, Int(first.blob) < index { deltas.removeFirst() }
            let delta = deltas.first.flatMap { Int($0.blob) == index && content.contains($0.baseFile) ? $0 : nil }
            sum = sum.addingReportingOverflow(min(delta?.storedLength ?? .max, blob.storedLength)).partialValue
            if delta == nil, blob.codec.needsDictionary { needsDictionary = true }
        }
        content.insert(files.digest(row))
        return sum
    }
}
