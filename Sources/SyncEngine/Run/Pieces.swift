import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

// A set that is brought in pieces: each shard brings the files that are its own, and keeps what it knows apart; the join takes all
// of that over, and goes on as any run.

extension RunRecipe {
    /// The piece that is wanted; `nil` for all of the set.
    var piece: Shard? { shard.flatMap { Shard($0) } }

    /// Those of some rows that the piece has.
    func ownRows(_ rows: [Int], of manifest: Manifest) throws(EngineError) -> [Int] {
        guard let shard else { return rows }
        guard let piece else { throw EngineError(.usage, "shard: '\(escaped(shard))' is none, such as 3/16") }
        let files = manifest.files
        // Of many parts only the piece's own were read. Whether a link may go up behind a name, only the whole can tell.
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
    /// Parts for each shard, at least, for which it is enough to read them.
    private static let fewestParts = 8

    /// The parts of a manifest that this shard has, by the numbers of their entries; `nil` for a manifest with so few that each
    /// reads all of them.
    func parts(of parts: [Manifest.Part]) -> Range<Int>? {
        let total = parts.reduce(0) { $0 + $1.files }
        // More than one may read, it cannot read.
        guard parts.count >= count * Self.fewestParts || total > ManifestLimits.standard.entries else { return nil }
        func border(_ number: Int) -> Int {
            // At most 250,000 parts of five million entries, and ten thousand shards.
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
    /// Pieces have one manifest between them: what each of them would find out by itself makes it another one.
    func requireKnownDigests() throws(EngineError) {
        guard recipe.piece != nil || recipe.join != nil, found.derivation != nil else { return }
        let checks = try found.decode().files.checks
        guard checks.values.contains(where: { $0.digest?.algorithm != .sha256 }) else { return }
        throw EngineError(
            .usage,
            "\(found.shown) does not say the SHA-256 of every file, so it cannot be pulled in pieces; write a manifest with "
                + "'syncagent import', and pull that")
    }

    /// What is known of the destination. A shard that has not been complete before goes by what the whole knows, too, and the whole by
    /// what shards have left.
    mutating func knownIndex() throws(EngineError) -> StatIndex {
        // It has been read to find out which tree to build.
        if let trees, trees.shown != nil { return trees.known }
        let own = try PullEngine.index(of: destination)
        // Of what the whole knows, who owns it and what was pulled last; the rest once it is known what the piece's own is.
        if own.completion == nil, own.count == 0, let whole = destination.whole {
            return try PullEngine.known { () throws(FileError) in try StatIndex.load(from: whole, [], to: []) }
        }
        guard let count = recipe.join else {
            return own.completion?.manifest == found.digest ? own : try environment.takingLeft(own, in: destination)
        }
        // Joined before.
        if let completion = own.completion, completion.manifest == found.digest,
            completion.selection == recipe.selectionMark
        {
            // Shards may have come since, with another release.
            return try environment.takingLeft(own, in: destination)
        }
        beforeJoin = own
        return try joined(own, count)
    }

    /// What is known of a piece's own paths. Until it has been complete once, it may have noted a few files and been killed: what the
    /// whole knows of them counts, too. So it does where a pull of the whole has come since.
    func known(_ own: StatIndex, of manifest: Manifest, _ rows: [Int]) throws(EngineError) -> StatIndex {
        guard let whole = destination.whole, let paths = manifest.ownPaths(rows) else {
            return own.forPiece(of: manifest, rows)
        }
        let known = try PullEngine.known { () throws(FileError) in
            try StatIndex.load(from: whole, paths.from, to: paths.to)
        }
        let isLater = known.stamp > own.stamp
        guard own.completion == nil || isLater else { return own.forPiece(of: manifest, rows) }
        // What the whole says of a completion is about the whole.
        let both = own.taking(1, under: isLater ? known : own) { _ in known } ?? own
        return both.forPiece(of: manifest, rows)
    }

    /// The index with what the shards have found and put in place.
    ///
    /// - Throws: ``EngineError``; 75 with the numbers of those that are not complete for this very manifest.
    private func joined(_ index: StatIndex, _ count: Int) throws(EngineError) -> StatIndex {
        guard (1...Shard.most).contains(count) else {
            throw EngineError(.usage, "join: the number of shards is 1 to \(Shard.most)")
        }
        var missing: [Int] = []
        for number in 0..<count {
            if try piece(number, of: count) == nil { missing.append(number) }
        }
        guard missing.isEmpty else {
            // In another set's place they never will be.
            try Self.requireOwner(index, of: destination, project: found.project)
            throw Self.missing(missing, of: count)
        }
        // Nobody else knows what a shard has put in place, and what it has left goes with the join.
        let pieces = (0..<count).compactMap { Shard($0, of: count) }
        let known = try environment.takingLeft(index, in: destination, otherThan: count)
        return try known.taking(all: pieces) { (shard: Shard) throws(EngineError) -> StatIndex? in
            if let piece = try piece(shard.number, of: count) { return piece }
            throw EngineError(
                .ioError,
                "\(escaped(destination.path)): what shard \(shard.number) of \(count) has left is no longer there; nothing was "
                    + "changed")
        }
    }

    /// What a shard has left, if it is complete for this manifest.
    ///
    /// - Throws: ``EngineError`` when it is there and cannot be read.
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
            "\(which) \(list) of \(count) \(are) not complete for this release: bring \(them) with --shard, such as --shard "
                + "\(numbers.min() ?? 0)/\(count), then join again")
    }
}

/// Where a shard keeps what it knows; `nil` if it has left nothing.
private func left(by shard: Shard, in destination: Destination) throws(EngineError) -> Destination? {
    let path = destination.path
    return try PullEngine.known { () throws(FileError) -> Destination? in
        do throws(FileError) { return try Destination.open(path: path, create: false, shard: shard.name) } catch {
            if error.isMissing { return nil }
            throw error
        }
    }
}

extension EngineEnvironment {
    /// An index of the whole with what pieces have put in place, and nobody has joined: it stays to be removed.
    ///
    /// - Parameter count: How many pieces those are part of that are left out; `nil` for none.
    /// - Throws: ``EngineError`` when some of it is there and cannot be read: it goes with the join.
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

    /// What a shard has put in place, complete or not, and also where it was killed.
    private func installed(by shard: Shard, in destination: Destination) throws(EngineError) -> StatIndex? {
        guard let place = try left(by: shard, in: destination) else { return nil }
        let index = try PullEngine.index(of: place)
        let folded = try PullEngine.known { () throws(FileError) -> StatIndex? in try foldPreview(index, in: place) }
        if let folded { return folded.installedFiles }
        throw EngineError(.interrupted, "stopped while checking what an earlier run left")
    }
}

private func precedes(_ path: [UInt8], _ other: [UInt8]) -> Bool {
    path.withUnsafeBufferPointer { path in other.withUnsafeBufferPointer { PathOrder.precedes(path, $0) } }
}

extension IndexRecord {
    /// The same of a file that may have changed in the moment in which its index was written, and that is the pull's own all the same:
    /// with another kind than it has, it is hashed again in any index; a link, which costs nothing, is made again.
    var doubted: IndexRecord {
        var doubted = self
        if kind == .link { doubted.digest = .zero } else { doubted.kind = kind == .file ? .executable : .file }
        return doubted
    }
}

extension Manifest {
    /// The first path that is a piece's own or its to forget, and the first one after these; `nil` for no rows. A `nil`
    /// path is no bound.
    fileprivate func ownPaths(_ rows: [Int]) -> (from: [UInt8]?, to: [UInt8]?)? {
        guard let first = rows.first, let last = rows.last else { return nil }
        func path(_ row: Int) -> [UInt8] { files.withPath(row) { Array($0) } }
        let from = !isNarrowed && first == 0 ? nil : path(first)
        // No path comes between one and what is below it, and this.
        let next = isNarrowed ? path(last) + [0] : last + 1 < files.count ? path(last + 1) : nil
        return (from, next)
    }
}

extension StatIndex {
    /// A record for another index, whose time says nothing of it.
    func handedOn(_ position: Int) -> IndexRecord? { record(position).map { trusts($0) ? $0 : $0.doubted } }

    /// What a pull has put in place of it, but for directories.
    fileprivate var installedFiles: StatIndex {
        let files = replacingRecords { append in
            for position in 0..<count where !isDirectory(position) {
                guard let record = handedOn(position), record.installed else { continue }
                withPath(position) { append(record, $0) }
            }
        }
        return files ?? .empty
    }

    /// The index with what pieces know, one of which is in memory at a time.
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
                    // What was put in place for another release may have had other borders: it comes in the next turn.
                    guard last.isEmpty || precedes(last, piece.path(0)) else {
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

    /// This index and the records of others; `nil` if they are too many. Of the same path, that of the file which was changed last is
    /// taken, the other's where it is the same. What either of them has put in place stays to be removed.
    ///
    /// - Parameters:
    ///   - head: Says when it was written, and what was pulled last; `nil` for this index.
    ///   - other: Gives one of `count` indexes, whose paths follow each other; one at a time is in memory.
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

    /// What is known of the paths from the first of some rows to the last, and of those between it and the next row: what stood there
    /// is this piece's to forget.
    func forPiece(of manifest: Manifest, _ rows: [Int]) -> StatIndex {
        guard let first = rows.first, let last = rows.last else { return replacingRecords { _ in } ?? .empty }
        let files = manifest.files
        // Of many parts only the piece's own were read: what comes before and behind is not known.
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
