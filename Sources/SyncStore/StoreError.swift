import GRDB
package import SyncModel

/// A failure of the store: what happened and what to do.
package struct StoreError: Error, Sendable, Equatable {
    /// The code that callers can act on.
    package enum Code: Sendable, Equatable {
        /// The state directory or the store cannot be created or opened.
        case cannotCreate
        /// Another version of syncagent wrote it; it is left as it is.
        case newer
        /// The file is a database of another program; it is left as it is.
        case foreign
        /// Its contents are damaged; the next open sets it aside and starts a new one.
        case damaged
        /// Another process has been writing for longer than the store waits.
        case busy
        /// Reading or writing failed, or the disk is full.
        case io
        /// No such session.
        case unknownSession
        /// No such run or hook.
        case unknown
        /// The life cycle does not allow it; nothing was changed.
        case refused
        /// A bug.
        case internalError
    }

    package let code: Code
    /// One sentence for people; foreign text in it has been escaped.
    package let message: String

    init(_ code: Code, _ message: String) { (self.code, self.message) = (code, message) }

    /// The exit status of a command that cannot continue.
    package var status: ExitStatus {
        switch code {
        case .cannotCreate, .newer, .foreign: .cannotCreate
        case .damaged, .io: .ioError
        case .busy: .busy
        case .unknown, .unknownSession: .noInput
        case .refused: .refused
        case .internalError: .internalError
        }
    }

    static func newer(found: Int, known: Int) -> StoreError {
        StoreError(
            .newer,
            "The state has version \(found), and this syncagent knows version \(known). It was left as it is; use the"
                + " syncagent that wrote it, or another state directory (XDG_STATE_HOME).")
    }

    static let foreign = StoreError(
        .foreign,
        "The state file is the database of another program. It was left as it is; move it away, or use another state"
            + " directory (XDG_STATE_HOME).")

    /// The error for an error of SQLite. https://sqlite.org/rescode.html
    init(_ error: any Error) {
        if let error = error as? StoreError {
            self = error
            return
        }
        if error is RowDecodingError {
            self = .unreadable("one of its rows")
            return
        }
        guard let error = error as? DatabaseError else {
            self.init(.internalError, "The state: \(error).")
            return
        }
        let code: Code =
            switch error.resultCode.primaryResultCode {
            case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL: .busy
            case .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_FORMAT: .damaged
            // No statement here violates the tables' rules, so the stored values are inconsistent, such as a number of
            // the next event that exists already, or a fraction in its place.
            case .SQLITE_CONSTRAINT: .damaged
            // A header with a format number unknown to SQLite, for which it has no code of its own.
            case .SQLITE_ERROR where error.message == "unsupported file format": .damaged
            case .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_NOLFS: .io
            case .SQLITE_CANTOPEN, .SQLITE_READONLY, .SQLITE_PERM, .SQLITE_AUTH: .cannotCreate
            default: .internalError
            }
        let advice =
            switch code {
            case .busy: " Another syncagent is writing to it; try again."
            case .damaged: " The next command starts a new one; files are verified again, none is lost."
            case .io: " Is the disk full?"
            case .cannotCreate: " Does the directory exist, and can you write to it?"
            default: ""
            }
        self.init(code, "The state: \(error.message ?? "SQLite error \(error.resultCode.rawValue)").\(advice)")
    }
}

extension StoreError: CustomStringConvertible { package var description: String { message } }

extension StoreError {
    package static func noSession(_ identifier: String) -> StoreError {
        StoreError(.unknownSession, "There is no session '\(escaped(identifier))'. 'syncagent status' lists them.")
    }

    package static func noOpenRun(_ session: String) -> StoreError {
        StoreError(.unknown, "Session '\(escaped(session))' has no run in progress.")
    }

    static func noRun(_ identifier: String) -> StoreError {
        StoreError(.unknown, "There is no run '\(escaped(identifier))'.")
    }

    static func otherProject(_ found: StoredSession, _ request: StoredSession) -> StoreError {
        StoreError(
            .refused,
            "Session '\(escaped(request.identifier))' belongs to project '\(escaped(found.project))', not"
                + " '\(escaped(request.project))'. Choose another name with --session.")
    }
}
