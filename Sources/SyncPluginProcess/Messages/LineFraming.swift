/// Cuts a stream into lines. A line that is too long is an error, not a growing buffer.
struct LineFraming: Sendable {
    /// Most **bytes** of a line, without its end.
    let limit: Int
    private var partial: [UInt8] = []

    init(limit: Int) { self.limit = limit }

    /// Whether a line has begun that has not ended.
    var hasPartialLine: Bool { !partial.isEmpty }

    /// Takes bytes and gives each whole line, without its end, to `line`; an empty line is left out. Stops after a line
    /// for which `line` says no.
    ///
    /// - Returns: `false` when a line was too long: nothing after it can be understood.
    mutating func take(_ bytes: UnsafeRawBufferPointer, _ line: (UnsafeRawBufferPointer) -> Bool) -> Bool {
        var rest = bytes
        while let end = rest.firstIndex(of: 0x0A) {
            let piece = UnsafeRawBufferPointer(rebasing: rest[..<end])
            rest = UnsafeRawBufferPointer(rebasing: rest[(end + 1)...])
            guard partial.count + piece.count <= limit else { return false }
            var goesOn = true
            if partial.isEmpty {
                if !piece.isEmpty { goesOn = line(piece) }
            } else {
                partial.append(contentsOf: piece)
                goesOn = partial.withUnsafeBytes { line($0) }
                partial.removeAll(keepingCapacity: partial.capacity <= 64 << 10)
            }
            if !goesOn { return true }
        }
        guard partial.count + rest.count <= limit else { return false }
        partial.append(contentsOf: rest)
        return true
    }
}
