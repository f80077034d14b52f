import SyncContent
import SyncFiles
import SyncModel
import SyncSystem
import SyncTestKit

/// A destination of a test's own.
struct FilesFixture {
    let root: TemporaryRoot
    let destination: Destination

    init() throws {
        root = try TemporaryRoot()
        destination = try Destination.open(path: root.path("dest"), create: true)
    }

    /// The path of a name in the state directory, below ``root``.
    static func state(_ name: String) -> String { "dest/.syncagent/\(name)" }

    static func digest(_ bytes: [UInt8]) throws -> SHA256Digest { try bytes.withUnsafeBytes { try sha256($0) } }

    /// The status of a path below the destination.
    func status(_ path: String) -> FileStatus? {
        guard case .success(let found) = SyncSystem.status(destination.root, path) else { return nil }
        return found
    }

    /// Opens or makes the directory at a path.
    func directory(_ path: String, create: Bool, with directories: Directories) throws(FileError) -> Int32? {
        let bytes = Array(path.utf8)
        let result: Result<Int32?, FileError> = bytes.withUnsafeBufferPointer { buffer in
            do throws(FileError) { return .success(try directories.descriptor(buffer, create: create)) } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }
}

extension StatIndexWriter {
    /// Adds a record under a path as text.
    mutating func append(_ record: IndexRecord, path: String) {
        let bytes = Array(path.utf8)
        bytes.withUnsafeBufferPointer { _ = append(record, path: $0) }
    }
}
