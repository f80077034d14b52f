import Foundation
public import SyncAgent
public import SyncModel

extension Sync {
    /// The events of a pull, in order.
    public enum Event: Sendable, Equatable {
        /// A manifest was found, and the session is locked.
        case started(Started)
        /// The pull has been planned.
        case planned(Planned)
        /// Progress, a few times a second.
        case progress(Progress)
        /// Large files in progress, at most twice a second and at most 200 of them. Small files arrive whole.
        case files([FileProgress])
        /// The transfers, at most twice a second: each with its file or pack, its **bytes** and its URL.
        case requests(RequestList)
        /// A file or link is in place.
        case installed(Installed)
        /// A file could not be fetched.
        case failed(FailedFile)
        /// A file that the manifest no longer lists was removed.
        case removed(path: String)
        /// A request goes to a different URL.
        case redirected(Redirect)
        /// A transfer is retried.
        case retrying(Retry)
        /// A condition does not hold: nothing is transferred until it does.
        case blocked(condition: String, reason: String)
        /// The condition holds again.
        case unblocked(condition: String)
        /// All files of a group are done.
        case groupCompleted(name: String, result: RunResult)
        /// A hook was started.
        case hookStarted(HookCall)
        /// The hook has ended.
        case hookFinished(HookCall, result: String, output: String)
        /// Any other event: see `Documentation/reference/Events.md`.
        case other(name: String, json: String)
        /// The pull has ended; this is the last event.
        case finished(Summary)
    }

    /// ``Event/started(_:)``
    public struct Started: Sendable, Hashable, Decodable {
        /// The session's name.
        public let session: String
        /// The identifier of this run.
        public let run: String
        /// The project of the manifest.
        public let project: String
        /// The path or URL of the manifest, redacted.
        public let manifest: String
        /// The destination directory, absolute.
        public let destination: String
    }

    /// ``Event/planned(_:)``
    public struct Planned: Sendable, Hashable, Decodable {
        /// Selected files and links.
        public let files: Int
        /// Of these, already in place.
        public let unchanged: Int
        /// Of these, to be fetched or built from local data.
        public let wanted: Int
        /// Requests for the wanted ones.
        public let requests: Int
        /// **Bytes** to be fetched.
        public let bytes: UInt64
    }

    /// ``Event/progress(_:)``. Totals come from the plan; 0 while they are unknown. If a listing leaves sizes or
    /// digests open, totals are first those of the files fetched to learn them, and grow with the learnt sizes.
    public struct Progress: Sendable, Hashable {
        /// Wanted files and links that are in place.
        public let filesDone: Int
        /// Wanted files and links.
        public let filesTotal: Int
        /// **Bytes** of these already here, in place or in staging.
        public let bytesDone: UInt64
        /// **Bytes** of all wanted files.
        public let bytesTotal: UInt64
        /// Body **bytes** received from the network.
        public let received: UInt64
    }

    /// ``Event/files(_:)``
    public struct FileProgress: Sendable, Hashable {
        /// Relative to the destination.
        public let path: String
        /// **Bytes** that are here; the number drops if some turn out wrong.
        public let bytesDone: UInt64
        /// The file's size in **bytes**.
        public let bytesTotal: UInt64
    }

    /// ``Event/installed(_:)``
    public struct Installed: Sendable, Hashable, Decodable {
        /// The source of the bytes.
        public enum Source: String, Sendable, Decodable {
            case network
            /// Built from local data.
            case reused
            /// A link: there is nothing to fetch.
            case manifest
            /// Installed by a process that was killed before it could report it.
            case unknown
        }

        /// Relative to the destination.
        public let path: String
        /// **Bytes**; `nil` for a link.
        public let size: UInt64?
        /// 64 hexadecimal digits; `nil` for a link.
        public let sha256: String?
        /// The target of a link.
        public let link: String?
        /// The source of the bytes.
        public let source: Source
    }

    /// ``Event/failed(_:)``
    public struct FailedFile: Sendable, Hashable, Decodable {
        /// Relative to the destination.
        public let path: String
        /// For people.
        public let reason: String
        /// The cause, for deciding what to do.
        public let cause: FailureCause
    }

    /// ``Event/redirected(_:)``
    public struct Redirect: Sendable, Hashable, Decodable {
        /// Without query.
        public let from: String
        /// Without query.
        public let to: String
    }

    /// ``Event/retrying(_:)``
    public struct Retry: Sendable, Hashable, Decodable {
        /// Without query.
        public let url: String
        /// For people.
        public let reason: String
        /// The number of the next attempt, from 2.
        public let attempt: Int
    }

    /// A call of a hook.
    public struct HookCall: Sendable, Hashable, Decodable {
        /// The group whose completion it is called for.
        public let group: String
        /// Its path, `plugin:NAME`, or the host of a webhook.
        public let program: String
        /// From 1.
        public let attempt: Int
    }

    /// ``Event/finished(_:)``
    public struct Summary: Sendable, Equatable {
        /// The session's name.
        public let session: String
        /// The identifier of this run.
        public let run: String
        /// Whether every file is in place.
        public let result: RunResult
        /// The exit status of the command `syncagent`: a hook may have failed even though every file is in place.
        public let status: ExitStatus
        /// Counts by outcome.
        public let files: FileCounts
        /// Body **bytes** received.
        public let received: UInt64
        /// HTTP requests sent.
        public let requests: UInt64
        /// The duration.
        public let elapsed: Duration
    }
}

extension Sync.Event {
    /// Parses an event from the agent or `syncagent events --json`.
    ///
    /// - Parameter json: One object.
    /// - Returns: `nil` if the text is not an event. The end of a run is ``other(name:json:)``.
    public init?(json: some Collection<UInt8>) {
        let text = String(decoding: json, as: UTF8.self)
        guard let name = JSONValue(text: text)?["event"]?.string else { return nil }
        self.init(name, text)
    }

    /// An event with a known name.
    init(_ name: String, _ json: String) {
        func payload<Payload: Decodable>(_ type: Payload.Type = Payload.self) -> Payload? {
            try? JSONDecoder().decode(type, from: Data(json.utf8))
        }
        func text(_ key: String) -> String? { JSONValue(text: json)?[key]?.string }
        let known: Sync.Event? =
            switch EventName(rawValue: name) {
            case .runStarted: payload().map { .started($0) }
            case .planReady: payload().map { .planned($0) }
            case .taskInstalled: payload().map { .installed($0) }
            case .taskFailed: payload().map { .failed($0) }
            case .taskRemoved: text("path").map { .removed(path: $0) }
            case .taskRedirected: payload().map { .redirected($0) }
            case .transferRetrying: payload().map { .retrying($0) }
            case .conditionBlocked:
                text("condition").map { .blocked(condition: $0, reason: text("detail") ?? "") }
            case .conditionCleared: text("condition").map { .unblocked(condition: $0) }
            case .groupCompleted:
                text("result").flatMap(RunResult.init).flatMap { result in
                    text("group").map { .groupCompleted(name: $0, result: result) }
                }
            case .hookStarted: payload().map { .hookStarted($0) }
            case .hookFinished:
                payload().flatMap { call in
                    text("result").flatMap { result in
                        text("output").map { .hookFinished(call, result: result, output: $0) }
                    }
                }
            default: nil
            }
        self = known ?? .other(name: name, json: json)
    }
}
