import SyncModel

/// One of several equal pieces of the work on a set, done by processes that do not talk to each other: `3/16` is the fourth of
/// sixteen.
package struct Shard: Sendable, Hashable {
    /// From 0.
    package let number: Int
    package let count: Int

    /// Most pieces of one set.
    package static let most = 10_000

    package init?(_ number: Int, of count: Int) {
        guard (1...Self.most).contains(count), (0..<count).contains(number) else { return nil }
        (self.number, self.count) = (number, count)
    }

    /// Reads `3/16`.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let number = Int(parts[0]), let count = Int(parts[1]) else { return nil }
        self.init(number, of: count)
    }

    /// `3/16`
    package var text: String { "\(number)/\(count)" }

    /// `3-of-16`, for names of files.
    package var name: String { "\(number)-of-\(count)" }

    package var isLast: Bool { number == count - 1 }

    /// Numbers for people, neighbours joined: `0, 3–5, 9`.
    package static func list(_ numbers: some Collection<Int>) -> String {
        var runs: [ClosedRange<Int>] = []
        for number in numbers.sorted() {
            if let last = runs.last, number <= last.upperBound + 1 {
                runs[runs.count - 1] = last.lowerBound...max(last.upperBound, number)
            } else {
                runs.append(number...number)
            }
        }
        let texts = runs.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)–\($0.upperBound)" }
        guard texts.count > 40 else { return texts.joined(separator: ", ") }
        return texts.prefix(40).joined(separator: ", ") + " and others"
    }
}

/// What a process does of the work on a set that is done in pieces.
package enum ShardWork: Sendable, Hashable {
    /// One piece.
    case shard(Shard)
    /// What makes one of so many pieces, once they are done.
    case join(Int)

    /// How many pieces there are.
    package var count: Int {
        switch self {
        case .shard(let shard): shard.count
        case .join(let count): count
        }
    }
}

extension Shard {
    /// What an entry costs besides its content, in **bytes** that could be read meanwhile.
    private static let costOfEntry: UInt64 = 16 << 10
    /// Entries from one possible border to the next, on average, in a large set: a few parts of its manifest.
    private static let mostDistance = 1_024
    /// Possible borders for each shard, at least.
    private static let borders = 8

    /// The entries that belong to this shard: runs of entries in path order with about equal shares of the work. Every process
    /// finds the same borders from the same listing, and nobody has to be asked.
    ///
    /// A border stands where an equal share ends, or a little later, where a path's hash says so: there a part of the manifest
    /// ends, too, so that parts stay the same whatever the number of shards.
    ///
    /// - Parameters:
    ///   - entries: How many entries there are, in path order.
    ///   - size: The **bytes** of one.
    ///   - hash: What ``PartCutter/hash(_:)`` gives for its path.
    package func rows(ofEntries entries: Int, size: (Int) -> UInt64, hash: (Int) -> UInt64) -> Range<Int> {
        var total: UInt64 = 0
        for index in 0..<entries { total = total.saturatingAdd(Self.cost(size(index))) }
        var distance = 1
        while distance < Self.mostDistance, distance * 2 * Self.borders * count <= entries { distance *= 2 }
        let limit = UInt64.max / UInt64(distance)
        func border(_ number: Int) -> UInt64 {
            let (high, low) = total.multipliedFullWidth(by: UInt64(number))
            return UInt64(count).dividingFullWidth((high, low)).quotient
        }
        let (first, last) = (border(number), border(number + 1))
        var found: (start: Int?, end: Int?) = (number == 0 ? 0 : nil, isLast ? entries : nil)
        var before: UInt64 = 0
        var (sinceFirst, sinceLast) = (0, 0)
        for index in 0..<entries where found.start == nil || found.end == nil {
            let isBorder = hash(index) <= limit
            if found.start == nil, before >= first {
                sinceFirst += 1
                if isBorder || sinceFirst > PartCutter.maximum { found.start = index }
            }
            if found.end == nil, before >= last {
                sinceLast += 1
                if isBorder || sinceLast > PartCutter.maximum { found.end = index }
            }
            before = before.saturatingAdd(Self.cost(size(index)))
        }
        let start = found.start ?? entries
        return start..<max(start, found.end ?? entries)
    }

    private static func cost(_ size: UInt64) -> UInt64 { size.saturatingAdd(costOfEntry) }
}
