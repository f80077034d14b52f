import Foundation
import SyncControl
import SyncModel
import SyncSystem

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
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(path, trust: .state, limit: 64)
        } catch {
            if error.isMissing { return 0 }
            throw failure("read", error.reason)
        }
        let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .newlines)
        guard let number = Int64(text), number >= 0 else { throw failure("read", "it holds no number") }
        return number
    }

    /// Puts a number in its place: written beside it, synced, renamed. rename(2).
    ///
    /// - Throws: `ControlError` when that fails; the old number stays.
    public func write(_ number: Int64) throws {
        do throws(FileError) {
            try replaceFile(path, with: Array("\(number)\n".utf8))
        } catch {
            throw failure("write", error.reason)
        }
    }

    private func failure(_ step: String, _ reason: String) -> ControlError {
        ControlError(
            .failed,
            "Cannot \(step) the cursor \(escaped(path)): \(reason).",
            exitStatus: .ioError
        )
    }
}
