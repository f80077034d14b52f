import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What a run finds at its destination before it changes anything there: what is here, what is wanted, what is in the way,
/// and what the manifest no longer names.
struct Survey {
    /// The index, with what killed runs have left in place.
    let index: StatIndex
    /// Paths that were put in place since the index was written.
    let logged: Set<[UInt8]>
    var inventory: Inventory
    let pruning: Pruning
    let directories: NamedDirectories
    /// Rows of directories that are not here.
    let missingDirectories: [Int]
    /// Positions in the index of files that the manifest does not name …
    let unnamed: [Int]
    /// … those of them that a pull has installed, …
    let obsolete: [Int]
    /// … and of directories that it does not name.
    let formerDirectories: [Int]
    /// Positions that are gone by now.
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
