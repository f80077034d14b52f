/// The exit statuses of the program; numbers above 63 follow sysexits(3).
public enum ExitStatus: Int32, Sendable, CaseIterable {
    /// The request was completed.
    case done = 0
    /// A bug, or a failure without a more specific status.
    case internalError = 1
    /// Some files are missing, differ, or failed.
    case incomplete = 2
    /// Every file is in place; a hook failed, or a check of the new tree.
    case hookFailed = 5
    /// The command line is wrong.
    case usage = 64
    /// The manifest, or data it names, breaks the format.
    case dataInvalid = 65
    /// The manifest does not exist.
    case noInput = 66
    /// No source could be reached before the deadline.
    case unavailable = 69
    /// The destination or the state directory cannot be created.
    case cannotCreate = 73
    /// Reading or writing failed, or the disk is full.
    case ioError = 74
    /// Another process holds the session or the destination.
    case busy = 75
    /// A policy forbids it (signature, rollback, redirect), or a server denies access.
    case refused = 77
    /// The configuration is wrong.
    case configuration = 78
    /// Stopped by SIGINT; everything fetched is kept.
    case interrupted = 130
    /// Stopped by SIGTERM; everything fetched is kept.
    case terminated = 143
}
