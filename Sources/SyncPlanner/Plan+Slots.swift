package import SyncManifest
package import SyncModel

extension Plan {
    static let noDelta = UInt32.max

    /// One stored blob and what it must become, in **40 bytes**: a plan of a million files has a million.
    package struct Slot: Sendable, Equatable {
        private var offset: UInt64
        private var storedLength: UInt64
        /// **Bytes** after decoding.
        package var rawLength: UInt64
        private var firstTarget: UInt32
        private var targetCount: UInt32
        private var deltaNumber: UInt32
        package var codec: Codec

        /// Makes a slot; targets and deltas are counted with 32 bits, as rows and blobs of a manifest are.
        package init(
            range: Range<UInt64>,
            rawLength: UInt64,
            codec: Codec,
            targets: Range<Int>,
            delta: Int? = nil
        ) {
            (offset, storedLength) = (range.lowerBound, range.length)
            self.rawLength = rawLength
            self.codec = codec
            (firstTarget, targetCount) = (
                UInt32(clamping: targets.lowerBound), UInt32(clamping: targets.count)
            )
            deltaNumber = delta.map { UInt32(clamping: $0) } ?? Plan.noDelta
        }

        /// **Bytes** of the object.
        package var range: Range<UInt64> { offset..<(offset + storedLength) }

        /// Indices into ``Plan/targets``.
        package var targets: Range<Int> {
            get { Int(firstTarget)..<(Int(firstTarget) + Int(targetCount)) }
            set {
                (firstTarget, targetCount) = (
                    UInt32(clamping: newValue.lowerBound), UInt32(clamping: newValue.count)
                )
            }
        }

        /// Index of the delta these bytes are, see ``FileTable/delta(at:)``; `nil` for the blob itself.
        package var delta: Int? { deltaNumber == Plan.noDelta ? nil : Int(deltaNumber) }
    }

    /// One place a blob goes to, in **16 bytes**.
    package struct Target: Sendable, Equatable {
        /// Position of the blob's first raw **byte** in the file.
        package var fileOffset: UInt64
        private var rowNumber: UInt32
        /// The blob's position, and in the highest bit whether it is whole.
        private var place: UInt32

        private static let whole: UInt32 = 1 << 31

        /// Makes a target; rows and blobs are counted with 31 bits, of which a manifest's limits need 25.
        package init(row: Int, blob: Int, fileOffset: UInt64, isWhole: Bool) {
            self.fileOffset = fileOffset
            rowNumber = UInt32(clamping: row)
            place = min(UInt32(clamping: blob), Self.whole - 1) | (isWhole ? Self.whole : 0)
        }

        /// Row of the manifest's file table.
        package var row: Int { Int(rowNumber) }

        /// Position of the blob in the row.
        package var blob: Int { Int(place & (Self.whole - 1)) }

        /// Whether the file comes as one piece.
        package var isWhole: Bool { place & Self.whole != 0 }

        /// Whether the blob is all of the file: not one of several, nor the rest of one.
        package var isStandalone: Bool { isWhole && fileOffset == 0 }
    }

    /// SHA-256 of a slot's raw bytes; slots do not keep it.
    package func digest(of slot: Slot, in files: FileTable) -> SHA256Digest {
        let target = targets[slot.targets.lowerBound]
        let blobs = files.blobs(target.row)
        guard !target.isStandalone, !blobs.isEmpty else { return files.digest(target.row) }
        return files.digest(of: blobs[blobs.startIndex + target.blob], in: target.row)
    }
}
