package import SyncModel

/// JSON text → checked ``Manifest``.
///
/// 1. One pass over the bytes reads every value, checks what one value can show, and fills the table.
/// 2. Rows are put in ``PathOrder``, unless they stand so already.
/// 3. Rules that need the whole are checked: duplicates, directories that are files, blobs against packs.
///
/// A manifest in parts is read by ``ManifestAssembly``, which these steps are in, too.
///
/// Either everything holds, or the first broken rule is thrown and nothing of the manifest is kept. The
/// normative text is `Manifests/FORMAT.md`.
package enum ManifestLoader {
    /// Reads a manifest.
    ///
    /// - Parameters:
    ///   - bytes: The JSON text, uncompressed, UTF-8.
    ///   - digest: SHA-256 of `bytes`.
    ///   - limits: The most it may hold.
    /// - Returns: The manifest, with its files in ``PathOrder``.
    /// - Throws: ``ManifestError`` with the JSON path of the first rule that is broken.
    /// - Complexity: O(*n*) for *n* bytes; O(*m* log *m*) more when *m* files do not stand in ``PathOrder``.
    package static func load(
        _ bytes: UnsafeRawBufferPointer,
        digest: SHA256Digest,
        limits: ManifestLimits = .standard
    ) throws(ManifestError) -> Manifest {
        let assembly = try ManifestAssembly(bytes, digest: digest, limits: limits)
        return try assembly.finish()
    }

    /// Reads a manifest.
    ///
    /// - Throws: ``ManifestError`` with the JSON path of the first rule that is broken.
    package static func load(
        _ bytes: [UInt8],
        digest: SHA256Digest,
        limits: ManifestLimits = .standard
    ) throws(ManifestError) -> Manifest {
        try bytes.withUnsafeBufferPointer { bytes throws(ManifestError) in
            try load(UnsafeRawBufferPointer(bytes), digest: digest, limits: limits)
        }
    }
}
