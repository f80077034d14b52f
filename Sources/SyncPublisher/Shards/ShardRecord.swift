import SyncContent
import SyncManifest
import SyncModel
import SyncSystem

/// The record that a shard leaves for the join, `.publish-shards/3-of-16.shard`: a line of JSON, and the manifest of
/// the shard's own entries.
///
/// Both are written at once, under a temporary name that is renamed. The file belongs to this user, and nobody else may
/// write to it: the join trusts it.
struct ShardRecord {
    var shard: Shard
    var about: Source
    /// The figures of the shard's own entries.
    var report: PublishReport
    /// When the shard began; **nanoseconds** since 1970.
    var began: Int64
    /// The shard's manifest, whose parts are not read.
    var manifest: ManifestAssembly

    /// The digests of what a shard was made from.
    struct Source: Equatable {
        /// Of all files of the source: their paths, kinds, **bytes** and times. Shards of one set have the same.
        var listing: SHA256Digest
        /// Of the options that shards must have in common.
        var settings: SHA256Digest
        /// Of the manifest whose packs are reused; zero for none.
        var base: SHA256Digest
        /// Of the files of this shard, as they looked to this machine.
        var seen: SHA256Digest
    }

    private static let format = "syncagent-shard/1"
    private static let longestLine = 64 << 10

    static func name(_ shard: Shard) -> String { "\(shard.name).shard" }

    /// The record that another process has left; `nil` if there is none, or none that is whole.
    static func read(_ shard: Shard, from output: OutputDirectory) throws(PublishError) -> ShardRecord? {
        let limit = ManifestLimits.standard.ownTextBytes + longestLine
        guard let bytes = try output.readOwn(.shards, name(shard), limit: limit) else { return nil }
        guard
            let end = bytes.prefix(longestLine).firstIndex(of: 0x0A),
            let line = bytes[..<end].withUnsafeBytes({ JSONParser.parse($0) }), line["format"]?.string == format,
            line["shard"]?.string == shard.text, let began = line["began"]?.integer
        else { return nil }
        func digest(_ name: String) -> SHA256Digest? { line[name]?.string.flatMap { SHA256Digest(hex: $0) } }
        let text = Array(bytes[(end + 1)...])
        guard let listing = digest("listing"), let settings = digest("settings"), let base = digest("base"),
            let seen = digest("seen"), let named = digest("manifest"), (try? sha256(text)) == named,
            let manifest = try? ManifestAssembly(text, digest: named)
        else { return nil }
        var report = PublishReport()
        report.project = manifest.project
        for (name, path) in numbers {
            if let number = line[name]?.integer, number >= 0 { report[keyPath: path] = Int(clamping: number) }
        }
        for (name, path) in byteCounts {
            if let number = line[name]?.integer, number >= 0 { report[keyPath: path] = UInt64(number) }
        }
        return ShardRecord(
            shard: shard, about: Source(listing: listing, settings: settings, base: base, seen: seen), report: report,
            began: began, manifest: manifest)
    }

    /// Writes the record of a shard.
    static func write(
        _ shard: Shard, _ about: Source, _ report: PublishReport, began: Int64, _ files: ManifestFiles,
        to output: OutputDirectory
    ) throws(PublishError) {
        var text: [UInt8] = []
        try files.forEachPiece(revision: 0, created: nil) { piece in text.append(contentsOf: piece) }
        let digest = try calling { try sha256(text) }
        let line = JSONLine.object { line in
            line.field("format", format)
            line.field("shard", shard.text)
            line.field("began", began)
            for (name, digest) in [
                ("listing", about.listing), ("settings", about.settings), ("base", about.base), ("seen", about.seen),
                ("manifest", digest),
            ] { line.field(name, digest.hex) }
            for (name, path) in numbers { line.field(name, report[keyPath: path]) }
            for (name, path) in byteCounts { line.field(name, Int64(clamping: report[keyPath: path])) }
        }
        try output.put(line.bytes + [0x0A] + text, name(shard), in: .shards, isOwn: true)
    }

    /// The figures that the join adds up.
    private static var numbers: [(String, WritableKeyPath<PublishReport, Int>)] {
        [
            ("files", \.files), ("links", \.links), ("directories", \.directories),
            ("packs_written", \.packsWritten), ("deltas", \.deltas), ("parts", \.parts),
            ("parts_written", \.partsWritten),
        ]
    }
    private static var byteCounts: [(String, WritableKeyPath<PublishReport, UInt64>)] {
        [
            ("raw", \.rawBytes), ("unique", \.uniqueBytes), ("stored", \.storedBytes), ("new", \.newBytes),
            ("delta", \.deltaBytes), ("saved", \.savedBytes), ("part", \.partBytes),
        ]
    }

    /// Adds the figures of another shard.
    static func add(_ other: PublishReport, to report: inout PublishReport) {
        for (_, path) in numbers { report[keyPath: path] = report[keyPath: path].saturatingAdd(other[keyPath: path]) }
        for (_, path) in byteCounts {
            report[keyPath: path] = report[keyPath: path].saturatingAdd(other[keyPath: path])
        }
    }
}

/// SHA-256 of a listing, which comes piece by piece: files, links and named directories, in path order.
struct ListingDigest: ~Copyable {
    private let isLocal: Bool
    private var hasher: SHA256Hasher
    private var buffer: [UInt8] = []
    /// The sum over all entries so far; the difference of two sums stands for the entries between them.
    private(set) var sum: UInt64 = 0

    /// - Parameter isLocal: Whether every fact counts that changes when a file is changed on this machine. If not, those
    ///   count that every process sees of the same source: path, kind, **bytes** and time of modification, the target
    ///   of a link, and the permissions, where they are kept.
    init(isLocal: Bool = false) throws(PublishError) {
        hasher = try calling { try SHA256Hasher() }
        self.isLocal = isLocal
    }

    /// Takes the next piece.
    ///
    /// - Parameter before: Called before each entry is added, once all entries before it have been.
    mutating func add(
        _ tree: SourceTree, before: (_ index: Int, _ sum: UInt64) throws(PublishError) -> Void = { _, _ in }
    ) throws(PublishError) {
        var directories = tree.directories[...]
        for index in tree.entries.indices {
            while let directory = directories.first,
                directory.path.withUnsafeBufferPointer({ path in tree.withPath(index) { PathOrder.precedes(path, $0) } }
                )
            { try add(directories.removeFirst()) }
            try before(index, sum)
            try add(tree, index)
        }
        for directory in directories { try add(directory) }
    }

    /// The digest of all entries that were added.
    consuming func finish() throws(PublishError) -> SHA256Digest {
        try flush()
        return try calling { try hasher.finish() }
    }

    private mutating func add(_ tree: SourceTree, _ index: Int) throws(PublishError) {
        let entry = tree.entries[index]
        let start = buffer.count
        tree.withPath(index) { put($0) }
        put(tree.linkTargets[index] ?? [])
        put(UInt64(entry.kind.rawValue))
        put(entry.stamp.size)
        if isLocal {
            put(UInt64(entry.permissions))
            put(entry.stamp.inode)
            put(UInt64(bitPattern: entry.stamp.modified))
            put(UInt64(bitPattern: entry.stamp.changed))
        } else {
            put(entry.kind == .link ? 0 : UInt64(bitPattern: entry.stamp.modified))
            put(tree.kept.contains(.modes) ? UInt64(entry.permissions) : 0)
        }
        try end(from: start)
    }

    private mutating func add(_ directory: (path: [UInt8], traits: FileTraits)) throws(PublishError) {
        let start = buffer.count
        put(directory.path)
        put(UInt64.max)
        put(UInt64(directory.traits.mode ?? 0))
        put(UInt64(bitPattern: directory.traits.modified ?? 0))
        try end(from: start)
    }

    private mutating func put(_ bytes: some Collection<UInt8>) {
        withUnsafeBytes(of: UInt32(truncatingIfNeeded: bytes.count).littleEndian) { buffer += $0 }
        buffer += bytes
    }

    private mutating func put(_ number: UInt64) { withUnsafeBytes(of: number.littleEndian) { buffer += $0 } }

    private mutating func end(from start: Int) throws(PublishError) {
        sum &+= buffer.withUnsafeBufferPointer { PartCutter.hash(UnsafeBufferPointer(rebasing: $0[start...])) }
        if buffer.count >= 64 << 10 { try flush() }
    }

    private mutating func flush() throws(PublishError) {
        try calling { try buffer.withUnsafeBytes { try hasher.update($0) } }
        buffer.removeAll(keepingCapacity: true)
    }
}
