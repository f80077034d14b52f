import SyncContent
import SyncManifest
import SyncModel
import SyncSystem

/// What a shard leaves for the join, `.publish-shards/3-of-16.shard`: a line of JSON, and the manifest of what is its own.
///
/// Both are written at once, under a temporary name that is renamed. They are this user's, and nobody else may write to them: what
/// is joined is what shards have said.
struct ShardRecord {
    var shard: Shard
    var about: Source
    /// Of ``entries``.
    var report: PublishReport
    /// When the shard began; **nanoseconds** since 1970.
    var began: Int64
    /// Of the whole text of the manifest, whose parts are not read.
    var manifest: ManifestAssembly

    /// What a shard was made from.
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

    /// What another process has left; `nil` if there is nothing, or nothing whole.
    static func read(_ shard: Shard, from output: OutputDirectory) throws(PublishError) -> ShardRecord? {
        guard let file = try output.openOwn(.shards, name(shard)) else { return nil }
        let limit = ManifestLimits.standard.ownTextBytes + longestLine
        let path = output.display(.shards, name(shard))
        let bytes: [UInt8]
        do throws(FileError) { bytes = try readFile(file.raw, limit: limit, shown: path) } catch {
            guard error.code == .fileTooLarge || error.isRefusal else {
                throw .unread(path, error.step, code: error.code)
            }
            return nil
        }
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

    /// Writes one.
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
        let file = try output.makeTemporary(.shards)
        let bytes = line.bytes + [0x0A] + text
        if let code = bytes.withUnsafeBytes({ writeAll($0, to: file.descriptor.raw, at: 0) }) {
            throw .writing(file.shown, "write", code: code)
        }
        try output.place(file, as: name(shard))
    }

    /// What the join adds up.
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

extension SourceTree {
    /// SHA-256 of what every process sees that looks at the same source: paths, kinds, **bytes** and times of modification, what
    /// links lead to, and the permissions, where they are kept.
    func listingDigest() throws(PublishError) -> SHA256Digest {
        try digest { entry, numbers in
            numbers.append(entry.stamp.size)
            numbers.append(entry.kind == .link ? 0 : UInt64(bitPattern: entry.stamp.modified))
            numbers.append(kept.contains(.modes) ? UInt64(entry.permissions) : 0)
        }
    }

    /// The same of everything by which a changed file gives itself away on this machine.
    func seenDigest() throws(PublishError) -> SHA256Digest {
        try digest { entry, numbers in
            numbers.append(entry.stamp.size)
            numbers.append(UInt64(entry.permissions))
            numbers.append(entry.stamp.inode)
            numbers.append(UInt64(bitPattern: entry.stamp.modified))
            numbers.append(UInt64(bitPattern: entry.stamp.changed))
        }
    }

    /// When a file was last touched; **nanoseconds** since 1970.
    var lastChange: Int64 { entries.reduce(Int64.min) { max($0, $1.stamp.modified, $1.stamp.changed) } }

    private func digest(_ add: (Entry, inout [UInt64]) -> Void) throws(PublishError) -> SHA256Digest {
        try calling {
            var hasher = try SHA256Hasher()
            var buffer: [UInt8] = []
            var numbers: [UInt64] = []
            func put(_ bytes: some Collection<UInt8>) {
                withUnsafeBytes(of: UInt32(truncatingIfNeeded: bytes.count).littleEndian) { buffer += $0 }
                buffer += bytes
            }
            for index in entries.indices {
                let entry = entries[index]
                withPath(index) { put($0) }
                put(linkTargets[index] ?? [])
                numbers = [UInt64(entry.kind.rawValue)]
                add(entry, &numbers)
                for number in numbers { withUnsafeBytes(of: number.littleEndian) { buffer += $0 } }
                guard buffer.count >= 64 << 10 else { continue }
                try buffer.withUnsafeBytes { try hasher.update($0) }
                buffer.removeAll(keepingCapacity: true)
            }
            buffer.append(0)
            for directory in directories {
                put(directory.path)
                for number in [UInt64(directory.traits.mode ?? 0), UInt64(bitPattern: directory.traits.modified ?? 0)] {
                    withUnsafeBytes(of: number.littleEndian) { buffer += $0 }
                }
            }
            try buffer.withUnsafeBytes { try hasher.update($0) }
            return try hasher.finish()
        }
    }
}
