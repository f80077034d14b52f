import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What a fetch takes of a file system.
struct SpaceNeed: Sendable, Equatable {
    /// **Bytes**, with a little for each file's name.
    let bytes: UInt64
    let files: Int

    /// - Parameters:
    ///   - rows: What is to be brought.
    ///   - present: **Bytes** of it that an interrupted run has written already.
    init(_ rows: [Int], of manifest: Manifest, present: UInt64 = 0) {
        let all = rows.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) &+ 512 }
        bytes = all - min(all, present)
        files = rows.count
    }

    /// Why it does not fit; `nil` where it does (F061).
    func shortage(_ free: Destination.FreeSpace, _ path: String) -> EngineError? {
        if free.bytes <= bytes {
            return EngineError(
                .ioError,
                "\(escaped(path)): needs \(ByteCount(bytes)), \(ByteCount(free.bytes)) are free; nothing was fetched",
                cause: .diskFull
            )
        }
        if let inodes = free.inodes, inodes < UInt64(files) {
            return EngineError(
                .ioError,
                "\(escaped(path)): needs \(files) inodes, \(inodes) are free; nothing was fetched",
                cause: .diskFull
            )
        }
        return nil
    }
}

extension Destination {
    /// Refuses a fetch that cannot fit, before it begins (F061).
    func checkSpace(_ need: SpaceNeed) throws(EngineError) {
        let free: FreeSpace
        do throws(FileError) { free = try freeSpace() } catch { throw EngineError(cannotUse: error) }
        if let shortage = need.shortage(free, path) { throw shortage }
    }
}
