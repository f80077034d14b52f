package import SyncModel

/// Files and links of a manifest, stored by column: about **110 bytes** a file that has one blob, plus its
/// path, so a million fit in memory.
///
/// Rows stand in ``PathOrder``. Paths, link targets and URLs lie in one arena, each ended by a NUL, so that a
/// path can go to a system call as it is.
package struct FileTable: Sendable {
    var arena: [UInt8] = []
    private(set) var pathOffsets: [UInt32] = []
    private(set) var pathLengths: [UInt16] = []
    private(set) var kinds: [Kind] = []
    private(set) var sizes: [UInt64] = []
    private(set) var digests: [SHA256Digest] = []
    private(set) var blobStarts: [UInt32] = []
    var blobs: [Blob] = []
    var blobDigests: [SHA256Digest] = []
    /// URLs of files, the target of links.
    private(set) var textStarts: [UInt32] = []
    var texts: [Text] = []
    /// Index into `names`, or ``noGroup``.
    private(set) var groupNumbers: [UInt16] = []
    var deltaColumn = DeltaColumn()
    /// The traits of the rows up to the last that has some; empty where none are kept.
    private var traitColumn: [FileTraits] = []
    /// Whether files are placed in a tree that shares them with others.
    package var isShared = false
    /// `x-user-data` of the rows that have it: JSON text on one line.
    package internal(set) var userData: [Int: String] = [:]
    /// Rows whose SHA-256, and perhaps size, is not known yet, only in manifests made from a source: their digests are
    /// stand-ins.
    package internal(set) var checks: [Int: ContentCheck] = [:]
    /// The listed facts of rows whose SHA-256 was learnt since.
    package internal(set) var learned: [Int: ContentCheck] = [:]
    /// Rows that have the blobs of another row, see ``shareBlobs(among:)``.
    private var lenders: [Int: Int] = [:]
    private var names: [String] = []
    private var numbers: [String: UInt16] = [:]
    /// The rows that name a group, by group; nothing before ``sortGroups()``.
    private var groupRows: [UInt32] = []
    /// Where each group's rows end in ``groupRows``.
    private var groupEnds: [Int] = []

    /// The kind of a row.
    package enum Kind: UInt8, Sendable {
        case file, executable, link
        /// Only in ``Manifest/directories``.
        case directory
    }

    /// A run of the arena.
    struct Text: Sendable {
        var offset: UInt32
        var length: UInt32
    }

    /// A row whose texts and blobs are in the table already.
    struct Pending {
        var path = Text(offset: 0, length: 0)
        var kind = Kind.file
        var size: UInt64 = 0
        var digest = SHA256Digest.zero
        var firstBlob: Int
        var firstText: Int
        var group = FileTable.noGroup
        var traits = FileTraits.none
    }

    static let noGroup = UInt16.max

    package init() {}

    /// Number of files and links.
    package var count: Int { kinds.count }

    package var indices: Range<Int> { 0..<kinds.count }

    /// Makes room for `count` rows and `pathBytes` bytes of paths.
    package mutating func reserve(count: Int, pathBytes: Int) {
        arena.reserveCapacity(pathBytes + count)
        pathOffsets.reserveCapacity(count)
        pathLengths.reserveCapacity(count)
        kinds.reserveCapacity(count)
        sizes.reserveCapacity(count)
        digests.reserveCapacity(count)
        blobStarts.reserveCapacity(count)
        blobs.reserveCapacity(count)
        textStarts.reserveCapacity(count)
        groupNumbers.reserveCapacity(count)
    }

    // MARK: Building

    /// Copies bytes into the arena, with a NUL behind; `nil` when 4 GiB are full.
    mutating func store(_ bytes: UnsafeBufferPointer<UInt8>) -> Text? {
        guard let offset = UInt32(exactly: arena.count), let length = UInt32(exactly: bytes.count) else { return nil }
        arena.append(contentsOf: bytes)
        arena.append(0)
        return Text(offset: offset, length: length)
    }

    /// The number of a group's name, given out at first use; `nil` past 65,535 names.
    mutating func groupNumber(_ name: String) -> UInt16? {
        if let number = numbers[name] { return number }
        guard let number = UInt16(exactly: names.count), number != Self.noGroup else { return nil }
        names.append(name)
        numbers[name] = number
        return number
    }

    /// Adds a row; `false`, with nothing changed, when a column is full or the path is above 65,535 bytes.
    mutating func append(_ row: Pending) -> Bool {
        guard let length = UInt16(exactly: row.path.length), let firstBlob = UInt32(exactly: row.firstBlob),
            let firstText = UInt32(exactly: row.firstText)
        else { return false }
        if row.traits != .none {
            traitColumn += repeatElement(.none, count: kinds.count - traitColumn.count)
            traitColumn.append(row.traits)
        }
        pathOffsets.append(row.path.offset)
        pathLengths.append(length)
        kinds.append(row.kind)
        sizes.append(row.size)
        digests.append(row.digest)
        blobStarts.append(firstBlob)
        textStarts.append(firstText)
        groupNumbers.append(row.group)
        return true
    }

    /// The same rows in another order: row *i* of the result is row `order[i]` of this table.
    func reordered(_ order: [UInt32]) -> FileTable {
        var result = FileTable()
        result.arena = arena
        result.blobDigests = blobDigests
        result.names = names
        result.numbers = numbers
        result.reserve(count: count, pathBytes: 0)
        result.blobs.reserveCapacity(blobs.count)
        result.texts.reserveCapacity(texts.count)
        if !traitColumn.isEmpty { result.traitColumn = order.map { traits(Int($0)) } }
        for source in order {
            let row = Int(source)
            if !userData.isEmpty, let text = userData[row] { result.userData[result.count] = text }
            if !checks.isEmpty, let check = checks[row] { result.checks[result.count] = check }
            if !learned.isEmpty, let check = learned[row] { result.learned[result.count] = check }
            result.deltaColumn.append(deltaColumn[row], row: result.count)
            result.pathOffsets.append(pathOffsets[row])
            result.pathLengths.append(pathLengths[row])
            result.kinds.append(kinds[row])
            result.sizes.append(sizes[row])
            result.digests.append(digests[row])
            result.groupNumbers.append(groupNumbers[row])
            result.blobStarts.append(UInt32(truncatingIfNeeded: result.blobs.count))
            result.blobs.append(contentsOf: blobs(row))
            result.textStarts.append(UInt32(truncatingIfNeeded: result.texts.count))
            result.texts.append(contentsOf: texts(of: row))
        }
        return result
    }

    // MARK: Reading

    package func kind(_ index: Int) -> Kind { kinds[index] }

    /// Length of the content in **bytes**; 0 for links.
    package func size(_ index: Int) -> UInt64 { sizes[index] }

    /// SHA-256 of the content; all zero bits for links.
    package func digest(_ index: Int) -> SHA256Digest { digests[index] }

    /// Whether a row's SHA-256 is that of the first bytes that came: whoever listed it gave none.
    package func isLearned(_ index: Int) -> Bool { learned[index] != nil }

    /// The traits of a row that are kept besides its content.
    ///
    /// Files that trees share are not writable, whatever mode their publisher gave them.
    package func traits(_ index: Int) -> FileTraits {
        guard index < traitColumn.count else { return .none }
        guard isShared, let mode = traitColumn[index].mode else { return traitColumn[index] }
        return FileTraits(mode: mode & ~0o222, modified: traitColumn[index].modified)
    }

    /// Whether modes, or times, of some rows are kept.
    package var keepsTraits: (modes: Bool, times: Bool) {
        (traitColumn.contains { $0.mode != nil }, traitColumn.contains { $0.modified != nil })
    }

    /// The blobs of a row, in file order; empty for links, empty files and files that have only URLs.
    package func blobs(_ index: Int) -> ArraySlice<Blob> {
        let index = lender(of: index)
        let end = index + 1 < blobStarts.count ? Int(blobStarts[index + 1]) : blobs.count
        return blobs[Int(blobStarts[index])..<end]
    }

    /// Lets rows without blobs use those of another row with the same content, so that the content is fetched once for
    /// both.
    mutating func shareBlobs(among rows: [Int]) {
        guard !blobs.isEmpty else { return }
        var loose: [SHA256Digest: [Int]] = [:]
        for row in rows where kinds[row] != .link && sizes[row] > 0 && blobs(row).isEmpty {
            loose[digests[row], default: []].append(row)
        }
        guard !loose.isEmpty else { return }
        for row in rows where !blobs(row).isEmpty {
            for other in loose[digests[row]] ?? [] where sizes[other] == sizes[row] { lenders[other] = row }
        }
    }

    /// The row whose blobs a row uses: itself nearly always.
    func lender(of row: Int) -> Int { lenders.isEmpty ? row : lenders[row] ?? row }

    /// The digest of a blob's raw bytes.
    package func digest(of blob: Blob, in row: Int) -> SHA256Digest {
        blob.digestIndex.map { blobDigests[Int($0)] } ?? digests[row]
    }

    mutating func completeDigests(_ full: (SHA256Digest) -> SHA256Digest?) {
        for row in indices where digests[row].isHead && kinds[row] != .link {
            digests[row] = full(digests[row]) ?? digests[row]
        }
        for index in blobDigests.indices where blobDigests[index].isHead {
            blobDigests[index] = full(blobDigests[index]) ?? blobDigests[index]
        }
    }

    /// URLs of the file alone, as written, best first.
    package func urls(_ index: Int) -> [String] { kinds[index] == .link ? [] : texts(of: index).map(string) }

    /// Where a link points, as written.
    package func linkTarget(_ index: Int) -> String? {
        kinds[index] == .link ? texts(of: index).first.map(string) : nil
    }

    /// A link's target in UTF-8, without a copy; `nil` for a file.
    package func withLinkTarget<R>(_ index: Int, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R? {
        guard kinds[index] == .link, let text = texts(of: index).first else { return nil }
        return arena.withUnsafeBufferPointer { body(text.bytes(in: $0)) }
    }

    /// The group the entry itself names.
    package func groupName(_ index: Int) -> String? {
        let number = groupNumbers[index]
        return number == Self.noGroup ? nil : names[Int(number)]
    }

    /// The number that ``groupNumbers`` has for a group, or `nil` when no entry names it.
    func number(ofGroup name: String) -> UInt16? { numbers[name] }

    /// The memory of the table, and of what a run notes of each row, in **bytes**, about.
    package var memoryBytes: Int {
        // Measured: a million small files, two million links, a million chunks.
        let further = max(0, blobs.count - kinds.count)
        return arena.count + kinds.count * 112 + blobs.count * 48 + further * 72 + blobDigests.count * 32 + texts.count
            * 8 + traitColumn.count * MemoryLayout<FileTraits>.stride + deltaColumn.all.count * Self.deltaBytes + names
            .count * 128
    }

    /// **Bytes** of memory of a delta, about.
    static let deltaBytes = 112

    /// Notes which rows name which group, so that many groups need not look at every row each.
    mutating func sortGroups() {
        guard !names.isEmpty else { return }
        var ends = [Int](repeating: 0, count: names.count)
        for number in groupNumbers where number != Self.noGroup { ends[Int(number)] += 1 }
        for group in ends.indices.dropFirst() { ends[group] += ends[group - 1] }
        var rows = [UInt32](repeating: 0, count: ends.last ?? 0)
        groupEnds = ends
        for row in indices.reversed() where groupNumbers[row] != Self.noGroup {
            let group = Int(groupNumbers[row])
            ends[group] -= 1
            rows[ends[group]] = UInt32(truncatingIfNeeded: row)
        }
        groupRows = rows
    }

    /// Calls `body` for every row that names a group, ascending.
    func forEachRow(ofGroup number: UInt16, _ body: (Int) -> Void) {
        let group = Int(number)
        guard groupEnds.indices.contains(group) else {
            for row in indices where groupNumbers[row] == number { body(row) }
            return
        }
        for row in groupRows[(group == 0 ? 0 : groupEnds[group - 1])..<groupEnds[group]] { body(Int(row)) }
    }

    /// **Bytes** of the paths of some rows together.
    func pathBytes(of rows: Range<Int>) -> Int { pathLengths[rows].reduce(0) { $0 + Int($1) } }

    /// Every name that an entry gives as its group, in order of first appearance.
    var impliedGroups: [String] { names }

    /// The path as text; built anew at each call.
    package func path(_ index: Int) -> String { withPath(index) { String(decoding: $0, as: UTF8.self) } }

    /// The path's bytes, valid during `body`; a NUL stands directly behind them.
    package func withPath<R, Failure: Error>(_ index: Int, _ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> R)
        throws(Failure) -> R
    { try arena.withUnsafeBufferPointer { arena throws(Failure) in try body(path(index, in: arena)) } }

    /// The path's bytes in the arena, for loops that hold the arena open.
    @inline(__always) func path(_ index: Int, in arena: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        let start = Int(pathOffsets[index])
        return UnsafeBufferPointer(rebasing: arena[start..<(start + Int(pathLengths[index]))])
    }

    /// The sum of all sizes, or `nil` past 64 bits.
    package var totalSize: UInt64? {
        var sum: UInt64 = 0
        for size in sizes {
            let (next, overflow) = sum.addingReportingOverflow(size)
            if overflow { return nil }
            sum = next
        }
        return sum
    }

    func texts(of index: Int) -> ArraySlice<Text> {
        let end = index + 1 < textStarts.count ? Int(textStarts[index + 1]) : texts.count
        return texts[Int(textStarts[index])..<end]
    }

    func string(_ text: Text) -> String {
        arena.withUnsafeBufferPointer { String(decoding: text.bytes(in: $0), as: UTF8.self) }
    }
}

extension FileTable {
    /// The row that has this path, or `nil`; the table stands in ``PathOrder``.
    ///
    /// - Complexity: O(log *n*).
    package func row(of path: UnsafeBufferPointer<UInt8>) -> Int? {
        let row = firstRow(notBefore: path)
        return row < count && withPath(row) { $0.elementsEqual(path) } ? row : nil
    }

    /// The rows that are the path itself or below it; all rows for the empty path.
    package func rows(below path: [UInt8]) -> Range<Int> {
        guard !path.isEmpty else { return indices }
        // `/` ranks lowest and NUL next, so everything below the directory stands before the path with a NUL.
        let start = path.withUnsafeBufferPointer(firstRow(notBefore:))
        let end = (path + [0]).withUnsafeBufferPointer(firstRow(notBefore:))
        return start..<max(start, end)
    }

    /// Whether some row is below this directory; the table stands in ``PathOrder``. An empty path is the root.
    func hasDirectory(_ directory: [UInt8]) -> Bool {
        if directory.isEmpty { return true }
        let prefix = directory + [0x2F]
        let row = prefix.withUnsafeBufferPointer(firstRow(notBefore:))
        return row < count && withPath(row) { $0.starts(with: prefix) }
    }

    /// The first row whose path does not stand before `path`, or ``count``.
    package func firstRow(notBefore path: UnsafeBufferPointer<UInt8>) -> Int {
        arena.withUnsafeBufferPointer { arena in
            indices.partitioningIndex { !PathOrder.precedes(self.path($0, in: arena), path) }
        }
    }
}

extension FileTable {
    /// Adds a blob's own digest; returns the index that ``Blob/digestIndex`` wants, or `nil` when full.
    package mutating func appendBlobDigest(_ digest: SHA256Digest) -> UInt32? {
        guard let index = UInt32(exactly: blobDigests.count) else { return nil }
        blobDigests.append(digest)
        return index
    }
}
