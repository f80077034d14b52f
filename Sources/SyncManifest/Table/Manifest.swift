package import SyncModel

/// A checked manifest: everything in it is safe to act on. Made by ``ManifestAssembly`` only.
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

    /// The packs that have the blobs.
    package let packs: [Pack]

    /// Named subsets.
    package let groups: [Group]

    package private(set) var files: FileTable

    /// Directories that are named themselves: empty ones, and where modes or times are kept all of them.
    package let directories: FileTable

    /// How the publisher cut large files, where it said so; a hint, `x-chunking` in `Manifests/FORMAT.md`.
    package let chunking: ChunkParameters?

    /// Data that the publisher hands on to hooks and programs, `x-user-data`: JSON text on one line.
    package let userData: String?

    /// The source that it was derived from, if any.
    package let source: SourceOrigin?

    /// The texts that hold the entries, in path order; empty when the manifest is one text.
    package let parts: [Part]

    /// Bytes that many blobs have in common: blobs of the codec ``Codec/zstdDictionary`` are decoded with it.
    package let dictionary: OwnBlob?

    /// Whether some of its parts were left out: then it has only a run of the entries, in path order.
    package internal(set) var isNarrowed = false

    /// The same manifest, in which rows that have only URLs use the blobs of a row with the same content; both are
    /// among `rows`.
    package func sharingBlobs(among rows: [Int]) -> Manifest {
        var shared = self
        shared.files.shareBlobs(among: rows)
        return shared
    }

    /// Completes digests of which only the ``SHA256Digest/head`` is known, where `full` knows more.
    package mutating func completeDigests(_ full: (SHA256Digest) -> SHA256Digest?) { files.completeDigests(full) }

    /// The same manifest, for a tree that shares its files with others.
    package func sharingFiles(_ isShared: Bool) -> Manifest {
        guard isShared else { return self }
        var shared = self
        shared.files.isShared = true
        return shared
    }

    /// A blob that belongs to no file: the dictionary, or the text of a part.
    package struct OwnBlob: Sendable, Hashable {
        /// Its place in a pack.
        package var blob: Blob
        /// SHA-256 of its raw bytes.
        package var digest: SHA256Digest

        package init(blob: Blob, digest: SHA256Digest) {
            (self.blob, self.digest) = (blob, digest)
        }
    }

    /// The most raw **bytes** a dictionary may have: every reader of a set keeps all of them in memory.
    package static let longestDictionary: UInt64 = 8 << 20

    /// Some entries of a manifest that is in parts: a JSON text of its own, in a pack.
    package struct Part: Sendable, Equatable {
        /// The text.
        package var text: OwnBlob
        /// How many entries it has, at least 1.
        package var files: Int
        /// The former texts that it is made from: the first is stored whole, each further one, and at last ``text``, is
        /// a zstd frame made with the text before it as prefix. Empty where ``text`` is whole; `from` in
        /// `Manifests/FORMAT.md`.
        package var from: [OwnBlob]
        /// The part's ``PartOutline``, for publishers: the last of these, which is made from the one before it as texts
        /// are. Empty if it has none.
        package var outline: [OwnBlob]

        package init(text: OwnBlob, files: Int, from: [OwnBlob] = [], outline: [OwnBlob] = []) {
            (self.text, self.files, self.from, self.outline) = (text, files, from, outline)
        }

        /// Every text on the way to this part's, which is the last.
        package var chain: [OwnBlob] { from + [text] }

        /// Every blob: the texts, and those of the outline.
        package var all: [OwnBlob] { chain + outline }

        /// Gives the packs of all blobs other numbers.
        package mutating func renumberPacks(_ number: (UInt32) -> UInt32) {
            text.blob.pack = number(text.blob.pack)
            for index in from.indices { from[index].blob.pack = number(from[index].blob.pack) }
            for index in outline.indices { outline[index].blob.pack = number(outline[index].blob.pack) }
        }

        /// Most former texts of one part.
        package static let mostFormer = 8
        /// Most blobs of one outline: each of them makes the root longer, which every reader reads.
        package static let mostOutlines = 2
        /// Most **bytes** of a text and the one before it together: the window of the frame.
        package static let longestTexts: UInt64 = 8 << 20
    }

    /// One large object that holds blobs.
    package struct Pack: Sendable, Equatable {
        /// Its URLs, best first; as written, so relative ones resolve against the manifest's URL.
        package var urls: [String]
        /// Its length in **bytes**.
        package var size: UInt64
        /// Its digest; also its name.
        package var sha256: SHA256Digest

        package init(urls: [String], size: UInt64, sha256: SHA256Digest) {
            (self.urls, self.size, self.sha256) = (urls, size, sha256)
        }
    }

    /// A named subset: files whose `group` names it, and files one of the patterns matches.
    package struct Group: Sendable, Equatable {
        package var name: String
        package var include: [String]
        /// Hooks by name; never commands.
        package var hooks: [String]
        /// `x-user-data`: JSON text on one line.
        package var userData: String?

        package init(name: String, include: [String], hooks: [String], userData: String? = nil) {
            (self.userData, self.name, self.include, self.hooks) = (userData, name, include, hooks)
        }
    }
}

/// A run of stored bytes in a pack that gives raw bytes of one file.
package struct Blob: Sendable, Hashable {
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
        pack: UInt32, codec: Codec, digestIndex: UInt32? = nil, offset: UInt64, storedLength: UInt64, rawLength: UInt64
    ) {
        (self.pack, self.codec, self.digestIndex, self.offset) = (pack, codec, digestIndex, offset)
        (self.storedLength, self.rawLength) = (storedLength, rawLength)
    }

    /// The bytes in the pack. ``ManifestAssembly`` has checked that the end does not overflow.
    package var range: Range<UInt64> { offset..<(offset &+ storedLength) }
}
