import SyncBenchmarkAllocations
import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import Synchronization

/// From the network's pieces to verified bytes: the way of every file on a first pull, but for the file system.
enum UnpackBenchmark {
    static let all = [
        unpack(name: "span-unpack-16KiB", files: 1024, of: 16 << 10),
        unpack(name: "span-unpack-1KiB", files: 8192, of: 1 << 10),
    ]

    /// **Bytes** that libcurl hands over at a time.
    private static let piece = 16 << 10

    private static func unpack(name: String, files: Int, of length: Int) -> Benchmark {
        Benchmark(
            name, unit: .bytes, work: Double(files * length),
            limits: [.exactly("right blobs", Double(files)), .most("allocations a blob", 1.4, debug: 1.6)]
        ) {
            let set = try SmallSet.real(files: files, of: length)
            let manifest = try ManifestAssembly(set.manifest, digest: .zero).finish()
            let plan = makePlan(manifest, wanted: Array(0..<files), rule: CoalescingRule())
            let pool = BufferPool(count: 32, bufferSize: 128 << 10)
            let workers = try WorkerPool(count: 1)
            return {
                let calls = sa_allocations()
                let consumer = Verifier(plan, manifest.files)
                for span in plan.spans.indices { try feed(span, of: plan, from: set.pack, to: consumer, pool, workers) }
                workers.drain()
                return [
                    "right blobs": Double(consumer.right.load(ordering: .relaxed)),
                    "allocations a blob": Double(sa_allocations() &- calls) / Double(files),
                ]
            }
        }
    }

    private static func feed(
        _ span: Int, of plan: Plan, from pack: [UInt8], to consumer: Verifier, _ pool: BufferPool, _ workers: WorkerPool
    ) throws {
        let range = plan.spans[span].range
        let unpacker = SpanUnpacker(plan: plan, span: span, consumer: consumer, pool: pool, workers: workers)
        let sink = SpanSink(unpacker: unpacker, range: range, pool: pool) {}
        var next = Int(range.lowerBound)
        while next < Int(range.upperBound) {
            let end = min(next + piece, Int(range.upperBound))
            switch pack[next..<end].withUnsafeBytes({ sink.receive($0, at: UInt64(next)) }) {
            case .taken: next = end
            case .paused: workers.drain()
            default: throw WrongResult("the sink takes no more")
            }
        }
        sink.finish()
    }

    /// Decodes and checks, and keeps nothing.
    private final class Verifier: BlobConsumer {
        let right = Atomic(0)
        private let plan: Plan
        private let files: FileTable

        init(_ plan: Plan, _ files: FileTable) { (self.plan, self.files) = (plan, files) }

        func take(_ stored: UnsafeRawBufferPointer, of slot: Int, from source: String?, worker: inout DecodeWorker) {
            let wanted = plan.slots[slot]
            do {
                var raw = stored
                if wanted.codec == .zstd {
                    let scratch = worker.scratch(Int(wanted.rawLength))
                    try worker.decoder.decode(stored, as: .zstd, with: nil, into: scratch)
                    raw = UnsafeRawBufferPointer(scratch)
                }
                if try worker.hasher.digest(of: raw) == plan.digest(of: wanted, in: files) {
                    right.add(1, ordering: .relaxed)
                }
            } catch {
                // Not right, so not counted.
            }
        }

        func begin(slot: Int, worker: inout DecodeWorker) {}
        func append(_ stored: UnsafeRawBufferPointer, to slot: Int, from source: String?, worker: inout DecodeWorker) {}
        func end(slot: Int, worker: inout DecodeWorker) {}
        func ended(span: Int, missing: Range<Int>, worker: inout DecodeWorker) {}
    }
}
