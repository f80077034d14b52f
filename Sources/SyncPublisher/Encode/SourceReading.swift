import SyncContent
import SyncManifest
import SyncModel
import SyncSystem

/// The stages of reading a source, and what they share: one thread reads large files, others hash and encode, and the
/// caller collects the results in path order.
final class SourceReading: Sendable {
    let root: SourceRoot
    let tree: SourceTree
    let catalogue: Catalogue
    let pipeline: Pipeline
    /// Buffers for results of workers, and for bytes from the reader.
    let results: JobBuffers
    let segments: JobBuffers
    let options: PublishOptions
    let dictionary: EncodingDictionary?
    let purpose: Collector.Purpose
    /// The private keys among the files, which must not be published, by index.
    private let privateKeys = Mutex<[Int]>([])

    init(
        of tree: SourceTree, in root: SourceRoot, catalogue: Catalogue, options: PublishOptions,
        dictionary: EncodingDictionary? = nil, for purpose: Collector.Purpose
    ) {
        (self.root, self.tree, self.catalogue, self.options) = (root, tree, catalogue, options)
        (self.dictionary, self.purpose) = (dictionary, purpose)
        pipeline = Pipeline(window: 4 + 4 * options.jobs)
        results = JobBuffers(size: max(1 << 20, options.chunkThreshold, options.chunks.maximum))
        segments = JobBuffers(size: max(SourceReader.segmentSize, 2 * options.chunks.maximum))
    }

    /// Reads the whole source.
    ///
    /// - Returns: The most **bytes** of pooled buffers alive at once.
    func run(_ collector: inout Collector, isCancelled: () -> Bool, progress: (PublishProgress) -> Void)
        throws(PublishError) -> Int
    {
        var threads: [WorkerThread] = []
        defer { for thread in threads { thread.join() } }
        do throws(ThreadError) {
            threads.append(try WorkerThread(name: "read") { SourceReader.run(self) })
            for number in 0..<options.jobs {
                threads.append(try WorkerThread(name: "encode-\(number)") { EncodeWorker.run(self) })
            }
        } catch {
            // One thread to read and one to encode are enough, only slower.
            if threads.count < 2 { pipeline.fail(.noThreads) }
        }
        do throws(PublishError) {
            while let result = try pipeline.collect() {
                try collector.take(result)
                progress(collector.progress)
                if isCancelled() { throw .cancelled }
            }
            try collector.finish()
            try checkKeys()
        } catch {
            pipeline.fail(error)
            throw error
        }
        return results.highWater + segments.highWater
    }

    // MARK: Private keys

    /// Whether a file that was read is a private key and must not be published; notes it then.
    func refusesKey(_ file: Int, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !options.permits.contains(.privateKeys), Self.isPrivateKey(bytes) else { return false }
        privateKeys.withLock { $0.append(file) }
        return true
    }

    /// Throws an error that names the private keys, if there are any.
    private func checkKeys() throws(PublishError) {
        let found = privateKeys.withLock { $0.sorted() }
        guard !found.isEmpty else { return }
        let more = found.count - WalkNotes.named
        throw .refused(
            found.count == 1 ? "1 file is a private key:" : "\(found.count) files are private keys:",
            details: found.prefix(WalkNotes.named).map { shown(tree.path($0)) }
                + (more > 0 ? ["and \(more) more"] : []),
            "move them, or leave them out with --exclude; if everybody may have them: --allow-private-keys; "
                + "nothing was published")
    }

    /// Whether a file is a private key in PEM (RFC 7468: PKCS#8, PKCS#1, SEC 1 and OpenSSH) or in PuTTY's format. Other
    /// PEM blocks may precede the key, as `openssl ecparam -genkey` and servers that want one file have it.
    ///
    /// - Parameter bytes: The file, or the first 64 KiB of it at least.
    static func isPrivateKey(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard
            let start = bytes.prefix(512).firstIndex(where: {
                ![0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0)
            })
        else { return false }
        let text = bytes[start...]
        if text.starts(with: "PuTTY-User-Key-File-".utf8) { return true }
        guard ["-----BEGIN ", "---- BEGIN ", "Bag Attributes"].contains(where: { text.starts(with: $0.utf8) }) else {
            return false
        }
        return text.split(separator: 0x0A).contains { line in
            guard line.starts(with: "-----BEGIN ".utf8) || line.starts(with: "---- BEGIN ".utf8) else { return false }
            return String(decoding: line.prefix(80), as: UTF8.self).contains("PRIVATE KEY")
        }
    }
}
