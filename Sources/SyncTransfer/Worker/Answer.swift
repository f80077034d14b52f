import SyncPlugins
import SyncSystem

/// The parts of a request that its answer is judged by.
struct Question: Equatable {
    /// First **byte** in `Range`; `nil` without a range.
    var first: UInt64?
    /// One past the last **byte** in `Range`; `nil` for an open range or none.
    var end: UInt64?
    /// The object's length in **bytes** if known.
    var objectSize: UInt64?
    /// Whether `Range` is a guess, because the object's length is unknown. The answer must then state the length.
    var isFirst = false
    /// Whether 304 is a good answer.
    var isConditional = false
    /// Whether only the head was requested.
    var isHeadOnly = false
    /// Whether the request goes to another host than the original URL's.
    var isElsewhere = false
    /// Whether the requested object may be a web page.
    var mayBeWebPage = false
}

/// The meaning of an answer's head.
enum AnswerVerdict: Equatable {
    /// A body that starts at `offset` of the object; `end` and `total` if the answer states them.
    case body(offset: UInt64, end: UInt64?, total: UInt64?)
    /// 304, or the answer to `HEAD`: no body.
    case notModified
    /// 301, 302, 303, 307 or 308.
    case redirect
    case fault(Fault)
}

/// Judges the head of an answer before any byte of its body is used.
func judge(_ answer: ResponseHeaders, to question: Question, now: Int64) -> AnswerVerdict {
    do throws(Fault) { return try verdict(on: answer, to: question, now: now) } catch { return .fault(error) }
}

private func verdict(on answer: ResponseHeaders, to question: Question, now: Int64) throws(Fault) -> AnswerVerdict {
    if let text = answer.contradiction { throw Fault(.malformed, text) }
    var length: UInt64?
    if let text = answer.contentLength {
        length = decimal(text)
        if length == nil { throw Fault(.malformed, "Content-Length: \(text.prefix(80))") }
    }
    switch answer.status {
    case 200 where question.isHeadOnly: return .notModified
    case 200: return try judgeWhole(answer, length: length, to: question)
    case 206: return try judgePart(answer, length: length, to: question)
    case 204 where question.objectSize == 0: return .body(offset: 0, end: 0, total: 0)
    case 304 where question.isConditional: return .notModified
    case 301, 302, 303, 307, 308: return .redirect
    case 407: throw Fault(.proxyAuthentication, "the proxy requires valid credentials (407)")
    case 416 where question.isFirst && question.first == answer.contentRange.flatMap(ContentRange.init)?.total:
        // There is nothing from that byte on, as in an empty object.
        return .body(offset: question.first ?? 0, end: question.first, total: question.first)
    case 416: throw Fault(.wrongRange, "416, \(answer.contentRange ?? "no Content-Range")")
    case 0..<400: throw Fault(.unwantedForm, "status \(answer.status) instead of 200 or 206")
    default:
        let wait = answer.retryAfter.flatMap { retryAfter($0, now: now) }
        throw Fault(
            .status(answer.status), "status \(answer.status)", retryAfter: wait,
            challenge: answer.status == 401 ? answer.challenge : nil)
    }
}

private func judgeWhole(_ answer: ResponseHeaders, length: UInt64?, to question: Question) throws(Fault)
    -> AnswerVerdict
{
    let isPage = answer.mediaType == "text/html" && !question.mayBeWebPage
    // Pages generated per request seldom state a length; files do.
    let fits = question.objectSize == nil || length == question.objectSize
    if isPage, question.isElsewhere || !fits, question.objectSize == nil || !fits {
        throw Fault(.captivePortal, "a web page in place of the file; is there a network login?")
    }
    try requireNoCoding(answer)
    if let length, let size = question.objectSize, length != size {
        throw Fault(length > size ? .tooLarge : .otherSize, "\(length) bytes, where the object has \(size)")
    }
    return .body(offset: 0, end: length, total: length)
}

private func judgePart(_ answer: ResponseHeaders, length: UInt64?, to question: Question) throws(Fault) -> AnswerVerdict
{
    guard let first = question.first else { throw Fault(.wrongRange, "206 to a request without a range") }
    if answer.mediaType == "multipart/byteranges" {
        throw Fault(.wrongRange, "multipart/byteranges to a request for one range")
    }
    try requireNoCoding(answer)
    let text = (answer.contentRange ?? "").prefix(80)
    guard let told = answer.contentRange.flatMap(ContentRange.init), let range = told.range else {
        throw Fault(.wrongRange, "206 with \(text.isEmpty ? "no Content-Range" : "Content-Range: \(text)")")
    }
    if question.isFirst, told.total == nil { throw Fault(.wrongRange, "206 that does not say the size: \(text)") }
    if let total = told.total, let size = question.objectSize, total != size {
        throw Fault(.otherSize, "206 of an object of \(total) bytes, where it has \(size)")
    }
    guard range.lowerBound <= first, range.upperBound > first else {
        throw Fault(.wrongRange, "206 with \(text), but byte \(first) was requested")
    }
    if let size = question.objectSize, range.upperBound > size {
        throw Fault(.wrongRange, "206 beyond the object's \(size) bytes: \(text)")
    }
    if let length, length != range.upperBound - range.lowerBound {
        throw Fault(.malformed, "Content-Length \(length) contradicts Content-Range \(text)")
    }
    return .body(offset: range.lowerBound, end: range.upperBound, total: told.total)
}

private func requireNoCoding(_ answer: ResponseHeaders) throws(Fault) {
    guard let coding = answer.contentEncoding, !isPlain(coding) else { return }
    throw Fault(
        .unwantedForm, "Content-Encoding: \(coding.prefix(80)), which was not requested", advice: .sendUncompressed)
}

/// Whether a `Content-Encoding` leaves the bytes as they are.
///
/// Object stores keep the field of an upload and send it with every download: an empty field, or the `aws-chunked`
/// that S3's clients sent, a coding that the store has removed. If it has not, the digest is wrong.
private func isPlain(_ coding: String) -> Bool {
    coding.split(separator: ",").allSatisfy { part in
        let name = part.filter { $0 != " " && $0 != "\t" }.lowercased()
        return name.isEmpty || name == "identity" || name == "aws-chunked"
    }
}
