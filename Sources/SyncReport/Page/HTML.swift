import SyncModel

/// A piece of an HTML page. Interpolated strings are escaped, so that only literals of this program are markup.
///
/// ```
/// let row: HTML = "<td>\(name)</td>"
/// ```
struct HTML: Sendable, ExpressibleByStringInterpolation {
    let text: String

    init(stringLiteral value: String) { text = value }

    init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    /// Joins pieces.
    init(_ pieces: [HTML], separator: HTML = "") { text = pieces.map(\.text).joined(separator: separator.text) }

    struct StringInterpolation: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity) }

        mutating func appendLiteral(_ literal: String) { text += literal }

        mutating func appendInterpolation(_ plain: String) { text += HTML.escape(plain) }

        mutating func appendInterpolation(_ number: some BinaryInteger) { text += String(number) }

        mutating func appendInterpolation(_ html: HTML) { text += html.text }

        mutating func appendInterpolation(_ pieces: [HTML]) { for piece in pieces { text += piece.text } }

        /// A coordinate: at most one decimal.
        mutating func appendInterpolation(at coordinate: Double) {
            let tenths = Int((coordinate * 10).rounded())
            text += tenths % 10 == 0 ? String(tenths / 10) : "\(tenths / 10).\(abs(tenths % 10))"
        }
    }

    /// Escapes text for an element or a quoted attribute: HTML's special characters become references, control and
    /// bidirectional characters become visible. https://html.spec.whatwg.org/#escapingString
    static func escape(_ plain: String) -> String {
        var result = ""
        for character in escaped(plain).unicodeScalars {
            switch character {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            case "\"": result += "&quot;"
            case "'": result += "&#39;"
            default: result.unicodeScalars.append(character)
            }
        }
        return result
    }
}
