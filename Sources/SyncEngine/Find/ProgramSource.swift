import SyncManifest
import SyncModel
package import SyncPlugins

/// A source of manifests for some URLs.
package struct ConfiguredSource: Sendable {
    /// Its name in messages.
    package let name: String
    package let source: any SetSource
    /// The `source.kind` of its manifests, for a built-in source; `nil` for the URL's scheme.
    package let kind: String?
    /// A text that changes with the configuration of the source.
    private let setup: String
    /// Whether the source serves a URL.
    package let covers: @Sendable (_ url: String) -> Bool
    /// The schemes of its URLs, in lower case.
    package let schemes: Set<String>

    package init(
        name: String, kind: String? = nil, source: any SetSource, setup: String = "", schemes: Set<String>,
        covers: @escaping @Sendable (String) -> Bool
    ) {
        (self.name, self.kind, self.source, self.setup) = (name, kind, source, setup)
        (self.schemes, self.covers) = (schemes, covers)
    }

    /// The cache key of the manifest that it makes for a URL.
    fileprivate func key(_ location: String) -> String { "\(location)\nsource \(name)\n\(setup)" }
}

extension ManifestSource {
    /// The source that serves a location; `nil` if there is none.
    func source(of location: String) -> ConfiguredSource? {
        urlScheme(of: location) == nil ? nil : sources.first { $0.covers(location) }
    }

    /// Lets a source make a manifest, or confirm that the last one is still current.
    func find(by configured: ConfiguredSource, _ location: String) throws(EngineError) -> FoundManifest {
        let place = place(location)
        let key = configured.key(location)
        let known = cache.entry(for: key)
        let answer: SourceAnswer
        do throws(PluginError) { answer = try configured.source.manifest(of: location, known: known?.source?.at) } catch
        {
            let told = configured.kind == nil ? "\(error)" : error.message
            if stop.reason == .late { throw .late("\(place.shown): \(told)") }
            if stop.isStopped { throw EngineError(.interrupted, "stopped while \(configured.name) made the manifest") }
            throw EngineError(error.status, "\(place.shown): \(told)", cause: error.code == .refused ? .access : nil)
        }
        guard case .manifest(let text) = answer else {
            guard let known else {
                throw EngineError(
                    .dataInvalid, "\(place.shown): \(configured.name) says that nothing is new, but nothing is known")
            }
            return cached(known, at: place, key: key)
        }
        // A source that lists everything each time may have returned the same text again.
        let mark = try digest(of: text)
        if let known, known.validator.etag == mark.hex { return cached(known, at: place, key: key) }
        let whole: [UInt8]
        do throws(ManifestError) {
            whole = try SourceOrigin.put(into: text) { at in
                SourceOrigin(
                    kind: configured.kind ?? urlScheme(of: location) ?? "source", url: place.location,
                    at: at ?? mark.hex)
            }
        } catch {
            // Whoever reads all of it says where.
            _ = try decode(text, by: configured, at: place)
            throw EngineError(.dataInvalid, "what \(configured.name) printed: \(place.shown): \(error)")
        }
        let manifest = try decode(whole, by: configured, at: place)
        if let reason = manifest.objectionToSource {
            throw EngineError(.dataInvalid, "\(place.shown): \(configured.name) gave \(reason)")
        }
        return keep(manifest, whole, at: place, Derivation(key: key, validator: Validator(etag: mark.hex)))
    }

    /// Reads what a source has made.
    private func decode(_ text: [UInt8], by configured: ConfiguredSource, at place: ManifestPlace) throws(EngineError)
        -> Manifest
    {
        do throws(EngineError) { return try decode(text, isCompressed: false, at: place, isDerived: true) } catch {
            guard error.status == .dataInvalid, configured.kind == nil else { throw error }
            throw EngineError(.dataInvalid, "what \(configured.name) printed: \(error.message)", cause: error.cause)
        }
    }
}

extension Manifest {
    /// Why the manifest of a source cannot be used; `nil` if it can.
    package var objectionToSource: String? {
        func isRelative(_ url: String) -> Bool { leadingScheme(of: url) == nil }
        let found =
            files.indices.lazy.compactMap { row in files.urls(row).first(where: isRelative) }.first
            ?? packs.lazy.compactMap { pack in pack.urls.first(where: isRelative) }.first
        if let found { return "the relative URL \(quoted(found)); a source writes absolute ones" }
        guard files.checks.isEmpty || packs.isEmpty else {
            return "both “packs” and “x-learn”; a source writes one of them"
        }
        return nil
    }
}

extension PluginError {
    /// The exit status of a pull that the error ends.
    fileprivate var status: ExitStatus {
        switch code {
        case .misused: .usage
        case .notThere: .noInput
        case .refused: .refused
        case .badAnswer: .dataInvalid
        default: .unavailable
        }
    }
}
