import SyncModel

/// The limits of a manifest. Each default is above what an honest set should need; beyond it the manifest is refused,
/// and the message names the limit. Of a manifest in parts, only the entries, blobs and texts that are read count: a
/// shard reads its own.
package struct ManifestLimits: Sendable {
    /// JSON text in **bytes**, uncompressed, that of parts included.
    package var manifestBytes = 1 << 30
    /// The manifest's own text in **bytes**, uncompressed or compressed; it is held in memory as a whole.
    package var ownTextBytes = 128 << 20
    /// The text of one part in **bytes**, in either form.
    package var partBytes = 64 << 20
    /// The memory of a decoded manifest, with the text that is read, in **bytes**, about.
    package var memoryBytes = 230 << 20
    /// Files and links.
    package var entries = 5_000_000
    /// Parts, of a thousand entries each on average.
    package var parts = 250_000
    package var packs = 1_000_000
    /// Blobs of all files together.
    package var blobs = 20_000_000
    /// Groups, declared and implied.
    package var groups = 10_000
    package var patternsPerGroup = 1_000
    /// Paths that the patterns of all groups are tried on, each pattern counted.
    package var patternMatches = 50_000_000
    /// **Bytes** of these paths, where a pattern counts once for each 64 bytes of its own: about **1 ns** each.
    package var patternBytes = 4_000_000_000
    package var urlsPerFile = 64
    /// One URL in **bytes**. RFC 9110 section 4.1 asks for at least 8,000.
    package var urlBytes = 8_192
    /// Paths, link targets and URLs together, in **bytes**.
    package var textBytes = 1 << 30
    /// The schemes that URLs may have, in lower case: http and https, and those of the transport plugins on this
    /// machine; `nil` for any, where nothing is fetched.
    package var schemes: Set<String>? = webSchemes
    /// Whether entries may leave out facts that are learnt with their bytes, as the listings of sources do: `x-learn`.
    package var learns = false
    /// Nested arrays and objects.
    package var depth = 64
    /// Members of one object under an `x-` key.
    package var extensionMembers = 10_000

    /// The remedy for a manifest that is too large for memory. The listing of somebody else's source cannot be
    /// published in parts.
    var remedy: String {
        learns
            ? "pull a part of it, such as a list with fewer lines, or raise the limit with --max-manifest"
            : "publish it in parts, or raise the limit with --max-manifest"
    }

    package static let standard = ManifestLimits()

    package init() {}

    /// The limits for manifests whose own text may be longer than usual; memory and counts grow with it.
    ///
    /// - Parameter ownText: **Bytes**.
    package init(ownText: Int) {
        ownTextBytes = ownText
        partBytes = max(partBytes, ownText)
        // The text, as long a compressed form of it, and its table.
        memoryBytes = max(memoryBytes, ownText.multipliedReportingOverflow(by: 3).overflow ? .max : ownText * 3)
        manifestBytes = max(manifestBytes, memoryBytes)
        // Memory is the real bound: an entry takes more than 64 bytes of it, a blob more than 16, a pack more than 256.
        // The tables count with 32 bits.
        let memory = memoryBytes
        func grown(_ limit: Int, bytesEach: Int) -> Int { max(limit, min(memory / bytesEach, Int(UInt32.max))) }
        textBytes = grown(textBytes, bytesEach: 1)
        entries = grown(entries, bytesEach: 64)
        blobs = grown(blobs, bytesEach: 16)
        packs = grown(packs, bytesEach: 256)
        patternMatches = max(patternMatches, entries * 10)
        patternBytes = max(patternBytes, entries * 800)
    }
}
