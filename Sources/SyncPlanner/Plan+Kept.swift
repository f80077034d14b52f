extension Plan {
    /// Where a blob is: a pack of the manifest, and the offset of the blob's first stored **byte** there.
    package struct Place: Sendable, Hashable {
        package var pack: Int
        package var offset: UInt64

        package init(pack: Int, offset: UInt64) {
            self.pack = pack
            self.offset = offset
        }
    }

    /// Fewest **bytes** worth a request of their own, when they are not at the start of a span.
    private static let worthCutting: UInt64 = 32 << 10

    /// Leaves out what is here already of blobs that an interrupted run had begun.
    ///
    /// A span that begins with such a blob begins behind those bytes; another is cut in two there.
    ///
    /// - Parameter kept: How many first **bytes** of a slot are here; 0 for none.
    /// - Returns: The places of the blobs whose first bytes will not be asked for.
    package mutating func leaveOut(
        _ kept: (_ place: Place, _ slot: Slot) -> UInt64
    ) -> Set<Place> {
        var used: Set<Place> = []
        var cut: [Span] = []
        cut.reserveCapacity(spans.count)
        for span in spans {
            guard case .pack(let pack) = span.source else {
                cut.append(span)
                continue
            }
            var rest = span
            for index in span.slots {
                let slot = slots[index]
                let place = Place(pack: pack, offset: slot.range.lowerBound)
                let count = kept(place, slot)
                guard count > 0, count < slot.range.length else { continue }
                if index > rest.slots.lowerBound {
                    guard count >= Self.worthCutting else { continue }
                    let end = slots[index - 1].range.upperBound
                    gapBytes = gapBytes &- (slot.range.lowerBound - end)
                    cut.append(
                        Span(
                            source: span.source,
                            range: rest.range.lowerBound..<end,
                            slots: rest.slots.lowerBound..<index
                        )
                    )
                }
                rest.range = (slot.range.lowerBound + count)..<span.range.upperBound
                rest.slots = index..<span.slots.upperBound
                packBytes = packBytes &- count
                used.insert(place)
            }
            cut.append(rest)
        }
        spans = cut
        return used
    }
}
