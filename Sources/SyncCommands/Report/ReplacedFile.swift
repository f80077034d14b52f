import Foundation
import SyncModel
import SyncSystem

/// A file that is written as a whole and then takes the place of the one before: who reads it sees one or the other.
struct ReplacedFile: Sendable {
    let path: String
    let mode: mode_t

    /// Writes beside the file, then renames. rename(2)
    ///
    /// - Throws: ``CommandFailure`` with status 73 when the place cannot be written to, 74 when the disk is full.
    func write(_ text: String) throws(CommandFailure) {
        var status = stat()
        // A device or a pipe would be gone: what was meant is to write into it.
        guard stat(path, &status) != 0 || status.st_mode & S_IFMT == S_IFREG else {
            throw CommandFailure(.cannotCreate, "cannot write \(escaped(path)): it is not a regular file")
        }
        do throws(FileError) {
            try replaceFile(path, with: Array(text.utf8), mode: mode)
        } catch {
            let isFull = ["write", "sync", "set the mode of"].contains(error.step)
            throw CommandFailure(
                isFull ? .ioError : .cannotCreate,
                "cannot write \(escaped(path)): \(error.reason)"
            )
        }
    }
}
