import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// One publish: what the steps hand to each other.
struct PublishRun {
    let options: PublishOptions
    let output: OutputDirectory
    let base: BaseSet?
    let catalogue = Catalogue()
    let project: String
    var report = PublishReport()
    /// What new blobs are made with.
    private var dictionary: SetDictionary?
    /// Where that is, when it is new; its pack counts as in the catalogue.
    private(set) var madeDictionary: Manifest.SharedDictionary?

    init(_ options: PublishOptions, _ output: OutputDirectory) throws(PublishError) {
        self.options = options
        self.output = output
        let base = try BaseSet.load(options, output)
        self.base = base
        project = try ProjectName.choose(options, base: base?.manifest)
        if let revision = options.revision, let base, revision <= base.manifest.revision {
            throw PublishError(
                .usage,
                "revision \(revision) is not above the base's, \(base.manifest.revision)",
                remedy: "leave --revision out, or choose a larger one"
            )
        }
        try base?.register(in: catalogue)
    }

    mutating func run(
        _ root: consuming SourceRoot,
        isCancelled: () -> Bool,
        progress: (PublishProgress) -> Void
    ) throws(PublishError) -> PublishReport {
        var tree = try walk(root, isCancelled: isCancelled, progress: progress)
        let writer = try PackWriter(output, packSize: options.packSize)
        if let base, let cache = options.stampCache, options.trustsStamps {
            Untouched.mark(&tree, cache: cache, base, catalogue)
        }
        var collector = Collector(tree, catalogue, writer, base?.manifest)
        let source = SharedRoot(root)
        try chooseDictionary(source, tree, writer, progress: progress)
        try read(source, tree, &collector, isCancelled: isCancelled, progress: progress)
        if isCancelled() { throw .cancelled }
        progress(collector.progress(.finishing))
        let ledger = collector.ledger
        var deltas = DeltaCarrying(tree, ledger, catalogue.places, base).deltas
        func used(_ parts: [Int: UInt64] = [:]) -> PackUsage {
            PackUsage(
                base,
                catalogue.places,
                ledger,
                deltas: deltas,
                parts: parts,
                packSize: options.packSize
            )
        }
        var usage = used()
        if options.repack {
            try Repacker(output, catalogue, writer, firstPack: base?.packs.count ?? 0).repack(
                usage,
                base,
                ledger
            )
            usage = used()
        }
        if options.deltas, let base, deltas.isEmpty {
            let plan = DeltaPlan(tree, ledger, catalogue.places, base)
            let maker = DeltaMaker(source, tree, catalogue.places, base, options, output)
            (deltas, report.deltaBytes) = try maker.run(plan.tasks, writer, isCancelled: isCancelled)
        }
        try writer.finish()
        report.deltas = deltas.values.reduce(0) { $0 + $1.count }
        let entries = ManifestEntries(tree: tree, ledger: ledger, places: catalogue.places, deltas: deltas)
        let parts = try isInParts(tree) ? makeParts(entries, writer) : nil
        usage = used(parts?.kept ?? [:])
        fill(tree, collector, usage, writer.finished + (parts?.packs ?? []))
        let files = manifestFiles(tree, ledger, usage, writer, deltas: deltas, parts: parts)
        let hasNewPacks = !writer.finished.isEmpty || !(parts?.packs ?? []).isEmpty
        try writeManifest(files, mayBeUnchanged: !hasNewPacks && usage.droppedPacks == 0)
        keepStamps(entries)
        return report
    }

    private mutating func walk(
        _ root: borrowing SourceRoot,
        isCancelled: () -> Bool,
        progress: (PublishProgress) -> Void
    ) throws(PublishError) -> SourceTree {
        var walk = TreeWalk(options)
        try walk.run(root) { count throws(PublishError) in
            if isCancelled() { throw .cancelled }
            progress(PublishProgress(step: .walking, files: count, totalFiles: 0, bytes: 0, totalBytes: 0))
        }
        if let error = walk.notes.error { throw error }
        report.excluded = walk.notes.excluded
        report.warnings = walk.notes.warnings + (base?.warnings ?? [])
        report.warnings += GroupWarnings.make(options.groups, base: base?.manifest.groups ?? [], walk.tree)
        return walk.tree
    }

    /// The base's, so that one set has one dictionary; else a new one, where it pays.
    private mutating func chooseDictionary(
        _ root: SharedRoot,
        _ tree: SourceTree,
        _ writer: PackWriter,
        progress: (PublishProgress) -> Void
    ) throws(PublishError) {
        guard options.dictionary != .never else { return }
        if base?.manifest.dictionary != nil {
            dictionary = try base?.dictionary.map { bytes throws(PublishError) in
                try SetDictionary(bytes, level: options.level)
            }
            return
        }
        let made = try withoutActuallyEscaping(progress) { progress throws(PublishError) in
            let samples = DictionarySamples(root: root, tree: tree, base: base, level: options.level) {
                bytes in
                progress(
                    PublishProgress(
                        step: .sampling,
                        files: tree.count,
                        totalFiles: 0,
                        bytes: bytes,
                        totalBytes: 0
                    )
                )
            }
            return try DictionaryMaker(options: options, samples: samples).make()
        }
        guard let made else { return }
        let (new, stored) = (made.dictionary, made.stored)
        dictionary = new
        madeDictionary = try new.write(stored, to: writer, firstPack: base?.packs.count ?? 0)
        report.dictionaryBytes = UInt64(stored.bytes.count)
    }

    private mutating func read(
        _ root: SharedRoot,
        _ tree: SourceTree,
        _ collector: inout Collector,
        isCancelled: () -> Bool,
        progress: (PublishProgress) -> Void
    ) throws(PublishError) {
        let largest = max(1 << 20, options.chunkThreshold, options.chunks.maximum)
        let source = Worker.Source(
            root: root,
            tree: tree,
            catalogue: catalogue,
            pipeline: Pipeline(window: 4 + 4 * options.jobs),
            results: BufferPool(size: largest),
            segments: BufferPool(size: max(SourceReader.segmentSize, 2 * options.chunks.maximum)),
            options: options,
            dictionary: dictionary
        )
        var threads: [WorkerThread] = []
        defer { for thread in threads { thread.join() } }
        do throws(ThreadError) {
            threads.append(try WorkerThread(name: "read") { SourceReader.run(source) })
            for number in 0..<options.jobs {
                threads.append(try WorkerThread(name: "encode-\(number)") { Worker.run(source) })
            }
        } catch {
            // With one to read and one to encode it goes on, only slower (F095).
            if threads.count < 2 { source.pipeline.fail(.noThreads) }
        }
        do throws(PublishError) {
            while let result = try source.pipeline.collect() {
                try collector.take(result)
                progress(collector.progress(.reading))
                if isCancelled() { throw .cancelled }
            }
            try collector.finish()
        } catch {
            source.pipeline.fail(error)
            throw error
        }
        report.bufferBytes = source.results.highWater + source.segments.highWater
    }

    private mutating func fill(
        _ tree: SourceTree,
        _ collector: Collector,
        _ usage: PackUsage,
        _ packs: [PackWriter.Finished]
    ) {
        report.project = project
        report.files = tree.fileCount
        report.links = tree.count - tree.fileCount
        report.unreadFiles = collector.unread
        report.savedBytes = collector.saved
        report.rawBytes = tree.totalSize
        report.uniqueBytes = usage.uniqueBytes
        report.storedBytes = usage.liveBytes
        report.deadBytes = usage.deadBytes
        let written = packs.reduce(0) { $0 + ($1.wasThere ? 0 : $1.size) }
        report.newBytes = written - min(written, report.deltaBytes + report.partBytes)
        report.packsWritten = packs.count { !$0.wasThere }
        report.packsReused = usage.keptPacks.count + packs.count { $0.wasThere }
        report.packsDropped = usage.droppedPacks
        report.repackPays = !usage.worthRepacking.isEmpty
    }
}
