package import SyncModel

/// Why a transfer did not deliver: the kind, the current URL, and the transport's own message.
public struct TransferError: Error, Sendable {
    /// The kind of a failure, for callers to act on. A struct, so that a new code does not break a plugin's `switch`.
    public struct Code: Hashable, Sendable {
        /// A short name for events and reports.
        public let name: String
        /// The status of ``badStatus(_:)``, else `nil`.
        public let status: Int?

        private init(_ name: String, status: Int? = nil) { (self.name, self.status) = (name, status) }

        /// No connection: name, route or port, for as long as the deadline allowed.
        public static let unreachable = Code("unreachable")
        /// No byte for the idle time, and no attempts left.
        public static let timedOut = Code("timedOut")
        /// The peer could not be trusted.
        public static let tls = Code("tls")
        /// The redirect chain broke a rule: too many hops, a cycle, no usable target.
        public static let redirectRefused = Code("redirectRefused")
        /// A policy forbids the request: downgrade, private address, scheme.
        public static let refusedByPolicy = Code("refusedByPolicy")
        /// An answer that contradicts itself, the request or the manifest.
        public static let badAnswer = Code("badAnswer")
        /// More bytes than the limit.
        public static let tooLarge = Code("tooLarge")
        /// The sink answered ``SinkOutcome/stop``.
        public static let stoppedBySink = Code("stoppedBySink")
        /// Ended by ``Transport/cancel(_:)`` or shutdown.
        public static let cancelled = Code("cancelled")
        /// 401, 403 or 407 with the credentials available.
        public static let authentication = Code("authentication")
        /// The transport was misused, or its library failed in a way without a better name.
        public static let misuse = Code("misuse")
        /// A final answer that is not a success.
        public static func badStatus(_ status: Int) -> Code { Code("status-\(status)", status: status) }

        /// The cause that the code implies.
        var cause: FailureCause {
            switch self {
            case .unreachable, .timedOut: .unreachable
            case .tls: .trust
            case .redirectRefused, .refusedByPolicy: .refusedRedirect
            case .badAnswer, .tooLarge, .stoppedBySink: .wrongBytes
            case .authentication: .access
            default:
                switch status {
                case 404, 410: .notThere
                case 401, 403, 407: .access
                case 408, 425, 429, .some(500...): .serverTrouble
                default: .other
                }
            }
        }
    }

    /// The kind of failure.
    public var code: Code
    /// The URL asked last, redacted.
    public var url: String
    /// One line for people: what happened and, if possible, what to do.
    public var detail: String
    /// HTTP requests sent for this transfer.
    public var requests: Int
    /// The status of the answer that decided, if one did; it says more than ``code`` about a server that refuses.
    package var status: Int?
    /// The cause, for advice; set by transports that know more than ``code`` says.
    package var cause: FailureCause
    /// Whether what is there has another length than the manifest says.
    package var isOtherSize = false

    /// Makes an error; `url` is redacted here.
    public init(code: Code, url: String, detail: String, requests: Int = 0) {
        self.code = code
        self.url = redacted(url: url)
        (self.detail, self.requests) = (detail, requests)
        status = code.status
        cause = code.cause
    }
}

extension TransferError: CustomStringConvertible {
    /// What, where, why.
    public var description: String { url.isEmpty ? detail : "\(url): \(detail)" }
}
