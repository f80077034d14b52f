import SyncSystem

import struct Synchronization.Atomic

/// A complete request.
package struct HTTPRequest: Sendable {
    /// As received; external text, like everything else here except the client's address and user.
    package let method: String
    /// As received: percent-encoded, with its query.
    package let target: String
    package let headers: HTTPFields
    /// The body; `nil` if it exceeds ``HTTPServer/Limits/bodyLength``, in which case nothing is kept.
    package internal(set) var body: [UInt8]?
    /// The client's IP address; `-` on a Unix socket.
    package let client: String
    /// The user behind a Unix socket, as reported by the kernel.
    package let peerUser: UInt32?

    package var isHead: Bool { method == "HEAD" }

    /// The target's path, still percent-encoded; also for a target in absolute form. RFC 9112 §3.2.
    package var path: String {
        var rest = target[...]
        if !rest.hasPrefix("/"), let scheme = rest.firstRange(of: "://") {
            rest = rest[scheme.upperBound...]
            rest = rest[(rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex)...]
            if !rest.hasPrefix("/") { rest = "/" + rest }
        }
        return String(rest.prefix { $0 != "?" && $0 != "#" })
    }
}

/// The answer to a request.
package struct HTTPResponse: Sendable {
    package enum Body: Sendable {
        case bytes([UInt8])
        /// A range of **bytes** of a file. If the file has become shorter, the connection is closed: only that informs
        /// the client.
        case file(OpenFile, Range<UInt64>)
        /// A body of unknown end; RFC 9112 §7.1. The closure writes it, in the task that computed the answer, and
        /// returns once ``BodyStream/left()`` has. For ``HTTPServer/Answering/later(_:)`` only.
        case stream(BodyStream, _ write: @Sendable (BodyStream) async -> Void)
    }

    package var status: Int
    package var headers: HTTPFields
    package var body: Body
    /// Called once with the number of **bytes** of the body that were sent, and whether those were all; for an answer
    /// that was cut off, the number that the client has acknowledged, if the kernel reports it.
    package var whenSent: (@Sendable (UInt64, Bool) -> Void)?

    package init(status: Int, headers: HTTPFields = [:], body: Body = .bytes([])) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// An open file; closed with its last reference, unless the descriptor has been taken.
package final class OpenFile: Sendable {
    private let descriptor: Atomic<Int32>

    /// Takes ownership of an open descriptor.
    package init(owning descriptor: Int32) { self.descriptor = Atomic(descriptor) }

    /// The descriptor, which then belongs to the caller; -1 if it has already been taken.
    func take() -> Int32 { descriptor.exchange(-1, ordering: .acquiringAndReleasing) }

    deinit {
        let raw = take()
        if raw >= 0 { _ = Descriptor(owning: raw) }
    }
}
