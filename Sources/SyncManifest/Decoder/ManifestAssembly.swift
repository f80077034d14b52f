package import SyncModel

/// JSON text → checked ``Manifest``: text by text, first its own, then that of each part, in order.
///
/// 1. One pass over the bytes reads every value, checks what one value can show, and fills the table.
/// 2. Rows are put in ``PathOrder``, unless they stand so already.
/// 3. Rules that need the whole are checked: duplicates, directories that are files, blobs against packs.
///
/// A manifest of version 1 has no parts and is complete at once. Of parts, one text is looked at at a time, and
/// nothing of it is kept but its rows. Either everything holds, or the first broken rule is thrown. The normative text is
/// `Manifests/FORMAT.md`.
package struct ManifestAssembly {
    private var decoder: ManifestDecoder
    private var packs: [SHA256Digest: UInt32] = [:]
    private let digest: SHA256Digest

    /// Reads the manifest's own text, uncompressed; `digest` is its SHA-256.
    package init(_ bytes: UnsafeRawBufferPointer, digest: SHA256Digest, limits: ManifestLimits = .standard)
        throws(ManifestError)
    {
        self.digest = digest
        var decoder = ManifestDecoder(bytes.assumingMemoryBound(to: UInt8.self), limits: limits)
        do throws(ManifestFault) { try decoder.readDocument() } catch { throw decoder.error(error) }
        do throws(ManifestFault) { if !decoder.parts.isEmpty { try decoder.checkParts() } } catch {
            throw decoder.lateError(error)
        }
        decoder.forgetText()
        self.decoder = decoder
        guard !decoder.parts.isEmpty else { return }
        try TableChecks.checkPacks(decoder.packs)
        packs.reserveCapacity(decoder.packs.count)
        for (index, pack) in decoder.packs.enumerated() { packs[pack.sha256] = UInt32(truncatingIfNeeded: index) }
    }

    /// The same, of an array.
    package init(_ text: [UInt8], digest: SHA256Digest, limits: ManifestLimits = .standard) throws(ManifestError) {
        self = try text.withUnsafeBufferPointer { bytes throws(ManifestError) in
            try ManifestAssembly(UnsafeRawBufferPointer(bytes), digest: digest, limits: limits)
        }
    }

    /// The project's name.
    package var project: String { decoder.project ?? "" }

    /// The parts to add, in this order; none when the manifest is one text.
    package var parts: [Manifest.Part] { decoder.parts }

    /// What blobs are decoded with, in version 3.
    package var dictionary: Manifest.SharedDictionary? { decoder.dictionary }

    package func pack(of part: Manifest.Part) -> Manifest.Pack { decoder.packs[Int(part.blob.pack)] }

    package func pack(of dictionary: Manifest.SharedDictionary) -> Manifest.Pack {
        decoder.packs[Int(dictionary.blob.pack)]
    }

    package func pack(of delta: Manifest.PartDelta) -> Manifest.Pack { decoder.packs[Int(delta.pack)] }

    /// Reads the text of the next part, uncompressed; the caller has checked its SHA-256. The JSON path of an error begins
    /// with the part, its line and column count in the part's text.
    package mutating func add(_ bytes: UnsafeRawBufferPointer) throws(ManifestError) {
        guard decoder.partStarts.count < decoder.parts.count else {
            throw ManifestError(path: "$.parts", reason: "one part too many", remedy: "report this as a bug")
        }
        let first = (blob: decoder.files.blobs.count, delta: decoder.files.deltaColumn.all.count)
        let numbers: [UInt32]
        do throws(ManifestFault) {
            numbers = try decoder.readPart(bytes.assumingMemoryBound(to: UInt8.self), packs)
        } catch { throw decoder.error(error) }
        do throws(ManifestFault) { try decoder.renumberPacks(numbers, from: first) } catch {
            throw decoder.lateError(error)
        }
        decoder.forgetText()
    }

    /// Checks the rules that need the whole.
    ///
    /// - Throws: ``ManifestError`` for the first rule that is broken, or when parts are missing.
    package consuming func finish() throws(ManifestError) -> Manifest {
        guard decoder.partStarts.count == decoder.parts.count else {
            throw ManifestError(
                path: "$.parts[\(decoder.partStarts.count)]",
                reason: "the manifest is in parts, and this one is not here", remedy: "read it with its parts")
        }
        return try TableChecks.finish(decoder, digest: digest)
    }
}
