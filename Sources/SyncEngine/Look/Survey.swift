import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What a run finds at its destination before changing anything: what is here, missing, in the way, or no longer named.
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
    /// Positions in the index of files that the manifest does not name …
    let unnamed: [Int]
    /// … those of them that a pull has installed, …
    let obsolete: [Int]
    /// … and positions of directories that it does not name.
    let formerDirectories: [Int]
    /// Positions of what is gone by now, removed by this run or by somebody else.
    var gone: Set<Int> = []

    init(
        _ index: StatIndex,
        logged: Set<[UInt8]>,
        _ inventory: Inventory,
        _ pruning: Pruning,
        _ directories: NamedDirectories
    ) {
        (self.index, self.logged, self.inventory) = (index, logged, inventory)
        (self.pruning, self.directories) = (pruning, directories)
        missingDirectories = directories.preview().missing
        unnamed = pruning.obsolete()
        obsolete = unnamed.filter { index.record($0)?.installed == true }
        formerDirectories = pruning.obsoleteDirectories()
    }

    /// Those of some positions that are not gone.
    func left(of positions: [Int]) -> [Int] { positions.without(gone) }
}
