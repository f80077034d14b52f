import SyncContent
import SyncManifest
import SyncModel

/// The parts of a manifest, and where each is stored.
struct MadeParts {
    /// The pack of a new part is an index into ``packs``, that of another into the base's.
    var all: [(part: Manifest.Part, isNew: Bool)] = []
    /// Packs that hold new parts, and the **bytes** of each; 0 where the same pack existed already.
    var packs: [Manifest.Pack] = []
    var written: [UInt64] = []

    /// **Bytes** of parts that stay where they are, by the base's pack.
    var kept: [Int: UInt64] {
        var bytes: [Int: UInt64] = [:]
        for one in all where !one.isNew {
            bytes[Int(one.part.blob.pack), default: 0] += one.part.blob.storedLength
            guard let delta = one.part.delta else { continue }
            bytes[Int(delta.pack), default: 0] += delta.storedLength
        }
        return bytes
    }
}

/// Cuts the entries into parts and writes those that the base does not have, into packs of their own.
///
/// One part's text is in memory at a time. It is generated twice: to see whether the base has it, and to be written.
struct PartMaker: ~Copyable {
    private let entries: ManifestEntries
    /// The catalogue's packs, by number.
    private let packs: [SHA256Digest]
    private let base: BaseSet?
    /// Whether changed parts are additionally written as deltas.
    private let deltas: Bool
    /// Whether parts are cut finely, since they are sent somewhere.
    private let isFine: Bool
    private var hasher: SHA256Hasher
    private var compressor: ZstdCompressor

    /// A part whose digest is known, and the base's part with the same text.
    private typealias Draft = (rows: Range<Int>, digest: SHA256Digest, known: Int?)

    init(
        _ entries: ManifestEntries, packs: [SHA256Digest], _ base: BaseSet?, deltas: Bool, isAway: Bool
    ) throws(PublishError) {
        let hasher = try calling { try SHA256Hasher() }
        compressor = try calling { try ZstdCompressor(level: isAway ? ManifestFiles.levelAway : ManifestFiles.level) }
        self.hasher = hasher
        (self.entries, self.packs, self.base, self.deltas, isFine) = (entries, packs, base, deltas, isAway)
    }

    /// Makes all parts. `moves` gets the **bytes** that are needed of each of the base's packs, and says which are written anew.
    mutating func run(_ writer: PackWriter, moving moves: ([Int: UInt64]) -> Set<Int>) throws(PublishError) -> MadeParts
    {
        var drafts = try drafts()
        let moved = moves(live(drafts))
        for index in drafts.indices {
            guard let known = drafts[index].known, let part = base?.manifest.parts[known] else { continue }
            if moved.contains(Int(part.blob.pack)) { drafts[index].known = nil }
        }
        var made = MadeParts()
        for draft in drafts {
            if let known = draft.known, var part = base?.manifest.parts[known] {
                if let delta = part.delta, base?.usable[Int(delta.pack)] != true { part.delta = nil }
                made.all.append((part, false))
            } else {
                made.all.append((try write(draft, writer), true))
            }
        }
        // After all parts, so that readers that need only deltas, or none, need few requests.
        if let base, deltas {
            for index in made.all.indices where made.all[index].isNew {
                made.all[index].part.delta = try delta(of: drafts[index], made.all[index].part, base, writer)
            }
        }
        try writer.finish()
        (made.packs, made.written) = (writer.packs, writer.written)
        return made
    }

    /// Writes a part as a delta for readers that have the base's part; `nil` if that saves little.
    private mutating func delta(of draft: Draft, _ part: Manifest.Part, _ base: BaseSet, _ writer: PackWriter)
        throws(PublishError) -> Manifest.PartDelta?
    {
        let row = entries.tree.withPath(draft.rows.lowerBound) { base.manifest.files.firstRow(notBefore: $0) }
        var (index, end) = (-1, 0)
        repeat {
            index += 1
            guard index < base.manifest.parts.count else { return nil }
            end += base.manifest.parts[index].files
        } while end <= row
        let former = base.manifest.parts[index]
        guard former.digest != draft.digest,
            former.blob.rawLength + part.blob.rawLength <= Manifest.PartDelta.longestTexts,
            // A pack that cannot be read gives no text, and so no delta.
            let prefix = try? base.place.read(
                "part \(index)", former.blob, former.digest, base.manifest.packs[Int(former.blob.pack)])
        else { return nil }
        let most = Int(part.blob.storedLength) * 3 / 4
        let text = try text(of: draft.rows)
        let frame = try calling { try compressor.encode(text, behind: prefix, most: most) }
        guard let stored = frame else { return nil }
        let place = try writer.append(stored)
        return Manifest.PartDelta(
            pack: place.pack, offset: place.offset, storedLength: UInt64(stored.count), base: former.digest)
    }

    private func live(_ drafts: [Draft]) -> [Int: UInt64] {
        var bytes: [Int: UInt64] = [:]
        for known in drafts.compactMap(\.known) {
            guard let blob = base?.manifest.parts[known].blob else { continue }
            bytes[Int(blob.pack), default: 0] += blob.storedLength
        }
        return bytes
    }

    /// Where each part starts and ends, its digest, and whether the base has it in a usable pack.
    private mutating func drafts() throws(PublishError) -> [Draft] {
        var known: [SHA256Digest: Int] = [:]
        for (index, part) in (base?.manifest.parts ?? []).enumerated() where base?.usable[Int(part.blob.pack)] == true {
            known[part.digest] = index
        }
        var drafts: [Draft] = []
        for rows in borders() {
            let text = try text(of: rows)
            let digest = try calling { try text.withUnsafeBytes { try hasher.digest(of: $0) } }
            drafts.append((rows, digest, known[digest]))
        }
        return drafts
    }

    private func borders() -> [Range<Int>] {
        var cutter = isFine ? PartCutter(finelyFor: entries.tree.count) : PartCutter()
        var parts: [Range<Int>] = []
        var start = 0
        for index in entries.tree.entries.indices {
            let isBorder = entries.tree.withPath(index) { path in
                cutter.isBorder(before: path, weight: 110 + path.count + 100 * entries.ledger.blobs(index).count)
            }
            guard isBorder else { continue }
            parts.append(start..<index)
            start = index
        }
        if start < entries.tree.count { parts.append(start..<entries.tree.count) }
        return parts
    }

    private func text(of rows: Range<Int>) throws(PublishError) -> [UInt8] {
        let used = entries.packs(of: rows)
        var numbers: [UInt32: UInt32] = [:]
        for (index, pack) in used.enumerated() { numbers[pack] = UInt32(truncatingIfNeeded: index) }
        var writer = ManifestWriter(partWithPacks: used.map { packs[Int($0)] })
        for index in rows { try entries.write(index, to: &writer) { numbers[$0] } }
        writer.finish()
        var text: [UInt8] = []
        text.reserveCapacity(writer.pending)
        writer.drain { text.append(contentsOf: $0) }
        return text
    }

    private mutating func write(_ draft: Draft, _ writer: PackWriter) throws(PublishError) -> Manifest.Part {
        let text = try text(of: draft.rows)
        let frame = try calling { try compressor.encode(text, most: text.count) }
        let blob = try writer.append(frame, of: text)
        return Manifest.Part(blob: blob, digest: draft.digest, files: draft.rows.count)
    }
}

extension PublishRun {
    /// Whether the manifest's entries are split into parts.
    func isInParts(_ tree: SourceTree) -> Bool {
        let most =
            output.home == nil ? PublishOptions.mostEntriesOfOneText : PublishOptions.mostEntriesOfOneTextAway
        return options.isInParts ?? (tree.count > most)
    }

    /// Makes the parts and puts their packs in place.
    mutating func makeParts(_ entries: ManifestEntries, _ writer: PackWriter) throws(PublishError) -> MadeParts {
        let packs = (base?.packs ?? []).map(\.sha256) + writer.packs.map(\.sha256)
        var maker = try PartMaker(
            entries, packs: packs, base, deltas: options.deltas, isAway: output.home != nil)
        let (options, base, hasNews) = (options, base, writer.bytes > 0)
        let made = try maker.run(try PackWriter(output, packSize: options.packSize)) { live in
            guard options.repack || options.retain != nil && hasNews else { return [] }
            let usage = PackUsage(base, [], Ledger(count: 0), parts: live, packSize: options.packSize)
            return options.repack ? usage.worthRepacking : usage.mostlyUnused(atMost: .max)
        }
        report.parts = made.all.count
        report.partsWritten = made.all.count { $0.isNew }
        report.partBytes = made.all.reduce(0) { sum, one in
            sum + (one.isNew ? one.part.blob.storedLength + (one.part.delta?.storedLength ?? 0) : 0)
        }
        return made
    }
}
