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
    var headerEdits: [(name: String, value: String?)] = []
    var flips: [Int] = []
    var extraBody = 0
    var interim: (status: Int, count: Int)?
    var headerFlood: (line: String, count: Int)?
    var version = "1.1"
    var closesAfterwards = false
    var ignoresConditions = false

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
            .fixed(
                status: 200,
                body: Array(page.utf8),
                headers: [("Content-Type", "text/html; charset=utf-8")]
            )
        )
    }

    /// Bytes sent as they are in place of an answer; then the connection is closed.
    public static func raw(_ text: String) -> FaultAnswer { FaultAnswer(.raw(Array(text.utf8))) }

    // MARK: No answer

    /// Reads the request and never answers, until the client goes or ``FaultServer/releaseStalls()``.
    public static var silence: FaultAnswer {
        var answer = FaultAnswer(.none)
        answer.steps = [Step(position: 0, action: .stall(nil))]
        return answer
    }

    /// Closes the connection with FIN in place of an answer.
    public static var dropped: FaultAnswer {
        var answer = FaultAnswer(.none)
        answer.steps = [Step(position: 0, action: .drop)]
        return answer
    }

    /// Closes the connection with RST in place of an answer.
    public static var reset: FaultAnswer {
        var answer = FaultAnswer(.none)
        answer.steps = [Step(position: 0, action: .reset)]
        return answer
    }
}
