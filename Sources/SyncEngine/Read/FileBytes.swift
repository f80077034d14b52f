import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

extension ManifestInHand {
    /// Fetches one file, with no more of its packs than it needs, and passes its bytes on once all are here and their
    /// SHA-256 is right.
    ///
    /// - Parameters:
    ///   - row: Of a file, not of a link.
    ///   - spoolDirectory: Where a large file waits until it is whole.
    /// - Throws: ``EngineError``: 65 for bytes that are wrong wherever they come from, 77 when a server refuses them, 69 when
    ///   they cannot be had otherwise.
    package func bring(
        _ row: Int, spoolDirectory: String, to take: (UnsafeRawBufferPointer) throws(EngineError) -> Void
    ) throws(EngineError) {
        let (files, path) = (manifest.files, escaped(manifest.files.path(row)))
        let mismatch = EngineError(.dataInvalid, "\(path): the bytes received do not match the manifest")
        var failure: EngineError?
        for run in try ways(row) {
            let spool = try FileSpool(size: files.size(row), directory: spoolDirectory)
            do throws(EngineError) {
                for piece in run.pieces { try bring(piece, path, spool, reload: run.reload) }
            } catch {
                if source.stop.isStopped { throw EngineError(.interrupted, "stopped while fetching \(path)") }
                if let failed = spool.failure { throw failed }
                // That a place is silent does not hide what another one has answered.
                if error.cause != .unreachable || failure == nil { failure = error }
                continue
            }
            // If the receiver fails, nothing is fetched again.
            if try spool.holds(files.digest(row), size: files.size(row)) { return try spool.give(to: take) }
            failure = mismatch
        }
        throw failure ?? mismatch
    }

    /// One request: adjacent blobs, or a whole object.
    private struct Piece {
        var urls: [String]
        var range: Range<UInt64>
        var objectSize: UInt64
        var blobs: [Blob]
    }

    /// One way to get a file.
    private struct Way {
        var pieces: [Piece]
        var reload: Bool
    }

    /// Packs first; again without the first source when its bytes were wrong; then the file's own URLs.
    private func ways(_ row: Int) throws(EngineError) -> [Way] {
        let files = manifest.files
        guard files.size(row) > 0 else { return [Way(pieces: [], reload: false)] }
        var pieces: [Piece] = []
        for blob in files.blobs(row) {
            if let last = pieces.last, last.blobs.last?.pack == blob.pack,
                last.range.upperBound == blob.range.lowerBound
            {
                pieces[pieces.count - 1].range = last.range.lowerBound..<blob.range.upperBound
                pieces[pieces.count - 1].blobs.append(blob)
            } else {
                let pack = manifest.packs[Int(blob.pack)]
                pieces.append(
                    Piece(
                        urls: resolve(pack.urls, against: found.bases), range: blob.range, objectSize: pack.size,
                        blobs: [blob]))
            }
        }
        var ways: [Way] = []
        if !pieces.isEmpty {
            // A source may be wrong, so the next one is asked before the same is asked again.
            let sources = pieces.map(\.urls.count).max() ?? 1
            for first in 0..<sources {
                let turned = pieces.map { piece in
                    var piece = piece
                    let start = first % max(1, piece.urls.count)
                    piece.urls = Array(piece.urls[start...] + piece.urls[..<start])
                    return piece
                }
                ways.append(Way(pieces: turned, reload: first > 0))
            }
            ways.append(Way(pieces: pieces, reload: true))
        }
        let urls = resolve(files.urls(row), against: found.bases)
        for url in urls {
            let whole = 0..<files.size(row)
            let piece = Piece(urls: [url], range: whole, objectSize: whole.upperBound, blobs: [])
            ways.append(Way(pieces: [piece], reload: false))
        }
        return ways
    }

    private func bring(_ piece: Piece, _ path: String, _ spool: FileSpool, reload: Bool) throws(EngineError) {
        let isLocal = piece.urls.first?.hasPrefix("file:") == true
        let urls = piece.urls.filter { $0.hasPrefix("file:") == isLocal }
        var dictionary: DecodingDictionary?
        if piece.blobs.contains(where: \.codec.needsDictionary) {
            switch found.dictionary(of: manifest)?.get() {
            case .success(let known): dictionary = known
            case .failure(let error):
                throw EngineError(
                    error.transfer?.exitStatus ?? .unavailable, "\(path): \(error.reason)", cause: error.transfer?.cause
                )
            case nil: throw EngineError(.dataInvalid, "\(path): the manifest names no dictionary")
            }
        }
        let sink = BlobsSink(piece.range, piece.blobs, dictionary, spool)
        let request = TransferRequest(
            id: TransferNumbers.next(), urls: urls, range: piece.range == 0..<piece.objectSize ? nil : piece.range,
            objectSize: piece.objectSize, limit: piece.range.length, priority: .max, reload: reload,
            referrer: found.referrer)
        let transport = isLocal ? source.localTransport : source.transport
        switch transport.run(request, sink: sink, stop: source.stop) {
        case .success:
            guard sink.isComplete else {
                throw EngineError(
                    .dataInvalid, "\(path): \(sink.failure ?? "fewer bytes arrived than the manifest says")")
            }
        case .failure(let error):
            if let reason = sink.failure { throw EngineError(.dataInvalid, "\(path): \(reason)") }
            throw EngineError(error.exitStatus, "cannot fetch \(path): \(error)", cause: error.cause)
        }
    }
}

/// Decodes the blobs of a range in order, as they arrive.
private final class BlobsSink: TransferSink {
    private struct State {
        /// **Bytes** of the range taken so far.
        var taken: UInt64 = 0
        var blob = 0
        /// **Bytes** of the blob taken so far.
        var ofBlob: UInt64 = 0
        var stream: BlobStream?
        var failure: String?
    }

    private let range: Range<UInt64>
    /// None if the object is the file itself.
    private let blobs: [Blob]
    private let dictionary: DecodingDictionary?
    private let spool: FileSpool
    private let windows = WindowBudget(capacity: 130 << 20)
    private let state = Mutex(State())

    init(_ range: Range<UInt64>, _ blobs: [Blob], _ dictionary: DecodingDictionary?, _ spool: FileSpool) {
        (self.range, self.blobs, self.dictionary, self.spool) = (range, blobs, dictionary, spool)
    }

    var isComplete: Bool { state.withLock { $0.failure == nil && $0.taken == range.length && $0.blob == blobs.count } }

    /// What was wrong with the bytes.
    var failure: String? { state.withLock(\.failure) }

    func begin(_ response: ResponseHead) -> UInt64 { range.lowerBound + state.withLock(\.taken) }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        state.withLock { state in
            guard state.failure == nil, offset == range.lowerBound + state.taken,
                UInt64(bytes.count) <= range.length - state.taken
            else { return .stop }
            state.taken += UInt64(bytes.count)
            if blobs.isEmpty { return spool.append(bytes) ? .taken : .stop }
            var rest = bytes
            while !rest.isEmpty, state.blob < blobs.count, state.failure == nil {
                let blob = blobs[state.blob]
                let count = Int(clamping: min(UInt64(rest.count), blob.storedLength - state.ofBlob))
                decode(UnsafeRawBufferPointer(rebasing: rest[..<count]), of: blob, &state)
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
            return state.failure == nil ? .taken : .stop
        }
    }

    private func decode(_ piece: UnsafeRawBufferPointer, of blob: Blob, _ state: inout State) {
        do throws(CompressionError) {
            if state.stream == nil {
                state.stream = try BlobStream(
                    codec: blob.codec, dictionary: dictionary, rawLength: blob.rawLength, windows: windows)
            }
            guard let stream = state.stream else { return }
            var isKept = true
            let fault = stream.decode(piece) { raw, _ in isKept = isKept && spool.append(raw) }
            switch fault {
            case .wrong(let reason): state.failure = "a blob of it is damaged: \(reason)"
            case .crowded(let bytes): state.failure = "a blob of it wants a window of \(bytes) bytes"
            case nil: if !isKept { state.failure = "what arrived cannot be stored" }
            }
            state.ofBlob += UInt64(piece.count)
            guard state.ofBlob == blob.storedLength, state.failure == nil else { return }
            if !stream.isComplete { state.failure = "a blob of it is damaged: it ends too early" }
            (state.stream, state.ofBlob, state.blob) = (nil, 0, state.blob + 1)
        } catch { state.failure = "\(error)" }
    }
}
