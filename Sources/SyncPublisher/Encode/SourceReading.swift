import SyncManifest
import SyncModel
import SyncSystem

/// Runs the stages: one thread reads large files, others hash and encode, and the caller collects the results in path
/// order.
struct SourceReading {
    let source: EncodeWorker.Source

    init(
        _ root: SourceRoot, _ tree: SourceTree, _ catalogue: Catalogue, _ options: PublishOptions,
        _ dictionary: SetDictionary?, for purpose: Collector.Purpose
    ) {
        let largest = max(1 << 20, options.chunkThreshold, options.chunks.maximum)
        source = EncodeWorker.Source(
            root: root, tree: tree, catalogue: catalogue, pipeline: Pipeline(window: 4 + 4 * options.jobs),
            results: JobBuffers(size: largest),
            segments: JobBuffers(size: max(SourceReader.segmentSize, 2 * options.chunks.maximum)), options: options,
            dictionary: dictionary, purpose: purpose)
    }

    /// Reads it all.
    ///
    /// - Returns: Most **bytes** of pooled buffers alive at once.
    func run(_ collector: inout Collector, isCancelled: () -> Bool, progress: (PublishProgress) -> Void)
        throws(PublishError) -> Int
    {
        let source = source
        var threads: [WorkerThread] = []
        defer { for thread in threads { thread.join() } }
        do throws(ThreadError) {
            threads.append(try WorkerThread(name: "read") { SourceReader.run(source) })
            for number in 0..<source.options.jobs {
                threads.append(try WorkerThread(name: "encode-\(number)") { EncodeWorker.run(source) })
            }
        } catch {
            // With one thread to read and one to encode it works, only more slowly.
            if threads.count < 2 { source.pipeline.fail(.noThreads) }
        }
        do throws(PublishError) {
            while let result = try source.pipeline.collect() {
                try collector.take(result)
                progress(collector.progress)
                if isCancelled() { throw .cancelled }
            }
            try collector.finish()
            if let error = source.privateKeys.error(in: source.tree) { throw error }
        } catch {
            source.pipeline.fail(error)
            throw error
        }
        return source.results.highWater + source.segments.highWater
    }
}
