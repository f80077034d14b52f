import CPosix
import Foundation
import SyncControl
import SyncModel

/// How far a program has read, in a file: a number and a newline, replaced whole or not at all.
public struct CursorFile: Sendable {
    /// Absolute.
    public let path: String

    /// Names a file; it need not exist yet.
    public init(path: String) { self.path = path }

    /// The number; 0 when there is no file.
    ///
    /// - Throws: `ControlError` when there is one that cannot be read or holds something else.
    public func read() throws -> Int64 {
        guard FileManager.default.fileExists(atPath: path) else { return 0 }
        let text = try? String(contentsOfFile: path, encoding: .utf8)
        guard let number = text.flatMap({ Int64($0.trimmingCharacters(in: .newlines)) }), number >= 0 else {
            throw failure("read")
        }
        return number
    }

    /// Puts a number in its place: written beside it, synced, renamed. rename(2).
    ///
    /// - Throws: `ControlError` when that fails; the old number stays.
    public func write(_ number: Int64) throws {
        let temporary = "\(path).\(getpid()).new"
        let file = sa_openat(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0o600)
        guard file >= 0 else { throw failure("write") }
        let text = Array("\(number)\n".utf8)
        let isWritten = Foundation.write(file, text, text.count) == text.count && fsync(file) == 0
        close(file)
        guard isWritten, rename(temporary, path) == 0 else {
            let error = failure("write")
            unlink(temporary)
            throw error
        }
    }

    private func failure(_ step: String) -> ControlError {
        ControlError(
            .failed,
            "Cannot \(step) the cursor \(escaped(path)): \(String(cString: strerror(sa_errno()))).",
            exitStatus: .ioError
        )
    }
}
