import SyncContent
import SyncManifest
import SyncModel

/// A blob of a pack, as the manifest describes it.
struct BlobCheck: Sendable, Equatable {
    /// First **byte** in the pack.
    var offset: UInt64
    /// **Bytes** in the pack.
    var storedLength: UInt64
    var rawLength: UInt64
    var codec: Codec
    /// SHA-256 of the raw bytes.
    var digest: SHA256Digest

    /// One past its last **byte** in the pack; manifests are checked so that it does not overflow.
    var end: UInt64 { offset &+ storedLength }
}

extension BlobCheck {
    init(_ blob: Blob, _ digest: SHA256Digest) {
        self.init(
            offset: blob.offset, storedLength: blob.storedLength, rawLength: blob.rawLength, codec: blob.codec,
            digest: digest)
    }
}

/// How the bytes of a slice are verified.
enum SliceCheck: Sendable {
    /// Blob by blob; the first begins the slice, and each begins where the one before it ends.
    case blobs([BlobCheck], DecodingDictionary?)
    /// As the whole object, which the slice is.
    case whole(SHA256Digest)
}

extension SliceCheck {
    /// The check without a wrong blob, for the blobs on that side of it where `offset` is; `nil` if `offset` is in the
    /// wrong blob.
    func leavingOut(_ wrong: UInt64, keeping offset: UInt64) -> (Range<UInt64>, SliceCheck)? {
        guard case .blobs(let blobs, let dictionary) = self,
            let index = blobs.firstIndex(where: { $0.offset <= wrong && wrong < $0.end })
        else { return nil }
        let rest = offset < blobs[index].offset ? blobs[..<index] : blobs[(index + 1)...]
        guard let first = rest.first, let last = rest.last, first.offset <= offset, offset < last.end else {
            return nil
        }
        return (first.offset..<last.end, .blobs(Array(rest), dictionary))
    }
}

/// Verifies the bytes of a slice as they arrive, in one pass and in little memory.
struct SliceVerifier: ~Copyable {
    private let check: SliceCheck
    private var hasher: SHA256Hasher
    private var decoder: BlobDecoder
    private var output: [UInt8] = []
    /// The blob that the next byte is of.
    private var blob = 0
    /// **Bytes** of that blob taken so far, and **bytes** decoded from them.
    private var (taken, raw): (UInt64, UInt64) = (0, 0)
    private var frameHasEnded = false
    /// Everything before this offset of the object is verified.
    private(set) var proven: UInt64

    /// Windows of zstd frames above `2^24` bytes are refused: many slices are verified at a time.
    static let longestWindow: UInt64 = 16 << 20

    /// - Throws: If there is no memory, or no SHA-256.
    init(_ check: SliceCheck, from start: UInt64) throws {
        let hasher = try SHA256Hasher()
        let decoder = try BlobDecoder(maximumWindowLog: 24)
        self.check = check
        self.hasher = hasher
        self.decoder = decoder
        proven = start
    }

    /// Takes the next bytes of the slice.
    ///
    /// - Returns: `false` when they are wrong; then this verifier is of no more use.
    mutating func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        switch check {
        case .whole: return (try? hasher.update(bytes)) != nil
        case .blobs(let blobs, let dictionary): return take(bytes, blobs, dictionary)
        }
    }

    /// Whether all bytes up to `end` were right; called after the last ones.
    mutating func end(at end: UInt64) -> Bool {
        switch check {
        case .whole(let digest):
            guard (try? hasher.finish()) == digest else { return false }
            proven = end
        case .blobs(let blobs, _): guard blob == blobs.count, proven == end else { return false }
        }
        return true
    }

    private mutating func take(_ bytes: UnsafeRawBufferPointer, _ blobs: [BlobCheck], _ dictionary: DecodingDictionary?)
        -> Bool
    {
        var rest = bytes
        while !rest.isEmpty {
            guard blob < blobs.count else { return false }
            let current = blobs[blob]
            let count = Int(min(UInt64(rest.count), current.storedLength - taken))
            let part = UnsafeRawBufferPointer(rebasing: rest[..<count])
            guard (try? put(part, of: current, dictionary)) == true else { return false }
            taken += UInt64(count)
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            guard taken == current.storedLength else { continue }
            guard raw == current.rawLength, frameHasEnded || !current.codec.isCompressed,
                (try? hasher.finish()) == current.digest
            else { return false }
            proven = current.end
            (taken, raw, frameHasEnded) = (0, 0, false)
            blob += 1
        }
        return true
    }

    /// Decodes and hashes a piece of a blob.
    private mutating func put(_ part: UnsafeRawBufferPointer, of check: BlobCheck, _ dictionary: DecodingDictionary?)
        throws -> Bool
    {
        guard check.codec.isCompressed else {
            raw += UInt64(part.count)
            try hasher.update(part)
            return true
        }
        if taken == 0 { try decoder.begin(check.codec, with: dictionary) }
        if output.isEmpty { output = [UInt8](repeating: 0, count: 128 << 10) }
        var rest = part
        while true {
            guard !frameHasEnded else { return rest.isEmpty }
            let (consumed, produced, ended) = try decodeSome(rest)
            rest = UnsafeRawBufferPointer(rebasing: rest[consumed...])
            raw += UInt64(produced)
            guard raw <= check.rawLength else { return false }
            frameHasEnded = ended
            // A full buffer may have more behind it.
            if rest.isEmpty, produced < output.count { return true }
            if consumed == 0, produced == 0 { return false }
        }
    }

    private mutating func decodeSome(_ input: UnsafeRawBufferPointer) throws -> (Int, Int, Bool) {
        var buffer = output
        output = []
        defer { output = buffer }
        let step = try buffer.withUnsafeMutableBytes { try decoder.decodeNext(input, into: $0) }
        try buffer.withUnsafeBytes { try hasher.update(UnsafeRawBufferPointer(rebasing: $0[..<step.produced])) }
        return (step.consumed, step.produced, step.frameEnded)
    }
}
