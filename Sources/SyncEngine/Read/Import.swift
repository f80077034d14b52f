package import SyncManifest
package import SyncModel
import SyncPlugins

/// A manifest that was made from a listing, with everything in it known.
package struct ImportedManifest: Sendable {
    /// JSON, to be kept or published as it is.
    package let text: [UInt8]
    package let manifest: Manifest
    package let source: SourceOrigin
    /// Whether its URLs are relative to the listing's place: then the manifest must lie there, too.
    package let isRelative: Bool
}

extension PullEngine {
    /// Makes a complete, pinned manifest from a listing: sizes and digests that the listing does not state are learnt,
    /// and the bytes fetched for that are thrown away. Nothing is kept.
    ///
    /// - Throws: ``EngineError``: 64 if the location has a manifest already.
    package func imported(_ recipe: RunRecipe) throws(EngineError) -> ImportedManifest {
        let found = try find(recipe)
        var manifest = try known(found, in: [], asksSizes: true)
        guard found.derivation != nil, let origin = manifest.source else {
            throw EngineError(.usage, "\(found.shown) is a manifest already; pull it, or copy it as it is")
        }
        guard manifest.packs.isEmpty else {
            throw EngineError(
                .usage,
                "\(found.shown): its source gives a complete manifest with packs; keep what that program prints")
        }
        if !manifest.files.checks.isEmpty {
            let progress = ProgressCount(environment)
            defer { progress.end() }
            let learning = Learning(environment: environment, found: found, destination: nil, progress: progress)
            let outcome = try learning.run(manifest, rows: Array(manifest.files.indices))
            if let failure = outcome.failures.first {
                let rest = outcome.failures.count > 1 ? " and \(outcome.failures.count - 1) more" : ""
                let status: ExitStatus =
                    failure.cause == .wrongBytes ? .dataInvalid : failure.cause.isRefusal ? .refused : .unavailable
                throw EngineError(
                    status, "\(escaped(manifest.files.path(failure.row)))\(rest): \(failure.reason)",
                    cause: failure.cause)
            }
            manifest = outcome.manifest
        }
        let isRelative = manifest.files.indices.contains { row in
            manifest.files.urls(row).contains { leadingScheme(of: $0) == nil }
        }
        return ImportedManifest(
            text: manifest.files.text(of: manifest, learned: [:], isPinned: true), manifest: manifest, source: origin,
            isRelative: isRelative)
    }
}
