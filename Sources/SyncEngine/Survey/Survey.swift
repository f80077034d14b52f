import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The state of a destination before a run changes anything: what is here, missing, in the way, or no longer named. A
/// pull and its plan share it.
struct Survey {
    /// The index, including what killed runs put in place.
    let index: StatIndex
    /// Paths placed since the index was written.
    let logged: Set<[UInt8]>
    var inventory: Inventory
    let pruning: Pruning
    let directories: NamedDirectories
    /// Rows of missing directories.
    let missingDirectories: [Int]
    /// Directories whose places are taken by something that stays.
    let takenDirectories: [FileError]
    /// Positions in the index of files that the manifest does not name …
    let unnamed: [Int]
    /// … those of them that a pull has installed, and that are still there as it left them, …
    let obsolete: [Int]
    /// … those of them that are in the way of entries of the manifest, …
    let blocking: [Int]
    /// … and positions of directories that it does not name.
    let formerDirectories: [Int]
    /// Directories whose modes keep this user out, with these modes; a pull has opened them.
    private let closed: [(row: Int, mode: FileMode)]
    /// Positions of entries that are gone by now, removed by this run or by somebody else.
    var gone: Set<Int> = []

    /// Examines the destination, and refuses forbidden changes.
    ///
    /// - Parameters:
    ///   - index: Including what killed runs put in place.
    ///   - logged: Paths placed since the index was written.
    ///   - mends: Whether wrong modes and times are corrected, and closed directories opened; otherwise nothing is
    ///     changed.
    ///   - progress: Receives the progress of hashing.
    /// - Throws: ``EngineError`` for names that would collide, and for places that no manifest may fill.
    init(
        _ recipe: RunRecipe, of manifest: Manifest, rows: [Int], in destination: Destination, index: StatIndex,
        logged: Set<[UInt8]> = [], backup: BackupDirectory? = nil, mends: Bool, environment: EngineEnvironment,
        progress: ProgressCount? = nil
    ) throws(EngineError) {
        (self.index, self.logged) = (index, logged)
        try environment.refuseMeetingNames(of: manifest, in: destination)
        try environment.refuseOwnPlaces(in: manifest, destination)
        directories = NamedDirectories(
            manifest: manifest, destination: destination, index: index,
            rows: recipe.selectedDirectories(of: manifest, with: rows))
        pruning = Pruning(manifest: manifest, destination: destination, index: index, backup: backup)
        formerDirectories = pruning.obsoleteDirectories()
        let places = directories.preview(opens: mends)
        closed = places.closed
        if mends { directories.open(former: formerDirectories, of: manifest.files) }
        inventory = Inventory(
            of: manifest, rows: rows, in: destination, index: index, logged: logged,
            traitPolicy: PlaceReader.TraitPolicy(in: destination, mends: mends),
            closed: mends ? [] : places.closed.map { manifest.directories.withPath($0.row) { Array($0) } },
            environment: environment, progress: progress)
        Self.checkMounts(in: destination, of: manifest, logged, &inventory, stages: mends)
        do throws(EngineError) {
            try environment.refuseMeetingNames(of: manifest, in: destination, folding: inventory.folding)
        } catch {
            if mends { directories.close(places.closed) }
            throw error
        }
        unnamed = pruning.unnamed()
        let installed = unnamed.filter { index.record($0)?.installed == true }
        let found = Removal(destination: destination, index: index).findings(at: installed)
        obsolete = zip(installed, found).filter { $0.1 == .ours || $0.1 == .unreachable }.map(\.0)
        gone = Set(zip(installed, found).filter { $0.1 == .missing }.map(\.0))
        blocking = pruning.blocking(obsolete)
        let inTheWay = Set((blocking + pruning.blockingDirectories(formerDirectories)).map(index.path))
        let (table, isFree) = (manifest.directories, Self.isFree)
        let freed = Set(places.taken.filter { isFree(table.withPath($0.row) { Array($0) }, inTheWay) }.map(\.row))
        missingDirectories = (places.missing + freed).sorted()
        takenDirectories = places.taken.filter { !freed.contains($0.row) }.map(\.error)
        self.inTheWay = inTheWay
    }

    /// Finds file systems that are mounted below, on the way to wanted or logged rows.
    ///
    /// - Parameter stages: Whether staging directories are made there. Rows for which there can be none are obstructed.
    private static func checkMounts(
        in destination: Destination, of manifest: Manifest, _ logged: Set<[UInt8]>, _ inventory: inout Inventory,
        stages: Bool
    ) {
        let files = manifest.files
        destination.findMounts { [inventory] look in
            for row in inventory.wanted { files.withPath(row, look) }
            for obstruction in inventory.obstructed { files.withPath(obstruction.row, look) }
            for path in logged { path.withUnsafeBufferPointer(look) }
        }
        for (index, mount) in destination.mounts.enumerated() {
            var objection = mount.objection.map { FileError(step: "stage", path: mount.shown, code: $0) }
            if stages, objection == nil {
                do throws(FileError) { try mount.openStaging(create: true) } catch { objection = error }
            }
            guard let objection else {
                if mount.foldsCase { inventory.addFolding([mount.path]) }
                continue
            }
            let there = inventory.wanted.filter { files.withPath($0, destination.fileSystem) == index + 1 }
            inventory.wanted = inventory.wanted.without(Set(there))
            inventory.obstructed += there.map { row in
                let remark =
                    "\(escaped(mount.shown)) is a file system of its own, and this user cannot stage files at its top: "
                    + objection.reason
                let code = objection.code ?? .permissionDenied
                let error = FileError(step: "place", path: files.path(row), code: code, remark: remark)
                return (row: row, error: error)
            }
        }
    }

    /// Paths that are removed to make room.
    private let inTheWay: Set<[UInt8]>

    /// Whether a path, or one above it, is among the paths to remove.
    private static func isFree(_ path: [UInt8], _ going: Set<[UInt8]>) -> Bool {
        var prefix = path
        while !prefix.isEmpty {
            if going.contains(prefix) { return true }
            prefix = Array(prefix[..<(prefix.lastIndex(of: 0x2F) ?? 0)])
        }
        return false
    }

    /// For a plan: counts rows as wanted if their places will be free once obstacles are removed, and links as
    /// obstructed if their targets would lead out of the tree. A run finds out both when it has made room.
    mutating func anticipateRemovals() {
        let (manifest, going) = (pruning.manifest, inTheWay)
        var freed: Set<Int> = []
        for row in inventory.obstructed.map(\.row) {
            let path = manifest.files.withPath(row) { Array($0) }
            let above = Array(path[..<(path.lastIndex(of: 0x2F) ?? 0)])
            if Self.isFree(above, going) || pruning.vanishes(path, with: going) { freed.insert(row) }
        }
        inventory.obstructed.removeAll { freed.contains($0.row) }
        inventory.wanted = (inventory.wanted + freed).sorted()
        let links = UpwardLinks(manifest, pruning.destination, index)
        let escaping = inventory.wanted.filter(links.isEscaping)
        inventory.obstructed += escaping.map { row in
            let path = manifest.files.path(row)
            let error = FileError(step: "place", path: path, remark: UpwardLinks.escapingReason, trouble: .inTheWay)
            return (row: row, error: error)
        }
        inventory.wanted = inventory.wanted.without(Set(escaping))
    }

    /// Closes the directories that were opened for the survey, when nothing is to be changed.
    func restore() { directories.close(closed) }

    /// The given positions without those that are gone.
    func left(of positions: [Int]) -> [Int] { positions.without(gone) }
}

extension StatIndex {
    /// The index without some positions, in memory only.
    func without(_ positions: [Int]) -> StatIndex {
        guard !positions.isEmpty else { return self }
        let gone = Set(positions)
        return mapRecords { gone.contains($0) ? nil : $1 } ?? self
    }

    func path(_ position: Int) -> [UInt8] { withPath(position) { Array($0) } }

    /// A path for people.
    func text(_ position: Int) -> String { withPath(position) { String(decoding: $0, as: UTF8.self) } }
}
