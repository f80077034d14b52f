import Foundation
@_exported public import SyncAgent
import SyncAssembly
import SyncEngine
public import SyncModel
@_exported public import SyncPlugins
import SyncSystem

/// Pulls inside your own program, with the same files, checks, sessions and plugins as the command `syncagent`.
///
/// ```swift
/// for try await event in Sync.pull("https://cdn.example.com/tower/manifest.json", into: "/srv/tower") {
///     if case .finished(let summary) = event { print(summary.result) }
/// }
/// ```
public enum Sync {
    /// Makes a directory match a manifest.
    ///
    /// Nothing happens before the first event is requested. When the task is cancelled, the pull stops at a checkpoint,
    /// keeps everything fetched so far, and the sequence throws `CancellationError`; leaving the loop early also stops
    /// it. The next pull continues.
    ///
    /// - Parameters:
    ///   - manifest: A path or a URL.
    ///   - destination: The destination directory; created if it does not exist.
    ///   - options: Further settings.
    ///   - plugins: Your own types for the extension points.
    /// - Returns: Events in order; the last one is ``Event/finished(_:)``. Throws ``Failure`` if the pull could not
    ///   start: no manifest, no destination, busy, refused. Failed files are events.
    public static func pull(
        _ manifest: String, into destination: String, options: Options = Options(), plugins: Plugins = Plugins()
    ) -> Pull { Pull(.manifest(manifest), destination: destination, options: options, plugins: plugins) }

    /// Makes a directory match a list of files, without a published manifest.
    ///
    /// - Parameters:
    ///   - files: All files that the directory should contain.
    ///   - project: Their project, such as `com.example.tower`; also the session's name, unless the options set
    ///     another.
    ///   - destination: The destination directory; created if it does not exist.
    ///   - options: Further settings.
    ///   - plugins: Your own types for the extension points.
    /// - Returns: The same as ``pull(_:into:options:plugins:)``.
    public static func pull(
        _ files: [Entry], project: String, into destination: String, options: Options = Options(),
        plugins: Plugins = Plugins()
    ) -> Pull { Pull(.entries(files, project: project), destination: destination, options: options, plugins: plugins) }

    /// What a pull would do; nothing in the destination is changed. Cancelling the task stops it.
    ///
    /// - Throws: ``Failure``, also the one that the pull would end with, if that is known beforehand.
    public static func plan(
        _ manifest: String, into destination: String, options: Options = Options(), plugins: Plugins = Plugins()
    ) async throws -> Planned {
        let pull = Pull(.manifest(manifest), destination: destination, options: options, plugins: plugins)
        return try await PullSetup.inspect(pull) { engine, recipe throws(EngineError) in
            let report = try engine.plan(recipe)
            if let refusal = report.refusal { throw refusal }
            return Planned(
                files: report.files, unchanged: report.unchanged, wanted: report.wanted,
                requests: report.requests.count,
                bytes: report.requests.reduce(0) { $0 + UInt64($1.range.count) })
        }
    }

    /// Hashes the files in the destination again. Cancelling the task stops it.
    ///
    /// - Returns: The paths that are missing or differ from the manifest, and why; empty if everything is right.
    /// - Throws: ``Failure``.
    public static func verify(
        _ manifest: String, into destination: String, options: Options = Options(), plugins: Plugins = Plugins()
    ) async throws -> [FailedFile] {
        let pull = Pull(.manifest(manifest), destination: destination, options: options, plugins: plugins)
        return try await PullSetup.inspect(pull) { engine, recipe throws(EngineError) in
            let report = try engine.verify(recipe)
            if let place = report.missingPlace { throw EngineError(.noInput, "\(escaped(place)) does not exist") }
            return report.problems.map { FailedFile(path: $0.path, reason: $0.reason, cause: .wrongBytes) }
        }
    }

    /// One file and the URLs of its bytes.
    public typealias Entry = FileEntry

    /// Settings of a pull: everything that a run can be asked for, in the type that the command `syncagent` uses as
    /// well, such as `options.groups`, `options.trust` or `options.settings.limitRate`.
    @dynamicMemberLookup public struct Options: Sendable {
        /// The request. Its manifest and destination are those of the call, and its hooks run besides those of
        /// ``Plugins``; settings that delay a run are for an agent and are refused here.
        public var run = RunRecipe(manifest: "")
        /// The state directory for sessions, events and cached manifests, absolute; `nil` for the user's own, which is
        /// shared with the command `syncagent`.
        public var stateDirectory: String?

        /// All files, with default settings.
        public init() {}

        /// A property of ``run``.
        public subscript<Value>(dynamicMember property: WritableKeyPath<RunRecipe, Value>) -> Value {
            get { run[keyPath: property] }
            set { run[keyPath: property] = newValue }
        }
    }

    /// Your own types for the eight extension points. All of them are called on threads that may block.
    public struct Plugins: Sendable {
        /// Transports for URLs with these prefixes: `store:`, `https://assets.example.com/`. None can be for `file:`.
        public var transports: [(prefix: String, transport: any Transport)] = []
        /// Sources that make the manifests of URLs with these prefixes: `listing:`, `https://assets.example.com/`.
        public var sources: [(prefix: String, source: any SetSource)] = []
        /// Asked in this order before requests are sent.
        public var resolvers: [any RequestResolver] = []
        /// Asked for credentials for these origins, such as `https://assets.example.com`.
        public var credentialProviders: [(origin: String, provider: any CredentialProvider)] = []
        /// Asked whether the pull may proceed, before it starts and every few seconds. It waits while one blocks.
        public var conditions: [any Condition] = []
        /// Asked in this order about every file before it is installed.
        public var verifiers: [any FileVerifier] = []
        /// Hooks by name, called when all files are in place; if ``Options/hooks`` contains `plugin:NAME`, only as
        /// specified there.
        public var hooks: [String: any GroupHook] = [:]
        /// Receive every event.
        public var observers: [any EventObserver] = []

        /// No plugins.
        public init() {}
    }

    /// Why a pull could not start.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        /// The exit status that the command `syncagent` would have.
        public let status: ExitStatus
        /// For people: what happened, where, and what to do.
        public let description: String

        init(_ status: ExitStatus, _ description: String) {
            (self.status, self.description) = (status, description)
        }
    }
}
