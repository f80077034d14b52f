import Foundation
public import SyncModel
import SyncSystem

/// A file that stores how far a program has read: a number and a newline, replaced atomically.
public struct CursorFile: Sendable {
    /// The path of the file, absolute.
    public let path: String

    /// Refers to a file; it need not exist yet.
    public init(path: String) { self.path = path }

    /// The number; 0 if there is no file.
    ///
    /// - Throws: `ControlError` if the file cannot be read or contains something else.
    public func read() throws -> Int64 {
        let bytes: [UInt8]
        do throws(FileError) { bytes = try readFile(path, trust: .state, limit: 64) } catch {
            if error.isMissing { return 0 }
            throw failure("read", error.reason)
        }
        let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .newlines)
        guard let number = Int64(text), number >= 0 else { throw failure("read", "it does not hold a number") }
        return number
    }

    /// Replaces the number: writes a new file, syncs it and renames it. rename(2).
    ///
    /// - Throws: `ControlError` when that fails; the old number stays.
    public func write(_ number: Int64) throws {
        try rethrowing(replaceFile(path, with: Array("\(number)\n".utf8))) { (error: FileError) in
            failure("write", error.reason)
        }
    }

    private func failure(_ step: String, _ reason: String) -> ControlError {
        ControlError(.failed, "Cannot \(step) the cursor \(escaped(path)): \(reason).", exitStatus: .ioError)
    }
}

/// How a run ended.
public struct RunCompletion: Sendable, Equatable, Decodable {
    /// The run.
    public let run: String
    /// Its result.
    public let result: RunResult
    /// Its files by outcome.
    public let files: FileCounts
    /// **Bytes** of its files and received.
    public let bytes: ByteCounts
}

/// The ends of a session's runs; ``AgentSession/completions(_:)`` makes it.
public struct RunCompletions: AsyncSequence, Sendable {
    /// One end of a run.
    public typealias Element = RunCompletion

    let events: SessionEvents
    let cursor: CursorFile

    /// Starts at the cursor's position at creation.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(events: events.makeAsyncIterator(), cursor: cursor)
    }

    /// Iterates over the ends.
    public struct AsyncIterator: AsyncIteratorProtocol {
        var events: SessionEvents.AsyncIterator
        let cursor: CursorFile
        private var dealtWith: Int64?

        init(events: SessionEvents.AsyncIterator, cursor: CursorFile) { (self.events, self.cursor) = (events, cursor) }

        /// The next end; first records that the previous one has been handled.
        ///
        /// - Throws: As ``SessionEvents/AsyncIterator/next()``; `ControlError` if the cursor cannot be stored.
        public mutating func next() async throws -> RunCompletion? {
            if let number = dealtWith.take() { try cursor.write(number) }
            while let event = try await events.next() {
                guard event.kind == .pullFinished, let number = event.sequence else { continue }
                dealtWith = number
                return try event.fields(RunCompletion.self)
            }
            return nil
        }
    }
}
