import SyncCompression
import SyncModel

/// Decodes one blob that is too large for memory, piece by piece, in one buffer.
///
/// Used by the worker that runs the span. A slot belongs to one `SpanUnpacker`, which enters the workers' queue only
/// while it is neither there nor running (a flag under its mutex): calls for one slot come one after the other,
/// whichever thread makes them, and the mutex between them makes what one wrote visible to the next.
final class BlobStream: @unchecked Sendable {  // Safe: a span is run by one worker at a time.
    private var decoder: ZstdDecompressor
    private let isCompressed: Bool
    private let rawLength: UInt64
    private var produced: UInt64 = 0
    private var ended = false
    private let output: UnsafeMutableRawBufferPointer

    init(
        codec: Codec,
        dictionary: DecodingDictionary? = nil,
        rawLength: UInt64
    ) throws(CompressionError) {
        decoder = try ZstdDecompressor()
        try decoder.begin(with: codec == .zstdDictionary ? dictionary : nil)
        isCompressed = codec != .identity
        self.rawLength = rawLength
        output = .allocate(byteCount: 1 << 18, alignment: 64)
    }

    deinit { output.deallocate() }

    /// Whether exactly the raw length has come out, and the frame, if it is one, has ended.
    var isComplete: Bool { produced == rawLength && (ended || !isCompressed) }

    /// Takes the next stored bytes and passes raw ones on with their offset in the blob.
    ///
    /// - Returns: `nil`, or what is wrong with the bytes.
    func decode(
        _ stored: UnsafeRawBufferPointer,
        _ put: (_ raw: UnsafeRawBufferPointer, _ offset: UInt64) -> Void
    ) -> String? {
        guard isCompressed else {
            guard produced &+ UInt64(stored.count) <= rawLength else {
                return "longer than the manifest says"
            }
            put(stored, produced)
            produced += UInt64(stored.count)
            return nil
        }
        var rest = stored
        while !rest.isEmpty {
            if ended { return "bytes follow the frame" }
            do {
                let step = try decoder.decodeNext(rest, into: output)
                guard produced &+ UInt64(step.produced) <= rawLength else {
                    return "longer than the manifest says"
                }
                put(UnsafeRawBufferPointer(rebasing: output[..<step.produced]), produced)
                produced += UInt64(step.produced)
                ended = step.frameEnded
                rest = UnsafeRawBufferPointer(rebasing: rest[step.consumed...])
                if step.consumed == 0, step.produced == 0 { return "the frame does not go on" }
            } catch {
                return "\(error)"
            }
        }
        return drain(put)
    }

    /// Output that did not fit the buffer although all input is taken.
    private func drain(_ put: (UnsafeRawBufferPointer, UInt64) -> Void) -> String? {
        while !ended, produced < rawLength {
            do {
                let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
                let step = try decoder.decodeNext(nothing, into: output)
                guard step.produced > 0 else { return nil }
                guard produced &+ UInt64(step.produced) <= rawLength else {
                    return "longer than the manifest says"
                }
                put(UnsafeRawBufferPointer(rebasing: output[..<step.produced]), produced)
                produced += UInt64(step.produced)
                ended = step.frameEnded
            } catch {
                return "\(error)"
            }
        }
        return nil
    }
}
