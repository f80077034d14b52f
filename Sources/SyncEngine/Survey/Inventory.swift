import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The rows of a manifest that a destination already has, and those that it lacks. Every place is checked, on several
/// threads, and what no record covers is hashed.
struct Inventory: Sendable {
    /// Records of files that are here and right; none for wanted rows.
    var records = RecordColumn()
    /// Rows that are missing or differ.
    var wanted: [Int] = []
    /// Wanted rows whose place has something that no pull has left like that: fetching the row replaces it.
    private(set) var foreign: Set<Int> = []
    /// Rows whose place cannot be used: it is taken by something that must not be replaced.
    var obstructed: [(row: Int, error: FileError)] = []
    /// Directories below the destination that ignore case (``foldsCase(_:)``), in ``PathOrder``, without those below
    /// another; an empty path is the destination.
    var folding: [[UInt8]] = []

    private let manifest: Manifest
    private let destination: Destination
    private let index: StatIndex
    private let logged: Set<[UInt8]>
    private let traitPolicy: PlaceReader.TraitPolicy
    private let closed: [[UInt8]]
    private let environment: EngineEnvironment
    private let progress: ProgressCount?

    /// Checks the places of some rows.
    ///
    /// - Parameters:
    ///   - rows: Ascending.
    ///   - logged: Paths that an interrupted run put in place, which count as installed.
    ///   - traitPolicy: The treatment of a mode or time that differs from the manifest's.
    ///   - closed: Directories that this user cannot enter before a pull opens them. Entries below are taken from the
    ///     index.
    ///   - progress: Receives the progress of hashing.
    init(
        of manifest: Manifest, rows: [Int], in destination: Destination, index: StatIndex, logged: Set<[UInt8]> = [],
        traitPolicy: PlaceReader.TraitPolicy, closed: [[UInt8]] = [], environment: EngineEnvironment,
        progress: ProgressCount? = nil
    ) {
        (self.manifest, self.destination, self.index, self.logged) = (manifest, destination, index, logged)
        (self.traitPolicy, self.closed) = (traitPolicy, closed)
        (self.environment, self.progress) = (environment, progress)
        let slices = rows.evenSlices(rows.count < 2048 ? 1 : environment.workers)
        let scans = concurrently(slices.count, name: "stat") { [self] in scan(slices[$0]) }
        // Not before: the scans have copies of this value, and the records would be copied, too.
        records = RecordColumn(manifest.files, old: index)
        var unknown: [Unknown] = []
        for scan in scans {
            records.take(old: scan.unchanged)
            wanted += scan.found.wanted
            foreign.formUnion(scan.found.foreign)
            obstructed += scan.found.obstructed
            unknown += scan.unknown
            addFolding(scan.found.folding)
        }
        if !unknown.isEmpty { hash(unknown) }
        foreign = foreign.filter { !records.has($0) && !isAsInstalled($0) }
    }

    /// A row to be read, whether a pull has put it there, and the index's record of its content.
    private typealias Unknown = (row: Int, installed: Bool, known: IndexRecord?)

    /// Walks the rows and the index side by side; both stand in ``PathOrder``.
    ///
    /// - Returns: The inventory, still without records; rows that are as the index has them; and rows to be read.
    private func scan(_ rows: ArraySlice<Int>) -> (
        found: Inventory, unchanged: [(row: Int, position: Int)], unknown: [Unknown]
    ) {
        var (result, folding) = (self, [[UInt8]]())
        var (unchanged, unknown) = ([(row: Int, position: Int)](), [Unknown]())
        let directories = Directories(destination)
        guard let first = rows.first else { return (result, [], []) }
        directories.opened = { [foldsCase = environment.directoryFoldsCase] path, directory in
            if foldsCase(directory) { folding.append(path) }
        }
        var walk = IndexWalk(index: index, position: manifest.files.withPath(first, index.lowerBound))
        for row in rows {
            let position = manifest.files.withPath(row) { walk.find($0) }
            let known = position.flatMap(index.record)
            switch verdict(row: row, known: known, directories: directories) {
            case .unchanged,
                .traitsDiffer where traitPolicy == .ignored:
                if let position { unchanged.append((row, position)) }
            case .traitsDiffer: unknown.append((row, known?.installed ?? false, known))
            case .absent: result.wanted.append(row)
            case .differs(let isOurs):
                result.wanted.append(row)
                if !isOurs { result.foreign.insert(row) }
            case .obstructed(let error): result.obstructed.append((row, error))
            case .unknown(let isOurs):
                if !isOurs { result.foreign.insert(row) }
                unknown.append((row, known?.installed ?? isLogged(row), nil))
            }
        }
        result.folding = folding
        return (result, unchanged, unknown)
    }

    /// Whether a wanted row's place has the content that a pull installed, although its status differs.
    private func isAsInstalled(_ row: Int) -> Bool {
        let position = manifest.files.withPath(row, index.position(of:))
        guard let position, index.record(position)?.installed == true else { return false }
        return Removal(destination: destination, index: index).findings(at: [position]) == [.ours]
    }

    private func isLogged(_ row: Int) -> Bool {
        !logged.isEmpty && manifest.files.withPath(row) { logged.contains(Array($0)) }
    }

    private mutating func hash(_ unknown: [Unknown]) {
        let unread = unknown.filter { $0.known == nil && manifest.files.kind($0.row) != .link }
        progress?.begin(.looking, files: unknown.count, bytes: unread.reduce(0) { $0 &+ manifest.files.size($1.row) })
        let results = concurrently(
            over: unknown.count, threads: environment.workers, name: "hash", isStopped: environment.isStopped,
            by: { [destination, environment, progress] _ in
                try PlaceReader(destination, isStopped: environment.isStopped) { progress?.add(bytes: $0) }
            }
        ) { [manifest, traitPolicy, progress] reader, position -> IndexRecord? in
            let entry = unknown[position]
            defer { progress?.add(files: 1) }
            return reader.verify(
                entry.row, of: manifest, installed: entry.installed, known: entry.known, traitPolicy: traitPolicy)
        }
        var seen = Set<Int>()
        var right: [(row: Int, record: IndexRecord)] = []
        for (position, record) in results {
            let row = unknown[position].row
            seen.insert(row)
            if let record { right.append((row, record)) } else { wanted.append(row) }
        }
        records.take(right)
        for entry in unknown where !seen.contains(entry.row) { wanted.append(entry.row) }
        wanted.sort()
    }
}

extension Inventory {
    /// The state of a place.
    enum Verdict {
        /// The index's record is still true.
        case unchanged
        /// The content is as in the index; mode or time differ from what the manifest keeps.
        case traitsDiffer
        case absent
        /// - Parameter isOurs: Whether it is as a pull has left it.
        case differs(isOurs: Bool)
        /// Right kind and size; the content is unknown.
        case unknown(isOurs: Bool)
        case obstructed(FileError)
    }

    /// Checks one place with lstat(2) against the index; nothing is opened.
    ///
    /// - Parameter known: The index's record for the same path, where it has one.
    func verdict(row: Int, known: IndexRecord?, directories: Directories) -> Verdict {
        let files = manifest.files
        return files.withPath(row) { path in
            do throws(FileError) {
                return try directories.withLeaf(of: path) { directory, leaf in
                    switch status(directory, leaf) {
                    case .failure(let code):
                        unseen(row, FileError(step: "look at", path: files.path(row), code: code), known)
                    case .success(nil): .absent
                    case .success(let status?): judge(row, status, known)
                    }
                } ?? .absent
            } catch {
                guard error.code == .notDirectory || error.code == .tooManySymbolicLinkLevels else {
                    return unseen(row, error, known)
                }
                // Making room finds out whether the obstacle is ours.
                return obstacle(row, directories).map(Verdict.obstructed) ?? .absent
            }
        }
    }

    /// The error for an obstacle where a directory above a row's place must be; `nil` when it has gone meanwhile.
    private func obstacle(_ row: Int, _ directories: Directories) -> FileError? {
        let path = manifest.files.withPath(row) { Array($0) }
        for end in path.indices where path[end] == 0x2F {
            let above = Array(path[..<end])
            guard let kind = directories.status(at: above)?.kind, kind != .directory else { continue }
            let what =
                switch kind {
                case .file: "a file"
                case .link: "a symbolic link, and nothing is written through one"
                case .directory, .other: "a device, socket or pipe"
                }
            let place = escaped(String(decoding: above, as: UTF8.self))
            return FileError(
                step: "place", path: manifest.files.path(row),
                remark: "a directory must be at \(place), and there is \(what); move it away", trouble: .inTheWay)
        }
        return nil
    }

    /// The verdict on a place whose status cannot be read.
    private func unseen(_ row: Int, _ error: FileError, _ known: IndexRecord?) -> Verdict {
        let isClosed =
            error.code == .permissionDenied
            && manifest.files.withPath(row) { path in
                closed.contains { $0.withUnsafeBufferPointer { PathOrder.isDirectory($0, of: path) } }
            }
        guard isClosed else { return .obstructed(error) }
        return known.map { $0.digest == manifest.files.contentDigest(row) } == true ? .unchanged : .absent
    }

    private func judge(_ row: Int, _ status: FileStatus, _ known: IndexRecord?) -> Verdict {
        let files = manifest.files
        let isOurs = known.map { $0.installed && $0.matches(status) } ?? false
        switch status.kind {
        case .directory, .other:
            let what = status.kind == .directory ? "a directory" : "a device, socket or pipe"
            return .obstructed(
                FileError(
                    step: "replace", path: files.path(row), remark: "\(what) is in the way; move it away",
                    trouble: .inTheWay))
        case .link: guard files.kind(row) == .link else { return .differs(isOurs: isOurs) }
        case .file:
            guard files.kind(row) != .link, status.size == files.size(row) else { return .differs(isOurs: isOurs) }
        }
        if let known, known.matches(status), known.kind == files.kind(row), index.trusts(known) {
            guard known.digest == files.contentDigest(row) else { return .differs(isOurs: isOurs) }
            if files.traits(row).hold(of: status) { return .unchanged }
            return traitPolicy == .counts ? .differs(isOurs: isOurs) : .traitsDiffer
        }
        // A file that another tree shares is replaced by a copy and not mended.
        if traitPolicy == .counts, let known, known.matches(status), index.trusts(known),
            known.digest == files.contentDigest(row)
        {
            return .differs(isOurs: isOurs)
        }
        return .unknown(isOurs: isOurs)
    }
}

extension Array {
    /// At most `count` slices of almost equal length, in order.
    func evenSlices(_ count: Int) -> [ArraySlice<Element>] {
        guard !isEmpty else { return [] }
        let slices = Swift.max(1, Swift.min(count, self.count))
        return (0..<slices).map { self[(self.count * $0 / slices)..<(self.count * ($0 + 1) / slices)] }
    }

    /// Whether a row is among rows that ascend.
    func hasRow(_ row: Int) -> Bool where Element == Int {
        let place = indices.partitioningIndex { self[$0] >= row }
        return place < count && self[place] == row
    }

    /// The array without some elements.
    func without(_ some: Set<Element>) -> Self where Element: Hashable {
        some.isEmpty ? self : filter { !some.contains($0) }
    }
}
