import SyncManifest
import SyncModel
import SyncPlugins

/// The link between the engine and the credentials of registries.
package struct RegistryAccess: Sendable {
    /// Called when the user has named a repository of the registry at this URL: the user's credentials may be sent
    /// there.
    package var name: @Sendable (_ endpoint: String, _ repository: String) -> Void = { _, _ in }
    /// Why there was no credential for the registry at this URL, and whether that may pass; `nil` if nothing failed.
    package var trouble: @Sendable (_ endpoint: String) -> (reason: String, isPassing: Bool)? = { _ in nil }

    package init() {}
}

extension ManifestSource {
    /// The place of an artifact; its URLs are those of its registry.
    func registryPlace(_ location: String, _ endpoint: String? = nil, isPublic: Bool?) -> ManifestPlace {
        guard let address = try? RegistryAddress(location) else { return ManifestPlace(location, isPublic: isPublic) }
        let endpoints = endpoint.map { [$0] } ?? address.endpoints
        for endpoint in endpoints { registries.name(endpoint, address.name) }
        return ManifestPlace(location, base: RegistryBase(address, at: endpoints[0]).text, isPublic: isPublic)
    }

    /// Makes a manifest of an artifact in a registry: asks for the digest of its tag and, if that is new, for the
    /// manifest.
    func findInRegistry(_ location: String) throws(EngineError) -> FoundManifest {
        let address: RegistryAddress
        do throws(ListingError) { address = try RegistryAddress(location) } catch {
            throw EngineError(.usage, "\(redacted(url: location)): \(error)")
        }
        for (position, endpoint) in address.endpoints.enumerated() {
            registries.name(endpoint, address.name)
            switch head(of: address, at: endpoint) {
            case .success(let head): return try found(address, location, at: endpoint, head)
            case .failure(let error):
                // A server that speaks TLS answers plain HTTP with 400.
                if position + 1 < address.endpoints.count, error.code.status == 400, !stop.isStopped { continue }
                throw refusal(error, address, endpoint)
            }
        }
        throw EngineError(.unavailable, "\(redacted(url: location)): there is no server to ask")
    }

    /// Asks a registry about a tag with HEAD; `nil` if the registry has no HEAD.
    private func head(of address: RegistryAddress, at endpoint: String) -> Result<TransferReport?, TransferError> {
        switch fetch(request(address.manifestURL(endpoint, address.reference), isHeadOnly: true)) {
        case .success(let answer): return .success(answer.report)
        // Some registries have no HEAD.
        case .failure(let error):
            return error.code.status == 405 || error.code.status == 501 ? .success(nil) : .failure(error)
        }
    }

    private func found(_ address: RegistryAddress, _ location: String, at endpoint: String, _ head: TransferReport?)
        throws(EngineError) -> FoundManifest
    {
        let told = (head?.response.contentDigest).flatMap { RegistryAddress.sha256(Substring($0)) }
        if let wanted = address.digest, let told, told != wanted {
            throw EngineError(.dataInvalid, "\(redacted(url: location)): the registry says that it is sha256:\(told)")
        }
        let expected = address.digest ?? told
        var place = registryPlace(location, endpoint, isPublic: head?.isPublic)
        let key = "\(place.location)\nregistry \(endpoint)"
        func known(_ digest: SHA256Digest) -> FoundManifest? {
            let published = self.known(digest, at: place, key: key) { () throws(EngineError) in
                try findInRegistry(location)
            }
            if let published { return published }
            guard let entry = cache.entry(for: key), entry.source?.at == "sha256:\(digest)" else { return nil }
            return cached(entry, at: place, key: key)
        }
        if let expected, let found = known(expected) { return found }
        let first = try manifest(address, at: endpoint, expected.map { "sha256:\($0)" } ?? address.reference, expected)
        place = registryPlace(location, endpoint, isPublic: first.isPublic ?? head?.isPublic)
        if expected == nil, let found = known(first.digest) { return found }
        var text = first.text
        var seen: Set<SHA256Digest> = [first.digest]
        while true {
            let read = try self.read(place) { () throws(ListingError) in
                try RegistryAnswer.read(text, prefix: address.blobPrefix(endpoint))
            }
            switch read {
            case .release(let release): return try self.found(release, first.digest, at: place, key: key)
            case .files(let listing):
                let source = SourceOrigin(
                    kind: RegistryAddress.scheme, url: place.location, at: "sha256:\(first.digest)")
                return try keep(
                    listing.manifest(project: address.project, source), at: place,
                    Derivation(key: key, validator: Validator()))
            case .elsewhere(let digest):
                guard seen.insert(digest).inserted, seen.count <= RegistryAnswer.mostLevels else {
                    throw EngineError(.dataInvalid, "\(place.shown): its indexes lead to no manifest")
                }
                text = try manifest(address, at: endpoint, "sha256:\(digest)", digest).text
            }
        }
    }

    /// Fetches a manifest, and checks its digest if one is expected.
    private func manifest(
        _ address: RegistryAddress, at endpoint: String, _ reference: String, _ expected: SHA256Digest?
    ) throws(EngineError) -> (text: [UInt8], digest: SHA256Digest, isPublic: Bool?) {
        let url = address.manifestURL(endpoint, reference)
        switch fetch(request(url, isHeadOnly: false)) {
        case .failure(let error): throw refusal(error, address, endpoint)
        case .success((let text, let report)):
            let digest = try SyncEngine.digest(of: text)
            guard expected == nil || digest == expected else {
                throw EngineError(
                    .dataInvalid, "\(redacted(url: url)): the registry gave another manifest, of sha256:\(digest)",
                    cause: .badManifest)
            }
            return (text, digest, report.isPublic)
        }
    }

    private func request(_ url: String, isHeadOnly: Bool) -> TransferRequest {
        var request = TransferRequest(
            id: .next(), urls: [url], limit: UInt64(RegistryAnswer.limit), priority: .max)
        (request.accepted, request.isHeadOnly) = (RegistryAnswer.accepted, isHeadOnly)
        return request
    }

    /// The error of a pull whose request to a registry failed.
    private func refusal(_ error: TransferError, _ address: RegistryAddress, _ endpoint: String) -> EngineError {
        let shown = "oci://\(address.host)/\(address.name)"
        let missing = "\(shown): there is no such artifact, or none named \(escaped(address.reference))"
        return failure(error, asking: "registry", limit: RegistryAnswer.limit, missing: missing) {
            if let trouble = registries.trouble(endpoint) {
                return trouble.isPassing
                    ? EngineError(.unavailable, "\(shown): \(trouble.reason)", cause: .serverTrouble)
                    : EngineError(.refused, "\(shown): \(trouble.reason)", cause: error.cause)
            }
            return EngineError(.refused, "\(shown): \(address.refusal(error))", cause: error.cause)
        }
    }
}

extension RegistryAddress {
    /// The message when the registry refuses a user whose login is not known.
    func refusal(_ error: TransferError) -> String {
        "the registry refuses it (\(error.detail)). Is it private, or does it not exist? Log in with 'docker login \(host)' or "
            + "'oras login \(host)'"
    }
}
