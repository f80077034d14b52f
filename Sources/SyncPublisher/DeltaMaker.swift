import SyncCompression
import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel

/// Makes deltas: new blobs once more, as zstd frames behind bytes of the file's former version, in packs of their own.
///
/// Who has the former version fetches the delta, everybody else the blob. One worker at a time has about **4 MiB**.
struct DeltaMaker {
    private let root: SharedRoot
    private let tree: SourceTree
    private let places: [Catalogue.Place]
    private let base: BaseSet
    private let options: PublishOptions
    private let output: OutputDirectory

    /// The most that the deltas of a file may have of what its new blobs have, in hundredths: they are stored beside
    /// them. Where all together stay below, those that save nothing are stored as well, so that an update finds
    /// everything in one place; else each must stay below by itself.
    private static let mostPercent: UInt64 = 60
    /// Tasks that are worked on before their results are written; part of what decides about the output.
    private static let batch = 32

    /// A delta that was made.
    private struct Made: Sendable {
        var bytes: [UInt8]
        var baseDigest: SHA256Digest
    }

    init(
        _ root: SharedRoot,
        _ tree: SourceTree,
        _ places: [Catalogue.Place],
        _ base: BaseSet,
        _ options: PublishOptions,
        _ output: OutputDirectory
    ) {
        self.root = root
        self.tree = tree
        self.places = places
        self.base = base
        self.options = options
        self.output = output
    }

    /// Makes and writes deltas.
    ///
    /// - Returns: Deltas by index in the tree, their packs counted as the catalogue does; and their **bytes**.
    func run(
        _ tasks: [DeltaPlan.Task],
        _ writer: PackWriter,
        isCancelled: () -> Bool
    ) throws(PublishError) -> (deltas: [Int: [Delta]], bytes: UInt64) {
        var deltas: [Int: [Delta]] = [:]
        var bytes: UInt64 = 0
        guard !tasks.isEmpty else { return (deltas, bytes) }
        try writer.cut()
        for start in stride(from: 0, to: tasks.count, by: Self.batch) {
            if isCancelled() { throw .cancelled }
            let batch = Array(tasks[start..<min(tasks.count, start + Self.batch)])
            for (task, made) in paying(zip(batch, try make(batch)).map { ($0, $1) }) {
                let place = try append(made.bytes, to: writer)
                guard let pack = UInt32(exactly: base.packs.count + place.pack),
                    let blob = UInt32(exactly: task.blob)
                else { throw .tooManyBlobs }
                bytes += UInt64(made.bytes.count)
                deltas[task.file, default: []].append(
                    Delta(
                        blob: blob,
                        pack: pack,
                        offset: place.offset,
                        storedLength: UInt64(made.bytes.count),
                        baseFile: base.manifest.files.digest(task.row),
                        base: task.base,
                        baseDigest: made.baseDigest
                    )
                )
            }
        }
        try writer.cut()
        return (deltas, bytes)
    }

    /// Leaves out deltas that do not pay.
    private func paying(_ results: [(task: DeltaPlan.Task, made: Made?)]) -> [(DeltaPlan.Task, Made)] {
        func isShort(_ delta: UInt64, _ blob: UInt64) -> Bool { delta * 100 <= blob * Self.mostPercent }
        var sums: [Int: (delta: UInt64, blob: UInt64)] = [:]
        for (task, made) in results {
            guard let made else { continue }
            sums[task.file, default: (0, 0)].delta += UInt64(made.bytes.count)
            sums[task.file, default: (0, 0)].blob += UInt64(places[Int(task.number)].storedLength)
        }
        return results.compactMap { task, made in
            guard let made, let sum = sums[task.file] else { return nil }
            let stored = UInt64(places[Int(task.number)].storedLength)
            let pays = isShort(sum.delta, sum.blob) || isShort(UInt64(made.bytes.count), stored)
            return pays ? (task, made) : nil
        }
    }

    private func append(
        _ bytes: [UInt8],
        to writer: PackWriter
    ) throws(PublishError) -> (pack: Int, offset: UInt64) {
        let result: Result<(pack: Int, offset: UInt64), PublishError> = bytes.withUnsafeBytes { bytes in
            do throws(PublishError) { return .success(try writer.append(bytes)) } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Makes the deltas of a batch on as many threads as there are jobs; `nil` where there can be none.
    private func make(_ batch: [DeltaPlan.Task]) throws(PublishError) -> [Made?] {
        let results = Results(count: batch.count)
        let threads = WorkThreads()
        let maker = Shared(self)
        for _ in 0..<min(options.jobs, batch.count) {
            threads.start { maker.value.work(batch, results) }
        }
        threads.join()
        return try results.finish()
    }

    /// What the threads of a batch share.
    private final class Results: @unchecked Sendable {  // Safe: everything is touched under `monitor` only.
        private let monitor = Monitor(conditions: 1)
        private var next = 0
        private var made: [Made?]
        private var failure: PublishError?

        init(count: Int) { made = Array(repeating: nil, count: count) }

        func take() -> Int? {
            monitor.locked {
                guard next < made.count, failure == nil else { return nil }
                next += 1
                return next - 1
            }
        }

        func put(_ result: Made?, at index: Int) { monitor.locked { made[index] = result } }

        func fail(_ error: PublishError) { monitor.locked { failure = failure ?? error } }

        func finish() throws(PublishError) -> [Made?] {
            if let failure { throw failure }
            return made
        }
    }

    /// The maker on other threads: they only read it, and the output directory's descriptors may be used from any.
    private struct Shared: @unchecked Sendable {  // Safe: threads only read it, and `run` waits for them.
        let value: DeltaMaker
        init(_ value: DeltaMaker) { self.value = value }
    }

    private func work(_ batch: [DeltaPlan.Task], _ results: Results) {
        do throws(PublishError) {
            let reader = try BaseReader(base.manifest, output)
            var encoder = try DeltaEncoder(level: options.level)
            while let index = results.take() {
                let task = batch[index]
                guard let former = reader.read(row: task.row, task.base) else { continue }
                results.put(try encoder.encode(task, former: former, self), at: index)
            }
        } catch {
            results.fail(error)
        }
    }

    /// What one thread needs to make deltas.
    private struct DeltaEncoder: ~Copyable {
        private var compressor: ZstdCompressor
        private var hasher: SHA256Hasher
        private var raw: [UInt8] = []
        private var target: [UInt8] = []

        init(level: Int32) throws(PublishError) {
            do {
                let compressor = try ZstdCompressor(level: level)
                hasher = try SHA256Hasher()
                self.compressor = compressor
            } catch {
                throw .refusedCall(error)
            }
        }

        mutating func encode(
            _ task: DeltaPlan.Task,
            former: [UInt8],
            _ maker: DeltaMaker
        ) throws(PublishError) -> Made? {
            let place = maker.places[Int(task.number)]
            let file = try maker.root.openFile(maker.tree, task.file)
            raw = [UInt8](repeating: 0, count: Int(place.rawLength))
            let count = raw.withUnsafeMutableBytes {
                readFully(file.raw, into: $0, at: task.target.lowerBound)
            }
            do {
                // The blob is stored already: should the file have changed since, there is no delta.
                guard count == raw.count,
                    try raw.withUnsafeBytes({ try hasher.digest(of: $0) }) == place.digest
                else { return nil }
                target = [UInt8](
                    repeating: 0,
                    count: Int(place.storedLength) + Int(Delta.slack(UInt64(place.storedLength)))
                )
                let length = try raw.withUnsafeBytes { raw in
                    try former.withUnsafeBytes { former in
                        try target.withUnsafeMutableBytes { target in
                            try compressor.encode(
                                raw,
                                behind: former,
                                into: UnsafeMutableRawBufferPointer(target)
                            )
                        }
                    }
                }
                guard let length else { return nil }
                let digest = try former.withUnsafeBytes { try hasher.digest(of: $0) }
                return Made(bytes: Array(target[..<length]), baseDigest: digest)
            } catch {
                throw .refusedCall(error)
            }
        }
    }
}
