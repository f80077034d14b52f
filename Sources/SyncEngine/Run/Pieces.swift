import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

// A set pulled in pieces: each shard fetches its own files and keeps its own state; the join takes over the state of
// all shards, and continues like any run.

extension RunRecipe {
    /// The requested piece; `nil` for the whole set.
    var piece: Shard? { shard.flatMap { Shard($0) } }

    /// The rows that belong to the piece, of the given ones.
    func ownRows(_ rows: [Int], of manifest: Manifest) throws(EngineError) -> [Int] {
        guard let shard else { return rows }
        guard let piece else { throw EngineError(.usage, "shard: '\(escaped(shard))' is not a shard such as 3/16") }
        let files = manifest.files
        // Only the piece's own parts were read. Whether a link may go up behind a name needs the whole manifest.
        guard !manifest.isNarrowed else {
            return rows.filter { row in files.withLinkTarget(row) { $0.goesUpBehindName } != true }
        }
        let own = piece.rows(ofEntries: files.count, size: { files.size($0) }) { row in
            files.withPath(row) { PartCutter.hash($0) }
        }
        return rows.count == files.count ? Array(own) : rows.filter(own.contains)
    }
}

extension Shard {
    /// The fewest parts per shard with which a shard reads only its own parts.
    private static let fewestParts = 8

    /// The numbers of the manifest parts that belong to this shard; `nil` if the manifest has so few parts that each
    /// shard reads all of them.
    func parts(of parts: [Manifest.Part]) -> Range<Int>? {
        let total = parts.reduce(0) { $0 + $1.files }
        // A manifest with more entries than the limit cannot be read as a whole.
        guard parts.count >= count * Self.fewestParts || total > ManifestLimits.standard.entries else { return nil }
        func border(_ number: Int) -> Int {
            // Cannot overflow: at most 250,000 parts of five million entries, and ten thousand shards.
            let before = total * number / count
            var sum = 0
            return parts.firstIndex { part in
                defer { sum += part.files }
                return sum >= before
            } ?? parts.count
        }
        return border(number)..<(isLast ? parts.count : border(number + 1))
    }
}

extension PullRun {
    /// Requires the SHA-256 of every file: the pieces share one manifest, which each would change by what it learns.
    func requireKnownDigests() throws(EngineError) {
        guard recipe.piece != nil || recipe.join != nil, found.derivation != nil else { return }
        let checks = try found.decode().files.checks
        guard checks.values.contains(where: { $0.digest?.algorithm != .sha256 }) else { return }
        throw EngineError(
            .usage,
            "\(found.shown) does not give the SHA-256 of every file, so it cannot be pulled in pieces; write a manifest with "
                + "'syncagent import', and pull that")
    }

    /// The index of the destination. A shard that has never completed starts from the whole's index, and the whole
    /// takes in what shards have left.
    mutating func knownIndex() throws(EngineError) -> StatIndex {
        // The index was read already, to choose the tree to build.
        if let trees, trees.shown != nil { return trees.known }
        let own = try PullEngine.index(of: destination)
        // Only the owner and the last pull from the whole's index; its records follow once the piece's rows are known.
        if own.completion == nil, own.count == 0, let whole = destination.whole {
            return try PullEngine.known(StatIndex.load(from: whole, [], to: []))
        }
        guard let count = recipe.join else {
            return own.completion?.manifest == found.digest ? own : try environment.takingLeft(own, in: destination)
        }
        // Already joined.
        if let completion = own.completion, completion.manifest == found.digest,
            completion.selection == recipe.selectionMark
        {
            // Shards of another release may have come since.
            return try environment.takingLeft(own, in: destination)
        }
        beforeJoin = own
        return try joined(own, count)
    }

    /// The records of a piece's own paths. Until a piece has completed once, it may have recorded a few files and
    /// been killed, so the whole's records count, too. They also count after a later pull of the whole.
    func known(_ own: StatIndex, of manifest: Manifest, _ rows: [Int]) throws(EngineError) -> StatIndex {
        guard let whole = destination.whole, let paths = manifest.ownPaths(rows) else {
            return own.forPiece(of: manifest, rows)
        }
        let known = try PullEngine.known(StatIndex.load(from: whole, paths.from, to: paths.to))
        let isLater = known.stamp > own.stamp
        guard own.completion == nil || isLater else { return own.forPiece(of: manifest, rows) }
        // A completion that the whole records is about the whole, not about the piece.
        let both = own.taking(1, under: isLater ? known : own) { _ in known } ?? own
        return both.forPiece(of: manifest, rows)
    }

    /// The index, merged with what the shards have found and installed.
    ///
    /// - Throws: ``EngineError``; 75 with the numbers of the shards that are not complete for this manifest.
    private func joined(_ index: StatIndex, _ count: Int) throws(EngineError) -> StatIndex {
        guard (1...Shard.most).contains(count) else {
            throw EngineError(.usage, "join: the number of shards is 1 to \(Shard.most)")
        }
        var missing: [Int] = []
        for number in 0..<count {
            if try piece(number, of: count) == nil { missing.append(number) }
        }
        guard missing.isEmpty else {
            // In another project's destination they never will be.
            try Self.requireOwner(index, of: destination, project: found.project)
            throw Self.missing(missing, of: count)
        }
        // Only a shard's own state says what the shard installed, and the join removes that state.
        let pieces = (0..<count).compactMap { Shard($0, of: count) }
        let known = try environment.takingLeft(index, in: destination, otherThan: count)
        return try known.taking(all: pieces) { (shard: Shard) throws(EngineError) -> StatIndex? in
            if let piece = try piece(shard.number, of: count) { return piece }
            throw EngineError(
                .ioError,
                "\(escaped(destination.path)): the index of shard \(shard.number) of \(count) is gone; nothing was "
                    + "changed")
        }
    }

    /// The index of a shard that is complete for this manifest; `nil` if there is none.
    ///
    /// - Throws: ``EngineError`` when the index is there and cannot be read.
    private func piece(_ number: Int, of count: Int) throws(EngineError) -> StatIndex? {
        guard let shard = Shard(number, of: count), let place = try left(by: shard, in: destination) else { return nil }
        let index = try PullEngine.index(of: place)
        guard let completion = index.completion else { return nil }
        var asked = recipe
        (asked.shard, asked.join) = (shard.text, nil)
        return completion.manifest == found.digest && completion.selection == asked.selectionMark ? index : nil
    }

    private static func missing(_ numbers: [Int], of count: Int) -> EngineError {
        let list = Shard.list(numbers)
        let (which, are, them) = numbers.count == 1 ? ("shard", "is", "it") : ("shards", "are", "them")
        return EngineError(
            .busy,
            "\(which) \(list) of \(count) \(are) not complete for this release: pull \(them) with --shard, such as --shard "
                + "\(numbers.min() ?? 0)/\(count), then join again")
    }
}

/// The state of a shard at a destination; `nil` if there is none.
private func left(by shard: Shard, in destination: Destination) throws(EngineError) -> Destination? {
    let path = destination.path
    return try PullEngine.known(ifPresent(Destination.open(path: path, create: false, shard: shard.name)))
}

extension EngineEnvironment {
    /// An index of the whole, merged with the files that unjoined pieces have installed, so that they can be removed
    /// later.
    ///
    /// - Parameter count: Leaves out the pieces of a set cut into this many; `nil` for none.
    /// - Throws: ``EngineError`` when a piece's state is there and cannot be read: the join would remove it.
    func takingLeft(_ index: StatIndex, in destination: Destination, otherThan count: Int? = nil)
        throws(EngineError) -> StatIndex
    {
        var waiting = destination.shards.compactMap { name -> Shard? in
            let parts = name.split(separator: "-")
            return parts.count == 3 ? Shard("\(parts[0])/\(parts[2])") : nil
        }.filter { $0.count != count }.sorted { ($0.count, $0.number) < ($1.count, $1.number) }
        var all = index
        while let first = waiting.first {
            let pieces = Array(waiting.prefix { $0.count == first.count })
            all = try all.taking(all: pieces) { shard throws(EngineError) in try installed(by: shard, in: destination) }
            waiting.removeFirst(pieces.count)
        }
        return all
    }

    /// The files that a shard has installed, whether it completed, was stopped or was killed.
    private func installed(by shard: Shard, in destination: Destination) throws(EngineError) -> StatIndex? {
        guard let place = try left(by: shard, in: destination) else { return nil }
        let index = try PullEngine.index(of: place)
        if let folded = try PullEngine.known(foldPreview(index, in: place)) { return folded.installedFiles }
        throw EngineError(.interrupted, "stopped while checking what an earlier run left")
    }
}

extension IndexRecord {
    /// The same record for a file that the pull installed, but that may have changed when its index was written. With a
    /// wrong kind, any run hashes the file again; a link, which costs nothing, is made again.
    var doubted: IndexRecord {
        var doubted = self
        if kind == .link { doubted.digest = .zero } else { doubted.kind = kind == .file ? .executable : .file }
        return doubted
    }
}

extension Manifest {
    /// The first path that is a piece's to keep or forget, and the first path after them; `nil` for no rows. A `nil`
    /// path is no bound.
    fileprivate func ownPaths(_ rows: [Int]) -> (from: [UInt8]?, to: [UInt8]?)? {
        guard let first = rows.first, let last = rows.last else { return nil }
        func path(_ row: Int) -> [UInt8] { files.withPath(row) { Array($0) } }
        let from = !isNarrowed && first == 0 ? nil : path(first)
        // The least path after the last one and everything below it.
        let next = isNarrowed ? path(last) + [0] : last + 1 < files.count ? path(last + 1) : nil
        return (from, next)
    }
}

extension StatIndex {
    /// A record to copy into another index, doubted if this index's time does not vouch for it.
    func handedOn(_ position: Int) -> IndexRecord? { record(position).map { trusts($0) ? $0 : $0.doubted } }

    /// The records of installed files and links, without directories.
    fileprivate var installedFiles: StatIndex {
        mapRecords { $1.kind != .directory && $1.installed ? handedOn($0) : nil } ?? .empty
    }

    /// The index, merged with those of pieces; one piece is in memory at a time.
    fileprivate func taking(
        all pieces: [Shard], _ known: (Shard) throws(EngineError) -> StatIndex?
    ) throws(EngineError) -> StatIndex {
        var (all, waiting) = (self, pieces)
        var failure: EngineError?
        while !waiting.isEmpty {
            let turn = waiting
            var last: [UInt8] = []
            waiting = []
            let taken = all.taking(turn.count) { number in
                guard failure == nil else { return nil }
                do throws(EngineError) {
                    guard let piece = try known(turn[number]), piece.count > 0 else { return nil }
                    // A piece of another release may have other borders: it is merged in the next turn.
                    guard last.isEmpty || PathOrder.precedes(last, piece.path(0)) else {
                        waiting.append(turn[number])
                        return nil
                    }
                    last = piece.path(piece.count - 1)
                    return piece
                } catch { failure = error }
                return nil
            }
            if let failure { throw failure }
            all = taken ?? all
        }
        return all
    }

    /// This index, merged with others; `nil` if the records are too many. For the same path, the file changed last
    /// counts, or the other index's if both changed at once. If the digests agree, a file that either has installed is
    /// installed.
    ///
    /// - Parameters:
    ///   - head: The index whose time and last pull the result takes over; `nil` for this index.
    ///   - other: Returns one of `count` indexes, whose paths follow each other; one at a time is in memory.
    func taking(_ count: Int, under head: StatIndex? = nil, _ other: (Int) -> StatIndex?) -> StatIndex? {
        func copy(_ position: Int, _ append: (IndexRecord, UnsafeBufferPointer<UInt8>) -> Void) {
            guard let record = handedOn(position) else { return }
            withPath(position) { append(record, $0) }
        }
        return (head ?? self).replacingRecords { append in
            var walk = IndexWalk(index: self)
            for number in 0..<count {
                guard let index = other(number) else { continue }
                for position in 0..<index.count {
                    guard let there = index.record(position), var taken = index.handedOn(position) else { continue }
                    index.withPath(position) { path in
                        if let found = walk.find(path, passing: { copy($0, append) }), let own = record(found) {
                            if own.status.changed > there.status.changed { taken = trusts(own) ? own : own.doubted }
                            if own.digest == there.digest { taken.installed = own.installed || there.installed }
                        }
                        append(taken, path)
                    }
                }
            }
            for position in walk.rest { copy(position, append) }
        }
    }

    /// The records from the first of some rows up to the row after the last. Former paths between the last row and the
    /// next are the piece's to forget.
    func forPiece(of manifest: Manifest, _ rows: [Int]) -> StatIndex {
        guard let first = rows.first, let last = rows.last else { return replacingRecords { _ in } ?? .empty }
        let files = manifest.files
        // Only the piece's own parts were read: the rows before and after are not known.
        let isWhole = !manifest.isNarrowed
        let start = isWhole && first == 0 ? 0 : files.withPath(first) { lowerBound($0) }
        let next = last + 1
        let end =
            if !isWhole {
                files.withPath(last) { path in
                    let place = lowerBound(path)
                    return place < count && withPath(place) { $0.elementsEqual(path) } ? place + 1 : place
                }
            } else if next < files.count { files.withPath(next) { lowerBound($0) } } else { count }
        return replacingRecords { append in pass(start..<max(start, end), to: append) } ?? .empty
    }
}
