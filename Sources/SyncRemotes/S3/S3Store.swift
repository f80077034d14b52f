import SyncContent
import SyncManifest
import SyncModel
package import SyncPublisher
import SyncSystem
package import SyncTransfer

/// A bucket, or a part of one, that a set is published to: AWS's S3, and servers with its protocol.
///
/// A pack is sent with its name as the hash of the body, so that a body that is damaged on the way is refused; and only
/// if there is no object of the name. Other objects are replaced only if they are as they were seen.
package final class S3Store: ObjectStore {
    private let client: S3Client
    private let isCustom: Bool
    /// The conditions of a put that the bucket observes.
    private let knows = Mutex((absent: true, unchanged: true))

    /// The object that is put to find that out; it stays there.
    private static let probe = ".syncagent"
    private static let mostPages = 10_000
    /// Requests at a time, where there are many small ones.
    private static let width = 8

    /// - Parameters:
    ///   - environment: Has the keys, and endpoint and region of the bucket unless the address names them.
    ///   - configuration: For trust, proxies and the sending rate.
    ///   - notice: Gets the reason for a long wait, for people.
    package init(
        _ address: S3Address, _ environment: AWSEnvironment, _ configuration: TransportConfiguration,
        notice: @escaping @Sendable (String) -> Void, isStopped: @escaping @Sendable () -> Bool
    ) throws(S3Fault) {
        var address = address
        address.endpoint = address.endpoint ?? environment.endpoint
        isCustom = address.endpoint != nil
        let endpoint = try S3Endpoint(
            address.bucket, endpoint: address.endpoint, region: address.region ?? environment.region ?? "us-east-1")
        client = S3Client(
            address, endpoint, AWSCredentials(environment, isStopped: isStopped, reach: configuration.reach),
            configuration, notice: notice, isStopped: isStopped)
    }

    package var shown: String { client.address.shown }

    // MARK: Reading

    package func list(_ prefix: String) throws(PublishError) -> [String: StoredObject] {
        let own = client.address.prefix.isEmpty ? "" : client.address.prefix + "/"
        var found: [String: StoredObject] = [:]
        var token: String?
        for _ in 0..<Self.mostPages {
            var query = [("list-type", "2"), ("prefix", own + prefix), ("encoding-type", "url")]
            if let token { query.append(("continuation-token", token)) }
            let body = try client.send(nil, query: query, limit: 16 << 20).body
            let next: String?
            do throws(ListingError) {
                next = try readPage(body) { key, object in
                    if key.hasPrefix(own) { found[String(key.dropFirst(own.count))] = object }
                }
            } catch {
                throw PublishError(.dataInvalid, "\(shown): its list is \(error)", "is this the endpoint of a bucket?")
            }
            guard let next else { return found }
            guard next != token else { break }
            token = next
        }
        throw PublishError(.dataInvalid, "\(shown): its list does not end", "is this the endpoint of a bucket?")
    }

    package func stat(_ name: String) throws(PublishError) -> StoredObject? {
        let answer = try client.send(name, "HEAD", expecting: [404])
        guard answer.status != 404 else { return nil }
        return try object(answer, name)
    }

    /// The MD5 of the bytes, which is the ETag of an object put in one request. If the bucket encrypts with keys of its
    /// own, no ETag is equal to it.
    package func tag(of bytes: [UInt8]) -> String? { md5(bytes).map { "\"\($0)\"" } }

    private func object(_ answer: S3Client.Answer, _ name: String) throws(PublishError) -> StoredObject {
        guard let size = answer.headers.contentLength.flatMap({ UInt64($0) }), let tag = answer.headers.etag else {
            throw PublishError(.dataInvalid, "\(shown)/\(name): an answer without size and ETag", "is this a bucket?")
        }
        return StoredObject(size: size, tag: tag)
    }

    package func read(_ name: String, limit: Int) throws(PublishError) -> (bytes: [UInt8], object: StoredObject)? {
        let answer = try client.send(name, limit: limit, expecting: [404])
        guard answer.status != 404 else { return nil }
        guard let tag = answer.headers.etag else {
            throw PublishError(.dataInvalid, "\(shown)/\(name): an answer without ETag", "is this a bucket?")
        }
        return (answer.body, StoredObject(size: UInt64(answer.body.count), tag: tag))
    }

    package func read(_ name: String, _ range: Range<UInt64>) throws(PublishError) -> [UInt8] {
        guard !range.isEmpty, let count = Int(exactly: range.upperBound - range.lowerBound) else { return [] }
        let wanted = "bytes=\(range.lowerBound)-\(range.upperBound - 1)"
        let answer = try client.send(name, headers: [("range", wanted)], limit: count)
        guard answer.status == 206, answer.body.count == count else {
            throw PublishError(
                .dataInvalid, "\(shown)/\(name) has not the bytes \(range.lowerBound) to \(range.upperBound)",
                "is it what its name says?")
        }
        return answer.body
    }

    // MARK: Putting

    package func prepare() throws(PublishError) -> [String] {
        // AWS observes both conditions.
        guard isCustom else { return [] }
        let object = try NewObject(Array("syncagent\n".utf8))
        /// Whether a condition that does not hold keeps the object from being put.
        func isSeen(_ header: (name: String, value: String)) throws(PublishError) -> Bool {
            let expected: Set = [400, 404, 409, 412, 501]
            return try client.send(Self.probe, "PUT", headers: [header], body: object, expecting: expected).status
                == 412
        }
        var isAbsent = try isSeen(("if-none-match", "*"))
        // This may be the first publish there, whose put has succeeded.
        if !isAbsent { isAbsent = try isSeen(("if-none-match", "*")) }
        let found = (absent: isAbsent, unchanged: try isSeen(("if-match", "\"00000000000000000000000000000000\"")))
        knows.withLock { $0 = found }
        guard !found.absent || !found.unchanged else { return [] }
        return [
            "\(shown): this store ignores the conditions of a put, so two publishers at the same moment may replace each "
                + "other's manifest unnoticed; publish from one place at a time. It also costs one more request for each pack"
        ]
    }

    package func put(_ object: NewObject, as name: String, if condition: PutCondition) throws(PublishError) -> String? {
        var headers: [(name: String, value: String)] = []
        let knows = knows.withLock(\.self)
        switch condition {
        case .always: break
        case .absent where knows.absent: headers = [("if-none-match", "*")]
        case .unchanged(let tag) where knows.unchanged: headers = [("if-match", tag)]
        case .absent: if try stat(name) != nil { return nil }
        case .unchanged(let tag): if try stat(name)?.tag != tag { return nil }
        }
        headers.append(("content-type", Self.type(of: name)))
        let answer = try client.send(name, "PUT", headers: headers, body: object, expecting: [404, 412])
        if answer.status < 300 {
            if let tag = answer.headers.etag { return tag }
            return try stat(name)?.tag
        }
        guard answer.status == 412 || condition != .always else {
            throw PublishError(
                .noInput, "\(shown)/\(name): it cannot be put there, status 404", "is there such a bucket?")
        }
        // The sender of packs checks the existing one itself.
        guard condition != .absent || !name.hasPrefix("packs/") else { return nil }
        return try tagOfSame(object, name)
    }

    /// The tag of an existing object, if it has the bytes that were to be put: the answer to the put may have been
    /// lost, and the put repeated by ``S3Client``, or by libcurl, which does so by itself if a reused connection
    /// breaks.
    private func tagOfSame(_ object: NewObject, _ name: String) throws(PublishError) -> String? {
        guard let limit = Int(exactly: object.size) else { return nil }
        let there: (bytes: [UInt8], object: StoredObject)?
        do throws(PublishError) { there = try read(name, limit: max(limit, 1)) } catch {
            // A longer object is another one; any other error says nothing about the object.
            guard error.exitStatus == .dataInvalid else { throw error }
            return nil
        }
        guard let there, UInt64(there.bytes.count) == object.size,
            try NewObject(there.bytes).digest == object.digest
        else { return nil }
        return there.object.tag
    }

    private static func type(of name: String) -> String {
        if name.hasSuffix(".json") { return "application/json" }
        return name.hasSuffix(".zst") ? "application/zstd" : "application/octet-stream"
    }

    package func remove(_ names: [String]) throws(PublishError) {
        let failure = Mutex<PublishError?>(nil)
        _ = concurrently(
            over: names.count, threads: Self.width, name: "remove", isStopped: { failure.withLock { $0 != nil } },
            by: { _ in () }
        ) { [client] _, place in
            do throws(PublishError) {
                _ = try client.send(names[place], "DELETE", expecting: [404])
            } catch { failure.withLock { $0 = $0 ?? error } }
        }
        if let error = failure.withLock(\.self) { throw error }
    }
}
