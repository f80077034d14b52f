import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// Fetches a dictionary before it is known whether it is needed: while a manifest is read and compared, the round trips
/// cost no time. Not used for a dictionary in the cache.
final class DictionaryAhead: Sendable {
    private let fetch = Mutex<(digest: SHA256Digest, fetch: PartFetch)?>(nil)

    /// Starts fetching a dictionary, unless that has happened.
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

/// Gets a manifest's dictionary on first use, from the cache or from its pack, and keeps it in memory.
final class ManifestDictionary: Sendable {
    /// Why the dictionary cannot be had.
    struct Failure: Error {
        var reason: String
        /// The failed fetch.
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
                } catch { return .failure(Failure(reason: "the dictionary of the manifest: \(error.reason)")) }
            }
            known = try? made.get()
            return made
        }
    }
}
