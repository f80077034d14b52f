import SyncContent
import SyncModel
package import SyncStore
import SyncSystem

/// Opens the state of a user: sessions, runs and their events.
///
/// - Parameter warn: Receives a line for people if the state was damaged and begins anew.
/// - Throws: ``/SyncStore/StoreError``.
package func openState(_ directory: String, warn: (String) -> Void) throws(StoreError) -> SyncStore {
    let store = try SyncStore.open(directory: directory, now: SystemTime.milliseconds(), compression: compression)
    if case .rebuilt(let path) = store.opening {
        warn("the state was damaged and is kept as \(escaped(path)); sessions and events start over")
    }
    return store
}

private let compression: EventCompression = (
    compress: { bytes in
        guard bytes.count > 200, var compressor = try? ZstdCompressor(level: 1) else { return nil }
        var isSmaller = false
        let small = [UInt8](unsafeUninitializedCapacity: bytes.count) { buffer, used in
            let count = bytes.withUnsafeBytes {
                try? compressor.encode($0, into: UnsafeMutableRawBufferPointer(buffer))
            }
            used = count.flatMap { $0 } ?? 0
            isSmaller = used > 0
        }
        return isSmaller ? small : nil
    }, decompress: { bytes, limit in try? decodeZstd(bytes, limit: limit) }
)
