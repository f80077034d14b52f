import SyncFiles
import SyncModel

/// Goes through an index beside paths that come in ``PathOrder``, as the index has them.
struct IndexWalk {
    let index: StatIndex
    /// Where it goes on.
    var position = 0

    /// Looks for the next path.
    ///
    /// - Parameter passing: Called with each position that is passed on the way: paths that were not looked for.
    /// - Returns: The path's position; `nil` if it is not in the index.
    mutating func find(_ path: UnsafeBufferPointer<UInt8>, passing: (_ position: Int) -> Void = { _ in }) -> Int? {
        while position < index.count {
            let order = index.withPath(position) { PathOrder.compare($0, path) }
            guard order <= 0 else { return nil }
            position += 1
            if order == 0 { return position - 1 }
            passing(position - 1)
        }
        return nil
    }

    /// The positions that are left.
    var rest: Range<Int> { position..<index.count }
}
