package import SyncModel

/// What will be fetched, in which requests: a pure value, printable and comparable, made before anything moves.
package struct Plan: Sendable {
    /// One request each: parts of packs in pack order, then loose files, largest first.
    package var spans: [Span] = []
    /// Blobs to cut out of the spans, in pack order; spans point here.
    package var slots: [Slot] = []
    /// Where blobs go; slots point here.
    package var targets: [Target] = []
    /// Rows fetched by URLs of their own, largest first; one of those with the same content.
    package var loose: [Int] = []
    /// Wanted rows that have neither blobs nor content: empty files.
    package var empty: [Int] = []
    /// Stored **bytes** wanted from packs.
    package var packBytes: UInt64 = 0
    /// **Bytes** wanted from loose URLs.
    package var looseBytes: UInt64 = 0
    /// **Bytes** between blobs that are read for nothing.
    package var gapBytes: UInt64 = 0
    /// Those of ``packBytes`` that are deltas.
    package var deltaBytes: UInt64 = 0
    /// Files that are wanted.
    package var files = 0

    package init() {}

    /// One request for a part of a pack, or for a loose file or the rest of one.
    package struct Span: Sendable, Equatable {
        package var source: Source
        /// **Bytes** of the object.
        package var range: Range<UInt64>
        /// Indices into ``Plan/slots``, ascending in the object, none overlapping.
        package var slots: Range<Int>
    }

    /// The object a span is of.
    package enum Source: Sendable, Equatable {
        /// Index into ``Manifest/packs``.
        case pack(Int)
        /// Row of the file table, fetched by its own URLs.
        case loose(row: Int)
    }

    /// HTTP requests without redirects and retries.
    package var requestCount: Int { spans.count }

    /// How many more requests one for each file would take.
    package var requestsAvoided: Int { max(0, files - empty.count - requestCount) }

    /// **Bytes** that will cross the network.
    package var fetchBytes: UInt64 { packBytes &+ gapBytes &+ looseBytes }
}

/// Plans the requests for rows whose content is missing.
///
/// - Parameters:
///   - wanted: Rows of `manifest.files`; links are ignored.
///   - skipping: Whether a blob of a large file is here already, by row and position in the row.
///   - delta: The index of a delta that can be used for a blob, by row and position in the row; it is chosen when it is
///     not longer than the blob.
///   - looseOnly: Rows to fetch by their URLs although packs have them.
///   - gaps: The missing **bytes** of a loose file that an earlier run has left partial; `nil` for any other.
/// - Complexity: O(*n* log *n*) for *n* wanted blobs.
package func makePlan(
    _ manifest: Manifest, wanted: [Int], rule: CoalescingRule, looseOnly: Set<Int> = [],
    gaps: (_ row: Int) -> [Range<UInt64>]? = { _ in nil },
    skipping: (_ row: Int, _ blob: Int) -> Bool = { _, _ in false },
    delta: (_ row: Int, _ blob: Int) -> Int? = { _, _ in nil }
) -> Plan {
    var plan = Plan()
    plan.slots.reserveCapacity(wanted.count)
    plan.targets.reserveCapacity(wanted.count)
    for row in wanted where manifest.files.kind(row) != .link {
        plan.files += 1
        let blobs = manifest.files.blobs(row)
        if manifest.files.size(row) == 0 {
            plan.empty.append(row)
        } else if blobs.isEmpty || looseOnly.contains(row) {
            plan.loose.append(row)
            plan.looseBytes = plan.looseBytes.saturatingAdd(manifest.files.size(row))
        } else {
            var fileOffset: UInt64 = 0
            for (position, blob) in blobs.enumerated() {
                if !skipping(row, position) {
                    let longest = blob.storedLength &+ Delta.slack(blob.storedLength)
                    let short = delta(row, position).flatMap {
                        manifest.files.delta(at: $0).storedLength <= longest ? $0 : nil
                    }
                    let target = Plan.Target(
                        row: row, blob: position, fileOffset: fileOffset, isWhole: blobs.count == 1)
                    plan.add(blob, delta: short, of: manifest, for: target)
                }
                // At most the length of the file, as has been checked.
                fileOffset = fileOffset.saturatingAdd(blob.rawLength)
            }
        }
    }
    plan.loose.sort { (manifest.files.size($0), $1) > (manifest.files.size($1), $0) }
    plan.mergeSlots(of: manifest)
    plan.cutSpans(rule)
    addLoose(of: manifest, gaps: gaps, to: &plan)
    return plan
}

/// Adds one request for each content, which serves all rows that have it. Each gap of a partial download is a request
/// of its own.
private func addLoose(of manifest: Manifest, gaps: (_ row: Int) -> [Range<UInt64>]?, to plan: inout Plan) {
    var places: [SHA256Digest: Int] = [:]
    var requests: [(row: Int, gaps: [Range<UInt64>]?, twins: [Int])] = []
    for row in plan.loose {
        let (size, digest) = (manifest.files.size(row), manifest.files.digest(row))
        if let gaps = gaps(row) {
            let missing = gaps.reduce(0) { $0 &+ $1.length }
            plan.looseBytes = plan.looseBytes &- (size - min(size, missing))
            requests.append((row, gaps, []))
        } else if let place = places[digest], manifest.files.size(requests[place].row) == size {
            requests[place].twins.append(row)
            plan.looseBytes = plan.looseBytes &- size
        } else {
            places[digest] = requests.count
            requests.append((row, nil, []))
        }
    }
    plan.loose = requests.map(\.row)
    for (row, gaps, twins) in requests {
        for range in gaps ?? [0..<manifest.files.size(row)] {
            let firstTarget = plan.targets.count
            // The first row's URLs are asked.
            for row in [row] + twins {
                plan.targets.append(
                    Plan.Target(row: row, blob: 0, fileOffset: range.lowerBound, isWhole: true, isGap: gaps != nil))
            }
            let (slot, targets) = (plan.slots.count, firstTarget..<plan.targets.count)
            plan.slots.append(Plan.Slot(range: range, rawLength: range.length, codec: .identity, targets: targets))
            plan.spans.append(Plan.Span(source: .loose(row: row), range: range, slots: slot..<(slot + 1)))
        }
    }
}

// The slots: at first one for each wanted blob with its target, in the order of the rows.
extension Plan {
    fileprivate mutating func add(_ blob: Blob, delta: Int?, of manifest: Manifest, for target: Target) {
        let (short, place) = (delta.map { manifest.files.delta(at: $0) }, targets.count)
        targets.append(target)
        slots.append(
            Slot(
                pack: Int(short?.pack ?? blob.pack), range: short?.range ?? blob.range, rawLength: blob.rawLength,
                codec: short == nil ? blob.codec : .zstd, targets: place..<(place + 1), delta: delta))
    }

    /// Puts the slots in the order of the packs, and makes one of those with the same blob. It has all their targets.
    fileprivate mutating func mergeSlots(of manifest: Manifest) {
        let wanted = targets
        slots.sort { $0.precedes($1, targets: wanted) }
        targets = []
        targets.reserveCapacity(wanted.count + loose.count)
        func digest(_ target: Target) -> SHA256Digest {
            let blobs = manifest.files.blobs(target.row)
            return manifest.files.digest(of: blobs[blobs.startIndex + target.blob], in: target.row)
        }
        var count = 0
        for index in slots.indices {
            var slot = slots[index]
            let (target, place) = (wanted[slot.targets.lowerBound], targets.count)
            targets.append(target)
            if count > 0, slot.hasBytes(of: slots[count - 1]) {
                let first = slots[count - 1].targets.lowerBound
                if digest(target) == digest(targets[first]) {
                    slots[count - 1].targets = first..<(place + 1)
                    continue
                }
            }
            slot.targets = place..<(place + 1)
            slots[count] = slot
            count += 1
            packBytes = packBytes &+ slot.range.length
            if slot.delta != nil { deltaBytes = deltaBytes &+ slot.range.length }
        }
        // The plan is kept for as long as its bytes are fetched.
        if count < slots.count / 2 { slots = Array(slots[..<count]) } else { slots.removeLast(slots.count - count) }
    }

    /// Makes the requests for the slots, pack by pack.
    fileprivate mutating func cutSpans(_ rule: CoalescingRule) {
        var start = 0
        while start < slots.count {
            let pack = slots[start].pack
            let end = slots[start...].firstIndex { $0.pack != pack } ?? slots.count
            for span in coalesce(slots[start..<end].map(\.range), rule: rule) {
                let members = (start + span.members.lowerBound)..<(start + span.members.upperBound)
                spans.append(Span(source: .pack(pack ?? 0), range: span.range, slots: members))
                gapBytes = gapBytes &+ span.waste
            }
            start = end
        }
    }
}

extension Plan {
    /// One stored blob and the places of its content, in **40 bytes**: a plan of a million files has a million.
    package struct Slot: Sendable, Equatable {
        private var offset: UInt64
        private var storedLength: UInt64
        /// **Bytes** after decoding.
        package let rawLength: UInt64
        private var firstTarget: UInt32
        private var targetCount: UInt32
        private var deltaNumber: UInt32
        /// The number of the pack, and in the lowest two bits the codec.
        private var place: UInt32

        private static let noDelta = UInt32.max
        private static let noPack = UInt32.max >> 2

        /// Makes a slot. Targets and deltas are counted with 32 bits, as rows and blobs of a manifest are; packs with
        /// 30, of which a manifest's limits need 20.
        ///
        /// - Parameter pack: Index into ``Manifest/packs``; `nil` for a loose file.
        package init(
            pack: Int? = nil, range: Range<UInt64>, rawLength: UInt64, codec: Codec, targets: Range<Int>,
            delta: Int? = nil
        ) {
            (offset, storedLength) = (range.lowerBound, range.length)
            self.rawLength = rawLength
            (firstTarget, targetCount) = (UInt32(clamping: targets.lowerBound), UInt32(clamping: targets.count))
            deltaNumber = delta.map { UInt32(clamping: $0) } ?? Self.noDelta
            place = (pack.map { min(UInt32(clamping: $0), Self.noPack - 1) } ?? Self.noPack) << 2
            place |= UInt32(codec.rawValue)
        }

        /// Index into ``Manifest/packs``; `nil` for a loose file.
        package var pack: Int? { place >> 2 == Self.noPack ? nil : Int(place >> 2) }

        package var codec: Codec { Codec(rawValue: UInt8(place & 3)) ?? .identity }

        /// **Bytes** of the object.
        package var range: Range<UInt64> { offset..<(offset + storedLength) }

        /// Indices into ``Plan/targets``.
        package var targets: Range<Int> {
            get { Int(firstTarget)..<(Int(firstTarget) + Int(targetCount)) }
            set {
                (firstTarget, targetCount) = (UInt32(clamping: newValue.lowerBound), UInt32(clamping: newValue.count))
            }
        }

        /// Index of the delta these bytes are, see ``FileTable/delta(at:)``; `nil` for the blob itself.
        package var delta: Int? { deltaNumber == Self.noDelta ? nil : Int(deltaNumber) }

        /// The order of the bytes in the packs; of the same bytes, that of the rows.
        fileprivate func precedes(_ other: Slot, targets: [Target]) -> Bool {
            let (own, others) = (
                (place >> 2, offset, storedLength), (other.place >> 2, other.offset, other.storedLength)
            )
            if own != others { return own < others }
            let (target, second) = (targets[Int(firstTarget)], targets[Int(other.firstTarget)])
            return (target.row, target.fileOffset) < (second.row, second.fileOffset)
        }

        /// Whether another one has the same stored bytes, decoded the same way.
        fileprivate func hasBytes(of other: Slot) -> Bool {
            (place, offset, storedLength, rawLength) == (
                other.place, other.offset, other.storedLength, other.rawLength
            ) && (delta == nil) == (other.delta == nil)
        }
    }

    /// One place a blob goes to, in **16 bytes**.
    package struct Target: Sendable, Equatable {
        /// Position of the blob's first raw **byte** in the file.
        package var fileOffset: UInt64
        private var rowNumber: UInt32
        /// The blob's position, and in the highest bits whether it is whole and whether it is a gap.
        private var place: UInt32

        private static let whole: UInt32 = 1 << 31
        private static let gap: UInt32 = 1 << 30

        /// Makes a target; blobs are counted with 30 bits, of which a manifest's limits need 25.
        package init(row: Int, blob: Int, fileOffset: UInt64, isWhole: Bool, isGap: Bool = false) {
            self.fileOffset = fileOffset
            rowNumber = UInt32(clamping: row)
            place = min(UInt32(clamping: blob), Self.gap - 1)
            place |= (isWhole ? Self.whole : 0) | (isGap ? Self.gap : 0)
        }

        /// Row of the manifest's file table.
        package var row: Int { Int(rowNumber) }

        /// Position of the blob in the row.
        package var blob: Int { Int(place & (Self.gap - 1)) }

        /// Whether the file is stored as one piece.
        package var isWhole: Bool { place & Self.whole != 0 }

        /// Whether the rest of the file is here already, or comes separately.
        package var isGap: Bool { place & Self.gap != 0 }

        /// Whether the blob is all of the file: not one of several, nor a gap of one.
        package var isStandalone: Bool { isWhole && !isGap }
    }

    /// SHA-256 of a slot's raw bytes; slots do not keep it.
    package func digest(of slot: Slot, in files: FileTable) -> SHA256Digest {
        let target = targets[slot.targets.lowerBound]
        let blobs = files.blobs(target.row)
        guard !target.isStandalone, !blobs.isEmpty else { return files.digest(target.row) }
        return files.digest(of: blobs[blobs.startIndex + target.blob], in: target.row)
    }
}

extension Plan {
    /// Fewest **bytes** worth a request of their own, when they are not at the start of a span.
    private static let worthCutting: UInt64 = 32 << 10

    /// Leaves out the bytes that an interrupted run has left of partial blobs.
    ///
    /// A span that begins with such a blob begins behind those bytes; any other span is cut in two there.
    ///
    /// - Parameter kept: The number of leading **bytes** of a slot that are here.
    /// - Returns: The slots whose first bytes will not be asked for.
    package mutating func leaveOut(_ kept: (_ slot: Int) -> UInt64) -> Set<Int> {
        var used: Set<Int> = []
        var cut: [Span] = []
        cut.reserveCapacity(spans.count)
        for span in spans {
            guard case .pack = span.source else {
                cut.append(span)
                continue
            }
            var rest = span
            for index in span.slots {
                let slot = slots[index]
                let count = kept(index)
                guard count > 0, count < slot.range.length else { continue }
                if index > rest.slots.lowerBound {
                    guard count >= Self.worthCutting else { continue }
                    let end = slots[index - 1].range.upperBound
                    gapBytes = gapBytes &- (slot.range.lowerBound - end)
                    cut.append(
                        Span(
                            source: span.source, range: rest.range.lowerBound..<end,
                            slots: rest.slots.lowerBound..<index))
                }
                rest.range = (slot.range.lowerBound + count)..<span.range.upperBound
                rest.slots = index..<span.slots.upperBound
                packBytes = packBytes &- count
                used.insert(index)
            }
            cut.append(rest)
        }
        spans = cut
        return used
    }
}
