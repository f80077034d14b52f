import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// Builds the ``Inventory``: checks every place, on several threads, and hashes what no record covers.
struct InventoryScan: Sendable {
    let manifest: Manifest
    /// Rows to look at, ascending.
    let rows: [Int]
    let destination: Destination
    let index: StatIndex
    /// Paths that an interrupted run put in place, which count as installed.
    var logged: Set<[UInt8]> = []
    /// Whether wrong modes and times are corrected; otherwise nothing is changed.
    var mends = true
    /// Directories that this user cannot look into before a pull opens them. What is below is taken from the index.
    var closed: [[UInt8]] = []
    let environment: EngineEnvironment
    /// Told how far the hashing is.
    var progress: ProgressCount?

    func run() -> Inventory {
        var inventory = Inventory()
        inventory.records = RecordColumn(manifest.files, old: index)
        let slices = rows.evenSlices(rows.count < 2048 ? 1 : environment.workers)
        let looks = concurrently(slices.count, name: "stat") { look(at: slices[$0]) }
        var unknown: [Unknown] = []
        for look in looks {
            inventory.records.take(old: look.unchanged)
            inventory.wanted += look.wanted
            inventory.foreign.formUnion(look.foreign)
            inventory.obstructed += look.obstructed
            unknown += look.unknown
            inventory.addFolding(look.folding)
        }
        if !unknown.isEmpty { hash(unknown, into: &inventory) }
        inventory.foreign = inventory.foreign.filter { !inventory.records.has($0) && !isAsInstalled($0) }
        return inventory
    }

    private struct Unknown: Sendable {
        var row: Int
        var installed: Bool
        /// The index's record of its content.
        var known: IndexRecord?
    }

    private struct SliceResult: Sendable {
        var unchanged: [(row: Int, position: Int)] = []
        var wanted: [Int] = []
        var foreign: [Int] = []
        var unknown: [Unknown] = []
        var obstructed: [Inventory.Obstruction] = []
        var folding: [[UInt8]] = []
    }

    /// Walks the rows and the index side by side; both stand in ``PathOrder``.
    private func look(at rows: ArraySlice<Int>) -> SliceResult {
        var result = SliceResult()
        let directories = Directories(destination)
        guard let first = rows.first else { return result }
        var folding: [[UInt8]] = []
        directories.opened = { [foldsCase = environment.directoryFoldsCase] path, directory in
            if foldsCase(directory) { folding.append(path) }
        }
        var walk = IndexWalk(index: index, position: manifest.files.withPath(first, index.lowerBound))
        for row in rows {
            let position = manifest.files.withPath(row) { walk.find($0) }
            let known = position.flatMap(index.record)
            switch verdict(row: row, known: known, directories: directories) {
            case .unchanged,
                .worn where !mends:
                if let position { result.unchanged.append((row, position)) }
            case .worn: result.unknown.append(Unknown(row: row, installed: known?.installed ?? false, known: known))
            case .absent: result.wanted.append(row)
            case .differs(let isOurs):
                result.wanted.append(row)
                if !isOurs { result.foreign.append(row) }
            case .obstructed(let error): result.obstructed.append(Inventory.Obstruction(row: row, error: error))
            case .unknown(let isOurs):
                if !isOurs { result.foreign.append(row) }
                result.unknown.append(Unknown(row: row, installed: known?.installed ?? isLogged(row)))
            }
        }
        result.folding = folding
        return result
    }

    /// Whether what is at a wanted row's place has the content that a pull put there, though its status is another.
    private func isAsInstalled(_ row: Int) -> Bool {
        let position = manifest.files.withPath(row, index.position(of:))
        guard let position, index.record(position)?.installed == true else { return false }
        return Removal(destination: destination, index: index).look(at: [position]) == [.ours]
    }

    private func isLogged(_ row: Int) -> Bool {
        !logged.isEmpty && manifest.files.withPath(row) { logged.contains(Array($0)) }
    }

    private func hash(_ unknown: [Unknown], into inventory: inout Inventory) {
        let unread = unknown.filter { $0.known == nil && manifest.files.kind($0.row) != .link }
        progress?.begin(.looking, files: unknown.count, bytes: unread.reduce(0) { $0 &+ manifest.files.size($1.row) })
        let results = concurrently(
            over: unknown.count, threads: environment.workers, name: "hash", isStopped: environment.isStopped,
            by: { [progress] _ in
                try PlaceReader(destination, isStopped: environment.isStopped) { progress?.add(bytes: $0) }
            }
        ) { reader, position -> IndexRecord? in
            let entry = unknown[position]
            defer { progress?.add(files: 1) }
            return reader.verify(entry.row, of: manifest, installed: entry.installed, known: entry.known, mends: mends)
        }
        var seen = Set<Int>()
        var right: [(row: Int, record: IndexRecord)] = []
        for (position, record) in results {
            let row = unknown[position].row
            seen.insert(row)
            if let record { right.append((row, record)) } else { inventory.wanted.append(row) }
        }
        inventory.records.take(right)
        for entry in unknown where !seen.contains(entry.row) { inventory.wanted.append(entry.row) }
        inventory.wanted.sort()
    }
}

extension Array {
    /// At most `count` slices of almost equal length, in order.
    func evenSlices(_ count: Int) -> [ArraySlice<Element>] {
        guard !isEmpty else { return [] }
        let slices = Swift.max(1, Swift.min(count, self.count))
        return (0..<slices).map { self[(self.count * $0 / slices)..<(self.count * ($0 + 1) / slices)] }
    }

    /// Everything but some; the same array where these are none.
    func without(_ some: Set<Element>) -> Self where Element: Hashable {
        some.isEmpty ? self : filter { !some.contains($0) }
    }
}
