extension StringProtocol {
    /// Whether it cannot start another line of a request: it contains no control character.
    package var isOneLine: Bool { utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F } }

    /// Whether it is a token, such as a method or the name of a header. RFC 9110 §5.6.2.
    package var isToken: Bool {
        !isEmpty && utf8.allSatisfy { isAlphanumeric($0) || "!#$%&'*+-.^_`|~".utf8.contains($0) }
    }
}

extension Substring {
    /// Without optional white space, RFC 9110 §5.6.3, at both ends.
    package var trimmed: Substring {
        var text = self
        while text.first == " " || text.first == "\t" { text.removeFirst() }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }
}
