import SyncModel

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

/// Plugins of one point, by name, each made with settings of its own.
public struct PluginRegistry<Plugin: Sendable, Settings: Sendable>: Sendable {
    /// Makes a plugin.
    public typealias Factory = @Sendable (Settings) -> Result<Plugin, PluginError>

    /// What all its plugins extend.
    public let point: PluginPoint
    private var factories: [String: Factory] = [:]

    /// An empty registry.
    public init(_ point: PluginPoint) { self.point = point }

    /// Adds a plugin, or puts it in the place of one with the same name.
    public mutating func register(_ name: String, _ factory: @escaping Factory) {
        factories[name] = factory
    }

    /// The names that are known, in order.
    public var names: [String] { factories.keys.sorted() }

    /// Makes the plugin called `name`.
    ///
    /// - Throws: ``PluginError`` with code `unavailable` that lists the known names; whatever its factory throws.
    public func make(_ name: String, _ settings: Settings) throws(PluginError) -> Plugin {
        guard let factory = factories[name] else {
            let known = names.isEmpty ? "none is known" : "known: \(names.joined(separator: ", "))"
            throw PluginError(
                plugin: escaped(name),
                code: .unavailable,
                message: "there is no \(point.rawValue) of this name; \(known)"
            )
        }
        return try factory(settings).get()
    }
}

/// An event, as it is printed and kept.
public struct ObservedEvent: Sendable, Equatable {
    /// Such as `group.completed`.
    public var name: String
    /// The event as one line of JSON, without a line end.
    public var json: String

    /// Makes an event; see the properties.
    public init(name: String, json: String) {
        self.name = name
        self.json = json
    }
}

/// Is told of events: metrics, chat, a journal elsewhere.
///
/// It is never waited for: events queue up to a bound, and what does not fit is dropped and counted. When it fails,
/// a warning is told once.
public protocol EventObserver: Sendable {
    /// Takes events in their order; blocks a thread of its own.
    func observe(_ events: [ObservedEvent]) throws(PluginError)
}

/// What a condition may look at besides the machine.
public struct ConditionContext: Sendable, Equatable {
    /// Where files go, absolute.
    public var destination: String
    /// Body **bytes** that the run has received so far, over all its attempts.
    public var receivedBytes: UInt64
    /// **Milliseconds** since 1970.
    public var now: Int64

    /// Makes a context; see the properties.
    public init(destination: String, receivedBytes: UInt64 = 0, now: Int64) {
        self.destination = destination
        self.receivedBytes = receivedBytes
        self.now = now
    }
}

/// Whether a run may go on.
public enum ConditionState: Sendable, Equatable {
    /// It may.
    case ok
    /// It may not; the reason is for people. `until`, in **milliseconds** since 1970, when that is known.
    case blocked(reason: String, until: Int64? = nil)
    /// It cannot be told; counts as ``ok``, and a warning says why (S49).
    case unknown(reason: String)
}

/// Tells whether a run may go on now. Asked before a run starts and every few seconds while it runs (S133).
///
/// When it fails, that counts as ``ConditionState/unknown(reason:)``.
public protocol Condition: Sendable {
    /// What `status` and events call it: lower case, words joined by `_`.
    var name: String { get }

    /// Looks; blocks, shortly.
    func state(in context: ConditionContext) throws(PluginError) -> ConditionState
}

/// A file whose bytes are what the manifest says, and which nobody sees yet.
public struct StagedFile: Sendable, Equatable {
    /// Where it will be, as in the manifest.
    public var path: String
    /// Where it is now, absolute. For reading; it is gone afterwards.
    public var stagedPath: String
    /// **Bytes**.
    public var size: UInt64
    /// SHA-256 of its bytes, 64 digits.
    public var sha256: String

    /// Makes a file; see the properties.
    public init(path: String, stagedPath: String, size: UInt64, sha256: String) {
        self.path = path
        self.stagedPath = stagedPath
        self.size = size
        self.sha256 = sha256
    }
}

/// What becomes of a staged file.
public enum FileVerdict: Sendable, Equatable {
    /// It is installed.
    case accepted
    /// It is not, and its task fails; the reason is for people.
    case refused(reason: String)
    /// It is not either, because nobody could tell: the verifier is at fault and not the file; the reason is for people.
    case unchecked(reason: String)
}

/// Looks at files before they are installed: decodes an image, scans for what must not come in.
///
/// When it fails, the files are not installed: a check that did not happen has not passed.
public protocol FileVerifier: Sendable {
    /// Decides about files; blocks.
    ///
    /// - Returns: One verdict for each file, in their order.
    func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict]
}
