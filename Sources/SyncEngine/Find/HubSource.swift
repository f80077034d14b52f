import SyncManifest
import SyncModel
import SyncPlugins

/// The hub that `hf://` names, as `HF_ENDPOINT` sets it.
package struct HubPlace: Sendable, Equatable {
    /// The hub's URL, without a slash at its end.
    package var endpoint: String
    /// Why the file of the user's token could not be read; `nil` if it could, or there is none.
    package var unreadToken: String?

    package init(endpoint: String = "https://huggingface.co") { self.endpoint = endpoint }
}

/// The schemes of sources that are built in.
package let sourceSchemes: Set = [HubAddress.scheme, RegistryAddress.scheme]

extension ManifestSource {
    /// The place of a manifest; for a source, the server that answers.
    func place(_ location: String, isPublic: Bool? = nil) -> ManifestPlace {
        // URLs that a local program names are as trusted as those in a local file.
        if source(of: location) != nil { return ManifestPlace(location, base: "file:///", isPublic: isPublic) }
        switch urlScheme(of: location) {
        case HubAddress.scheme: return ManifestPlace(location, base: hub.endpoint + "/", isPublic: isPublic)
        case RegistryAddress.scheme: return registryPlace(location, isPublic: isPublic)
        default: return ManifestPlace(location, isPublic: isPublic)
        }
    }

    /// The function that makes the manifest of a location; `nil` if the location has a manifest to read.
    func maker(of location: String) -> ((String) throws(EngineError) -> FoundManifest)? {
        if let source = source(of: location) {
            return { (location) throws(EngineError) in try find(by: source, location) }
        }
        switch urlScheme(of: location) {
        case HubAddress.scheme: return { (location) throws(EngineError) in try findOnHub(location) }
        case RegistryAddress.scheme: return { (location) throws(EngineError) in try findInRegistry(location) }
        default: return nil
        }
    }

    /// Makes a manifest of a repository on a hub: asks for the commit of its revision and, if that is new, for its
    /// tree, page by page.
    func findOnHub(_ location: String) throws(EngineError) -> FoundManifest {
        let address: HubAddress
        do throws(ListingError) { address = try HubAddress(location) } catch {
            throw EngineError(.usage, "\(redacted(url: location)): \(error)")
        }
        let (answer, report) = try ask(address.revisionURL(hub.endpoint), address)
        let place = place(location, isPublic: report.isPublic)
        let key = "\(place.location)\nhub \(hub.endpoint)"
        let commit = try read(place) { () throws(ListingError) in try HubAnswer.commit(answer) }
        if let known = cache.entry(for: key), known.source?.at == commit {
            return cached(known, at: place, key: key)
        }
        let prefix = address.filePrefix(hub.endpoint, commit: commit)
        var listing = SourceListing()
        var next: String? = address.treeURL(hub.endpoint, commit: commit)
        var pages = 0
        while let url = next {
            pages += 1
            guard pages <= Self.mostPages else {
                throw EngineError(.dataInvalid, "\(place.shown): the hub lists it on more than \(Self.mostPages) pages")
            }
            let (page, report) = try ask(url, address)
            let entries = try read(place) { () throws(ListingError) in
                try HubAnswer.add(page, prefix: prefix, to: &listing)
            }
            next = report.response.next.map { resolve($0, against: url) }
            guard entries > 0 || next == nil else {
                throw EngineError(
                    .dataInvalid, "\(place.shown): the hub has a page without a file, and another one after it")
            }
            if let next, urlOrigin(next) != urlOrigin(hub.endpoint) {
                throw EngineError(
                    .refused, "\(place.shown): the hub's next page is on another server, \(redacted(url: next))",
                    cause: .refusedRedirect)
            }
        }
        let source = SourceOrigin(kind: HubAddress.scheme, url: place.location, at: commit)
        let text = listing.manifest(project: address.project, source)
        return try keep(text, at: place, Derivation(key: key, validator: Validator()))
    }

    /// Runs the parser of an answer; its errors name the place.
    func read<Value>(_ place: ManifestPlace, _ body: () throws(ListingError) -> Value) throws(EngineError)
        -> Value
    {
        do throws(ListingError) { return try body() } catch {
            throw EngineError(.dataInvalid, "\(place.shown): \(error)")
        }
    }

    private static let mostPages = 1_000

    private func ask(_ url: String, _ address: HubAddress) throws(EngineError) -> ([UInt8], TransferReport) {
        let request = TransferRequest(
            id: .next(), urls: [url], limit: UInt64(HubAnswer.limit), priority: .max)
        switch fetch(request) {
        case .success((let bytes, let report)): return (bytes, report)
        case .failure(let error):
            let page = address.page(hub.endpoint)
            let missing = "\(page): there is no such repository, or no revision \(escaped(address.revision))"
            let unread = hub.unreadToken.map { "; the stored token: \($0)" } ?? ""
            throw failure(error, asking: "hub", limit: HubAnswer.limit, missing: missing) {
                EngineError(
                    .refused,
                    "\(page): the hub refuses it (\(error.detail)). Is it private or gated, or does it not exist? Accept its conditions on that "
                        + "page, and set HF_TOKEN or log in with 'hf auth login'\(unread)", cause: error.cause)
            }
        }
    }

    /// The error of a failed request about a set.
    ///
    /// - Parameters:
    ///   - who: The kind of server, for people.
    ///   - limit: **Bytes** of the longest answer.
    ///   - missing: The message if the set does not exist.
    ///   - refused: The error if the server denies access.
    func failure(
        _ error: TransferError, asking who: String, limit: Int, missing: String, refused: () -> EngineError
    ) -> EngineError {
        if stop.reason == .late { return .late("\(error.url): \(error.detail)") }
        if stop.isStopped { return EngineError(.interrupted, "stopped while asking the \(who)") }
        if error.code == .tooLarge {
            return EngineError(.dataInvalid, "\(error.url): an answer of more than \(limit) bytes")
        }
        if error.code.status == 404 || error.code.status == 410 { return EngineError(.noInput, missing) }
        if error.cause == .access { return refused() }
        return EngineError(error.exitStatus, "cannot ask the \(who): \(error)", cause: error.cause)
    }
}
