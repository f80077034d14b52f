import Foundation

/// A directory that goes when nobody holds it any more.
final class ScratchDirectory {
    let path: String

    /// In memory where that is possible: what else the disk has to do should not be waited for.
    init() throws {
        let files = FileManager.default
        let memory = "/dev/shm"
        let parent = files.isWritableFile(atPath: memory) ? URL(fileURLWithPath: memory) : files.temporaryDirectory
        let url = parent.appendingPathComponent("syncagent-benchmark-\(UUID().uuidString)")
        try files.createDirectory(at: url, withIntermediateDirectories: true)
        path = url.path
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}
