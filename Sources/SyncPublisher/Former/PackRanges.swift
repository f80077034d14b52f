package import SyncManifest
import SyncModel
import SyncSystem

/// Fetches ranges of packs that are not on this machine, and holds them.
///
/// Ranges are fetched before they are needed, in the order of the set, so that the published bytes do not depend on the
/// number of jobs.
package final class PackRanges: Sendable {
    /// Fetches a range of a pack; its bytes are not checked yet.
    package typealias Fetch = @Sendable (Manifest.Pack, Range<UInt64>) throws -> [UInt8]

    /// A range to be fetched.
    typealias Piece = (pack: Manifest.Pack, range: Range<UInt64>)

    /// Most requests of one publish, apart from ``holdNeeded(_:)``.
    static let mostRequests = 256
    /// Most **bytes** of one publish, apart from ``holdNeeded(_:)``; they are held in memory.
    static let mostBytes: UInt64 = 128 << 20
    /// Ranges at most `gap` **bytes** apart become one request, of at most `mostAtOnce` **bytes**.
    private static let (gap, mostAtOnce): (UInt64, UInt64) = (64 << 10, 8 << 20)

    private struct State {
        var requests = 0
        var bytes: UInt64 = 0
        var needed: UInt64 = 0
        /// By pack, in the order of their ranges.
        var held: [SHA256Digest: [(range: Range<UInt64>, bytes: [UInt8])]] = [:]
        var warning: String?
        var failure: PublishError?

        /// The held bytes that a range is among; `nil` if it is not held.
        func holder(of pack: SHA256Digest, _ range: Range<UInt64>) -> (range: Range<UInt64>, bytes: [UInt8])? {
            guard let all = held[pack] else { return nil }
            let next = all.indices.partitioningIndex { all[$0].range.lowerBound > range.lowerBound }
            return next > 0 && all[next - 1].range.upperBound >= range.upperBound ? all[next - 1] : nil
        }
    }

    /// Where the packs are, for people.
    private let shown: String
    private let fetch: Fetch
    private let state = Mutex(State())

    init(shown: String, fetch: @escaping Fetch) { (self.shown, self.fetch) = (shown, fetch) }

    /// Why something was not fetched, for people; `nil` if everything was.
    var warning: String? { state.withLock(\.warning) }

    /// Why no pack can be fetched at all; `nil` if packs can.
    var failure: PublishError? { state.withLock(\.failure) }

    /// The bytes of a range that is held; `nil` for any other range.
    func held(_ pack: SHA256Digest, _ range: Range<UInt64>) -> [UInt8]? {
        state.withLock { state in
            state.holder(of: pack, range).map { held in
                let start = Int(range.lowerBound - held.range.lowerBound)
                return Array(held.bytes[start..<(start + Int(range.length))])
            }
        }
    }

    /// Fetches one range, which is not held; `nil` if that fails.
    func bytes(_ piece: Piece) -> [UInt8]? {
        guard mayFetch(piece) else { return nil }
        do {
            let bytes = try fetch(piece.pack, piece.range)
            return UInt64(bytes.count) == piece.range.length ? bytes : nil
        } catch {
            // The next request would wait as long, for nothing.
            note(error)
            warn("no more of its packs is read: \(error)")
            return nil
        }
    }

    /// Fetches ranges without which nothing can be published, those close to each other with one request. The limits do
    /// not apply. A range that cannot be fetched is not held.
    func holdNeeded(_ pieces: [Piece]) {
        state.withLock { state in
            // Publishing reads one release after another: those before are not needed any more.
            if state.needed > Self.mostNeeded { (state.held, state.needed) = ([:], 0) }
        }
        let missing = pieces.filter { !isHeld($0) && $0.range.upperBound <= $0.pack.size }
        for piece in Self.merged(missing) where failure == nil {
            let bytes: [UInt8]
            do { bytes = try fetch(piece.pack, piece.range) } catch {
                note(error)
                continue
            }
            guard UInt64(bytes.count) == piece.range.length else { continue }
            state.withLock { $0.needed = $0.needed.saturatingAdd(UInt64(bytes.count)) }
            hold(bytes, piece)
        }
    }

    /// When ``holdNeeded(_:)`` has fetched more than this many **bytes**, all that is held is dropped before the next
    /// call.
    private static let mostNeeded: UInt64 = 96 << 20

    /// A pack as an object that is fetched while it is sent elsewhere; its bytes are neither held nor checked.
    func object(of pack: Manifest.Pack) -> NewObject {
        let window = Mutex<(start: UInt64, bytes: [UInt8])>((0, []))
        return NewObject(size: pack.size, digest: pack.sha256) { [fetch] offset, target in
            window.withLock { window in
                if offset < window.start || offset - window.start >= UInt64(window.bytes.count) {
                    let end = min(pack.size, offset.saturatingAdd(Self.mostAtOnce))
                    guard offset < end, let bytes = try? fetch(pack, offset..<end) else { return nil }
                    window = (offset, bytes)
                }
                let start = Int(offset - window.start)
                let count = min(target.count, window.bytes.count - start)
                guard count > 0 else { return nil }
                window.bytes.withUnsafeBytes {
                    target.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[start..<(start + count)]))
                }
                return count
            }
        }
    }

    private func isHeld(_ piece: Piece) -> Bool {
        state.withLock { $0.holder(of: piece.pack.sha256, piece.range) != nil }
    }

    /// Fetches ranges, those close to each other with one request, until the limits are reached.
    func hold(_ pieces: [Piece], isCancelled: () -> Bool) throws(PublishError) {
        for piece in Self.merged(pieces.filter { !isHeld($0) }) {
            if isCancelled() { throw .cancelled }
            guard let bytes = bytes(piece) else { return }
            hold(bytes, piece)
        }
    }

    private func hold(_ bytes: [UInt8], _ piece: Piece) {
        state.withLock { state in
            var all = state.held[piece.pack.sha256] ?? []
            // A held range inside the new one would hide the bytes behind it.
            all.removeAll {
                piece.range.lowerBound <= $0.range.lowerBound && $0.range.upperBound <= piece.range.upperBound
            }
            let place = all.indices.partitioningIndex { all[$0].range.lowerBound > piece.range.lowerBound }
            all.insert((piece.range, bytes), at: place)
            state.held[piece.pack.sha256] = all
        }
    }

    /// Counts a request, if the limits leave room for it.
    private func mayFetch(_ piece: Piece) -> Bool {
        let length = piece.range.length
        guard piece.range.upperBound <= piece.pack.size, warning == nil, failure == nil else { return false }
        let fits = state.withLock { state in
            guard state.requests < Self.mostRequests, length <= Self.mostBytes - state.bytes else { return false }
            (state.requests, state.bytes) = (state.requests + 1, state.bytes + length)
            return true
        }
        if !fits {
            warn("a publish reads at most \(ByteCount(Self.mostBytes)) of its packs, in \(Self.mostRequests) requests")
        }
        return fits
    }

    /// Notes a failure that concerns every pack. A missing or damaged pack says nothing about the others.
    private func note(_ error: any Error) {
        guard let error = error as? PublishError, ![.noInput, .dataInvalid].contains(error.exitStatus) else { return }
        state.withLock { $0.failure = $0.failure ?? error }
    }

    private func warn(_ reason: String) {
        state.withLock { state in
            state.warning = state.warning ?? "\(shown): \(reason); what changed is stored with fewer deltas"
        }
    }

    private static func merged(_ pieces: [Piece]) -> [Piece] {
        var order: [SHA256Digest: Int] = [:]
        for piece in pieces where order[piece.pack.sha256] == nil { order[piece.pack.sha256] = order.count }
        let sorted = pieces.sorted { one, other in
            let packs = (order[one.pack.sha256] ?? 0, order[other.pack.sha256] ?? 0)
            return packs.0 != packs.1 ? packs.0 < packs.1 : one.range.lowerBound < other.range.lowerBound
        }
        var merged: [Piece] = []
        for piece in sorted {
            if let last = merged.last, last.pack.sha256 == piece.pack.sha256,
                piece.range.lowerBound <= last.range.upperBound
                    || piece.range.lowerBound - last.range.upperBound <= gap,
                case let end = max(last.range.upperBound, piece.range.upperBound),
                end <= last.range.upperBound || end - last.range.lowerBound <= mostAtOnce
            {
                merged[merged.count - 1].range = last.range.lowerBound..<end
            } else {
                merged.append(piece)
            }
        }
        return merged
    }
}
