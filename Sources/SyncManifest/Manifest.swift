package import SyncModel

/// A checked manifest: everything in it is safe to act on. Made by ``ManifestLoader`` only.
///
/// Files stand in ``PathOrder``. Nothing here does I/O.
package struct Manifest: Sendable {
    /// Reverse-DNS name of the project; the default session identifier.
    package let project: String

    /// The publisher's counter; larger is newer.
    package let revision: UInt64

    /// When it was published, as written (RFC 3339); never used as proof.
    package let created: String?

    /// SHA-256 of the JSON text, uncompressed. Names this revision of the set.
    package let digest: SHA256Digest

    /// Where blobs are.
    package let packs: [Pack]

    /// Named subsets.
    package let groups: [Group]

    /// The files and links.
    package let files: FileTable

    /// How the publisher cut large files, where it said so; a hint, `x-chunking` in `Manifests/FORMAT.md`.
    package let chunking: ChunkParameters?

    /// The group that every run has: all files. No manifest may declare it.
    package static let groupOfAll = "all"

    package init(
        project: String,
        revision: UInt64,
        created: String?,
        digest: SHA256Digest,
        packs: [Pack],
        groups: [Group],
        files: FileTable,
        chunking: ChunkParameters? = nil
    ) {
        self.project = project
        self.revision = revision
        self.created = created
        self.digest = digest
        self.packs = packs
        self.groups = groups
        self.files = files
        self.chunking = chunking
    }

    /// One large object that holds blobs.
    package struct Pack: Sendable, Equatable {
        /// Where it can be had, best first; as written, so relative ones resolve against the manifest's URL.
        package var urls: [String]
        /// Its length in **bytes**.
        package var size: UInt64
        /// Its digest; also its name.
        package var sha256: SHA256Digest

        package init(urls: [String], size: UInt64, sha256: SHA256Digest) {
            self.urls = urls
            self.size = size
            self.sha256 = sha256
        }
    }

    /// A named subset: files whose `group` names it, and files one of the patterns matches.
    package struct Group: Sendable, Equatable {
        package var name: String
        package var include: [String]
        /// Hooks by name; never commands.
        package var hooks: [String]

        package init(name: String, include: [String], hooks: [String]) {
            self.name = name
            self.include = include
            self.hooks = hooks
        }
    }
}

/// A run of stored bytes in a pack that gives raw bytes of one file.
package struct Blob: Sendable, Equatable {
    /// Index into ``Manifest/packs``.
    package var pack: UInt32
    package var codec: Codec
    /// Index into the table's digests, or `nil` when the file's own digest is the blob's.
    package var digestIndex: UInt32?
    /// First byte in the pack.
    package var offset: UInt64
    /// **Bytes** in the pack.
    package var storedLength: UInt64
    /// **Bytes** in the file.
    package var rawLength: UInt64

    package init(
        pack: UInt32,
        codec: Codec,
        digestIndex: UInt32?,
        offset: UInt64,
        storedLength: UInt64,
        rawLength: UInt64
    ) {
        self.pack = pack
        self.codec = codec
        self.digestIndex = digestIndex
        self.offset = offset
        self.storedLength = storedLength
        self.rawLength = rawLength
    }

    /// The bytes in the pack. ``ManifestLoader`` has checked that the end does not overflow.
    package var range: Range<UInt64> { offset..<(offset &+ storedLength) }
}
