import SyncModel
package import SyncPlugins

/// What went wrong with one attempt.
package struct Fault: Error, Equatable, Sendable {
    /// What the retry table decides by.
    package enum Kind: Hashable, Sendable {
        /// Name, route, port or TLS handshake: nothing was reached.
        case unreachable
        /// Reached, then no byte for the idle time.
        case idle
        /// Reset, closed early, or an HTTP/2 stream ended.
        case broken
        /// The peer cannot be trusted or speaks no allowed version.
        case tls
        /// A final status that is no success and no redirect.
        case status(Int)
        /// The proxy wants other credentials.
        case proxyAuthentication
        /// An answer that breaks HTTP.
        case malformed
        /// An answer in a coding or form that was not asked for.
        case unwantedForm
        /// A 206 or 416 that does not fit the range that was asked.
        case wrongRange
        /// Another length than the manifest's: an old version, or another object.
        case otherSize
        /// A web page in place of the object, from another host.
        case captivePortal
        /// A redirect that breaks a rule of the chain.
        case redirect
        /// A redirect that a policy forbids.
        case policy
        /// More bytes than there may be.
        case tooLarge
        /// The sink wants bytes from before the answer's first.
        case rewound
        /// Another exchange has the whole object already.
        case superseded
        /// The server gives whole objects only, and most of this one is not wanted.
        case noRanges
        /// The sink ended the transfer.
        case stopped
        /// libcurl failed in a way that has no better name.
        case library
    }

    /// The kind.
    package let kind: Kind
    /// One line for people.
    package let detail: String
    /// **Seconds** that the server asked to wait.
    package var retryAfter: Int64?

    /// Makes a fault.
    package init(_ kind: Kind, _ detail: String, retryAfter: Int64? = nil) {
        self.kind = kind
        self.detail = escaped(detail)  // Some of it are the server's words (V63).
        self.retryAfter = retryAfter
    }

    /// What the caller of the transport is told when no attempt is left.
    package var code: TransferError.Code {
        switch kind {
        case .unreachable: .unreachable
        case .idle: .timedOut
        case .broken, .malformed, .unwantedForm, .wrongRange, .otherSize, .captivePortal, .rewound,
            .superseded, .noRanges:
            .badAnswer
        case .tls: .tls
        case .status(401), .status(403), .proxyAuthentication: .authentication
        case .status(let status): .badStatus(status)
        case .redirect: .redirectRefused
        case .policy: .refusedByPolicy
        case .tooLarge: .tooLarge
        case .stopped: .stoppedBySink
        case .library: .misuse
        }
    }
}
