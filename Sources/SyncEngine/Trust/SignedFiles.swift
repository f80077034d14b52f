import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTrust

// Fetches statements, and manifests by digest. Everything is bounded, and the manifest is the one asked for; whether
// it is signed is up to ``ReleaseSource``.
extension ManifestSource {
    /// A statement, or that there is none.
    struct Statement {
        /// `nil` if there is none.
        var bytes: [UInt8]?
        var isPublic: Bool?
        /// The server's refusal, by which there may be one: buckets answer 403 for what they do not have.
        var refusal: TransferError?
    }

    /// - Parameter end: Until when it has to be here.
    func statement(_ url: String, limit: Int, reload: Bool, until end: SuspendingClock.Instant) throws(ReleaseSource
        .Failure) -> Statement
    {
        let sink = MemorySink(limit: limit)
        switch fetch(url, limit: limit, sink, reload: reload, until: end) {
        case .success(let report): return Statement(bytes: sink.bytes, isPublic: report.isPublic)
        case .failure(let error):
            if stop.isStopped { throw .engine(EngineError(.interrupted, "stopped while looking at signatures")) }
            if sink.overflowed || error.code == .tooLarge {
                throw .refused(TrustRefusal(.malformed, "it has more than \(limit) bytes"), url: url)
            }
            switch error.status {
            case 404, 410: return Statement()
            case 403: return Statement(refusal: error)
            default: break
            }
            if error.exitStatus == .refused { throw Self.refusal(error) }
            throw Self.silence(error, url, until: end)
        }
    }

    /// A server, or a policy, denies it.
    static func refusal(_ error: TransferError) -> ReleaseSource.Failure {
        .engine(EngineError(.refused, "cannot fetch a signature: \(error)", cause: error.cause))
    }

    /// Nothing arrived that could be checked.
    private static func silence(_ error: TransferError, _ url: String, until end: SuspendingClock.Instant?)
        -> ReleaseSource.Failure
    {
        if error.code == .cancelled, let end, SuspendingClock.now >= end {
            return .refused(TrustRefusal(.slow, "it takes too long to arrive"), url: url)
        }
        return .refused(TrustRefusal(.unreachable, "cannot fetch it: \(error.detail)"), url: url)
    }

    private func fetch(_ url: String, limit: Int, _ sink: MemorySink, reload: Bool, until end: SuspendingClock.Instant?)
        -> Result<TransferReport, TransferError>
    {
        let isLocal = url.hasPrefix("file:")
        let request = TransferRequest(
            id: TransferNumbers.next(), urls: [url], limit: UInt64(limit), priority: .max, reload: reload)
        let from = isLocal ? localTransport : transport
        let result = from.run(request, sink: sink, stop: stop, until: end)
        if !isLocal, case .success(let report) = result { tally.received(report.bytesReceived) }
        return result
    }

    /// Fetches the manifest with this digest from a place.
    ///
    /// - Parameters:
    ///   - size: **Bytes** of its text; `nil` if unknown.
    ///   - patience: How long it may take, and a second more for each KiB of its text; `nil` for as long as it takes.
    func manifest(
        _ digest: SHA256Digest, size: UInt64?, at place: String, _ location: String, reload: Bool,
        within patience: Duration? = nil
    ) throws(ReleaseSource.Failure) -> (found: FoundManifest, body: [UInt8]) {
        let most = limits.ownTextBytes
        if let size, size > UInt64(most) { throw .engine(tooLong(redacted(url: place))) }
        let url = resolve("manifests/\(digest).json.zst", against: place)
        // No publisher's frame is longer than its text plus what zstd adds at most, ZSTD_compressBound.
        let bound = size.map { min(most, Int(clamping: $0 + $0 / 256 + 512)) } ?? most
        let sink = MemorySink(limit: bound)
        let isPublic: Bool?
        let end = patience.map { SuspendingClock.now + $0 + .seconds((size ?? 0) / 1024) }
        switch fetch(url, limit: bound, sink, reload: reload, until: end) {
        case .success(let report): isPublic = report.isPublic
        case .failure(let error):
            if stop.isStopped { throw .engine(EngineError(.interrupted, "stopped while fetching the manifest")) }
            if error.status == 404 || error.status == 410 {
                throw .refused(TrustRefusal(.mixed, "the signed manifest is not there"), url: url)
            }
            if bound < most, sink.overflowed || error.code == .tooLarge {
                throw .refused(TrustRefusal(.mixed, "it is longer than the signed manifest"), url: url)
            }
            let told = refusal(error, overflowed: sink.overflowed)
            throw told.status == .unavailable ? Self.silence(error, url, until: end) : .engine(told)
        }
        let body = sink.bytes
        let limit = size.map { Int($0) } ?? most
        guard (try? body.withUnsafeBytes { try sha256(try decodeZstd($0, limit: limit)) }) == digest else {
            throw .refused(TrustRefusal(.mixed, "it is not the signed manifest"), url: url)
        }
        do throws(EngineError) {
            let found = ManifestPlace(location, base: place, isPublic: isPublic)
            let manifest = try decode(body, isCompressed: true, at: found, shown: redacted(url: url))
            return (FoundManifest(manifest, at: found, self), body)
        } catch { throw .engine(error) }
    }

    /// The manifest with this digest as cached under a name, not yet decoded; `nil` if it was not.
    func kept(_ digest: SHA256Digest, _ name: String, at place: String, _ location: String, _ isPublic: Bool?)
        -> FoundManifest?
    {
        guard let entry = cache?.entry(for: name), entry.digest == digest else { return nil }
        let found = ManifestPlace(location, base: place, isPublic: isPublic)
        return cached(entry, at: found) { () throws(EngineError) in
            do throws(ReleaseSource.Failure) {
                return try manifest(digest, size: nil, at: place, location, reload: true).found
            } catch { throw error.told }
        }
    }
}
