import SyncManifest
import SyncModel

/// Takes results in path order and stores every new blob; it alone determines the output.
struct Collector {
    private let tree: SourceTree
    private let catalogue: Catalogue
    private let writer: PackWriter
    private let purpose: Purpose
    private var base: Manifest?
    private(set) var ledger: Ledger
    /// The next entry to be closed in the ledger.
    private var next = 0
    private var files = 0
    /// Files not read because the base has them unchanged.
    private(set) var unread = 0
    private var bytes: UInt64 = 0
    /// **Bytes** saved by the dictionary.
    private(set) var saved: UInt64 = 0
    /// **Bytes** of new blobs, when nothing is stored.
    private(set) var unplaced: UInt64 = 0

    /// Why the files are read.
    enum Purpose: Sendable {
        /// Every new blob is stored in a pack.
        case packing
        /// To get the digest of every file.
        case hashing
        /// To get the digests, and the **bytes** that packing would add.
        case counting
    }

    init(_ tree: SourceTree, _ catalogue: Catalogue, _ writer: PackWriter, _ base: Manifest?, for purpose: Purpose) {
        (self.tree, self.catalogue, self.writer, self.purpose, self.base) = (tree, catalogue, writer, purpose, base)
        ledger = Ledger(count: tree.count)
    }

    var progress: PublishProgress {
        PublishProgress(
            step: purpose == .packing ? .reading : .hashing, files: files, totalFiles: tree.fileCount, bytes: bytes,
            totalBytes: tree.totalSize)
    }

    mutating func take(_ result: EncodeResult) throws(PublishError) {
        switch result {
        case .files(let first, let blobs, let buffer):
            var file = first
            for blob in blobs {
                while !tree.entries[file].isRead { file += 1 }
                try pass(before: file)
                try add(blob, buffer)
                try close(file, blob.digest)
                file += 1
            }
        case .chunk(let file, let blob, let buffer):
            try pass(before: file)
            try add(blob, buffer)
        case .endOfFile(let file, let digest): try close(file, digest)
        }
    }

    /// Closes the entries after the last file that was read.
    mutating func finish() throws(PublishError) {
        try pass(before: tree.count)
        // A base that was read from outlines gets its digests now, and must not be copied for that.
        base = nil
    }

    private mutating func add(_ blob: EncodedBlob, _ buffer: PooledBuffer) throws(PublishError) {
        bytes += UInt64(blob.rawLength)
        guard blob.rawLength > 0, purpose != .hashing else { return }
        if purpose == .counting { return try count(blob) }
        if let known = catalogue.find(blob.digest) { return ledger.append(blob: known) }
        guard !blob.stored.isEmpty, let stored = UInt32(exactly: blob.stored.count),
            let raw = UInt32(exactly: blob.rawLength)
        else { throw .bug("a blob came without its bytes") }
        saved += UInt64(blob.saved)
        let place = try writer.append(buffer[blob.stored])
        let entry = Catalogue.Entry(
            digest: blob.digest, pack: place.pack, codec: blob.codec, offset: place.offset, storedLength: stored,
            rawLength: raw)
        guard let number = catalogue.add(entry) else { throw .tooManyBlobs }
        ledger.append(blob: number)
    }

    /// Counts a new blob, and adds it to the catalogue without a place, so that it is counted once.
    private mutating func count(_ blob: EncodedBlob) throws(PublishError) {
        guard catalogue.find(blob.digest) == nil else { return }
        unplaced += UInt64(blob.rawLength)
        let place = Catalogue.Entry(
            digest: blob.digest, pack: .max, codec: .identity, offset: 0, storedLength: 0,
            rawLength: UInt32(clamping: blob.rawLength))
        guard catalogue.add(place) != nil else { throw .tooManyBlobs }
    }

    private mutating func close(_ file: Int, _ digest: SHA256Digest) throws(PublishError) {
        guard ledger.close(file, digest: digest, hasBlobs: purpose == .packing) else { throw .tooManyBlobs }
        next = file + 1
        files += 1
    }

    /// Closes entries that are in no job: links, and files unchanged from the base.
    private mutating func pass(before file: Int) throws(PublishError) {
        while next < file {
            let row = Int(tree.entries[next].baseRow)
            if row >= 0, let base {
                for blob in purpose == .packing ? base.files.blobs(row) : [] {
                    guard let number = catalogue.find(base.files.digest(of: blob, in: row)) else {
                        throw .bug("a blob of the base is gone")
                    }
                    ledger.append(blob: number)
                }
                bytes += tree.entries[next].stamp.size
                unread += 1
                try close(next, base.files.digest(row))
            } else {
                guard ledger.close(next, digest: nil) else { throw .tooManyBlobs }
                next += 1
            }
        }
    }
}
