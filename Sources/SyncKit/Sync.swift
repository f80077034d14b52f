import Foundation
@_exported public import SyncAgent
import SyncAssembly
import SyncModel
@_exported public import SyncPlugins
import SyncSystem

/// Pulls in a program of your own: the same files, checks, sessions and plugins as with the command `syncagent`.
///
/// ```swift
/// for try await event in Sync.pull("https://cdn.example.com/tower/manifest.json", into: "/srv/tower") {
///     if case .finished(let summary) = event { print(summary.result) }
/// }
/// ```
public enum Sync {
    /// Brings a directory to what a manifest names.
    ///
    /// Nothing happens before the first event is asked for. When the task is cancelled, the pull stops at a checkpoint,
    /// everything that was fetched is kept, and the sequence throws `CancellationError`; leaving the loop early stops it,
    /// too. The next pull goes on.
    ///
    /// - Parameters:
    ///   - manifest: A path, or a URL.
    ///   - destination: Where files go; it is made where there is none.
    ///   - options: What else is wanted.
    ///   - plugins: Types of your own at the plugin points.
    /// - Returns: Events, in their order; the last one is ``Event/finished(_:)``. It throws ``Failure`` when nothing could
    ///   be tried: no manifest, no destination, busy, refused. Files that fail are events.
    public static func pull(
        _ manifest: String,
        into destination: String,
        options: Options = Options(),
        plugins: Plugins = Plugins()
    ) -> Pull {
        Pull(.manifest(manifest), destination: destination, options: options, plugins: plugins)
    }

    /// Brings a directory to a list of files, without a manifest that somebody has published.
    ///
    /// - Parameters:
    ///   - files: All files that are to be there.
    ///   - project: What they are part of, such as `com.example.tower`: the name of the session, unless the options have
    ///     another.
    ///   - destination: Where files go; it is made where there is none.
    ///   - options: What else is wanted.
    ///   - plugins: Types of your own at the plugin points.
    /// - Returns: As ``pull(_:into:options:plugins:)``.
    public static func pull(
        _ files: [Entry],
        project: String,
        into destination: String,
        options: Options = Options(),
        plugins: Plugins = Plugins()
    ) -> Pull {
        Pull(.entries(files, project: project), destination: destination, options: options, plugins: plugins)
    }

    /// One file by where its bytes are.
    public typealias Entry = FileEntry

    /// What is wanted of a pull besides the files themselves.
    public struct Options: Sendable {
        /// The session's name; `nil` for the manifest's project.
        public var session: String?
        /// Only these groups; empty for all.
        public var groups: [String] = []
        /// The channel whose release is wanted, such as `beta`; `nil` for the default one.
        public var channel: String?
        /// The revision that is wanted; `nil` for the newest of the channel.
        public var revision: UInt64?
        /// Programs, webhooks and `plugin:NAME` to run when groups are complete.
        public var hooks: [RunHook] = []
        /// Remove files that an earlier pull installed and this manifest no longer has.
        public var prunes = false
        /// Install a manifest whose revision is older than what is installed.
        public var allowsOlder = false
        /// Most connections at a time, 1...64; `nil` to adapt.
        public var connections: Int?
        /// Most body **bytes** a second; `nil` without limit.
        public var rateLimit: UInt64?
        /// How long servers that give nothing are waited for, once one has answered; a sixth of it until then.
        public var patience = Duration.seconds(60)
        /// Where sessions, their events and cached manifests are kept, absolute; `nil` for the user's own place, which the
        /// command `syncagent` shares.
        public var stateDirectory: String?

        /// All files, in the usual way.
        public init() {}
    }

    /// Types of your own at the seven points. All of them are called on threads that may block.
    public struct Plugins: Sendable {
        /// Who brings the bytes of URLs that begin in a certain way: `store:`, `https://assets.example.com/`.
        public var transports: [(prefix: String, transport: any Transport)] = []
        /// Asked before requests are sent, in this order.
        public var resolvers: [any RequestResolver] = []
        /// Asked for credentials of these origins, such as `https://assets.example.com`.
        public var credentialProviders: [(origin: String, provider: any CredentialProvider)] = []
        /// Whether it may go on now; asked before it starts and every few seconds. While one blocks, it waits.
        public var conditions: [any Condition] = []
        /// Shown every file before it takes its name, in this order.
        public var verifiers: [any FileVerifier] = []
        /// Called when all files are in place, by name; with `plugin:NAME` among ``Options/hooks`` only for what is said
        /// there.
        public var hooks: [String: any GroupHook] = [:]
        /// Told every event.
        public var observers: [any EventObserver] = []

        /// None.
        public init() {}
    }

    /// Why nothing could be tried.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// What the command `syncagent` would exit with.
        public let status: ExitStatus
        /// For people: what happened, to what, what to do.
        public let description: String

        init(_ status: ExitStatus, _ description: String) {
            self.status = status
            self.description = description
        }
    }
}
