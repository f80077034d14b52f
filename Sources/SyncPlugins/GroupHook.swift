/// One call of a hook: a group is complete.
public struct HookInvocation: Sendable {
    /// argv; an absolute path first. Never a shell string (V56).
    public var arguments: [String]
    /// Where the hook runs: the destination.
    public var directory: String
    /// `SYNCAGENT_…` variables, on top of the hook runner's own minimal environment; others are left out.
    public var environment: [String: String]
    /// The report, JSON, for standard input.
    public var input: [UInt8]
    /// Most **seconds** it may run.
    public var timeout: Int
    /// Asked several times a second: `true` ends the hook early.
    public var isStopped: @Sendable () -> Bool

    /// Makes an invocation; see the properties.
    public init(
        arguments: [String],
        directory: String,
        environment: [String: String],
        input: [UInt8],
        timeout: Int,
        isStopped: @escaping @Sendable () -> Bool = { false }
    ) {
        self.arguments = arguments
        self.directory = directory
        self.environment = environment
        self.input = input
        self.timeout = timeout
        self.isStopped = isStopped
    }
}

/// How a hook ended.
public struct HookOutcome: Sendable, Equatable {
    /// Why it ended.
    public enum End: Sendable, Equatable {
        /// It exited with this status.
        case exited(Int32)
        /// A signal ended it.
        case signalled(Int32)
        /// It ran past its deadline and was ended, with its whole process group.
        case timedOut
        /// The caller stopped and ended it, with its whole process group; it is still owed.
        case stopped
        /// It could not be started; the reason for people.
        case notStarted(String)
    }

    /// Why it ended.
    public var end: End
    /// What it wrote to standard output and standard error, cut to a bound.
    public var output: String
    /// How long it ran, in **milliseconds**.
    public var milliseconds: Int64
    /// All the **bytes** it wrote, whether ``output`` has them or not.
    public var outputBytes: UInt64
    /// Processes it had left behind in its process group had to be ended.
    public var endedLeftovers: Bool
    /// Whether the same call may do better later: exit status 75 (`EX_TEMPFAIL`, sysexits(3)), or no process or
    /// memory to be had (F095).
    public var isTransient: Bool

    /// Makes an outcome; see the properties.
    public init(
        end: End,
        output: String,
        milliseconds: Int64,
        outputBytes: UInt64 = 0,
        endedLeftovers: Bool = false,
        isTransient: Bool = false
    ) {
        self.end = end
        self.output = output
        self.milliseconds = milliseconds
        self.outputBytes = outputBytes
        self.endedLeftovers = endedLeftovers
        self.isTransient = isTransient
    }

    /// Whether the hook did its work.
    public var succeeded: Bool { end == .exited(0) }
}

/// Runs what is to follow when a group is complete. It is called at least once per completed group; an
/// implementation must be idempotent.
public protocol GroupHook: Sendable {
    /// Runs one hook to its end; blocks the calling thread, never longer than the timeout and a short grace.
    func run(_ invocation: HookInvocation) -> HookOutcome
}
