@_exported public import SyncModel

/// The extension points. Built-in functions and plugins use the same protocols.
public enum PluginPoint: String, Sendable, CaseIterable {
    /// Fetches bytes for a URL scheme or host: ``Transport``.
    case transport
    /// Rewrites a request before it is sent: ``RequestResolver``.
    case resolver
    /// Provides credentials for an origin: ``CredentialProvider``.
    case credential
    /// Decides whether a run may proceed now: ``Condition``.
    case condition
    /// Checks a staged file before it is installed: ``FileVerifier``.
    case verifier
    /// Runs when a group is complete: ``GroupHook``.
    case hook
    /// Receives every event: ``EventObserver``.
    case observer
    /// Makes a manifest of a set that nobody published: ``SetSource``.
    case source
}

/// A plugin that could not answer. Each protocol says what the caller does then.
public struct PluginError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of a failure, for callers to act on. A struct, so that a new code does not break a plugin's `switch`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The spelling in the protocol of out-of-process plugins.
        public let description: String

        /// The plugin could not be started, or ended before it answered.
        public static let unavailable = Code(description: "unavailable")
        /// No answer within its deadline.
        public static let timedOut = Code(description: "timed_out")
        /// An answer that the protocol does not allow.
        public static let badAnswer = Code(description: "bad_answer")
        /// The plugin can make nothing of the request.
        public static let misused = Code(description: "misused")
        /// The requested object does not exist.
        public static let notThere = Code(description: "not_there")
        /// The plugin refused the request.
        public static let refused = Code(description: "refused")
        /// Cancelled by the caller.
        public static let cancelled = Code(description: "cancelled")
    }

    /// The plugin's name.
    public var plugin: String
    /// The kind of failure.
    public var code: Code
    /// One line for people, without secrets.
    public var message: String
    /// Whether the system had no process, memory or descriptor for the plugin: it is not the plugin's fault.
    public var isExhaustion: Bool
    /// Whether the plugin had been asked by then: what it has done since is not known.
    public var wasAsked = false

    /// Makes an error; see the properties.
    public init(plugin: String, code: Code, message: String, isExhaustion: Bool = false) {
        (self.plugin, self.code, self.message, self.isExhaustion) = (plugin, code, message, isExhaustion)
    }

    /// The plugin and the message.
    public var description: String { "plugin \(plugin): \(message)" }
}

/// Receives events: for metrics, chat, an external journal.
///
/// Nothing waits for an observer: events are queued up to a limit, and events beyond it are dropped and counted. If it
/// fails, a warning is reported once.
public protocol EventObserver: Sendable {
    /// Handles events in order; may block its own thread. They have no numbers yet.
    func observe(_ events: [SessionEvent]) throws(PluginError)
}

/// The input of a condition, in addition to the state of the machine.
public struct ConditionContext: Sendable, Equatable {
    /// The destination, absolute.
    public var destination: String
    /// Body **bytes** that the run has received so far, over all its attempts.
    public var receivedBytes: UInt64
    /// **Milliseconds** since 1970.
    public var now: Int64

    /// Makes a context; see the properties.
    public init(destination: String, receivedBytes: UInt64 = 0, now: Int64) {
        (self.destination, self.receivedBytes, self.now) = (destination, receivedBytes, now)
    }
}

/// Whether a run may proceed.
public enum ConditionState: Sendable, Equatable {
    /// The run may proceed.
    case ok
    /// The run must wait; the reason is for people. `until` is in **milliseconds** since 1970, if known; a time in the
    /// past or more than a year ahead is ignored.
    case blocked(reason: String, until: Int64? = nil)
    /// Unknown; counts as ``ok``, with a warning that says why.
    case unknown(reason: String)

    /// Whether a time, in **milliseconds** since 1970, makes sense as the end of a block: after now and within a year.
    package static func isEnd(_ until: Int64, at now: Int64) -> Bool { until > now && until <= now + 366 * 86_400_000 }
}

/// Decides whether a run may proceed now. Asked before a run starts and every few seconds while it runs.
///
/// A failure counts as ``ConditionState/unknown(reason:)``.
public protocol Condition: Sendable {
    /// Its name in `status` and events: lower case, words joined by `_`.
    var name: String { get }

    /// Checks the condition; may block briefly.
    func state(in context: ConditionContext) throws(PluginError) -> ConditionState
}

/// A file whose bytes match the manifest, and which is not visible yet.
public struct StagedFile: Sendable, Equatable {
    /// Its path in the manifest.
    public var path: String
    /// Its current path, absolute. For reading only; it is removed afterwards.
    public var stagedPath: String
    /// **Bytes**.
    public var size: UInt64
    /// SHA-256 of its bytes, 64 digits.
    public var sha256: String

    /// Makes a file; see the properties.
    public init(path: String, stagedPath: String, size: UInt64, sha256: String) {
        (self.path, self.stagedPath, self.size, self.sha256) = (path, stagedPath, size, sha256)
    }
}

/// The verdict on a staged file.
public enum FileVerdict: Sendable, Equatable {
    /// The file is installed.
    case accepted
    /// The file is not installed, and its task fails; the reason is for people.
    case refused(reason: String)
    /// The file is not installed, because the verifier failed and could not decide; the reason is for people.
    case unchecked(reason: String)
}

/// Checks files before they are installed: decodes an image, scans for malware.
///
/// If it fails, the files are not installed: a check that did not happen has not passed.
public protocol FileVerifier: Sendable {
    /// Decides about files; blocks.
    ///
    /// - Returns: One verdict for each file, in their order.
    func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict]
}
