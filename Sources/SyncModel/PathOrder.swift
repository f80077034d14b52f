/// The order of paths in manifests, packs and the index: by bytes, with `/` below every other byte.
///
/// The entries of a directory and its subdirectories are adjacent, and `a` comes directly before `a/b`. So a conflict
/// "a path is the directory of another" is found by comparing neighbours.
public enum PathOrder {
    /// Whether `a` comes before `b`.
    @inlinable public static func precedes(_ a: UnsafeBufferPointer<UInt8>, _ b: UnsafeBufferPointer<UInt8>) -> Bool {
        compare(a, b) < 0
    }

    /// The same for paths that are held in arrays.
    package static func precedes(_ a: [UInt8], _ b: [UInt8]) -> Bool {
        a.withUnsafeBufferPointer { a in b.withUnsafeBufferPointer { compare(a, $0) < 0 } }
    }

    /// Negative, zero or positive as `a` comes before, equals, or comes after `b`.
    @inlinable public static func compare(_ a: UnsafeBufferPointer<UInt8>, _ b: UnsafeBufferPointer<UInt8>) -> Int {
        let shared = min(a.count, b.count)
        var index = 0
        while index < shared, a[index] == b[index] { index += 1 }
        if index == shared { return a.count - b.count }
        return Int(rank(a[index])) - Int(rank(b[index]))
    }

    /// Whether `parent` is a directory that contains `child`.
    @inlinable public static func isDirectory(
        _ parent: UnsafeBufferPointer<UInt8>, of child: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard parent.count < child.count, child[parent.count] == 0x2F else { return false }
        return parent.indices.allSatisfy { parent[$0] == child[$0] }
    }

    @inlinable static func rank(_ byte: UInt8) -> UInt16 { byte == 0x2F ? 0 : UInt16(byte) + 1 }
}

extension Range where Bound == Int {
    /// Binary search: the first position for which `isBehind` holds, or ``upperBound``. It must hold for every position
    /// after one for which it holds. Named as in Swift Algorithms.
    ///
    /// - Complexity: O(log *n*) calls.
    package func partitioningIndex(where isBehind: (Int) throws -> Bool) rethrows -> Int {
        var (low, high) = (lowerBound, upperBound)
        while low < high {
            let middle = low + (high - low) / 2
            if try isBehind(middle) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
