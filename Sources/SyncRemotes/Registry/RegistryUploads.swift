import SyncManifest
import SyncModel
import SyncPublisher
import SyncSystem

// Blobs and manifests of one repository, each by the requests that the specification has for it.

extension RegistryClient {
    private var base: String { "/v2/\(address.name)/" }

    // MARK: Manifests

    /// The manifest that a registry has under a tag or a digest; `nil` where there is none.
    func manifest(_ reference: String) throws(PublishError) -> (bytes: [UInt8], digest: SHA256Digest)? {
        let answer = try send(
            request("GET", base + "manifests/" + reference, headers: ["Accept: \(RegistryAnswer.accepted)"]))
        if answer.status == 404 { return nil }
        guard answer.status == 200 else { throw refusal(answer, "the manifest of \(escaped(reference))") }
        let digest = try Self.digest(of: answer.body)
        guard RegistryAddress.sha256(Substring(reference)).map({ $0 == digest }) ?? true else {
            throw PublishError(
                .dataInvalid, "\(shown): the registry gave another manifest, of sha256:\(digest)", "ask its operator")
        }
        return (answer.body, digest)
    }

    /// The digest of the manifest with a tag; `nil` where there is none.
    func digest(ofTag tag: String) throws(PublishError) -> SHA256Digest? {
        let answer = try send(
            request("HEAD", base + "manifests/" + tag, headers: ["Accept: \(RegistryAnswer.accepted)"]))
        if answer.status == 404 { return nil }
        if answer.status == 200, let text = answer.headers.contentDigest,
            let digest = RegistryAddress.sha256(Substring(text))
        {
            return digest
        }
        // Some registries do not know HEAD, and some send no digest.
        return try manifest(tag)?.digest
    }

    /// Puts a manifest under a tag, which leaves any former one.
    func put(manifest bytes: [UInt8], as tag: String) throws(PublishError) {
        let answer = try send(
            request(
                "PUT", base + "manifests/" + tag,
                headers: ["Content-Type: \(RegistryAnswer.imageManifest)"], text: bytes))
        guard (200..<300).contains(answer.status) else { throw refusal(answer, "the tag \(tag)") }
    }

    /// Deletes a manifest, and with it every tag that it has.
    func delete(manifest digest: SHA256Digest) throws(PublishError) {
        let answer = try send(request("DELETE", base + "manifests/sha256:\(digest)"))
        switch answer.status {
        case 200..<300, 404: return
        case 405, 501, 400:
            throw PublishError(
                .refused, "\(shown): the registry deletes nothing (status \(answer.status))",
                "allow it there, as with REGISTRY_STORAGE_DELETE_ENABLED=true; nothing was removed")
        default: throw refusal(answer, "to delete sha256:\(digest)")
        }
    }

    /// All tags; none where there is no such repository yet.
    func tags() throws(PublishError) -> [String] {
        var (tags, pages) = ([String](), 0)
        var next: String? = base + "tags/list?n=\(Self.tagsAtOnce)"
        while let url = next {
            let answer = try send(Request(url: url, limit: Self.mostTagBytes))
            if answer.status == 404 { return tags }
            guard answer.status == 200 else { throw refusal(answer, "the list of tags") }
            guard let value = answer.body.withUnsafeBytes({ JSONParser.parse($0) }) else {
                throw PublishError(.dataInvalid, "\(shown): its list of tags cannot be read", "ask its operator")
            }
            // A repository without tags may have `null` here.
            tags += (value["tags"]?.array ?? []).compactMap(\.string)
            pages += 1
            next = answer.headers.link.flatMap { nextLink($0) }.flatMap { target($0, from: answer.url) }
            guard pages < Self.mostPages, tags.count <= Self.mostTags else {
                throw PublishError(
                    .dataInvalid, "\(shown) has more than \(Self.mostTags) tags", "use another repository")
            }
        }
        return tags
    }

    private static let (tagsAtOnce, mostTags, mostPages, mostTagBytes) = (1_000, 100_000, 10_000, 16 << 20)

    static func digest(of bytes: [UInt8]) throws(PublishError) -> SHA256Digest { try NewObject(bytes).digest }

    // MARK: Blobs

    /// Whether the repository has a blob.
    ///
    /// - Parameter size: In **bytes**; a blob of another size does not count.
    func has(_ digest: SHA256Digest, _ size: UInt64) throws(PublishError) -> Bool {
        let answer = try send(request("HEAD", base + "blobs/sha256:\(digest)"))
        switch answer.status {
        case 200: return answer.headers.contentLength.map { UInt64($0) == size } ?? true
        case 404, 405, 501: return false
        default: throw refusal(answer, "to look for a blob")
        }
    }

    /// A blob, or a range of one.
    func blob(_ digest: SHA256Digest, _ range: Range<UInt64>? = nil, limit: Int) throws(PublishError) -> [UInt8] {
        var request = Request(url: base + "blobs/sha256:\(digest)", limit: limit)
        if let range { request.headers = ["Range: bytes=\(range.lowerBound)-\(range.upperBound - 1)"] }
        let answer = try send(request)
        switch answer.status {
        case 206 where range != nil: return answer.body
        case 200 where range == nil: return answer.body
        case 200:
            throw PublishError(
                .unavailable, "\(shown): the registry does not serve ranges of blobs", "name a local copy with --base")
        default: throw refusal(answer, "the blob sha256:\(digest)")
        }
    }

    /// Uploads a blob, which is then there under its digest, or not at all.
    ///
    /// One request asks where to upload, and the next one sends the blob; if the registry refuses so long a body, it is
    /// sent in chunks.
    ///
    /// - Parameter repository: Another repository that has the blob: the registry mounts it from there without an
    ///   upload, if it can.
    func upload(_ object: NewObject, from repository: String? = nil) throws(PublishError) {
        var (tries, trouble) = (0, "")
        var source = mayMount ? repository : nil
        while true {
            let length = min(object.size, longestBody ?? .max)
            let start: Answer
            do throws(PublishError) {
                start = try begin(object, from: source)
            } catch {
                // No token is given for both repositories.
                guard source != nil, error.exitStatus == .refused else { throw error }
                mountNothing()
                source = nil
                continue
            }
            if source != nil {
                // Only a mount is answered with 201.
                if start.status == 201 { return }
                source = nil
                // The registry knows no mounts, or does not let this user mount.
                if start.status != 202 { continue }
            }
            guard start.status == 202, let location = start.headers.location,
                let place = target(location, from: start.url)
            else { throw refusal(start, "an upload") }
            let outcome = Result { () throws(PublishError) in
                try length == object.size ? whole(object, place) : chunks(object, place, length)
            }
            var refused: Answer?
            switch outcome {
            // 202 means that the upload goes on.
            case .success(let answer) where (200..<300).contains(answer.status) && answer.status != 202: return
            case .success(let answer) where answer.status == 413 && length > Self.leastChunk:
                shorten(to: max(Self.leastChunk, min(length / 2, Self.usualChunk)))
                continue
            case .success(let answer):
                // The upload is no longer known, or the server had trouble.
                guard [202, 404, 408, 416, 425, 429].contains(answer.status) || answer.status >= 500 else {
                    throw refusal(answer, "a blob of \(ByteCount(object.size))")
                }
                (trouble, refused) = ("status \(answer.status)", answer)
            case .failure(let error):
                guard error.exitStatus == .unavailable else { throw error }
                trouble = error.summary
            }
            // The answer may have been lost, and not the blob.
            if try has(object.digest, object.size) { return }
            tries += 1
            guard tries < Self.mostUploads else {
                throw PublishError(
                    .unavailable, "\(shown): a blob of \(ByteCount(object.size)) cannot be sent: \(trouble)",
                    "the published set is unchanged; run it again")
            }
            pause(tries, trouble, refused)
        }
    }

    /// Asks where to upload a blob, or mounts it from another repository.
    private func begin(_ object: NewObject, from repository: String?) throws(PublishError) -> Answer {
        let mount = repository.map {
            "?mount=sha256%3A\(object.digest)&from=\(percentEncoded(bytes: $0.utf8, keepsSlash: false))"
        }
        return try send(
            request(
                "POST", base + "blobs/uploads/" + (mount ?? ""), headers: ["Content-Length: 0", "Content-Type:"],
                text: []))
    }

    private static let mostUploads = 8
    /// **Bytes** of a chunk: the most that most proxies let through, and the least that is tried.
    private static let (usualChunk, leastChunk): (UInt64, UInt64) = (8 << 20, 64 << 10)

    private func whole(_ object: NewObject, _ place: String) throws(PublishError) -> Answer {
        try send(
            Request(
                method: "PUT", url: Self.finishing(place, object.digest),
                headers: ["Content-Type: application/octet-stream"], part: (0..<object.size, object),
                limit: RegistryAnswer.limit, mayRepeat: false))
    }

    private func chunks(_ object: NewObject, _ first: String, _ length: UInt64) throws(PublishError) -> Answer {
        var (place, offset) = (first, UInt64(0))
        while offset < object.size {
            let end = min(object.size, offset + length)
            let answer = try send(
                Request(
                    method: "PATCH", url: place,
                    headers: ["Content-Type: application/octet-stream", "Content-Range: \(offset)-\(end - 1)"],
                    part: (offset..<end, object), limit: RegistryAnswer.limit, mayRepeat: false))
            guard answer.status == 202 else { return answer }
            guard let next = answer.headers.location.flatMap({ target($0, from: answer.url) }) else {
                throw PublishError(
                    .dataInvalid, "\(shown): the registry does not say where the next chunk goes",
                    "ask its operator; the published set is unchanged")
            }
            (place, offset) = (next, end)
        }
        return try send(
            Request(
                method: "PUT", url: Self.finishing(place, object.digest),
                headers: ["Content-Length: 0", "Content-Type:"], text: [],
                limit: RegistryAnswer.limit, mayRepeat: false))
    }

    private static func finishing(_ place: String, _ digest: SHA256Digest) -> String {
        place + (place.contains("?") ? "&" : "?") + "digest=sha256%3A\(digest)"
    }
}
