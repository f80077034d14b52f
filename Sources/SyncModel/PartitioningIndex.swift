extension Range where Bound == Int {
    /// Binary search: the first position for which `isBehind` holds, or ``upperBound``. It must hold for every position
    /// behind one for which it holds. The name is that of Swift Algorithms.
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
