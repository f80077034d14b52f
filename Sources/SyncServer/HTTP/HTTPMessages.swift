import SyncSystem

import struct Synchronization.Atomic

/// A request that has come whole.
package struct HTTPRequest: Sendable {
    /// As it came; foreign text, as is everything else here but the client's address and user.
    package let method: String
    /// As it came: percent-encoded, with its query.
    package let target: String
    package let headers: HTTPFields
    /// What came after the head; `nil` for more than ``HTTPServer/Limits/bodyLength``, of which nothing is kept.
    package internal(set) var body: [UInt8]?
    /// The client's IP address; `-` on a Unix socket.
    package let client: String
    /// The user behind a Unix socket, as the kernel says.
    package let peerUser: UInt32?

    package var isHead: Bool { method == "HEAD" }

    /// The target's path, still percent-encoded; also of a target in absolute form. RFC 9112 §3.2.
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

/// What is said to a request.
package struct HTTPResponse: Sendable {
    package enum Body: Sendable {
        case none
        case bytes([UInt8])
        /// These **bytes** of a file. A file that has become shorter ends the connection: that alone tells the client.
        case file(OpenFile, Range<UInt64>)
        /// As long as it comes; RFC 9112 §7.1. What is given writes it, in the task that has thought of the answer, and
        /// returns once ``BodyStream/left()`` has. For ``HTTPServer/Answering/later(_:)`` only.
        case stream(BodyStream, _ write: @Sendable (BodyStream) async -> Void)
    }

    package var status: Int
    package var headers: HTTPFields
    package var body: Body
    /// Told once how many **bytes** of the body went out and whether those were all; of an answer that was cut off as
    /// many as the client has acknowledged, where the kernel says.
    package var whenSent: (@Sendable (UInt64, Bool) -> Void)?

    package init(status: Int, headers: HTTPFields = [:], body: Body = .none) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// An open file; closed with its last reference, unless somebody has taken it.
package final class OpenFile: Sendable {
    private let descriptor: Atomic<Int32>

    /// Takes ownership of an open descriptor.
    package init(owning descriptor: Int32) { self.descriptor = Atomic(descriptor) }

    /// The descriptor, which is the caller's from here on; -1 when it has been taken already.
    func take() -> Int32 { descriptor.exchange(-1, ordering: .acquiringAndReleasing) }

    deinit {
        let raw = take()
        if raw >= 0 { _ = Descriptor(owning: raw) }
    }
}
