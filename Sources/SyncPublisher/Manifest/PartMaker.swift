import SyncContent
import SyncManifest
import SyncModel

/// The parts of a manifest, and where each is stored.
struct MadeParts {
    /// The pack of a new part's own text is an index into ``packs``; the packs of all other texts are indexes into the
    /// base's.
    var all: [(part: Manifest.Part, isNew: Bool)] = []
    /// Packs that hold new parts, and the **bytes** of each; 0 where the same pack existed already.
    var packs: [Manifest.Pack] = []
    var written: [UInt64] = []

    /// **Bytes** of texts that stay where they are, by the base's pack.
    var kept: [Int: UInt64] { Self.bytes(all.flatMap { $0.isNew ? $0.part.from : $0.part.chain }) }

    /// **Bytes** of texts, each counted once, by pack.
    static func bytes(_ texts: [Manifest.OwnBlob]) -> [Int: UInt64] {
        var ranges: [Int: Set<Range<UInt64>>] = [:]
        for text in texts { ranges[Int(text.blob.pack), default: []].insert(text.blob.range) }
        return ranges.mapValues { $0.reduce(0) { $0.saturatingAdd($1.length) } }
    }
}

/// Cuts the entries into parts and writes those that the base does not have, into packs of their own.
///
/// A changed part is stored as its difference to the base's part, as long as readers that have neither need little more
/// for it. One part's text is in memory at a time. It is generated twice: to see whether the base has it, and to be
/// written.
struct PartMaker: ~Copyable {
    private let entries: ManifestEntries
    /// The catalogue's packs, by number.
    private let packs: [SHA256Digest]
    private let base: BaseSet?
    /// Whether changed parts are written as differences.
    private let deltas: Bool
    private var hasher: SHA256Hasher
    private var compressor: ZstdCompressor

    /// The rows and the digest of a part, the base's part with the same text, and the base's part that it can be made
    /// from.
    private typealias Draft = (rows: Range<Int>, digest: SHA256Digest, known: Manifest.Part?, former: Int?)

    /// Most packs of the base whose texts stay where they are: a reader without any text reads at least one range of
    /// each.
    private static let mostPacks = 16
    /// **Bytes** that a former text takes in the root, about.
    private static let bytesInRoot: UInt64 = 64

    init(
        _ entries: ManifestEntries, packs: [SHA256Digest], _ base: BaseSet?, deltas: Bool, isAway: Bool
    ) throws(PublishError) {
        let hasher = try calling { try SHA256Hasher() }
        compressor = try calling { try ZstdCompressor(level: isAway ? ManifestFiles.levelAway : ManifestFiles.level) }
        self.hasher = hasher
        (self.entries, self.packs, self.base, self.deltas) = (entries, packs, base, deltas)
    }

    /// Makes all parts.
    ///
    /// - Parameters:
    ///   - joins: Whether all texts are written anew, unless they are in one pack.
    ///   - tidies: Whether a pack is given up if more of it is unused than would have to be written anew.
    mutating func run(_ writer: PackWriter, joins: Bool, tidies: Bool) throws(PublishError) -> MadeParts {
        var drafts = try drafts()
        let moved = moved(drafts, joins: joins, tidies: tidies)
        func stays(_ part: Manifest.Part) -> Bool { part.chain.allSatisfy { !moved.contains(Int($0.blob.pack)) } }
        for index in drafts.indices {
            drafts[index].known = drafts[index].known.flatMap { stays($0) ? $0 : nil }
            if let base, let former = drafts[index].former, !stays(base.manifest.parts[former]) {
                drafts[index].former = nil
            }
        }
        try holdTexts(of: drafts)
        var made = MadeParts()
        for draft in drafts {
            if let part = draft.known {
                made.all.append((part, false))
            } else {
                made.all.append((try write(draft, writer), true))
            }
        }
        try writer.finish()
        (made.packs, made.written) = (writer.packs, writer.written)
        return made
    }

    /// The frame of a part, made with the base's text as its prefix; `nil` if it saves little, or readers that have
    /// neither would need much more.
    private mutating func difference(_ text: [UInt8], to former: Int) throws(PublishError) -> [UInt8]? {
        guard let base else { return nil }
        let chain = base.manifest.parts[former].chain
        let spent = chain.dropFirst().reduce(Self.bytesInRoot) {
            $0.saturatingAdd($1.blob.storedLength).saturatingAdd(Self.bytesInRoot)
        }
        let room = min(chain[0].blob.storedLength, UInt64(text.count)) / 2
        guard chain.count <= Manifest.Part.mostFormer, spent < room, let most = Int(exactly: room - spent),
            // If a part has lost most of its entries, little of its former text is worth reading.
            chain[0].blob.rawLength / 2 <= UInt64(text.count),
            UInt64(text.count).saturatingAdd(chain[chain.count - 1].blob.rawLength) <= Manifest.Part.longestTexts,
            // A pack that cannot be read gives no text, and so no difference.
            let prefix = try? base.place.text(ofPart: former, base.manifest.parts, base.manifest.packs),
            let frame = try calling({ try compressor.encode(text, behind: prefix, most: most) }),
            UInt64(text.count) / compressor.codec.highestRatio <= UInt64(frame.count)
        else { return nil }
        return frame
    }

    /// The packs of the base that are given up: parts with texts in them are stored whole.
    private func moved(_ drafts: [Draft], joins: Bool, tidies: Bool) -> Set<Int> {
        guard let base else { return [] }
        let parts = drafts.compactMap { $0.known ?? $0.former.map { base.manifest.parts[$0] } }
        let live = MadeParts.bytes(parts.flatMap(\.chain))
        if joins { return live.count > 1 ? Set(live.keys) : [] }
        // The **bytes** to be written anew if a pack is given up.
        var price: [Int: UInt64] = [:]
        for part in parts {
            for pack in Set(part.chain.map { Int($0.blob.pack) }) {
                price[pack] = price[pack, default: 0].saturatingAdd(part.chain[0].blob.storedLength)
            }
        }
        let cheapest = price.sorted { ($0.value, $0.key) < ($1.value, $1.key) }
        var moved = Set(cheapest.prefix(max(0, cheapest.count - Self.mostPacks)).map(\.key))
        if tidies {
            for (pack, bytes) in price where base.packs[pack].size - min(base.packs[pack].size, live[pack] ?? 0) > bytes
            {
                moved.insert(pack)
            }
        }
        return moved
    }

    /// Fetches the former texts of differences, where they are not on this machine: neighbours with one request.
    private func holdTexts(of drafts: [Draft]) throws(PublishError) {
        guard let base else { return }
        let texts = drafts.compactMap { $0.known == nil ? $0.former : nil }.flatMap { base.manifest.parts[$0].chain }
        try base.place.hold(texts, base.manifest.packs)
    }

    /// Where each part starts and ends, its digest, and what the base has of it in usable packs.
    private mutating func drafts() throws(PublishError) -> [Draft] {
        var known: [SHA256Digest: Manifest.Part] = [:]
        let parts = base?.manifest.parts ?? []
        func isUsable(_ index: Int) -> Bool {
            parts[index].chain.allSatisfy { base?.usable[Int($0.blob.pack)] == true }
        }
        for index in parts.indices where isUsable(index) {
            // The former texts are stored, too, so a text that comes back is known.
            let chain = parts[index].chain
            for (place, text) in chain.enumerated() {
                known[text.digest] = Manifest.Part(text: text, files: 0, from: Array(chain[..<place]))
            }
        }
        var drafts: [Draft] = []
        // The base's part at the path of the current one, by index, and the row behind its last entry.
        var (at, end) = (0, parts.first?.files ?? 0)
        for rows in borders() {
            let text = try text(of: rows)
            let digest = try calling { try text.withUnsafeBytes { try hasher.digest(of: $0) } }
            let row = base.map { base in
                entries.tree.withPath(rows.lowerBound) { base.manifest.files.firstRow(notBefore: $0) }
            }
            while let row, row >= end, at < parts.count {
                at += 1
                end += at < parts.count ? parts[at].files : 0
            }
            let former = deltas && known[digest] == nil && at < parts.count && isUsable(at) ? at : nil
            known[digest]?.files = rows.count
            drafts.append((rows, digest, known[digest], former))
        }
        return drafts
    }

    private func borders() -> [Range<Int>] {
        var cutter = PartCutter()
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
        if let former = draft.former, let frame = try difference(text, to: former) {
            let place = try writer.append(frame)
            let blob = Blob(
                pack: place.pack, codec: compressor.codec, offset: place.offset, storedLength: UInt64(frame.count),
                rawLength: UInt64(text.count))
            return Manifest.Part(
                text: Manifest.OwnBlob(blob: blob, digest: draft.digest), files: draft.rows.count,
                from: base?.manifest.parts[former].chain ?? [])
        }
        let frame = try calling { try compressor.encode(text, most: text.count) }
        let blob = try writer.append(frame, of: text)
        return Manifest.Part(text: Manifest.OwnBlob(blob: blob, digest: draft.digest), files: draft.rows.count)
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
        let made = try maker.run(
            try PackWriter(output, packSize: options.packSize), joins: options.repack,
            tidies: options.retain != nil && writer.bytes > 0)
        report.parts = made.all.count
        report.partsWritten = made.all.count { $0.isNew }
        report.partBytes = made.all.reduce(0) { sum, one in
            sum + (one.isNew ? one.part.text.blob.storedLength : 0)
        }
        return made
    }
}
