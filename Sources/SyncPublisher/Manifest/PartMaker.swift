import SyncContent
import SyncManifest
import SyncModel

/// Cuts the entries into parts and writes those that the base does not have, into packs of their own.
///
/// A changed part is stored as its difference to the base's part, as long as readers that have neither need little more
/// for it. One part's text is in memory at a time. It is generated twice: to see whether the base has it, and to be
/// written. In a store each part has an outline as well, behind all texts, so that no reader of texts reads it: the
/// frames of outlines wait in memory until then, about **20 bytes** for each file and blob.
struct PartMaker: ~Copyable {
    private let entries: ManifestEntries
    /// The catalogue's packs, by number.
    private let packs: [SHA256Digest]
    private let base: BaseSet?
    /// Whether changed parts are written as differences.
    private let deltas: Bool
    /// Whether the parts are sent to a store, where they have outlines.
    private let isAway: Bool
    private var hasher: SHA256Hasher
    private var compressor: ZstdCompressor
    /// The packs of the base that are given up: parts with texts in them are stored whole, and outlines, too.
    private var moved: Set<Int> = []

    /// The rows and the digest of a part, the base's part with the same text, and the base's part that it can be made
    /// from.
    private typealias Draft = (rows: Range<Int>, digest: SHA256Digest, known: Manifest.Part?, former: Int?)

    /// Most packs of the base whose texts stay where they are: a reader without any text reads at least one range of
    /// each.
    private static let mostPacks = 16
    /// **Bytes** that a former text takes in the root, about.
    private static let bytesInRoot: UInt64 = 64
    /// Differences may have one in so many of the first text's stored bytes. Every publish to the store reads and sends
    /// those of outlines.
    private static let (shareOfText, shareOfOutline): (UInt64, UInt64) = (2, 8)

    /// A text as it is stored, behind those that it is made from.
    private typealias Encoded = (
        former: [Manifest.OwnBlob], bytes: [UInt8], codec: Codec, rawLength: Int, digest: SHA256Digest
    )

    init(
        _ entries: ManifestEntries, packs: [SHA256Digest], _ base: BaseSet?, deltas: Bool, isAway: Bool
    ) throws(PublishError) {
        let hasher = try calling { try SHA256Hasher() }
        compressor = try calling { try ZstdCompressor(level: isAway ? ManifestFiles.levelAway : ManifestFiles.level) }
        self.hasher = hasher
        (self.entries, self.packs, self.base, self.deltas, self.isAway) = (entries, packs, base, deltas, isAway)
    }

    /// Makes all parts.
    ///
    /// - Parameters:
    ///   - joins: Whether all texts are written anew, unless they are in one pack.
    ///   - tidies: Whether a pack is given up if more of it is unused than would have to be written anew.
    /// - Returns: The parts, and whether the text of each is new. Packs count through the base's, and then the writer's.
    mutating func run(_ writer: PackWriter, joins: Bool, tidies: Bool) throws(PublishError)
        -> [(part: Manifest.Part, isNew: Bool)]
    {
        var drafts = try drafts()
        let moved = chooseMoved(drafts, joins: joins, tidies: tidies)
        self.moved = moved
        func stays(_ texts: [Manifest.OwnBlob]) -> Bool { texts.allSatisfy { !moved.contains(Int($0.blob.pack)) } }
        for index in drafts.indices {
            if let known = drafts[index].known {
                drafts[index].known = stays(known.chain) ? known : nil
                if !stays(known.outline) { drafts[index].known?.outline = [] }
            }
            if let former = former(drafts[index]), !stays(former.chain) { drafts[index].former = nil }
        }
        try holdTexts(of: drafts)
        var made: [(part: Manifest.Part, isNew: Bool)] = []
        var outlines: [(part: Int, outline: Encoded)] = []
        for draft in drafts {
            let needsOutline = isAway && draft.known?.outline.isEmpty ?? true
            let text = needsOutline || draft.known == nil ? try text(of: draft.rows) : []
            if needsOutline, let outline = try outline(draft, of: text) { outlines.append((made.count, outline)) }
            if let part = draft.known {
                made.append((part, false))
            } else {
                made.append((try write(draft, text, writer), true))
            }
        }
        for (index, outline) in outlines { made[index].part.outline = try store(outline, writer) }
        try writer.finish()
        return made
    }

    /// **Bytes** of texts, each counted once, by pack.
    static func bytes(_ texts: [Manifest.OwnBlob]) -> [Int: UInt64] {
        var ranges: [Int: Set<Range<UInt64>>] = [:]
        for text in texts { ranges[Int(text.blob.pack), default: []].insert(text.blob.range) }
        return ranges.mapValues { $0.reduce(0) { $0.saturatingAdd($1.length) } }
    }

    /// The frame of a text, made with the last of the base's texts as its prefix; `nil` if it saves little, or readers
    /// that have neither would need much more.
    private mutating func difference(
        _ text: [UInt8], to chain: [Manifest.OwnBlob], share: UInt64, _ prefix: () -> [UInt8]?
    ) throws(PublishError) -> [UInt8]? {
        guard !chain.isEmpty else { return nil }
        let spent = chain.dropFirst().reduce(Self.bytesInRoot) {
            $0.saturatingAdd($1.blob.storedLength).saturatingAdd(Self.bytesInRoot)
        }
        let room = min(chain[0].blob.storedLength, UInt64(text.count)) / share
        guard chain.count <= Manifest.Part.mostFormer, spent < room, let most = Int(exactly: room - spent),
            // If a part has lost most of its entries, little of its former text is worth reading.
            chain[0].blob.rawLength / 2 <= UInt64(text.count),
            UInt64(text.count).saturatingAdd(chain[chain.count - 1].blob.rawLength) <= Manifest.Part.longestTexts,
            // A pack that cannot be read gives no text, and so no difference.
            let prefix = prefix(),
            let frame = try calling({ try compressor.encode(text, behind: prefix, most: most) }),
            UInt64(text.count) / compressor.codec.highestRatio <= UInt64(frame.count)
        else { return nil }
        return frame
    }

    /// The base's part that a part can be made from; without its outline where that cannot be used.
    private func former(_ draft: Draft) -> Manifest.Part? {
        guard let base, let former = draft.former else { return nil }
        var part = base.manifest.parts[former]
        let isUsable = part.outline.allSatisfy {
            base.usable[Int($0.blob.pack)] && !moved.contains(Int($0.blob.pack))
        }
        if !isAway || !isUsable { part.outline = [] }
        return part
    }

    private func chooseMoved(_ drafts: [Draft], joins: Bool, tidies: Bool) -> Set<Int> {
        guard let base else { return [] }
        let parts = drafts.compactMap { $0.known ?? former($0) }
        let live = Self.bytes(parts.flatMap(\.all))
        if joins { return live.count > 1 ? Set(live.keys) : [] }
        // The **bytes** to be written anew if a pack is given up.
        var price: [Int: UInt64] = [:]
        for part in parts {
            for texts in [part.chain, part.outline] {
                for pack in Set(texts.map { Int($0.blob.pack) }) {
                    price[pack] = price[pack, default: 0].saturatingAdd(texts[0].blob.storedLength)
                }
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
        let parts = drafts.compactMap { $0.known == nil ? former($0) : nil }
        try base.place.hold(
            parts.flatMap { (base.isOutlined ? [] : $0.chain) + $0.outline.prefix(1) }, base.manifest.packs)
    }

    /// Where each part starts and ends, its digest, and what the base has of it in usable packs.
    private mutating func drafts() throws(PublishError) -> [Draft] {
        var known: [SHA256Digest: Manifest.Part] = [:]
        let parts = base?.manifest.parts ?? []
        func isUsable(_ texts: [Manifest.OwnBlob]) -> Bool {
            texts.allSatisfy { base?.usable[Int($0.blob.pack)] == true }
        }
        for (index, part) in parts.enumerated() where isUsable(part.chain) {
            // The former texts are stored, too, so a text that comes back is known.
            for (place, text) in part.chain.enumerated() {
                let isLast = place == part.from.count
                let isDamaged = base?.damagedOutlines.contains(index) == true
                let hasOutline = isAway && isLast && isUsable(part.outline) && !isDamaged
                known[text.digest] = Manifest.Part(
                    text: text, files: 0, from: Array(part.from.prefix(place)),
                    outline: hasOutline ? part.outline : [])
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
            let former = deltas && known[digest] == nil && at < parts.count && isUsable(parts[at].chain) ? at : nil
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

    private func text(of rows: Range<Int>, isOutline: Bool = false) throws(PublishError) -> [UInt8] {
        let used = entries.packs(of: rows)
        var numbers: [UInt32: UInt32] = [:]
        for (index, pack) in used.enumerated() { numbers[pack] = UInt32(truncatingIfNeeded: index) }
        var writer = ManifestWriter(partWithPacks: used.map { packs[Int($0)] }, isOutline: isOutline)
        for index in rows { try entries.write(index, to: &writer) { numbers[$0] } }
        writer.finish()
        var text: [UInt8] = []
        text.reserveCapacity(writer.pending)
        writer.drain { text.append(contentsOf: $0) }
        return text
    }

    private mutating func write(_ draft: Draft, _ text: [UInt8], _ writer: PackWriter) throws(PublishError)
        -> Manifest.Part
    {
        let base = base
        let made = try encoded(text, draft.digest, behind: former(draft)?.chain ?? [], share: Self.shareOfText) {
            draft.former.flatMap { base?.prefix(ofPart: $0) }
        }
        let chain = try store(made, writer)
        return Manifest.Part(text: chain[chain.count - 1], files: draft.rows.count, from: chain.dropLast())
    }

    /// The outline of a part: whole, or as its difference to one that is; `nil` if it would not give the part's text.
    private mutating func outline(_ draft: Draft, of text: [UInt8]) throws(PublishError) -> Encoded? {
        let base = base
        let outline = try self.text(of: draft.rows, isOutline: true)
        let length = UInt64(text.count)
        let made = PartOutline.text(of: outline, length: length, unknown: PartOutline.noText) { head, position in
            let digest = SHA256Digest(hex: text.dropFirst(position).prefix(2 * SHA256Digest.byteCount))
            return digest?.head == head ? digest : nil
        }
        guard let made, made.isWhole, made.bytes == text, !text.contains(PartOutline.noText) else { return nil }
        let former = Array(former(draft)?.outline.prefix(1) ?? [])
        let digest = try calling { try sha256(outline) }
        return try encoded(outline, digest, behind: former, share: Self.shareOfOutline) {
            try? base?.place.text("an outline", former, base?.manifest.packs ?? [])
        }
    }

    /// A text as its difference to the last of the base's texts, or whole.
    private mutating func encoded(
        _ text: [UInt8], _ digest: SHA256Digest, behind former: [Manifest.OwnBlob], share: UInt64,
        _ prefix: () -> [UInt8]?
    ) throws(PublishError) -> Encoded {
        if let frame = try difference(text, to: former, share: share, prefix) {
            return (former, frame, compressor.codec, text.count, digest)
        }
        let frame = try calling { try compressor.encode(text, most: text.count) }
        return ([], frame ?? text, frame == nil ? .identity : compressor.codec, text.count, digest)
    }

    /// Writes a text; returns those that it is made from, and the text itself.
    private func store(_ made: Encoded, _ writer: PackWriter) throws(PublishError) -> [Manifest.OwnBlob] {
        let place = try writer.append(made.bytes)
        let blob = Blob(
            pack: place.pack, codec: made.codec, offset: place.offset, storedLength: UInt64(made.bytes.count),
            rawLength: UInt64(made.rawLength))
        return made.former + [Manifest.OwnBlob(blob: blob, digest: made.digest)]
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
    ///
    /// - Parameter content: The packs of the files.
    /// - Returns: The parts, whose packs count through the base's and then the writer's.
    mutating func makeParts(_ entries: ManifestEntries, _ content: PackWriter) throws(PublishError) -> (
        all: [Manifest.Part], writer: PackWriter
    ) {
        let packs = (base?.packs ?? []).map(\.sha256) + content.packs.map(\.sha256)
        let ofBase = base?.packs.count ?? 0
        let writer = try PackWriter(output, packSize: options.packSize, firstPack: ofBase)
        var maker = try PartMaker(
            entries, packs: packs, base, deltas: options.deltas, isAway: output.home != nil)
        let made = try maker.run(
            writer, joins: options.repack, tidies: options.retain != nil && content.bytes > 0)
        report.parts = made.count
        report.partsWritten = made.count { $0.isNew }
        report.partBytes = made.flatMap(\.part.all).reduce(0) { sum, text in
            sum + (Int(text.blob.pack) < ofBase ? 0 : text.blob.storedLength)
        }
        return (made.map(\.part), writer)
    }
}
