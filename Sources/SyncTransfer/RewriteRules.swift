/// One rule that turns a URL into another: a moved server, a mirror nearby.
///
/// The identity of what is fetched is its hash, so a rule never changes which bytes are right.
package struct RewriteRule: Sendable, Equatable, CustomStringConvertible {
    /// What it is for.
    package enum Pattern: Sendable, Equatable {
        /// URLs that begin so.
        case prefix(String)
        /// URLs in which this regular expression matches somewhere; the first match is replaced.
        case expression(String)
    }

    /// What it is for.
    package let pattern: Pattern
    /// What comes in the place of the prefix or the match; for an expression `$1` … `$9` are its groups and
    /// `$$` is a dollar sign.
    package let replacement: String

    /// Why text is no rule.
    package struct SyntaxError: Error, Equatable, CustomStringConvertible {
        /// One line for people.
        package let description: String
    }

    /// Reads `PREFIX REPLACEMENT`, or `~EXPRESSION REPLACEMENT` as nginx marks expressions. One blank divides them.
    package init(_ text: String) throws(SyntaxError) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, let from = parts.first, let to = parts.last, !from.isEmpty, !to.isEmpty else {
            throw SyntaxError(
                description: "a rule is PREFIX REPLACEMENT or ~EXPRESSION REPLACEMENT, with one blank"
            )
        }
        if from.hasPrefix("~") {
            pattern = .expression(String(from.dropFirst()))
            do {
                _ = try Regex(String(from.dropFirst()))
            } catch {
                throw SyntaxError(description: "not a regular expression: \(from.dropFirst())")
            }
        } else {
            pattern = .prefix(from)
        }
        replacement = to
    }

    /// The rule as it is written.
    package var description: String {
        switch pattern {
        case .prefix(let text): "\(text) \(replacement)"
        case .expression(let text): "~\(text) \(replacement)"
        }
    }
}

/// Rules in their order, ready for use. Belongs to one thread: `Regex` is not `Sendable`.
package struct RewriteRules {
    private let rules: [(rule: RewriteRule, expression: Regex<AnyRegexOutput>?)]

    /// Prepares the rules.
    package init(_ rules: [RewriteRule]) {
        self.rules = rules.map { rule in
            guard case .expression(let text) = rule.pattern else { return (rule, nil) }
            return (rule, try? Regex(text))  // Read once before, when the rule was made.
        }
    }

    /// Applies the first rule that matches and leads to another, usable URL.
    ///
    /// - Returns: The URL, and the rule's place from 1.
    package func apply(to url: CurlURL) -> (url: CurlURL, rule: Int)? {
        for (index, (rule, expression)) in rules.enumerated() {
            guard let text = rewritten(url.text, by: rule, expression), text != url.text else { continue }
            // A rule that makes no URL does nothing.
            if let target = try? CurlURL(text) { return (target, index + 1) }
        }
        return nil
    }

    private func rewritten(
        _ text: String,
        by rule: RewriteRule,
        _ expression: Regex<AnyRegexOutput>?
    ) -> String? {
        switch rule.pattern {
        case .prefix(let prefix):
            return text.hasPrefix(prefix) ? rule.replacement + text.dropFirst(prefix.count) : nil
        case .expression:
            guard let expression, let match = try? expression.firstMatch(in: text) else { return nil }
            return text[..<match.range.lowerBound] + fill(rule.replacement, match.output)
                + text[match.range.upperBound...]
        }
    }

    private func fill(_ template: String, _ groups: AnyRegexOutput) -> String {
        var result = ""
        var rest = Substring(template)
        while let character = rest.popFirst() {
            guard character == "$", let next = rest.first else {
                result.append(character)
                continue
            }
            if next == "$" {
                result.append("$")
            } else if let index = next.wholeNumberValue, next.isASCII {
                if index < groups.count, let group = groups[index].substring { result += group }
            } else {
                result.append("$")
                continue
            }
            rest.removeFirst()
        }
        return result
    }
}

@available(*, unavailable)
extension RewriteRules: Sendable {}
