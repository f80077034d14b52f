import CPosix
import SyncDigest
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlanner
import SyncSystem
import SyncUnpack

/// The first stored bytes of blobs that were under way when a process ended, so that the next one goes on there.
///
/// A part of a span has one file in staging and overwrites it with each blob that it has begun and not finished
/// when it runs out of bytes. The file's name has the pack's SHA-256 and `.begun`; a head tells the blob's place. Its bytes
/// are not believed: they count only once the whole blob has its digest. Nothing is synced to the disk, since
/// after a power cut the bytes can be fetched again.
final class BegunBlobs: Sendable {
    /// One file: the head, then a blob's first bytes.
    private final class Begun: Sendable {
        let file: Staging.File
        let descriptor: Descriptor
        let place: Mutex<(Plan.Place, count: UInt64)>

        init(_ descriptor: consuming Descriptor, _ file: Staging.File, _ place: Plan.Place, count: UInt64) {
            self.file = file
            self.descriptor = descriptor
            self.place = Mutex((place, count))
        }
    }

    private struct State: Sendable {
        /// What an earlier process left.
        var found: [Plan.Place: Begun] = [:]
        /// Places whose first bytes are from an earlier process.
        var used: Set<Plan.Place> = []
        /// What this process has under way, by the part of a span that brings it.
        var open: [Int: Begun] = [:]
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
        self.manifest = manifest
        self.staging = staging
        self.lane = lane
    }

    // MARK: From an earlier process

    /// Takes a left-over if it is one of these; of two for one place the longer.
    func adopt(_ file: Staging.File, size: UInt64) -> Bool {
        guard file.name.isBegun, size > UInt64(Self.headLength),
            let pack = manifest.packs.firstIndex(where: { $0.sha256 == file.name.digest })
        else { return false }
        guard let descriptor = staging.open(file) else { return false }
        var head: (UInt64, UInt64, UInt64) = (0, 0, 0)
        let read = withUnsafeMutableBytes(of: &head) { readFully(descriptor.raw, into: $0, at: 0) }
        let count = size - UInt64(Self.headLength)
        guard read == Self.headLength, UInt64(littleEndian: head.0) == Self.magic,
            count < UInt64(littleEndian: head.2), UInt64(littleEndian: head.2) <= SpanUnpacker.smallLimit
        else { return false }
        let place = Plan.Place(pack: pack, offset: UInt64(littleEndian: head.1))
        let begun = Begun(descriptor, file, place, count: count)
        let dropped = state.withLock { state -> Staging.File? in
            if let known = state.found[place], known.place.withLock({ $0.count }) >= count { return file }
            return state.found.updateValue(begun, forKey: place)?.file
        }
        if let dropped { staging.remove(dropped) }
        return true
    }

    /// Whether an earlier process left none.
    var isEmpty: Bool { state.withLock(\.found.isEmpty) }

    /// A plan without what is here; removes what the plan has no use for.
    func shortened(_ plan: Plan) -> Plan {
        var plan = plan
        let counts = state.withLock { $0.found.mapValues { $0.place.withLock(\.count) } }
        guard !counts.isEmpty else { return plan }
        let used = plan.leaveOut { place, slot in
            slot.range.length <= SpanUnpacker.smallLimit && slot.rawLength <= SpanUnpacker.smallLimit
                ? counts[place] ?? 0 : 0
        }
        let useless = state.withLock { state in
            defer { state.found = state.found.filter { used.contains($0.key) } }
            state.used = used
            return state.found.filter { !used.contains($0.key) }.map(\.value.file)
        }
        for file in useless { staging.remove(file) }
        return plan
    }

    /// The first `count` **bytes** of the blob at a place; zeros where they cannot be read.
    func bytes(at place: Plan.Place, count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        guard let begun = state.withLock({ $0.found[place] }) else { return bytes }
        let read = bytes.withUnsafeMutableBytes {
            readFully(begun.descriptor.raw, into: $0, at: UInt64(Self.headLength))
        }
        return read == count ? bytes : [UInt8](repeating: 0, count: count)
    }

    /// Whether the blob at a place was put together from bytes of two processes: a wrong digest then says nothing
    /// about the source.
    func isMixed(_ place: Plan.Place) -> Bool { state.withLock { $0.used.contains(place) } }

    // MARK: For a later process

    /// Keeps `bytes`, which stand `position` **bytes** behind the first of the blob at `place`. What cannot be
    /// written is fetched again one day.
    func keep(
        _ bytes: UnsafeRawBufferPointer,
        at position: Int,
        of place: Plan.Place,
        length: UInt64,
        part: Int
    ) {
        guard let begun = begun(for: place, from: position, part: part) else { return }
        let start = UInt64(Self.headLength + position)
        var isWritten = writeAll(begun.descriptor.raw, bytes, at: start) == 0
        if position == 0, isWritten {
            // The head comes last: a file without it is nothing.
            var head = (Self.magic.littleEndian, place.offset.littleEndian, length.littleEndian)
            isWritten = withUnsafeBytes(of: &head) { writeAll(begun.descriptor.raw, $0, at: 0) } == 0
        }
        if !isWritten { _ = ftruncate(begun.descriptor.raw, 0) }
        let count = isWritten ? UInt64(position + bytes.count) : 0
        begun.place.withLock { $0 = (place, count) }
    }

    /// The file to write to: with what it has of the blob up to `position`, or empty.
    private func begun(for place: Plan.Place, from position: Int, part: Int) -> Begun? {
        let (known, found) = state.withLock { ($0.open[part], position > 0 ? $0.found[place] : nil) }
        if position > 0 {
            if let known, known.place.withLock({ $0 == (place, UInt64(position)) }) { return known }
            guard let found, found.place.withLock({ $0.count }) == UInt64(position) else { return nil }
            state.withLock { $0.open[part] = found }
            if let known { staging.remove(known.file) }
            return found
        }
        if let known { return ftruncate(known.descriptor.raw, 0) == 0 ? known : nil }
        let file = staging.newFile(lane: lane, begunOf: manifest.packs[place.pack].sha256)
        guard let made = staging.create(file, executable: false) else { return nil }
        let begun = Begun(made, file, place, count: 0)
        state.withLock {
            $0.open[part] = begun
            $0.files.append(file)
        }
        return begun
    }

    /// Parts of another plan follow.
    func endPlan() {
        state.withLock {
            $0.open = [:]
            $0.used = []
        }
    }

    /// Removes everything: nothing is missing any more.
    func remove() {
        let files = state.withLock { state in
            defer { state = State() }
            return state.files + state.found.values.map(\.file)
        }
        for file in files { staging.remove(file) }
    }
}
