import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTrust

/// Finds a manifest by path or, with a conditional request, by URL.
struct ManifestSource: Sendable {
    let transport: any Transport
    /// The transport for packs beside a local manifest.
    let localTransport: any Transport
    /// If nothing may be stored, only manifests derived from listings are looked up by their places there, and parts.
    let cache: ManifestCache
    /// The hub that `hf://` names.
    var hub = HubPlace()
    /// The piece of the set to read, if the manifest has enough parts; `nil` for all of it.
    var shard: Shard?
    /// Access to the registries that `oci://` names.
    var registries = RegistryAccess()
    /// Sources that make the manifests of other URLs; the first one that serves a URL is used.
    var sources: [ConfiguredSource] = []
    /// The base of the names in a checksum list; `nil` for the list's own place.
    var base: String?
    /// Whether the set is pulled in pieces: all of them must know the same of it before they begin.
    var isForPieces = false
    let stop: StopRequest
    /// Limits of a manifest.
    var limits = ManifestLimits.standard
    /// The cost so far of finding and reading the manifest.
    let counts = Monitor<PullReport.ManifestCounts>((0, 0, 0))
    /// The releases found in registries under the references that were asked for, by their ``RegistryBase``.
    let published = Monitor<[String: RegistryRelease]>([:])
    /// A dictionary that is fetched before it is known to be needed, so that its round trips cost no time while the
    /// manifest is read and compared. Never one that is in the cache.
    let ahead = Monitor<(digest: SHA256Digest, fetch: PartFetch)?>(nil)

    /// Refuses a channel or revision of a place that has neither.
    func check(_ wanted: WantedRelease, at location: String) throws(EngineError) {
        guard wanted.path != nil, maker(of: location) != nil else { return }
        let isRegistry = urlScheme(of: location) == RegistryAddress.scheme
        let remedy = isRegistry ? "name the tag, as TAG.r42 for revision 42" : "leave out --channel and --revision"
        throw EngineError(.usage, "\(redacted(url: location)) has no channels; \(remedy)")
    }

    func find(_ location: String, _ wanted: WantedRelease = WantedRelease()) throws(EngineError) -> FoundManifest {
        if let make = maker(of: location) { return try make(location) }
        if let path = wanted.path { return try find(path, wanted, besides: Self.named(location)) }
        guard let scheme = urlScheme(of: location) else { return try read(location) }
        guard limits.schemes?.contains(scheme) ?? true else {
            throw EngineError(
                .usage,
                "\(redacted(url: location)): a manifest is a path or an http(s) URL; no transport plugin handles \(scheme):"
            )
        }
        let plain = location.prefix { $0 != "?" && $0 != "#" }
        let inside = Self.inside(String(plain)) + location[plain.endIndex...]
        if plain.hasSuffix("/") || Self.isBare(plain) { return try fetch(inside) }
        do throws(EngineError) { return try fetch(location) } catch {
            // A directory without a final slash is answered with a page, an error, nothing, or a redirect that may lead
            // anywhere.
            let isAnswered = [.noInput, .dataInvalid, .refused].contains(error.status) || error.cause == .other
            guard !Self.isFile(plain), isAnswered, !stop.isStopped else { throw error }
            do throws(EngineError) { return try fetch(inside) } catch let second {
                // If that does not help either, report the first failure.
                throw stop.isStopped ? second : error
            }
        }
    }

    /// The manifest of a channel or revision, located relative to `location`.
    private func find(_ path: String, _ wanted: WantedRelease, besides location: String) throws(EngineError)
        -> FoundManifest
    {
        let found: FoundManifest
        do throws(EngineError) {
            if urlScheme(of: location) != nil {
                let query = location.drop { $0 != "?" && $0 != "#" }
                found = try fetch(location, from: resolve(path, against: location) + query)
            } else {
                let directory = location.lastIndex(of: "/").map { String(location[...$0]) } ?? ""
                let packed = directory + path + ".zst"
                found = try read(location, from: exists(packed) ? packed : directory + path)
            }
        } catch {
            guard error.status == .noInput, !stop.isStopped else { throw error }
            throw wanted.isMissing(ManifestPlace(location).shown, channels(besides: location)?.names)
        }
        guard let revision = wanted.revision else { return found }
        let manifest = try found.decode()
        guard manifest.revision == revision else {
            throw EngineError(
                .dataInvalid, "\(found.shown): \(path) is revision \(manifest.revision) of \(escaped(manifest.project))"
            )
        }
        return found
    }

    /// The channels that are published there; `nil` if none are, or the list cannot be fetched.
    func channels(besides location: String) -> ChannelIndex? {
        let url = resolve(ChannelIndex.path, against: manifestURL(location))
        let request = TransferRequest(
            id: .next(), urls: [url], limit: UInt64(ChannelIndex.limit), priority: .max)
        // Only used in a message.
        return try? ChannelIndex(json: fetch(request, until: .now + .seconds(10)).get().bytes)
    }

    /// The location most likely meant, without a request: a directory stands for the manifest in it.
    static func named(_ location: String) -> String {
        guard let scheme = urlScheme(of: location) else {
            return openDirectory(location) != nil ? inside(location) : location
        }
        if scheme == RegistryAddress.scheme { return location }
        let plain = location.prefix { $0 != "?" && $0 != "#" }
        return isFile(plain) ? location : inside(String(plain)) + location[plain.endIndex...]
    }

    /// Whether a URL's path ends as a manifest's does. A directory may have dots in its name: many are named as
    /// projects.
    private static func isFile(_ url: Substring) -> Bool { url.hasSuffix(".json") || url.hasSuffix(".zst") }

    /// The manifest of a directory.
    private static func inside(_ directory: String) -> String {
        directory + (directory.hasSuffix("/") ? "" : "/") + "manifest.json"
    }

    /// Whether a URL has a host and no path.
    private static func isBare(_ url: Substring) -> Bool {
        // Only the two slashes behind the scheme.
        url.count(where: { $0 == "/" }) == 2
    }

    /// The manifest of an earlier run: from the cache, or else from where it came from.
    ///
    /// - Parameter isPublic: Whether it came from a public address; `nil` if unknown.
    /// - Throws: ``EngineError``, also when there is another manifest at that place by now.
    func recorded(
        _ digest: SHA256Digest, location: String, _ wanted: WantedRelease = WantedRelease(), isPublic: Bool?
    ) throws(EngineError) -> FoundManifest {
        let place = place(location, isPublic: isPublic)
        if let (body, isCompressed) = cache.body(digest),
            let manifest = try? decode(body, isCompressed: isCompressed, at: place, isDerived: true),
            manifest.digest == digest
        {
            var found = FoundManifest(manifest, at: place, self)
            (found.derivation, found.origin) = (derivation(of: digest, location), manifest.source)
            return found
        }
        let found = try find(location, wanted)
        guard found.digest == digest else {
            throw EngineError(
                .unavailable, "\(place.shown): the manifest has changed since; pull it again", cause: .badManifest)
        }
        return found
    }

    /// Stores a manifest that came from a file, so that its run does not depend on the file. One that was made of a
    /// listing is stored already: the file has another text.
    func keep(_ found: FoundManifest) {
        let path = found.location
        // It was readable a moment ago.
        guard !cache.isReadOnly, found.derivation == nil, urlScheme(of: path) == nil,
            let body = try? readFile(path, trust: .input, limit: limits.ownTextBytes)
        else { return }
        cache.keep(body, found.digest, isCompressed: path.hasSuffix(".zst"))
    }

    /// - Parameter file: The path of the text, if it is not `given`.
    private func read(_ given: String, from file: String? = nil) throws(EngineError) -> FoundManifest {
        guard absolute(given) != nil else {
            throw EngineError(.cannotCreate, "cannot find \(escaped(given)): \(noWorkingDirectory)")
        }
        let place = openDirectory(given) != nil ? Self.inside(given) : given
        let path = file ?? place
        let body: [UInt8]
        do throws(FileError) { body = try readFile(path, trust: .input, limit: limits.ownTextBytes) } catch {
            if error.code == .fileTooLarge { throw tooLong(escaped(path)) }
            let status: ExitStatus =
                switch error.code {
                case .noSuchFileOrDirectory, .notDirectory: .noInput
                case .notPermitted where error.remark != nil: .noInput  // It is no file.
                default: .ioError
                }
            throw EngineError(
                status, "cannot read the manifest \(escaped(path)): \(error.reason)\(Self.hint(given, error))",
                cause: status == .noInput ? .badManifest : error.cause)
        }
        let isCompressed = path.hasSuffix(".zst")
        let found = ManifestPlace(place)
        if let kind = ListingKind(body) { return try derive(kind, body, nil, at: found, key: key(found.location)) }
        let manifest = try decode(body, isCompressed: isCompressed, at: found, shown: escaped(path))
        // The file may hold another release by the next time.
        if file != nil { cache.keep(body, manifest.digest, isCompressed: isCompressed) }
        return FoundManifest(manifest, at: found, self)
    }

    /// A hint for a missing path that may be a URL without its scheme.
    private static func hint(_ path: String, _ error: FileError) -> String {
        let host = path.prefix { $0 != "/" && $0 != ":" }
        guard error.isMissing, let first = host.first, first != ".", host.utf8.count < path.utf8.count,
            host == "localhost" || host.contains("."), !host.hasSuffix(".json"), !host.hasSuffix(".zst")
        else { return "" }
        let scheme = host == "localhost" || host.allSatisfy { $0.isNumber || $0 == "." } ? "http" : "https"
        return "; if it is on a server, write \(scheme)://\(escaped(path))"
    }

    /// - Parameter object: The URL of the text, if it is not `url`.
    private func fetch(_ url: String, from object: String? = nil) throws(EngineError) -> FoundManifest {
        let object = object ?? url
        let key = key(object)
        // If nothing may be stored, only derived manifests are looked up: a listing may have cost a request per file.
        let known = cache.entry(for: key).flatMap { cache.isReadOnly && !$0.isDerived ? nil : $0 }
        let plain = object.prefix { $0 != "?" && $0 != "#" }
        let query = object[plain.endIndex...]
        var tries: [(url: String, isCompressed: Bool)] = [(object, plain.hasSuffix(".zst"))]
        // The compressed sibling is preferred; on a server without one this costs one request, once.
        if plain.hasSuffix(".json"), known?.isCompressed != false {
            tries.insert((plain + ".zst" + query, true), at: 0)
        }
        for (position, attempt) in tries.enumerated() {
            let usable = known?.isCompressed == attempt.isCompressed ? known : nil
            let request = TransferRequest(
                id: .next(), urls: [attempt.url], limit: UInt64(limits.ownTextBytes),
                knownValidator: usable?.validator, priority: .max)
            switch fetch(request) {
            case .failure(let error):
                if stop.reason == .late { throw .late("\(redacted(url: url)): \(error.detail)") }
                if stop.isStopped { throw EngineError(.interrupted, "stopped while fetching the manifest") }
                // A server that asks for a pause says nothing about what it has.
                let isMissing =
                    error.cause != .serverTrouble && error.code.status.map { (400..<500).contains($0) } ?? false
                if isMissing || error.code == .authentication, position + 1 < tries.count { continue }
                throw refusal(error)
            case .success((_, let report)) where report.response.status == 304:
                guard let usable else {
                    throw EngineError(.dataInvalid, "\(redacted(url: url)): 304 in reply to an unconditional request")
                }
                let place = ManifestPlace(url, isPublic: report.isPublic)
                if usable.isDerived { return cached(usable, at: place, key: key) }
                return cached(usable, at: place) { () throws(EngineError) in
                    try fetchAgain(url, from: object, key, digest: usable.digest)
                }
            case .success((let body, let report)):
                let place = ManifestPlace(url, isPublic: report.isPublic)
                if !attempt.isCompressed, let kind = ListingKind(body) {
                    return try derive(kind, body, report, at: place, key: key)
                }
                if isWebPage(body) {
                    if position + 1 < tries.count { continue }
                    throw EngineError(
                        .dataInvalid,
                        "\(redacted(url: attempt.url)): got a web page instead of the manifest. Does the server require a "
                            + "login first? Or is this a page about the set? The URL of a manifest usually ends with "
                            + "manifest.json")
                }
                let manifest = try decode(
                    body, isCompressed: attempt.isCompressed, at: place, shown: redacted(url: attempt.url))
                let entry = ManifestCache.Entry(
                    digest: manifest.digest, validator: report.response.validator, isCompressed: attempt.isCompressed,
                    project: manifest.project)
                cache.remember(entry, body: body, for: key)
                return FoundManifest(manifest, at: place, self)
            }
        }
        throw EngineError(.noInput, "\(redacted(url: object)): no manifest there")
    }

    /// Fetches a manifest that the server says is unchanged, but whose cached body is gone or damaged.
    private func fetchAgain(_ url: String, from object: String, _ key: String, digest: SHA256Digest) throws(EngineError)
        -> FoundManifest
    {
        cache.forget(key)
        let fresh = try fetch(url, from: object)
        if fresh.digest == digest { return fresh }
        throw EngineError(
            .unavailable, "\(redacted(url: url)): the manifest changed meanwhile; pull again", cause: .badManifest)
    }

    /// A manifest whose body is in the cache.
    ///
    /// - Parameter again: Fetches the manifest again, if the body is gone or damaged when it is decoded.
    func cached(
        _ entry: ManifestCache.Entry, at place: ManifestPlace,
        _ again: @escaping @Sendable () throws(EngineError) -> FoundManifest
    ) -> FoundManifest {
        FoundManifest(entry.digest, project: entry.project, at: place, self) { () throws(EngineError) in
            if let body = cache.body(of: entry),
                let manifest = try? decode(
                    body, isCompressed: entry.isCompressed, at: place, isDerived: entry.isDerived),
                manifest.digest == entry.digest
            {
                return manifest
            }
            if stop.isStopped { throw EngineError(.interrupted, "stopped while reading the manifest") }
            return try again().decode()
        }
    }

    /// Decodes a manifest's own text and reads its parts, if any.
    ///
    /// Runs on a thread of its own, which is abandoned on a stop request, so that a stop does not wait for a text of
    /// many megabytes.
    ///
    /// - Parameters:
    ///   - shown: The place of the text, for people, if it is not `place`.
    ///   - isDerived: Whether the manifest may come from a listing, with facts that are still to be learnt.
    func decode(
        _ body: [UInt8], isCompressed: Bool, at place: ManifestPlace, shown: String? = nil, isDerived: Bool = false
    ) throws(EngineError) -> Manifest {
        let end = Monitor<Result<Manifest, EngineError>?>(nil)
        do throws(ThreadError) {
            _ = try WorkerThread(name: "manifest") { [self] in
                let result = Result { () throws(EngineError) in
                    try decodeHere(body, isCompressed: isCompressed, place, shown ?? place.shown, learns: isDerived)
                }
                end.change { $0 = result }
            }
        } catch { throw EngineError(.ioError, "\(error)") }
        stop.onStop {
            end.change { $0 = $0 ?? .failure(EngineError(.interrupted, "stopped while reading the manifest")) }
        }
        let result = end.wait { end -> Result<Manifest, EngineError>? in
            // After a stop the result is dropped.
            defer { if end != nil { end = .failure(EngineError(.interrupted, "")) } }
            return end
        }
        return try result.get()
    }

    private func decodeHere(
        _ body: [UInt8], isCompressed: Bool, _ place: ManifestPlace, _ shown: String, learns: Bool
    ) throws(EngineError) -> Manifest {
        do {
            var (digest, assembly) = try begin(body, isCompressed: isCompressed, learns: learns)
            let parts = ManifestParts(source: self, bases: [place.baseURL], referrer: place.referrer, shown: shown)
            try parts.add(to: &assembly, root: digest)
            return try assembly.finish()
        } catch let error as EngineError { throw error } catch {
            // What was made here of something else, or by a program, was not meant to be a list.
            let hint = isCompressed || learns ? "" : Self.hint(body)
            throw EngineError(.dataInvalid, "\(shown): \(error)\(hint)")
        }
    }

    /// A hint for a text that was perhaps meant to be a checksum list: of another digest, or with other blanks.
    private static func hint(_ body: [UInt8]) -> String {
        let first = body.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
        guard let first, ![0x3C, 0x7B, 0xEF].contains(first) else { return "" }
        return ". It is not a checksum list either: each line of one is a SHA-256, SHA-512, SHA-384, SHA-1 or MD5 in "
            + "hexadecimal, two spaces and a name"
    }

    /// Decodes the manifest's own text, which is freed on return.
    private func begin(_ body: [UInt8], isCompressed: Bool, learns: Bool) throws -> (
        digest: SHA256Digest, assembly: ManifestAssembly
    ) {
        var json = body
        var limits = limits
        limits.learns = learns
        if isCompressed {
            json = try decodeZstd(body, limit: limits.ownTextBytes)
            limits.memoryBytes -= body.count
        }
        let digest = try json.withUnsafeBytes { try sha256($0) }
        return (digest, try ManifestAssembly(json, digest: digest, limits: limits))
    }

    func tooLong(_ what: String) -> EngineError {
        let limit = ByteCount(UInt64(limits.ownTextBytes))
        return EngineError(
            .dataInvalid,
            "\(what): longer than \(limit); publish the manifest in parts, or raise --max-manifest; of somebody else's list, keep "
                + "some lines in a file, and pull that with --base")
    }

    func refusal(_ error: TransferError) -> EngineError {
        if error.code == .tooLarge { return tooLong(error.url) }
        // What the transport advises is for the files of a set.
        if let status = error.code.status, status == 404 || status == 410 {
            return EngineError(.noInput, "\(error.url): no manifest there (status \(status)); is the URL right?")
        }
        return EngineError(error.exitStatus, "cannot fetch the manifest: \(error)", cause: error.cause)
    }
}
