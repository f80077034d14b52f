import SyncModel

/// Takes results in path order and gives every new blob its place; alone decides what the output looks like.
struct Collector {
    private let tree: SourceTree
    private let catalogue: Catalogue
    private let writer: PackWriter
    private let firstPack: Int
    private(set) var ledger: Ledger
    /// The next entry without an end in the ledger.
    private var next = 0
    private var files = 0
    private var bytes: UInt64 = 0

    init(_ tree: SourceTree, _ catalogue: Catalogue, _ writer: PackWriter, firstPack: Int) {
        self.tree = tree
        self.catalogue = catalogue
        self.writer = writer
        self.firstPack = firstPack
        ledger = Ledger(count: tree.count)
    }

    func progress(_ step: PublishProgress.Step) -> PublishProgress {
        PublishProgress(
            step: step,
            files: files,
            totalFiles: tree.fileCount,
            bytes: bytes,
            totalBytes: tree.totalSize
        )
    }

    mutating func take(_ result: JobResult) throws(PublishError) {
        switch result {
        case .files(let first, let blobs, let buffer):
            var file = first
            for blob in blobs {
                while tree.entries[file].kind == .link { file += 1 }
                try skipLinks(before: file)
                try add(blob, buffer)
                try close(file, blob.digest)
                file += 1
            }
        case .chunk(let file, let blob, let buffer):
            try skipLinks(before: file)
            try add(blob, buffer)
        case .endOfFile(let file, let digest):
            try close(file, digest)
        }
    }

    /// The links behind the last file.
    mutating func finish() throws(PublishError) { try skipLinks(before: tree.count) }

    private mutating func add(_ blob: EncodedBlob, _ buffer: PooledBuffer) throws(PublishError) {
        bytes += UInt64(blob.rawLength)
        guard blob.rawLength > 0 else { return }
        if let known = catalogue.find(blob.digest) { return ledger.append(blob: known) }
        guard !blob.stored.isEmpty, let stored = UInt32(exactly: blob.stored.count),
            let raw = UInt32(exactly: blob.rawLength)
        else {
            throw PublishError(
                .internalError,
                "a blob came without its bytes",
                remedy: "report this as a bug"
            )
        }
        let place = try writer.append(buffer[blob.stored])
        guard let pack = UInt32(exactly: firstPack + place.pack),
            let number = catalogue.add(
                Catalogue.Place(
                    digest: blob.digest,
                    pack: pack,
                    codec: blob.codec,
                    offset: place.offset,
                    storedLength: stored,
                    rawLength: raw
                )
            )
        else { throw .tooManyBlobs }
        ledger.append(blob: number)
    }

    private mutating func close(_ file: Int, _ digest: SHA256Digest) throws(PublishError) {
        guard ledger.close(file, digest: digest) else { throw .tooManyBlobs }
        next = file + 1
        files += 1
    }

    private mutating func skipLinks(before file: Int) throws(PublishError) {
        while next < file {
            guard ledger.close(next, digest: nil) else { throw .tooManyBlobs }
            next += 1
        }
    }
}
