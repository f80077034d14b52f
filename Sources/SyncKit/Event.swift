import Foundation
public import SyncControl
public import SyncModel

extension Sync {
    /// What happens in a pull, in its order.
    public enum Event: Sendable, Equatable {
        /// A manifest was found, and the session is taken.
        case started(Started)
        /// It is known what has to come.
        case planned(Planned)
        /// How far it is, a few times a second.
        case progress(Progress)
        /// What is on the wire, at most twice a second: each transfer with its file or pack, its **bytes**, where it goes.
        case requests(RequestList)
        /// A file, or a link, is in place.
        case installed(Installed)
        /// A file could not be brought.
        case failed(FailedFile)
        /// A file that the manifest no longer has is gone.
        case removed(path: String)
        /// A request goes to another URL.
        case redirected(Redirect)
        /// A transfer is tried again.
        case retrying(Retry)
        /// A condition does not hold: nothing comes until it does.
        case blocked(condition: String, reason: String)
        /// It goes on.
        case unblocked(condition: String)
        /// All files of a group have come to their end.
        case groupCompleted(name: String, result: RunResult)
        /// A hook is called.
        case hookStarted(HookCall)
        /// It has ended.
        case hookFinished(HookCall, result: String, output: String)
        /// Anything else, for whoever knows it: `Documentation/Events.md`.
        case other(name: String, json: String)
        /// It is over; nothing follows.
        case finished(Summary)
    }

    /// ``Event/started(_:)``
    public struct Started: Sendable, Hashable, Decodable {
        /// The session's name.
        public let session: String
        /// What tells this run from others.
        public let run: String
        /// As the manifest says.
        public let project: String
        /// Where the manifest came from.
        public let manifest: String
        /// Absolute.
        public let destination: String
    }

    /// ``Event/planned(_:)``
    public struct Planned: Sendable, Hashable, Decodable {
        /// Files and links that are selected.
        public let files: Int
        /// Of these, right already.
        public let unchanged: Int
        /// Of these, to be fetched or made from what is here.
        public let wanted: Int
        /// Requests for them.
        public let requests: Int
        /// **Bytes** to be fetched.
        public let bytes: UInt64
    }

    /// ``Event/progress(_:)``. Totals come from the plan and do not change; 0 while they are not known.
    public struct Progress: Sendable, Hashable {
        /// Files and links that are in place.
        public let filesDone: Int
        /// Files and links that are selected.
        public let filesTotal: Int
        /// **Bytes** that are here, in place or on the way there.
        public let bytesDone: UInt64
        /// **Bytes** of all of them.
        public let bytesTotal: UInt64
        /// Body **bytes** that have come over the network.
        public let received: UInt64
    }

    /// ``Event/installed(_:)``
    public struct Installed: Sendable, Hashable, Decodable {
        /// Where it came from.
        public enum Source: String, Sendable, Decodable {
            case network
            /// Made from what was here.
            case reused
            /// A link: there is nothing to fetch.
            case manifest
            /// Put in place by a process that was killed before it could tell.
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
        /// Where it came from.
        public let source: Source
    }

    /// ``Event/failed(_:)``
    public struct FailedFile: Sendable, Hashable, Decodable {
        /// Relative to the destination.
        public let path: String
        /// For people.
        public let reason: String
        /// What matters for what to do.
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
        /// The attempt to come, from 2.
        public let attempt: Int
    }

    /// A call of a hook.
    public struct HookCall: Sendable, Hashable, Decodable {
        /// Whose completion it is called for.
        public let group: String
        /// Its path, `plugin:NAME`, or the host of a webhook.
        public let program: String
        /// From 1.
        public let attempt: Int
    }

    /// ``Event/finished(_:)``
    public struct Summary: Sendable, Hashable {
        /// Numbers of files and links.
        public struct Files: Sendable, Hashable {
            /// Selected.
            public let total: Int
            /// New, or changed.
            public let installed: Int
            /// Right before.
            public let unchanged: Int
            /// Made from what was here.
            public let reused: Int
            /// Gone, because the manifest no longer has them.
            public let removed: Int
            /// Not brought.
            public let failed: Int
        }

        /// The session's name.
        public let session: String
        /// What tells this run from others.
        public let run: String
        /// Whether every file is in place.
        public let result: RunResult
        /// What the command `syncagent` would exit with: a hook may have failed though every file is in place.
        public let status: ExitStatus
        /// What became of them.
        public let files: Files
        /// Body **bytes** that came.
        public let received: UInt64
        /// HTTP requests that were sent.
        public let requests: UInt64
        /// How long it took.
        public let elapsed: Duration
    }
}

extension Sync.Event {
    /// An event as the agent and `syncagent events --json` tell it.
    ///
    /// - Parameter json: One object.
    /// - Returns: `nil` for a text that is no event. One that ends a run comes as ``other(name:json:)``.
    public init?(json: some Collection<UInt8>) {
        let data = Data(json)
        guard let name = try? JSONDecoder().decode(Head.self, from: data).event else { return nil }
        self.init(name, data)
    }

    /// An event whose name is known.
    init(_ name: String, _ data: Data) {
        let decoder = JSONDecoder()
        func payload<Payload: Decodable>(_ type: Payload.Type) -> Payload? {
            try? decoder.decode(type, from: data)
        }
        let known: Sync.Event? =
            switch EventName(rawValue: name) {
            case .runStarted: payload(Sync.Started.self).map { .started($0) }
            case .planReady: payload(Sync.Planned.self).map { .planned($0) }
            case .taskInstalled: payload(Sync.Installed.self).map { .installed($0) }
            case .taskFailed: payload(Sync.FailedFile.self).map { .failed($0) }
            case .taskRemoved: payload(Removed.self).map { .removed(path: $0.path) }
            case .taskRedirected: payload(Sync.Redirect.self).map { .redirected($0) }
            case .transferRetrying: payload(Sync.Retry.self).map { .retrying($0) }
            case .conditionBlocked:
                payload(Blocked.self).map { .blocked(condition: $0.condition, reason: $0.detail ?? "") }
            case .conditionCleared: payload(Blocked.self).map { .unblocked(condition: $0.condition) }
            case .groupCompleted:
                payload(Group.self).map { .groupCompleted(name: $0.group, result: $0.result) }
            case .hookStarted: payload(Sync.HookCall.self).map { .hookStarted($0) }
            case .hookFinished:
                payload(Sync.HookCall.self).flatMap { call in
                    payload(HookEnd.self).map { .hookFinished(call, result: $0.result, output: $0.output) }
                }
            default: nil
            }
        self = known ?? .other(name: name, json: String(decoding: data, as: UTF8.self))
    }

    private struct Head: Decodable { let event: String }
    private struct Removed: Decodable { let path: String }
    private struct Blocked: Decodable {
        let condition: String
        let detail: String?
    }
    private struct Group: Decodable {
        let group: String
        let result: RunResult
    }
    private struct HookEnd: Decodable {
        let result: String
        let output: String
    }
}
