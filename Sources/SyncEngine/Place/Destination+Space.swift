import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

extension Destination {
    /// Refuses a fetch that cannot fit, before it begins (F061).
    ///
    /// - Parameter present: **Bytes** of it that an interrupted run has written already.
    func checkSpace(for wanted: [Int], of manifest: Manifest, present: UInt64 = 0) throws(EngineError) {
        let all = wanted.reduce(UInt64(0)) { $0 &+ manifest.files.size($1) &+ 512 }
        let need = all - min(all, present)
        let free: (bytes: UInt64, inodes: UInt64?)
        do throws(FileError) { free = try freeSpace() } catch { throw PullEngine.cannotUse(error) }
        guard free.bytes > need else {
            throw EngineError(
                .ioError,
                "\(escaped(path)): needs \(ByteCount(need)), \(ByteCount(free.bytes)) are free; "
                    + "nothing was fetched"
            )
        }
        if let inodes = free.inodes, inodes < UInt64(wanted.count) {
            throw EngineError(
                .ioError,
                "\(escaped(path)): needs \(wanted.count) inodes, \(inodes) are free; nothing was fetched"
            )
        }
    }
}
