package import SyncManifest
package import SyncModel
import SyncPlugins

/// A manifest that was made of somebody's listing, with everything in it known.
package struct ImportedManifest: Sendable {
    /// JSON, to be kept or published as it is.
    package let text: [UInt8]
    package let manifest: Manifest
    package let source: SourceOrigin
    /// Whether its URLs are relative to where the listing lies: then it must lie there, too.
    package let isRelative: Bool
}

extension PullEngine {
    /// Makes a manifest of a listing, whole and pinned: what the listing does not say is found out, and the bytes that come for
    /// that are thrown away. Nothing is kept.
    ///
    /// - Throws: ``EngineError``: 64 for a manifest, which needs none of this.
    package func imported(_ recipe: RunRecipe) throws(EngineError) -> ImportedManifest {
        let source = try manifestSource(caching: false, of: recipe)
        let found = try releases(source, recipe, isReadOnly: true).find(recipe.manifest)
        var manifest = try known(found, in: [], asksSizes: true)
        guard found.derivation != nil, let origin = manifest.source else {
            throw EngineError(.usage, "\(found.shown) is a manifest already; pull it, or copy it as it is")
        }
        guard manifest.packs.isEmpty else {
            throw EngineError(
                .usage,
                "\(found.shown): what its source gives has packs, and is whole already; keep what that program prints")
        }
        if !manifest.files.checks.isEmpty {
            let progress = ProgressCount(environment)
            defer { progress.end() }
            let learning = Learning(environment: environment, found: found, destination: nil, progress: progress)
            let outcome = try learning.run(manifest, rows: Array(manifest.files.indices))
            if let failure = outcome.failures.first {
                let rest = outcome.failures.count > 1 ? ", and \(outcome.failures.count - 1) more" : ""
                let status: ExitStatus =
                    failure.cause == .wrongBytes ? .dataInvalid : failure.cause.isRefusal ? .refused : .unavailable
                throw EngineError(
                    status, "\(escaped(manifest.files.path(failure.row))): \(failure.reason)\(rest)",
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
