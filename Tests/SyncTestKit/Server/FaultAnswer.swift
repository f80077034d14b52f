/// One scripted answer of a ``FaultServer``: what is sent, and how the sending goes wrong.
///
/// An answer starts as something right (``object(_:)``, ``status(_:text:)``, ``redirect(to:status:)``) and is then
/// bent: `FaultAnswer.object(file).dropping(at: 1_000)`. Bends add up where that makes sense.
/// Positions "of the body" count the **bytes** of this answer's body, not of the object.
public struct FaultAnswer: Sendable {
    enum Content: Sendable {
        /// Served with right range behaviour, unless bent.
        case object(ServedObject)
        /// Sent as it is, whatever was asked.
        case fixed(status: Int, body: [UInt8], headers: [(String, String)])
        /// Everything from the status line on, byte for byte; then the connection is closed.
        case raw([UInt8])
        /// Nothing at all.
        case none
    }

    /// What the server does with a `Range` header.
    enum RangeBehaviour: Sendable {
        case honour
        case ignore
        case shift(Int)
        case multipart
        case refuse
    }

    /// What stands in `Content-Range`.
    enum ContentRange: Sendable {
        case right
        case missing
        case unknownTotal
        case total(UInt64)
        case text(String)
    }

    /// How the end of the body is told.
    enum Framing: Sendable {
        case contentLength
        case lengths([String])
        case untilClose
        case chunked(size: Int, fault: ChunkFault?)
    }

    /// One thing that happens when a position of the body is reached.
    struct Step: Sendable {
        enum Action: Sendable {
            case drop
            case reset
            case stall(Duration?)
            case streamReset(code: UInt32)
            case goAway(lastStreamServed: Bool)
        }
        var position: Int
        var action: Action
    }

    /// Ways to break `Transfer-Encoding: chunked`. RFC 9112 §7.1.
    public enum ChunkFault: Sendable, CaseIterable {
        /// A size that is no hexadecimal number.
        case badSize
        /// A size above 64 bits.
        case hugeSize
        /// No CRLF behind the first chunk's bytes.
        case missingLineEnd
        /// The connection closes without the last chunk.
        case missingEnd
        /// 100,000 trailer fields behind the last chunk.
        case trailerFlood
    }

    var content: Content
    var ranges = RangeBehaviour.honour
    var contentRange = ContentRange.right
    var framing = Framing.contentLength
    var steps: [Step] = []
    var pace: (bytes: Int, every: Duration)?
    var delay: Duration?
    var statusOverride: Int?
    var headerEdits: [(name: String, value: String)] = []
    var flips: [Int] = []
    var extraBody = 0
    var interim: (status: Int, count: Int)?
    var headerFlood: (line: String, count: Int)?
    var version = "1.1"
    var closesAfterwards = false

    init(_ content: Content) { self.content = content }

    // MARK: Right answers

    /// Serves an object as RFC 9110 wants it: 200, 206, 304 or 416; HEAD; `If-Range`, `If-None-Match`.
    public static func object(_ object: ServedObject) -> FaultAnswer { FaultAnswer(.object(object)) }

    /// A status with a short text as its body; 204, 205 and 304 have no body.
    public static func status(_ status: Int, text: String = "") -> FaultAnswer {
        let type = [("Content-Type", "text/plain; charset=utf-8")]
        return FaultAnswer(.fixed(status: status, body: Array(text.utf8), headers: text.isEmpty ? [] : type))
    }

    /// A redirect; `location` goes out as it is: absolute, `//host/path`, `/path`, `path`.
    public static func redirect(to location: String, status: Int = 302) -> FaultAnswer {
        FaultAnswer(.fixed(status: status, body: [], headers: [("Location", location)]))
    }

    /// "Ask again later". `Retry-After` goes out as given: seconds, an HTTP date, or nonsense.
    public static func unavailable(_ status: Int = 503, retryAfter: String? = nil) -> FaultAnswer {
        let answer = FaultAnswer.status(status, text: "later")
        return retryAfter.map { answer.setting("Retry-After", $0) } ?? answer
    }

    /// A 200 with an HTML login page, as a captive portal gives for every URL.
    public static func captivePortal() -> FaultAnswer {
        let page = "<!DOCTYPE html><title>Welcome</title><form action=\"/login\"><input name=\"room\"></form>"
        return FaultAnswer(
            .fixed(status: 200, body: Array(page.utf8), headers: [("Content-Type", "text/html; charset=utf-8")]))
    }

    /// Bytes sent as they are in place of an answer; then the connection is closed.
    public static func raw(_ text: String) -> FaultAnswer { FaultAnswer(.raw(Array(text.utf8))) }

    // MARK: No answer

    /// Reads the request and never answers, until the client goes or ``FaultServer/releaseStalls()``.
    public static var silence: FaultAnswer { FaultAnswer(.none).stalling(at: 0) }

    /// Closes the connection with FIN in place of an answer.
    public static var dropped: FaultAnswer { FaultAnswer(.none).dropping(at: 0) }

    /// Closes the connection with RST in place of an answer.
    public static var reset: FaultAnswer { FaultAnswer(.none).resetting(at: 0) }
}

// How answers are bent. Each returns a copy, so a script can share one good answer.

extension FaultAnswer {
    private func with(_ change: (inout FaultAnswer) -> Void) -> FaultAnswer {
        var copy = self
        change(&copy)
        return copy
    }

    // MARK: The connection

    /// Closes with FIN when `position` **bytes** of the body are out; 0 is directly behind the headers.
    public func dropping(at position: Int) -> FaultAnswer {
        with { $0.steps.append(Step(position: position, action: .drop)) }
    }

    /// Closes with RST when `position` **bytes** of the body are out and acknowledged. `socket(7)`, SO_LINGER
    public func resetting(at position: Int) -> FaultAnswer {
        with { $0.steps.append(Step(position: position, action: .reset)) }
    }

    /// Sends nothing for a while when `position` **bytes** of the body are out; then goes on.
    ///
    /// A `duration` of `nil` lasts until ``FaultServer/releaseStalls()``. It also ends when the client goes.
    public func stalling(at position: Int, for duration: Duration? = nil) -> FaultAnswer {
        with { $0.steps.append(Step(position: position, action: .stall(duration))) }
    }

    /// Sends the body in small pieces with a pause behind each.
    public func dripping(_ bytes: Int, every pause: Duration) -> FaultAnswer {
        with { $0.pace = (max(1, bytes), pause) }
    }

    /// Waits before the first byte of the answer.
    public func delayed(by duration: Duration) -> FaultAnswer { with { $0.delay = duration } }

    /// Sends `Connection: close` and closes behind the body.
    public func closing() -> FaultAnswer { with { $0.closesAfterwards = true } }

    /// Answers as an HTTP/1.0 server without keep-alive and without ranges. RFC 1945.
    public func asHTTP10() -> FaultAnswer {
        with {
            $0.version = "1.0"
            $0.closesAfterwards = true
            $0.ranges = .ignore
        }
    }

    /// HTTP/2: ends the stream with RST_STREAM at `position`. On HTTP/1.1 the connection is reset.
    ///
    /// `code` is one of RFC 9113 §7; 2 is INTERNAL_ERROR, 7 REFUSED_STREAM.
    public func resettingStream(at position: Int, code: UInt32 = 2) -> FaultAnswer {
        with { $0.steps.append(Step(position: position, action: .streamReset(code: code))) }
    }

    /// HTTP/2: sends GOAWAY at `position` and closes. On HTTP/1.1 the connection is dropped.
    ///
    /// With `finishing`, this stream is still served to its end. RFC 9113 §6.8.
    public func goingAway(at position: Int, finishing: Bool = false) -> FaultAnswer {
        with { $0.steps.append(Step(position: position, action: .goAway(lastStreamServed: finishing))) }
    }

    // MARK: The length

    /// Sends one `Content-Length` field a text, right or wrong: `["10"]`, `["-1"]`, `["10", "11"]`.
    ///
    /// When the body's bytes are out the connection is closed.
    public func claimingLength(_ values: String...) -> FaultAnswer { with { $0.framing = .lengths(values) } }

    /// Sends no `Content-Length`; the end of the connection ends the body. RFC 9112 §6.3.
    public func withoutLength() -> FaultAnswer { with { $0.framing = .untilClose } }

    /// Sends `Transfer-Encoding: chunked` with chunks of at most `size` **bytes**, broken if asked for.
    public func chunked(size: Int = 4_096, fault: ChunkFault? = nil) -> FaultAnswer {
        with { $0.framing = .chunked(size: max(1, size), fault: fault) }
    }

    /// Has `count` more **bytes** behind the object's own, and says so in its length.
    public func appending(bytes count: Int) -> FaultAnswer { with { $0.extraBody = count } }

    // MARK: Ranges

    /// Answers 200 with the whole object, whatever range is asked for, and offers none.
    public func ignoringRanges() -> FaultAnswer { with { $0.ranges = .ignore } }

    /// Answers 206 with a range that begins `offset` **bytes** later (or earlier, below 0) and says so truly.
    public func shiftingRanges(by offset: Int) -> FaultAnswer { with { $0.ranges = .shift(offset) } }

    /// Answers a range with `multipart/byteranges`. RFC 9110 §14.6.
    public func withMultipartRanges() -> FaultAnswer { with { $0.ranges = .multipart } }

    /// Answers every range with 416.
    public func refusingRanges() -> FaultAnswer { with { $0.ranges = .refuse } }

    /// Sends a 206 without `Content-Range`.
    public func withoutContentRange() -> FaultAnswer { with { $0.contentRange = .missing } }

    /// Sends `Content-Range: bytes A-B/*`, which is allowed.
    public func withUnknownTotal() -> FaultAnswer { with { $0.contentRange = .unknownTotal } }

    /// Sends a wrong total in `Content-Range`.
    public func withTotal(_ total: UInt64) -> FaultAnswer { with { $0.contentRange = .total(total) } }

    /// Sends this text as `Content-Range`.
    public func withContentRange(_ text: String) -> FaultAnswer { with { $0.contentRange = .text(text) } }

    // MARK: Content

    /// Sends the byte at `offset` of the **object** with all its bits turned.
    public func flippingByte(at offset: Int) -> FaultAnswer { with { $0.flips.append(offset) } }

    /// Sends another status with the same headers and body.
    public func withStatus(_ status: Int) -> FaultAnswer { with { $0.statusOverride = status } }

    // MARK: Headers

    /// Sends this header in place of any other of its name.
    public func setting(_ name: String, _ value: String) -> FaultAnswer {
        with { $0.headerEdits.append((name, value)) }
    }

    /// Sends the `ETag` as a weak one.
    public func withWeakETag() -> FaultAnswer {
        guard case .object(var object) = content, let tag = object.etag, !tag.hasPrefix("W/") else { return self }
        object.etag = "W/" + tag
        return with { $0.content = .object(object) }
    }

    /// Sends neither `ETag` nor `Last-Modified`.
    public func withoutValidators() -> FaultAnswer {
        guard case .object(var object) = content else { return self }
        object.etag = nil
        object.lastModified = nil
        return with { $0.content = .object(object) }
    }

    /// Sends `count` answers of an interim status first. RFC 9110 §15.2.
    public func withInterimAnswers(_ count: Int, status: Int = 103) -> FaultAnswer {
        with { $0.interim = (status, count) }
    }

    /// Sends `count` more header fields.
    public func withHeaderFlood(_ count: Int) -> FaultAnswer {
        with { $0.headerFlood = ("X-Flood: 0123456789", count) }
    }

    /// Sends one header field of that many **bytes**.
    public func withHugeHeader(_ bytes: Int) -> FaultAnswer {
        with { $0.headerFlood = ("X-Huge: " + String(repeating: "h", count: bytes), 1) }
    }

    /// Sends `Content-Encoding: gzip` with the object's bytes as they are.
    public func claimingGzip() -> FaultAnswer { setting("Content-Encoding", "gzip") }
}
