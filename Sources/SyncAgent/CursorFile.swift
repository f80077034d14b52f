import Foundation
import SyncControl
public import SyncModel
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
        guard let number = Int64(text), number >= 0 else {
            throw failure("read", "it does not hold a number")
        }
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

/// How a run ended.
public struct RunCompletion: Sendable, Equatable, Decodable {
    /// The run.
    public let run: String
    /// What it came to.
    public let result: RunResult
    /// What became of its files.
    public let files: FileCounts
    /// **Bytes** of its files and on the network.
    public let bytes: ByteCounts
}

/// The ends of a session's runs; ``AgentSession/completions(_:)`` makes it.
public struct RunCompletions: AsyncSequence, Sendable {
    /// One end of a run.
    public typealias Element = RunCompletion

    let events: SessionEvents
    let cursor: CursorFile

    /// Begins where the cursor was when this was made.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(events: events.makeAsyncIterator(), cursor: cursor)
    }

    /// Walks through the ends.
    public struct AsyncIterator: AsyncIteratorProtocol {
        var events: SessionEvents.AsyncIterator
        let cursor: CursorFile
        private var dealtWith: Int64?

        init(events: SessionEvents.AsyncIterator, cursor: CursorFile) {
            self.events = events
            self.cursor = cursor
        }

        /// The next end; remembers first that the one before has been dealt with.
        ///
        /// - Throws: As ``SessionEvents/AsyncIterator/next()``; `ControlError` when the cursor cannot be kept.
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
