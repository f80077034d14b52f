package import SyncManifest
import SyncModel
import SyncPlugins
import SyncTrust

/// What a publisher reads of a set that is served, besides its manifest.
extension ManifestInHand {
    /// Whether somebody has asked to stop.
    package var isStopped: Bool { source.stop.isStopped }

    /// A range of a pack, as it comes: nothing is checked.
    ///
    /// - Throws: ``EngineError``: 77 when the server refuses it, 69 when it cannot be had otherwise.
    package func bytes(of pack: Manifest.Pack, _ range: Range<UInt64>) throws(EngineError) -> [UInt8] {
        let urls = resolve(pack.urls, against: found.bases)
        let isLocal = urls.first?.hasPrefix("file:") == true
        let sink = MemorySink(limit: Int(clamping: range.length), from: range.lowerBound)
        let request = TransferRequest(
            id: TransferNumbers.next(), urls: urls.filter { $0.hasPrefix("file:") == isLocal },
            range: range == 0..<pack.size ? nil : range, objectSize: pack.size, limit: range.length,
            referrer: found.referrer)
        let transport = isLocal ? source.localTransport : source.transport
        let what = "bytes of the pack \(pack.sha256.hex)"
        switch transport.run(request, sink: sink, stop: source.stop) {
        case .success where UInt64(sink.bytes.count) == range.length: return sink.bytes
        case .success: throw EngineError(.dataInvalid, "fewer \(what) arrived than the manifest says")
        case .failure(let error):
            if source.stop.isStopped { throw EngineError(.interrupted, "stopped while fetching \(what)") }
            throw EngineError(error.exitStatus, "cannot fetch \(what): \(error)", cause: error.cause)
        }
    }

    /// The statement that says which manifest this revision is, whoever has signed it; `nil` if none is served.
    ///
    /// - Throws: ``EngineError``: 65 for one that is too long, 77 when the server refuses it, 69 when it cannot be had otherwise.
    package func releaseStatement() throws(EngineError) -> [UInt8]? {
        let url = resolve("trust/\(manifest.revision).release", against: found.bases[0])
        let isLocal = url.hasPrefix("file:")
        let sink = MemorySink(limit: Role.release.limit)
        let request = TransferRequest(
            id: TransferNumbers.next(), urls: [url], limit: UInt64(Role.release.limit), priority: .max,
            referrer: found.referrer)
        switch (isLocal ? source.localTransport : source.transport).run(request, sink: sink, stop: source.stop) {
        case .success: return sink.bytes
        case .failure(let error):
            if source.stop.isStopped { throw EngineError(.interrupted, "stopped while looking at signatures") }
            if sink.overflowed || error.code == .tooLarge {
                throw EngineError(.dataInvalid, "\(error.url): it has more than \(Role.release.limit) bytes")
            }
            // Buckets answer 403 for what they do not have.
            if [403, 404, 410].contains(error.code.status) { return nil }
            throw EngineError(error.exitStatus, "cannot fetch a signature: \(error)", cause: error.cause)
        }
    }
}
