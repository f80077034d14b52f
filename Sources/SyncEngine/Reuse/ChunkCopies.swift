import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

import struct Synchronization.Atomic

/// Copies local chunks into the new files while the rest is being fetched.
///
/// Blocks are shared where the filesystem supports it (ioctl_ficlonerange(2)), otherwise bytes are copied through one
/// buffer per thread. Chunks are checked when the whole file is hashed; wrong ones are then fetched.
final class ChunkCopies: Sendable {
    /// The results.
    struct Outcome: Sendable {
        /// **Bytes** taken from local files.
        var bytes: UInt64 = 0
        /// Rows with wrong chunks, which must be fetched.
        var missing: Set<Int> = []
        var failures: [RowFailure] = []
    }

    private struct Unit: Sendable {
        var row: Int
        /// Positions of adjacent blobs of the row, all available locally.
        var blobs: Range<Int>
        /// First **byte** in the new file.
        var offset: UInt64
    }

    let sources: ChunkSources
    private let context: RunContext
    private let manifest: Manifest
    private let units: [Unit]
    private let queue: FilePartQueue
    private let state = Mutex(Outcome())
    /// Whether blocks cannot be shared on this filesystem.
    private let copiesBytes = Atomic(false)

    /// **Bytes** of a unit; another thread may take the next one.
    private static let unitLength: UInt64 = 16 << 20

    /// - Parameters:
    ///   - rows: The wanted rows. Units are cut now, so that blobs fetched later do not matter.
    init(_ context: RunContext, _ sources: ChunkSources, rows: [Int]) {
        (self.context, self.sources) = (context, sources)
        manifest = context.manifest
        units = sources.files.isEmpty ? [] : Self.units(of: rows, sources, context)
        queue = FilePartQueue(units.map(\.row))
    }

    private static func units(of rows: [Int], _ sources: ChunkSources, _ context: RunContext) -> [Unit] {
        var units: [Unit] = []
        for row in rows {
            var offset: UInt64 = 0
            var open: Unit?
            for (position, blob) in sources.manifest.files.blobs(row).enumerated() {
                defer { offset &+= blob.rawLength }
                if sources.has(row: row, blob: position), !context.isHere(row: row, blob: position) {
                    if open == nil { open = Unit(row: row, blobs: position..<position, offset: offset) }
                    guard var unit = open else { continue }
                    unit.blobs = unit.blobs.lowerBound..<(position + 1)
                    open = unit
                    guard offset &+ blob.rawLength &- unit.offset >= unitLength else { continue }
                }
                if let unit = open { units.append(unit) }
                open = nil
            }
            if let unit = open { units.append(unit) }
        }
        return units
    }

    /// Copies everything. Blocks until done or stopped.
    ///
    /// - Returns: Rows that could not be written.
    func run(onBytes: @escaping @Sendable (UInt64) -> Void) -> [RowFailure] {
        _ = concurrently(min(context.environment.workers, units.count), name: "chunks") { [self] _ in
            guard let reader = try? ChunkReader(context.index, context.destination, context.staging) else {
                return  // No memory: fetched instead.
            }
            var own: Int?
            while !context.isStopped, let position = queue.next(after: &own) {
                copy(units[position], reader, onBytes)
            }
        }
        // For units left over when threads ran out of memory.
        var own: Int?
        while !context.isStopped, let position = queue.next(after: &own) {
            state.withLock { _ = $0.missing.insert(units[position].row) }
        }
        return state.withLock(\.failures)
    }

    /// The results. Read after ``run(onBytes:)`` has returned.
    var outcome: Outcome { state.withLock { $0 } }

    /// Rows that may get local chunks.
    var rows: Set<Int> { Set(units.map(\.row)) }

    private func copy(_ unit: Unit, _ reader: ChunkReader, _ onBytes: (UInt64) -> Void) {
        let part: PartFile
        do throws(FileError) { part = try context.part(for: unit.row, whole: false) } catch {
            return fail(unit.row, error)
        }
        let blobs = manifest.files.blobs(unit.row)
        var position = unit.blobs.lowerBound
        while position < unit.blobs.upperBound {
            let run = run(from: position, in: unit, blobs)
            let file = sources.files[Int(run.place.file)]
            let done: Int? = file.withDescriptor(reader) { raw in
                let shared = share(run, with: part, from: raw)
                return put(run, besides: shared, from: raw, into: part, of: unit.row, with: reader, onBytes: onBytes)
            }
            if done != run.blobs.count { state.withLock { _ = $0.missing.insert(unit.row) } }
            position = run.blobs.upperBound
        }
    }

    /// Chunks that are adjacent in both files.
    private struct Run {
        var blobs: Range<Int>
        var place: ChunkSources.Location
        /// **Bytes** in the new file.
        var target: Range<UInt64>
    }

    private func run(from first: Int, in unit: Unit, _ blobs: ArraySlice<Blob>) -> Run {
        func blob(_ position: Int) -> Blob { blobs[blobs.startIndex + position] }
        var start = unit.offset
        for position in unit.blobs.lowerBound..<first { start &+= blob(position).rawLength }
        var run = Run(blobs: first..<first, place: (0, 0), target: start..<start)
        for position in first..<unit.blobs.upperBound {
            guard let place = sources.place(of: manifest.files.digest(of: blob(position), in: unit.row)) else { break }
            if position == first { run.place = place }
            let next = run.place.offset &+ (run.target.upperBound - start)
            guard place.file == run.place.file, place.offset == next else { break }
            run.blobs = first..<(position + 1)
            run.target = start..<(run.target.upperBound &+ blob(position).rawLength)
        }
        return run
    }

    /// Shares the blocks that lie entirely in a run with the new file.
    ///
    /// - Returns: The **bytes** of the new file that are shared now.
    private func share(_ run: Run, with part: PartFile, from source: Int32) -> Range<UInt64> {
        let block: UInt64 = 4096
        let none = run.target.lowerBound..<run.target.lowerBound
        guard run.place.offset % block == run.target.lowerBound % block, !copiesBytes.load(ordering: .relaxed) else {
            return none
        }
        let first = (run.target.lowerBound + block - 1) / block * block
        let end = run.target.upperBound / block * block
        guard first < end else { return none }
        let from = run.place.offset + (first - run.target.lowerBound)
        switch part.share(first..<end, from: source, at: from) {
        case nil: return first..<end
        case .notSupported, .inappropriateIOCTLForDevice, .improperLink, .noFunction, .invalidArgument:
            copiesBytes.store(true, ordering: .relaxed)
        default: break
        }
        return none
    }

    /// Writes what is not shared, and records which chunks are complete.
    ///
    /// - Returns: The number of complete chunks.
    private func put(
        _ run: Run, besides shared: Range<UInt64>, from source: Int32, into part: PartFile, of row: Int,
        with reader: ChunkReader, onBytes: (UInt64) -> Void
    ) -> Int {
        var complete = 0
        var start = run.target.lowerBound
        let blobs = manifest.files.blobs(row)
        for position in run.blobs {
            let blob = blobs[blobs.startIndex + position]
            defer { start &+= blob.rawLength }
            let target = start..<(start &+ blob.rawLength)
            let from = run.place.offset &+ (start - run.target.lowerBound)
            do throws(FileError) {
                guard try copy(position, target, from: from, of: source, besides: shared, to: part, reader.buffer)
                else { continue }
            } catch {
                fail(row, error)
                return complete
            }
            complete += 1
            state.withLock { $0.bytes &+= blob.rawLength }
            onBytes(blob.rawLength)
            finish(part, row, position, reader)
        }
        return complete
    }

    /// Copies a chunk, except for shared blocks; zeros become holes if the chunk fits the buffer. Its bytes are hashed
    /// once, with the whole new file; if that is wrong, the chunks at fault are found and fetched.
    ///
    /// - Parameters:
    ///   - blob: Its position in the new file …
    ///   - target: … and its **bytes** there.
    ///   - from: Its first **byte** in the source.
    /// - Returns: `false` if the source has become shorter.
    private func copy(
        _ blob: Int, _ target: Range<UInt64>, from: UInt64, of source: Int32, besides shared: Range<UInt64>,
        to part: PartFile, _ buffer: UnsafeMutableRawBufferPointer
    ) throws(FileError) -> Bool {
        func copy(_ range: Range<UInt64>, _ write: (UnsafeRawBufferPointer, UInt64) -> FileError?) throws(FileError)
            -> Bool
        {
            let first = from + (range.lowerBound - target.lowerBound)
            return try readPieces(of: source, first..<(first + range.length), through: buffer) {
                piece, offset throws(FileError) in
                if let error = write(piece, range.lowerBound + (offset - first)) { throw error }
                return true
            }
        }
        if shared.overlaps(target) {
            let inside = target.clamped(to: shared)
            guard try copy(target.lowerBound..<inside.lowerBound, part.replace) else { return false }
            return try copy(inside.upperBound..<target.upperBound, part.replace)
        }
        return try copy(target) { piece, offset in
            UInt64(piece.count) == target.length ? part.write(piece, blob: blob) : part.write(piece, at: offset)
        }
    }

    private func finish(_ part: PartFile, _ row: Int, _ blob: Int, _ reader: ChunkReader) {
        switch context.complete(part, row: row, blob: blob, hasher: &reader.hasher) {
        case .incomplete: return
        case .verified: context.committer.add(Committer.Staged(row: row, file: part.staged, part.fileStatus))
        case .failed(let error): fail(row, error)
        case .wrong(_, let blobs, _):
            // Blobs from the network may be among them; they are fetched again, too.
            if takeBack(blobs, of: row).isEmpty { state.withLock { _ = $0.missing.insert(row) } }
        }
    }

    /// Takes back blobs that turned out wrong when their whole file was hashed.
    ///
    /// - Parameter blobs: Positions in the row; empty for all of it.
    /// - Returns: The blobs that came from local files; they are fetched later.
    func takeBack(_ blobs: [Int], of row: Int) -> [Int] {
        let own = manifest.files.blobs(row)
        let suspects = blobs.isEmpty ? Array(0..<own.count) : blobs
        let mine = suspects.filter { sources.has(row: row, blob: $0) }
        let bytes = mine.reduce(UInt64(0)) { $0 &+ own[own.startIndex + $1].rawLength }
        guard !mine.isEmpty else { return [] }
        state.withLock {
            $0.missing.insert(row)
            $0.bytes = $0.bytes > bytes ? $0.bytes - bytes : 0
        }
        return mine
    }

    private func fail(_ row: Int, _ error: FileError) {
        context.disk.note(error)
        state.withLock { $0.failures.append(RowFailure(row: row, disk: error)) }
    }
}

/// Hands out parts of files to threads, to each thread a file of its own while there are enough: parts taken in order
/// are hashed while still in memory. Threads without an untouched file help with the longest.
final class FilePartQueue: Sendable {
    /// The positions of each file's parts that no thread has taken.
    private let files: Mutex<[(parts: Range<Int>, isTouched: Bool)]>

    /// - Parameter rows: The file of each part; parts of one file stand together.
    init(_ rows: [Int]) {
        var files: [(parts: Range<Int>, isTouched: Bool)] = []
        var start = 0
        for end in rows.indices.dropFirst() + [rows.count] where end > start {
            guard end == rows.count || rows[end] != rows[start] else { continue }
            files.append((start..<end, false))
            start = end
        }
        self.files = Mutex(files)
    }

    /// The next part to work on; `nil` when all are taken.
    ///
    /// - Parameter own: The thread's present file; kept between its calls.
    func next(after own: inout Int?) -> Int? {
        let (position, file) = files.withLock { [own] files -> (Int?, Int?) in
            let chosen: Int?
            if let own, !files[own].parts.isEmpty {
                chosen = own
            } else {
                chosen =
                    files.indices.first { !files[$0].isTouched }
                    ?? files.indices.filter { !files[$0].parts.isEmpty }.max {
                        files[$0].parts.count < files[$1].parts.count
                    }
            }
            guard let chosen, let position = files[chosen].parts.first else { return (nil, nil) }
            files[chosen].parts.removeFirst()
            files[chosen].isTouched = true
            return (position, chosen)
        }
        own = file
        return position
    }
}
