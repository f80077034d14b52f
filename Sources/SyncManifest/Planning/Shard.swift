import SyncModel

/// One of several equal pieces of the work on a set, done by processes that do not talk to each other: `3/16` is the
/// fourth of sixteen.
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

/// The part of one process in work on a set that is done in pieces.
package enum ShardWork: Sendable, Hashable {
    /// One piece.
    case shard(Shard)
    /// The join of so many pieces, once they are done.
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
    /// The entries of a known listing, in path order, that belong to this shard; see ``ShardBorders``.
    ///
    /// - Parameters:
    ///   - entries: How many entries there are.
    ///   - size: The **bytes** of one.
    ///   - hash: The ``PartCutter/hash(_:)`` of its path.
    package func rows(ofEntries entries: Int, size: (Int) -> UInt64, hash: (Int) -> UInt64) -> Range<Int> {
        var borders = ShardBorders<Int>(count)
        for index in 0..<entries { borders.add(hash: hash(index), size: size(index)) { index } }
        let start = number == 0 ? 0 : borders.start(of: number) ?? entries
        return start..<(isLast ? entries : borders.start(of: number + 1) ?? entries)
    }
}

/// Finds where the shards of a set begin: runs of entries in path order with about equal shares of the work. Every
/// process finds the same borders from the same listing, without asking others.
///
/// A shard begins where an equal share ends, or a little later, at an entry that the hash of its path makes a possible
/// border: there a part of the manifest ends, too, so that parts stay the same for any number of shards. Entries
/// come one by one, and only possible borders are held. Once there are too many, about half of them are dropped, by
/// their hashes, so that their number has a limit whatever comes, and they are the same at any time.
package struct ShardBorders<Place> {
    private let count: Int
    /// Entries from one possible border to the next, on average: a power of two.
    private var distance: UInt64 = 1
    private var possible: [(place: Place, hash: UInt64, before: UInt64)] = []
    private var total: UInt64 = 0

    /// What an entry costs besides its content, in **bytes** that could be read meanwhile.
    private static var costOfEntry: UInt64 { 16 << 10 }
    /// Most possible borders for each shard; at least half as many are held of a set with enough entries.
    private static var mostOfShard: UInt64 { 16 }
    /// The distance, a few parts of the manifest, from which on ``mostOfFew`` counts as well.
    private static var fewParts: UInt64 { 1_024 }
    /// From that distance on, at least so many possible borders may be held.
    private static var mostOfFew: UInt64 { 4_096 }

    /// - Parameter count: How many shards there are.
    package init(_ count: Int) { self.count = max(1, count) }

    /// The number of possible borders that are held.
    package var held: Int { possible.count }

    /// Adds the next entry.
    ///
    /// - Parameters:
    ///   - hash: The ``PartCutter/hash(_:)`` of its path.
    ///   - size: Its **bytes**.
    ///   - mayBegin: Whether a shard may begin with it; the same in every process.
    ///   - place: The place that ``start(of:)`` returns for it.
    package mutating func add<Failure: Error>(
        hash: UInt64, size: UInt64, mayBegin: @autoclosure () -> Bool = true, _ place: () throws(Failure) -> Place
    ) throws(Failure) {
        let before = total
        total = total.saturatingAdd(size).saturatingAdd(Self.costOfEntry)
        guard hash <= UInt64.max / distance, mayBegin() else { return }
        possible.append((try place(), hash, before))
        while possible.count > most, distance < 1 << 62 {
            distance *= 2
            possible.removeAll { $0.hash > UInt64.max / distance }
        }
    }

    private var most: UInt64 {
        let most = UInt64(count) * Self.mostOfShard
        return distance < Self.fewParts ? most : max(most, Self.mostOfFew)
    }

    /// The first entry of a shard other than the first; `nil` if that shard, and so every later one, has no entries.
    package func start(of number: Int) -> Place? {
        let (high, low) = total.multipliedFullWidth(by: UInt64(min(max(0, number), count)))
        guard high < UInt64(count) else { return nil }
        let share = UInt64(count).dividingFullWidth((high, low)).quotient
        let index = possible.indices.partitioningIndex { possible[$0].before >= share }
        return index < possible.count ? possible[index].place : nil
    }
}
