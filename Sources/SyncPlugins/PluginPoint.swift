/// Where syncagent can be extended. Built-ins and plugins stand behind the same protocols.
public enum PluginPoint: String, Sendable, CaseIterable {
    /// Brings bytes for a URL scheme or host: ``Transport``.
    case transport
    /// Rewrites a request before it is sent: ``RequestResolver``.
    case resolver
    /// Gives what an origin asks for to let somebody in: ``CredentialProvider``.
    case credential
    /// Tells whether a run may go on now: ``Condition``.
    case condition
    /// Looks at a staged file before it is installed: ``FileVerifier``.
    case verifier
    /// Runs what follows when a group is complete: ``GroupHook``.
    case hook
    /// Is told of every event: ``EventObserver``.
    case observer
}

/// A plugin that could not answer. What that means is the caller's to say: each protocol names its default.
public struct PluginError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What a caller can act on. A struct, so that a new code does not break a plugin's `switch`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// As in the protocol of out-of-process plugins.
        public let description: String

        /// It cannot be started, or ended before it answered.
        public static let unavailable = Code(description: "unavailable")
        /// No answer within its deadline.
        public static let timedOut = Code(description: "timed_out")
        /// An answer that the protocol does not allow.
        public static let badAnswer = Code(description: "bad_answer")
        /// It answered that it cannot do it.
        public static let refused = Code(description: "refused")
        /// Ended by the caller.
        public static let cancelled = Code(description: "cancelled")
    }

    /// The plugin's name.
    public var plugin: String
    /// The kind of failure.
    public var code: Code
    /// One line for people, without secrets.
    public var message: String

    /// Makes an error; see the properties.
    public init(plugin: String, code: Code, message: String) {
        self.plugin = plugin
        self.code = code
        self.message = message
    }

    /// Who, and what.
    public var description: String { "plugin \(plugin): \(message)" }
}
