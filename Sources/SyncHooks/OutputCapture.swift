/// Keeps the first and the last bytes of a stream of any length.
struct OutputCapture: Sendable {
    private let headLimit: Int
    private let tailLimit: Int
    private(set) var head: [UInt8] = []
    /// Up to twice the limit, cut when full: each byte is moved at most once.
    private var recent: [UInt8] = []
    /// All **bytes** seen.
    private(set) var total: UInt64 = 0

    init(head: Int, tail: Int) {
        headLimit = max(0, head)
        tailLimit = max(0, tail)
    }

    /// The last bytes that are not in ``head``.
    var tail: [UInt8] { Array(recent.suffix(tailLimit)) }

    /// What was kept, as text, with a line that says how much was not.
    var text: String {
        let end = tail
        let dropped = total &- UInt64(head.count) &- UInt64(end.count)
        let start = String(decoding: head, as: UTF8.self)
        if dropped == 0 { return end.isEmpty ? start : String(decoding: head + end, as: UTF8.self) }
        return "\(start)\n[… \(dropped) bytes not kept …]\n" + String(decoding: end, as: UTF8.self)
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        total &+= UInt64(bytes.count)
        let first = bytes.prefix(headLimit - head.count)
        head.append(contentsOf: first)
        let rest = bytes.dropFirst(first.count).suffix(tailLimit)
        if recent.count + rest.count > 2 * tailLimit {
            recent.removeFirst(recent.count - min(recent.count, tailLimit))
        }
        recent.append(contentsOf: rest)
    }
}
