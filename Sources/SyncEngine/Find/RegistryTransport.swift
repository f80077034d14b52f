import SyncContent
package import SyncManifest
package import SyncModel
package import SyncPlugins
import SyncSystem

/// Fetches the files of a set in a registry by the URLs of their blobs.
///
/// A file's URL is `oci://HOST/NAME:TAG/PATH`. A pack's name says which blob it is. For every other file the registry
/// is asked each time, with a condition, what the tag names now; a caller that has that blob already gets 304 without a
/// request for it.
package final class RegistryTransport: Transport {
    private struct State {
        /// The registry's URL, once the registry has answered there.
        var endpoint: String?
        /// The release that the tag named when last asked, and the registry's validator of that answer.
        var named: (release: RegistryRelease, validator: Validator)?
        /// The question that a transfer waits for, and whether the transfer was cancelled meanwhile.
        var waiting: [TransferID: (question: TransferID, isCancelled: Bool)] = [:]
        /// The last number of a question. Questions count down from the largest number, transfers up from 1.
        var last = UInt64.max
    }

    /// The beginning of the set's URLs.
    package let base: String
    private let inner: any Transport
    private let address: RegistryAddress
    private let registries: RegistryAccess
    private let state = Mutex(State())

    package init(_ inner: any Transport, _ address: RegistryAddress, _ registries: RegistryAccess) {
        (self.inner, self.address, self.registries) = (inner, address, registries)
        base = Self.base(address)
    }

    /// The beginning of the URLs of a set's files.
    package static func base(_ address: RegistryAddress) -> String { address.text + "/" }

    package func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        let url = request.urls.first ?? ""
        func refused(_ code: TransferError.Code) {
            completion(.failure(TransferError(code: code, url: url, detail: "not a file of \(address.text)")))
        }
        guard url.hasPrefix(base) else { return refused(.misuse) }
        // The titles of layers are text.
        guard let name = percentDecoded(url.dropFirst(base.count).utf8),
            let path = String(validating: name, as: UTF8.self)
        else { return refused(.badStatus(404)) }
        let pack = RegistryRelease.pack(path)
        // A file that is fetched in several requests stays the same blob in all of them.
        let known = pack ?? request.validator.flatMap(Self.digest)
        @Sendable func fetch(_ digest: SHA256Digest, from endpoint: String) {
            guard pack != nil else {
                return startFile(digest, from: endpoint, for: request, sink: sink, completion: completion)
            }
            // The pack's name fixes the blob, so the sink may be divided.
            var blob = request
            blob.urls = [blobURL(digest, at: endpoint)]
            inner.start(blob, sink: sink) { [self] result in completion(result.mapError { detailed($0, by: endpoint) })
            }
        }
        if let known, let endpoint = state.withLock({ $0.endpoint }) { return fetch(known, from: endpoint) }
        find(address.endpoints[...], for: request) { result in
            switch result {
            case .failure(let error): completion(.failure(error))
            case .success((let endpoint, let release)):
                if let digest = known ?? release.blob(path) { return fetch(digest, from: endpoint) }
                let detail = "the release has no \(escaped(path))"
                completion(.failure(TransferError(code: .badStatus(404), url: url, detail: detail)))
            }
        }
    }

    /// Fetches the blob of a file. The blob's digest is reported as its validator, since registries have none for
    /// blobs, and the bytes are checked against it.
    ///
    /// - Parameter request: The request for the file.
    private func startFile(
        _ digest: SHA256Digest, from endpoint: String, for request: TransferRequest, sink: any TransferSink,
        completion: @escaping TransferCompletion
    ) {
        let url = blobURL(digest, at: endpoint)
        let validator = Self.validator(digest)
        if request.knownValidator == validator {
            let report = TransferReport(
                response: ResponseHead(status: 304, validator: validator), sourceIndex: 0, currentURL: url,
                requests: 0, bytesReceived: 0)
            return completion(.success(report))
        }
        var blob = request
        blob.urls = [url]
        (blob.knownValidator, blob.validator) = (nil, nil)
        @Sendable func bad(_ code: TransferError.Code, _ detail: String) -> Result<TransferReport, TransferError> {
            .failure(TransferError(code: code, url: url, detail: detail))
        }
        let proved: ValidatedSink
        do throws(DigestError) { proved = try ValidatedSink(sink, validator) } catch {
            return completion(bad(.misuse, "\(error)"))
        }
        inner.start(blob, sink: proved) { [self] result in
            let outcome = result.mapError { detailed($0, by: endpoint) }
            completion(
                outcome.flatMap { report in
                    // A range cannot be checked. A wrong whole file with this validator would never be fetched again.
                    guard request.range != nil || request.isHeadOnly || proved.finish() == digest else {
                        return bad(.badAnswer, "the registry gave other bytes for sha256:\(digest)")
                    }
                    var report = report
                    report.response.validator = validator
                    return .success(report)
                })
        }
    }

    private func blobURL(_ digest: SHA256Digest, at endpoint: String) -> String {
        "\(address.blobPrefix(endpoint))sha256:\(digest)"
    }

    /// Asks what the tag names now.
    ///
    /// - Parameter endpoints: The possible URLs of the registry, best first.
    private func find(
        _ endpoints: ArraySlice<String>, for request: TransferRequest,
        _ then: @escaping @Sendable (Result<(endpoint: String, release: RegistryRelease), TransferError>) -> Void
    ) {
        guard let endpoint = state.withLock({ $0.endpoint }) ?? endpoints.first else {
            return then(.failure(TransferError(code: .misuse, url: address.text, detail: "nobody to ask")))
        }
        registries.name(endpoint, address.name)
        let (id, named) = state.withLock { state in
            state.last -= 1
            let id = TransferID(rawValue: state.last)
            state.waiting[request.id] = (id, false)
            return (id, state.named)
        }
        var question = TransferRequest(
            id: id, urls: [address.manifestURL(endpoint, address.reference)], limit: UInt64(RegistryAnswer.limit),
            knownValidator: named?.validator, priority: .max, reload: request.reload)
        question.accepted = RegistryAnswer.accepted
        let sink = MemorySink(limit: RegistryAnswer.limit)
        inner.start(question, sink: sink) { [self] result in
            let waiting = state.withLock { $0.waiting.removeValue(forKey: request.id) }
            if waiting?.isCancelled == true {
                return then(.failure(TransferError(code: .cancelled, url: address.text, detail: "cancelled")))
            }
            switch result.flatMap({ read($0, sink, knowing: named?.release) }) {
            case .success(let release):
                state.withLock { $0.endpoint = endpoint }
                then(.success((endpoint, release)))
            // A server that speaks TLS answers plain HTTP with 400.
            case .failure(let error) where error.code.status == 400 && endpoints.count > 1:
                find(endpoints.dropFirst(), for: request, then)
            case .failure(let error): then(.failure(detailed(error, by: endpoint)))
            }
        }
    }

    /// The error to report for a registry that denies access. If its token server cannot be reached, nobody has refused
    /// anything: the registry counts as unreachable, and what was fetched before may be shown.
    private func detailed(_ error: TransferError, by endpoint: String) -> TransferError {
        guard error.cause == .access else { return error }
        var detailed = error
        let trouble = registries.trouble(endpoint)
        if trouble?.isPassing == true {
            detailed = TransferError(code: .unreachable, url: error.url, detail: "", requests: error.requests)
        }
        // No trouble is known if it has passed, or if the login is not the cause.
        detailed.detail = trouble?.reason ?? address.refusal(error)
        return detailed
    }

    /// The release that an answer says the tag names.
    ///
    /// - Parameter known: The release that the question's validator stands for. Other answers may have changed the
    ///   state since.
    private func read(_ report: TransferReport, _ sink: MemorySink, knowing known: RegistryRelease?)
        -> Result<RegistryRelease, TransferError>
    {
        func bad(_ detail: String) -> Result<RegistryRelease, TransferError> {
            .failure(TransferError(code: .badAnswer, url: address.text, detail: detail))
        }
        /// The error for a tag that names something else now: the set is no longer there.
        func other(_ detail: String) -> Result<RegistryRelease, TransferError> {
            var error = TransferError(code: .badStatus(404), url: address.text, detail: detail)
            error.cause = .badManifest
            return .failure(error)
        }
        if report.response.status == 304 {
            return known.map { .success($0) } ?? bad("304 in reply to an unconditional request")
        }
        let text = sink.bytes
        if let digest = address.digest, (try? sha256(text)) != digest {
            return bad("the registry gave another manifest")
        }
        do throws(ListingError) {
            let release: RegistryRelease
            switch try RegistryAnswer.read(text, prefix: "") {
            case .release(let found): release = found
            case .elsewhere(let digest):
                let named = address.with("sha256:\(digest)").text
                return other("it is an index of manifests; name the one that is meant: \(named)")
            case .files: return other("it is not a set that syncagent has published there")
            }
            let validator = report.response.validator
            state.withLock { $0.named = validator.isEmpty ? nil : (release, validator) }
            return .success(release)
        } catch { return RegistryAnswer.isManifest(text) ? other("\(error)") : bad("\(error)") }
    }

    private static func validator(_ digest: SHA256Digest) -> Validator { Validator(etag: "\"sha256:\(digest)\"") }

    /// The digest in a validator made by ``validator(_:)``.
    private static func digest(of validator: Validator) -> SHA256Digest? {
        validator.etag.flatMap { RegistryAddress.sha256($0.dropFirst().dropLast()) }
    }

    package func resume(_ id: TransferID) { inner.resume(id) }

    package func cancel(_ id: TransferID) {
        let question = state.withLock { state in
            state.waiting[id]?.isCancelled = true
            return state.waiting[id]?.question
        }
        inner.cancel(question ?? id)
    }

    package func reportFault(url: String, reason: String) {
        let pack = url.hasPrefix(base) ? RegistryRelease.pack(String(url.dropFirst(base.count))) : nil
        guard let pack, let endpoint = state.withLock({ $0.endpoint }) else { return }
        inner.reportFault(url: blobURL(pack, at: endpoint), reason: reason)
    }

    package var totals: TransferTotals { inner.totals }

    package func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? {
        inner.transferStatuses(limit: limit, at: now)
    }

    package func shutdown() { inner.shutdown() }
}

/// Passes on the bytes of a blob with a better validator than the server's, and computes their digest.
private final class ValidatedSink: TransferSink {
    /// The digest of received bytes, from the first one on and without a gap.
    private struct ReceivedDigest: ~Copyable {
        private var hasher: SHA256Hasher
        /// **Bytes**.
        private var count: UInt64 = 0

        init() throws(DigestError) { hasher = try SHA256Hasher() }

        /// Adds bytes; those at offset 0 begin anew, since the receiver has then dropped what it had.
        mutating func take(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) {
            if offset == 0, (try? hasher.reset()) != nil { count = 0 }
            guard offset == count, (try? hasher.update(bytes)) != nil else { return }
            count += UInt64(bytes.count)
        }

        mutating func finish() -> SHA256Digest? { try? hasher.finish() }
    }

    private let sink: any TransferSink
    private let validator: Validator
    private let received: Mutex<ReceivedDigest>

    init(_ sink: any TransferSink, _ validator: Validator) throws(DigestError) {
        (self.sink, self.validator) = (sink, validator)
        received = Mutex(try ReceivedDigest())
    }

    /// The digest of all received bytes; called once, at the end.
    func finish() -> SHA256Digest? { received.withLock { $0.finish() } }

    func begin(_ response: ResponseHead) -> UInt64 {
        var response = response
        response.validator = validator
        return sink.begin(response)
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        let outcome = sink.receive(bytes, at: offset)
        if case .taken = outcome {
            let piece = Array(bytes)
            received.withLock { received in piece.withUnsafeBytes { received.take($0, at: offset) } }
        }
        return outcome
    }

    func interrupted() { sink.interrupted() }
}
