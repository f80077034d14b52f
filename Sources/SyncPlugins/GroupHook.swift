import SyncModel

/// One call of a hook: a group is complete.
public struct HookInvocation: Sendable {
    /// argv; an absolute path first. Never a shell string.
    public var arguments: [String]
    /// The directory in which the hook runs: the destination.
    public var directory: String
    /// `SYNCAGENT_…` variables, on top of the hook runner's own minimal environment; others are left out.
    public var environment: [String: String]
    /// Writes the report, JSON, for standard input: in pieces, since that of a million files takes 150 MB, until all of
    /// it is written or `write` returns `false`.
    public var writeInput: @Sendable (_ write: ([UInt8]) -> Bool) -> Void
    /// The most **seconds** that the hook may run.
    public var timeout: Int
    /// Polled several times a second: `true` ends the hook early.
    public var isStopped: @Sendable () -> Bool

    /// Makes an invocation; see the properties.
    public init(
        arguments: [String], directory: String, environment: [String: String], input: [UInt8], timeout: Int,
        isStopped: @escaping @Sendable () -> Bool = { false }
    ) {
        (self.arguments, self.directory, self.environment) = (arguments, directory, environment)
        (self.timeout, self.isStopped) = (timeout, isStopped)
        writeInput = { write in _ = write(input) }
    }

    /// The whole report, for a hook that has to hold it; others use ``writeInput``.
    public var input: [UInt8] {
        get {
            var all: [UInt8] = []
            writeInput { bytes in
                all += bytes
                return true
            }
            return all
        }
        set { writeInput = { write in _ = write(newValue) } }
    }
}

/// How a hook ended.
public struct HookOutcome: Sendable, Equatable {
    /// Why it ended.
    public enum End: Sendable, Equatable {
        /// The hook exited with this status.
        case exited(Int32)
        /// The hook was killed by a signal.
        case signalled(Int32)
        /// The hook exceeded its timeout and was ended, with its whole process group.
        case timedOut
        /// The caller stopped and ended it, with its whole process group; it is still owed.
        case stopped
        /// The hook could not be started; the reason is for people.
        case notStarted(String)
        /// The hook ran, but how it ended cannot be known; the reason is for people.
        case unknown(String)
    }

    /// Why it ended.
    public var end: End
    /// Its standard output and standard error, truncated to a limit.
    public var output: String
    /// The hook's run time, in **milliseconds**.
    public var milliseconds: Int64
    /// The number of **bytes** it wrote, including those not in ``output``.
    public var outputBytes: UInt64
    /// Whether processes it left in its process group had to be ended.
    public var endedLeftovers: Bool
    /// Whether a retry may succeed: exit status 75 (`EX_TEMPFAIL`, sysexits(3)), or no process or memory was available.
    public var isTransient: Bool
    /// Whether it was not even called, because no process or memory was available: then it is still owed.
    public var isExhaustion: Bool

    /// Makes an outcome; see the properties.
    public init(
        end: End, output: String, milliseconds: Int64, outputBytes: UInt64 = 0, endedLeftovers: Bool = false,
        isTransient: Bool = false, isExhaustion: Bool = false
    ) {
        (self.end, self.output, self.milliseconds, self.outputBytes) = (end, output, milliseconds, outputBytes)
        (self.endedLeftovers, self.isTransient, self.isExhaustion) = (endedLeftovers, isTransient, isExhaustion)
    }

    /// Whether the hook did its work.
    public var succeeded: Bool { end == .exited(0) }
}

/// Runs a hook when a group is complete. It is called at least once per completed group; an
/// implementation must be idempotent.
public protocol GroupHook: Sendable {
    /// Runs one hook to its end; blocks the calling thread, at most for the timeout and a short grace period.
    func run(_ invocation: HookInvocation) -> HookOutcome
}

/// The name behind `plugin:` in a hook's first word.
public func hookPlugin(_ word: String) -> String? {
    let prefix = "plugin:"
    return word.hasPrefix(prefix) && word.count > prefix.count ? String(word.dropFirst(prefix.count)) : nil
}

/// Whether a hook's first word is valid: an absolute path, an http or https URL, `plugin:NAME`.
public func isHookProgram(_ word: String) -> Bool {
    guard !word.contains("\0") else { return false }
    return word.hasPrefix("/") || isWebURL(word) || hookPlugin(word) != nil
}

/// A hook's first word for logs: only the host of a webhook, because its path is often a secret.
public func shownHookProgram(_ word: String) -> String {
    guard let scheme = word.firstRange(of: "://"), !word.hasPrefix("/") else { return word }
    let rest = word[scheme.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
    let host = rest.lastIndex(of: "@").map { rest[rest.index(after: $0)...] } ?? rest
    return word[..<scheme.upperBound] + host + "/…"
}
