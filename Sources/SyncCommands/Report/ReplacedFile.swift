import Foundation
import SyncModel

/// A file that is written as a whole and then takes the place of the one before: who reads it sees one or the other.
struct ReplacedFile: Sendable {
    let path: String
    let mode: mode_t

    /// Writes beside the file, then renames. rename(2)
    ///
    /// - Throws: ``CommandFailure`` with status 73 when the place cannot be written to, 74 when the disk is full.
    func write(_ text: String) throws(CommandFailure) {
        let (directory, name) = parts
        let temporary = "\(directory)/.\(name).\(getpid()).tmp"
        // What a killed process of the same number left there is ours to replace.
        unlink(temporary)
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw failure(.cannotCreate) }
        var isWhole = writeAll(Array(text.utf8), to: descriptor)
        // The umask may have taken away what readers need.
        isWhole = isWhole && fchmod(descriptor, mode) == 0 && fsync(descriptor) == 0
        let problem = isWhole ? nil : failure(.ioError)
        close(descriptor)
        guard problem == nil, rename(temporary, path) == 0 else {
            let problem = problem ?? failure(.cannotCreate)
            unlink(temporary)
            throw problem
        }
    }

    private var parts: (directory: String, name: String) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path) }
        let directory = slash == path.startIndex ? "/" : String(path[..<slash])
        return (directory, String(path[path.index(after: slash)...]))
    }

    private func failure(_ status: ExitStatus) -> CommandFailure {
        CommandFailure(status, "cannot write \(escaped(path)): \(String(cString: strerror(errno)))")
    }
}
