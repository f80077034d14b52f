import SyncCompression
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// A dictionary that was asked for before it is known whether it is needed: while a manifest is read and looked at, its
/// round trips cost no time. Whoever has it here asks for nothing.
final class DictionaryAhead: Sendable {
    private let fetch = Mutex<(digest: SHA256Digest, fetch: PartFetch)?>(nil)

    /// Begins to fetch a dictionary, unless it is under way already.
    func begin(_ digest: SHA256Digest, _ make: () -> PartFetch) {
        fetch.withLock { known in
            guard known?.digest != digest else { return }
            let started = make()
            started.begin()
            known = (digest, started)
        }
    }

    /// The one fetch of a dictionary.
    func take(_ digest: SHA256Digest) -> PartFetch? {
        fetch.withLock { known in
            guard known?.digest == digest else { return nil }
            defer { known = nil }
            return known?.fetch
        }
    }
}

/// Gets a manifest's dictionary for whoever needs it first: from the cache, else out of its pack. Then it stays in memory.
final class ManifestDictionary: Sendable {
    /// Why there is none.
    struct Failure: Error {
        var reason: String
        /// Where fetching it failed.
        var transfer: TransferError?
    }

    private let fetch: @Sendable () -> Result<[UInt8], Failure>
    private let known = Mutex<DecodingDictionary?>(nil)

    /// - Parameter fetch: Brings the dictionary's bytes; their SHA-256 is right.
    init(_ fetch: @escaping @Sendable () -> Result<[UInt8], Failure>) { self.fetch = fetch }

    /// The dictionary. Waits for the network; one thread at a time.
    func get() -> Result<DecodingDictionary, Failure> {
        known.withLock { known in
            if let known { return .success(known) }
            let made: Result<DecodingDictionary, Failure> = fetch().flatMap { bytes in
                do throws(CompressionError) {
                    return try bytes.withUnsafeBufferPointer { bytes throws(CompressionError) in
                        .success(try DecodingDictionary(UnsafeRawBufferPointer(bytes)))
                    }
                } catch {
                    return .failure(Failure(reason: "the dictionary of the manifest: \(error.reason)"))
                }
            }
            known = try? made.get()
            return made
        }
    }
}
