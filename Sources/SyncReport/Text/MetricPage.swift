import SyncModel

/// Writes the text format of Prometheus, version 0.0.4: families with their help, type and samples.
struct MetricPage {
    private(set) var text = ""
    private var name = ""

    /// Begins a family; its samples follow. A name that ends in `_total` is a counter, as usual in Prometheus; others
    /// are gauges.
    mutating func family(_ name: String, _ help: String) {
        self.name = name
        let kind = name.hasSuffix("_total") ? "counter" : "gauge"
        text += "# HELP \(name) \(Self.escape(help, quotes: false))\n# TYPE \(name) \(kind)\n"
    }

    /// A sample of the family, with labels sorted by name.
    mutating func sample(_ labels: [String: String], _ value: Double) {
        text += name
        if !labels.isEmpty {
            let pairs = labels.sorted { $0.key < $1.key }.map { "\($0.key)=\"\(Self.escape($0.value, quotes: true))\"" }
            text += "{\(pairs.joined(separator: ","))}"
        }
        text += " \(Self.number(value))\n"
    }

    /// Escapes backslash and newline, and quotes in label values. Other control characters are allowed there, but may
    /// reach a terminal: they become `\u{…}`.
    static func escape(_ plain: String, quotes: Bool) -> String {
        var result = ""
        for scalar in plain.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            case _ where isUnsafeOnTerminal(scalar): result += "\\\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// In the syntax of Go's ParseFloat; whole numbers without a point.
    static func number(_ value: Double) -> String {
        guard value.isFinite else { return value.isNaN ? "NaN" : value < 0 ? "-Inf" : "+Inf" }
        if let whole = Int64(exactly: value) { return String(whole) }
        return "\(value)"
    }
}
