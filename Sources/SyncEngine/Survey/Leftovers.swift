import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The parts of large files and the partial blobs that a run takes over from staging, where an interrupted run left
/// them.
struct Leftovers: Sendable {
    /// Rows whose parts turned out to be complete; handed to the committer.
    var complete: Set<Int> = []
    /// The missing ranges of files that are fetched by their own URLs, by row, in **bytes**.
    var gaps: [Int: [Range<UInt64>]] = [:]
    /// **Bytes** that need not be fetched, by row.
    var kept: [Int: UInt64] = [:]
    /// The sum of ``kept``, **bytes**.
    var bytes: UInt64 { present(of: kept.keys) }
    /// Parts that are no longer wanted but may hold useful chunks. They are removed at the end.
    var unwanted: [Staging.File] = []

    /// **Bytes** of these rows that need not be fetched.
    func present(of rows: some Sequence<Int>) -> UInt64 { rows.reduce(0) { $0 &+ (kept[$1] ?? 0) } }

    init(adopting wanted: [Int], in context: RunContext) throws(DigestError) {
        let (manifest, staging) = (context.manifest, context.staging)
        // Of files with the same content, each can take over one part.
        var rows: [SHA256Digest: [Int]] = [:]
        let found = staging.leftovers().filter(\.file.isPart)
        guard !found.isEmpty else { return }
        let digests = Set(found.map(\.file.digest))
        for row in wanted where digests.contains(manifest.files.digest(row)) && manifest.files.size(row) > 0 {
            rows[manifest.files.digest(row), default: []].append(row)
        }
        var hasher = try SHA256Hasher()
        for (file, size) in found {
            // The rest stays for the next run.
            if context.isStopped { break }
            guard !file.isPartialBlob else {
                if !context.partialBlobs.adopt(file, size: size) { staging.remove(file) }
                continue
            }
            let same = rows[file.digest] ?? []
            let place = same.lastIndex { row in manifest.files.withPath(row) { staging.fits(file, $0) } }
            guard let place else {
                unwanted.append(file)
                continue
            }
            let row = same[place]
            var kept = manifest.files.blobs(row).isEmpty ? context.adoptRanges(file, row: row) : 0
            if kept > 0 {
                gaps[row] = context.gaps(row: row)
            } else if let (part, outcome) = context.adopt(file, row: row, hasher: &hasher) {
                kept = part.doneBytes
                if case .verified = outcome {
                    context.reused.withLock { _ = $0.insert(row) }
                    context.committer.add(Committer.Staged(row: row, file: part.staged, part.fileStatus))
                    complete.insert(row)
                }
            }
            if kept > 0 {
                self.kept[row] = kept
                rows[file.digest]?.remove(at: place)
            } else if !context.isStopped {
                staging.remove(file)
            }
        }
    }
}

extension Staging {
    /// Makes single staged files of those in directories that an interrupted run was assembling.
    func takeApart(for manifest: Manifest, wanted: [Int]) {
        guard !members().isEmpty else { return }
        var rows: [Directory: [String: Int]] = [:]
        for row in wanted where manifest.files.kind(row) != .link && manifest.files.size(row) > 0 {
            manifest.files.withPath(row) { path in
                let parent = path.parentPath
                guard !parent.isEmpty else { return }
                let leaf = String(decoding: path[(parent.count + 1)...], as: UTF8.self)
                rows[Directory(path: parent), default: [:]][leaf] = row
            }
        }
        takeApart { directory, leaf in rows[directory]?[leaf].map { manifest.files.digest($0) } }
    }
}

/// The first stored bytes of blobs that were in transit when a process ended, so that the next one can continue there.
///
/// Each part of a span has one file in staging and overwrites it with every blob whose bytes run out before its end.
/// The file is named by the pack's SHA-256 with the suffix `.begun`; its head says where the blob is. The bytes are
/// used only if the whole blob has its digest. Nothing is synced: after a power cut the bytes can be fetched again.
final class PartialBlobs: Sendable {
    /// One file: the head, then a blob's first bytes.
    private final class PartialBlob: Sendable {
        let file: Staging.File
        let descriptor: Descriptor
        /// The blob's slot in the present plan, if it is there, and how many of its **bytes** the file has.
        let contents: Mutex<(slot: Int?, count: UInt64)>

        init(_ descriptor: consuming Descriptor, _ file: Staging.File, count: UInt64) {
            self.file = file
            self.descriptor = descriptor
            contents = Mutex((nil, count))
        }
    }

    private struct State: Sendable {
        /// Files left by an earlier process for which there is no plan yet, and where their blobs are.
        var found: [(pack: Int, offset: UInt64, blob: PartialBlob)] = []
        /// The slots of the present plan whose first bytes are from an earlier process.
        var used: [Int: PartialBlob] = [:]
        /// Files of this process, by the part of a span that delivers their blobs.
        var open: [Int: PartialBlob] = [:]
        var files: [Staging.File] = []
    }

    /// `SABEGUN1`, then the blob's offset and stored length, little-endian.
    private static let headLength = 24
    private static let magic: UInt64 = 0x314E_5547_4542_4153

    private let state = Mutex(State())
    private let manifest: Manifest
    private let staging: Staging
    private let lane: Int

    init(manifest: Manifest, staging: Staging, lane: Int) {
        (self.manifest, self.staging, self.lane) = (manifest, staging, lane)
    }

    // MARK: From an earlier process

    /// Takes over a leftover file if it is a partial blob that can be used; of two for one blob, the longer.
    func adopt(_ file: Staging.File, size: UInt64) -> Bool {
        guard file.isPartialBlob, size > UInt64(Self.headLength),
            let pack = manifest.packs.firstIndex(where: { $0.sha256 == file.digest })
        else { return false }
        guard let descriptor = staging.open(file) else { return false }
        var head: (UInt64, UInt64, UInt64) = (0, 0, 0)
        let read = withUnsafeMutableBytes(of: &head) { readFully(descriptor.raw, into: $0, at: 0) }
        let count = size - UInt64(Self.headLength)
        guard read == Self.headLength, UInt64(littleEndian: head.0) == Self.magic, count < UInt64(littleEndian: head.2),
            UInt64(littleEndian: head.2) <= SpanUnpacker.smallLimit
        else { return false }
        let (blob, offset) = (PartialBlob(descriptor, file, count: count), UInt64(littleEndian: head.1))
        let dropped = state.withLock { state -> Staging.File? in
            let same = state.found.firstIndex { $0.pack == pack && $0.offset == offset }
            guard let same else {
                state.found.append((pack, offset, blob))
                return nil
            }
            let known = state.found[same].blob
            if known.contents.withLock({ $0.count }) >= count { return file }
            state.found[same].blob = blob
            return known.file
        }
        if let dropped { staging.remove(dropped) }
        return true
    }

    /// Whether no earlier process left a partial blob.
    var isEmpty: Bool { state.withLock(\.found.isEmpty) }

    /// The plan without the bytes that partial blobs have; removes files that the plan does not use.
    func shortened(_ plan: Plan) -> Plan {
        let found = state.withLock(\.found)
        guard !found.isEmpty else { return plan }
        let byOffset = Dictionary(grouping: found, by: \.offset)
        func partial(_ number: Int) -> PartialBlob? {
            let slot = plan.slots[number]
            guard let same = byOffset[slot.range.lowerBound], slot.range.length <= SpanUnpacker.smallLimit,
                slot.rawLength <= SpanUnpacker.smallLimit
            else { return nil }
            return same.first { $0.pack == slot.pack }?.blob
        }
        var shortened = plan
        var used: [Int: PartialBlob] = [:]
        for slot in shortened.leaveOut({ slot in partial(slot)?.contents.withLock { $0.count } ?? 0 }) {
            used[slot] = partial(slot)
            used[slot]?.contents.withLock { $0.slot = slot }
        }
        state.withLock { ($0.found, $0.used) = ([], used) }
        for (_, _, blob) in found where blob.contents.withLock({ $0.slot == nil }) { staging.remove(blob.file) }
        return shortened
    }

    /// The first `count` **bytes** of a slot; zeros where they cannot be read.
    func bytes(of slot: Int, count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        guard let partial = state.withLock({ $0.used[slot] }) else { return bytes }
        let read = bytes.withUnsafeMutableBytes {
            readFully(partial.descriptor.raw, into: $0, at: UInt64(Self.headLength))
        }
        return read == count ? bytes : [UInt8](repeating: 0, count: count)
    }

    /// Whether a slot has bytes of two processes, so that a wrong digest says nothing about the source.
    func isMixed(_ slot: Int) -> Bool { state.withLock { $0.used[slot] != nil } }

    // MARK: For a later process

    /// Stores `bytes`, which start `position` **bytes** into a slot of the present plan. What cannot be written is
    /// fetched again.
    func keep(_ bytes: UnsafeRawBufferPointer, at position: Int, of slot: Int, in plan: Plan, part: Int) {
        let (pack, range) = (plan.slots[slot].pack, plan.slots[slot].range)
        guard let pack, let partial = partial(for: slot, of: pack, from: position, part: part) else { return }
        let start = UInt64(Self.headLength + position)
        var isWritten = writeAll(bytes, to: partial.descriptor.raw, at: start) == nil
        if position == 0, isWritten {
            // The head comes last: a file without it is ignored.
            var head = (Self.magic.littleEndian, range.lowerBound.littleEndian, range.length.littleEndian)
            isWritten = withUnsafeBytes(of: &head) { writeAll($0, to: partial.descriptor.raw, at: 0) } == nil
        }
        if !isWritten { _ = setLength(partial.descriptor.raw, 0) }
        let count = isWritten ? UInt64(position + bytes.count) : 0
        partial.contents.withLock { $0 = (slot, count) }
    }

    /// The file to write to: one that has the slot up to `position`, or an empty one.
    private func partial(for slot: Int, of pack: Int, from position: Int, part: Int) -> PartialBlob? {
        let (known, found) = state.withLock { ($0.open[part], position > 0 ? $0.used[slot] : nil) }
        if position > 0 {
            if let known, known.contents.withLock({ $0 == (slot, UInt64(position)) }) { return known }
            guard let found, found.contents.withLock({ $0.count }) == UInt64(position) else { return nil }
            state.withLock { $0.open[part] = found }
            if let known { staging.remove(known.file) }
            return found
        }
        if let known { return setLength(known.descriptor.raw, 0) == nil ? known : nil }
        let file = staging.newFile(lane: lane, partialBlobOf: manifest.packs[pack].sha256)
        guard let made = staging.create(file, executable: false) else { return nil }
        let partial = PartialBlob(made, file, count: 0)
        state.withLock {
            $0.open[part] = partial
            $0.files.append(file)
        }
        return partial
    }

    /// Ends the use of a plan's parts; those of another plan follow.
    func endPlan() {
        state.withLock { state in
            state.open = [:]
            state.files += state.used.values.map(\.file)
            state.used = [:]
        }
    }

    /// Removes everything: all blobs are complete.
    func remove() {
        let files = state.withLock { state in
            defer { state = State() }
            return state.files + state.found.map(\.blob.file) + state.used.values.map(\.file)
        }
        for file in files { staging.remove(file) }
    }
}
