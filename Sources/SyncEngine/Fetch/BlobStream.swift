import SyncContent
import SyncModel

/// Decodes one blob that is too large for memory, piece by piece, in one buffer.
///
/// Used by the worker that runs the span. A slot belongs to one `SpanUnpacker`, which is queued only while it is
/// neither queued nor running (a flag under its mutex): calls for one slot never overlap, whichever thread makes them,
/// and the mutex makes what one wrote visible to the next.
final class BlobStream: @unchecked Sendable {  // Safe: a span is run by one worker at a time.
    private var decoder: BlobDecoder
    private let codec: Codec
    private let rawLength: UInt64
    private var produced: UInt64 = 0
    private var ended = false
    /// The frame's first bytes, until they give its window size.
    private var header: [UInt8] = []
    private let windows: WindowBudget
    /// **Bytes** of ``windows`` that this stream holds; `nil` before the window size is known.
    private var reserved: Int?
    private let output: UnsafeMutableRawBufferPointer

    /// Why a blob cannot be decoded.
    enum Failure: Error {
        /// The bytes are wrong.
        case wrong(String)
        /// Other streams leave no room for its window of this many **bytes**.
        case crowded(Int)
    }

    /// **Bytes** that a stream uses besides its window.
    private static let ownMemory = 512 << 10

    init(codec: Codec, dictionary: DecodingDictionary? = nil, rawLength: UInt64, windows: WindowBudget)
        throws(CompressionError)
    {
        decoder = try BlobDecoder()
        try decoder.begin(codec, with: dictionary)
        self.codec = codec
        self.rawLength = rawLength
        self.windows = windows
        output = .allocate(byteCount: 1 << 18, alignment: 64)
    }

    deinit {
        output.deallocate()
        if let reserved { windows.give(reserved) }
    }

    /// Whether exactly the raw length was produced, and the frame, if it is one, has ended.
    var isComplete: Bool { produced == rawLength && (ended || !codec.isCompressed) }

    /// Takes the next stored bytes and passes on raw ones with their offset in the blob.
    ///
    /// - Returns: `nil`, or why decoding cannot go on.
    func decode(_ stored: UnsafeRawBufferPointer, _ put: (_ raw: UnsafeRawBufferPointer, _ offset: UInt64) -> Void)
        -> Failure?
    {
        guard codec.isCompressed else { return pass(stored, put).map { .wrong($0) } }
        if reserved != nil { return decodeNext(stored, put).map { .wrong($0) } }
        let taken = min(stored.count, BlobDecoder.longestHeader - header.count)
        header.append(contentsOf: stored[..<taken])
        do throws(CompressionError) {
            guard let window = try BlobDecoder.window(startingWith: header) else { return nil }
            // No more is written than the blob has raw bytes; libzstd itself refuses windows of more than 2^27.
            let (room, tooMuch) = Int(clamping: min(window, rawLength)).addingReportingOverflow(Self.ownMemory)
            guard !tooMuch, windows.take(room) else { return .crowded(room) }
            reserved = room
        } catch { return .wrong("\(error)") }
        let failure = header.withUnsafeBytes { decodeNext($0, put) }
        header = []
        return (failure ?? decodeNext(UnsafeRawBufferPointer(rebasing: stored[taken...]), put)).map { .wrong($0) }
    }

    private func decodeNext(
        _ stored: UnsafeRawBufferPointer, _ put: (_ raw: UnsafeRawBufferPointer, _ offset: UInt64) -> Void
    ) -> String? {
        var rest = stored
        do {
            while !rest.isEmpty {
                if ended { return "bytes follow the frame" }
                let step = try decoder.decodeNext(rest, into: output)
                if let reason = pass(UnsafeRawBufferPointer(rebasing: output[..<step.produced]), put) { return reason }
                ended = step.frameEnded
                rest = UnsafeRawBufferPointer(rebasing: rest[step.consumed...])
                if step.consumed == 0, step.produced == 0 { return "the frame makes no progress" }
            }
            // Output that did not fit the buffer.
            while !ended, produced < rawLength {
                let step = try decoder.decodeNext(UnsafeRawBufferPointer(start: nil, count: 0), into: output)
                guard step.produced > 0 else { return nil }
                if let reason = pass(UnsafeRawBufferPointer(rebasing: output[..<step.produced]), put) { return reason }
                ended = step.frameEnded
            }
        } catch { return "\(error)" }
        return nil
    }

    /// Passes raw bytes on, unless there are too many.
    private func pass(_ raw: UnsafeRawBufferPointer, _ put: (_ raw: UnsafeRawBufferPointer, _ offset: UInt64) -> Void)
        -> String?
    {
        guard UInt64(raw.count) <= rawLength - produced else { return "longer than the manifest says" }
        put(raw, produced)
        produced += UInt64(raw.count)
        return nil
    }
}
