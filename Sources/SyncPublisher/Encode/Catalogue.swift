import SyncManifest
import SyncModel
import SyncSystem

/// Every blob stored in a pack, by the digest of its raw bytes, and the blobs in progress.
///
/// Workers ask whether a blob needs compressing; the writer decides where it goes. Only the writer's decisions, made in
/// path order, affect the output, so the output does not depend on the speed of workers.
final class Catalogue: Sendable {
    /// A stored blob. Packs count from 0 through the base's packs and then the new ones.
    struct Entry: Sendable {
        var digest: SHA256Digest
        var pack: UInt32
        var codec: Codec
        var offset: UInt64
        var storedLength: UInt32
        var rawLength: UInt32
    }

    private struct State: ~Copyable {
        var places: [Entry] = []
        var index = DigestIndex()
        /// For each blob that is not stored yet, the lowest `order` that claimed it.
        var claims: [SHA256Digest: UInt64] = [:]

        /// A blob of the base of which only the head is known is the first one that has it.
        mutating func find(_ digest: SHA256Digest) -> UInt32? {
            let number = index.find(digest) { places[Int($0)].digest }
            if let number, !digest.isHead, places[Int(number)].digest != digest {
                places[Int(number)].digest = digest
            }
            return number
        }

        mutating func append(_ place: Entry) -> UInt32? {
            guard let number = UInt32(exactly: places.count), number < .max else { return nil }
            places.append(place)
            index.insert(number) { places[Int($0)].digest }
            claims[place.digest] = nil
            return number
        }
    }

    private let state = Mutex(State())

    /// Whether a worker should compress this blob: it is not stored, and in no earlier job. `order` grows in the order
    /// of the output.
    func claim(_ digest: SHA256Digest, order: UInt64) -> Bool {
        state.withLock { state in
            if state.find(digest) != nil { return false }
            if let other = state.claims[digest], other < order { return false }
            state.claims[digest] = order
            return true
        }
    }

    /// The blob's number, if it is stored.
    func find(_ digest: SHA256Digest) -> UInt32? { state.withLock { $0.find(digest) } }

    /// The digest of a stored blob with this head; `nil` if there is none of which more is known.
    func full(_ head: SHA256Digest) -> SHA256Digest? {
        state.withLock { state in
            let found = state.find(head).map { state.places[Int($0)].digest }
            return found?.isHead == false ? found : nil
        }
    }

    /// Adds a stored blob, unless it has an entry.
    ///
    /// - Returns: The blob's number, or `nil` after 2³²-1 blobs.
    func add(_ place: Entry) -> UInt32? { state.withLock { state in state.find(place.digest) ?? state.append(place) } }

    /// Moves a blob to another pack.
    func move(_ number: UInt32, toPack pack: UInt32, offset: UInt64) {
        state.withLock { state in
            state.places[Int(number)].pack = pack
            state.places[Int(number)].offset = offset
        }
    }

    /// Every blob, by number. The next change copies the array, so this is for the end of a run.
    var places: [Entry] { state.withLock { $0.places } }
}
