/// Help as it is read: what a verb's own options are comes first, then the groups that many verbs share.
enum HelpText {
    /// Puts the section `OPTIONS` before those with titles of their own, where the parser writes it last. Other texts stay
    /// as they are.
    static func arranged(_ text: String) -> String {
        guard text.hasPrefix("OVERVIEW:") else { return text }
        var sections: [[Substring]] = [[]]
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if isTitle(line) { sections.append([]) }
            sections[sections.count - 1].append(line)
        }
        guard let own = sections.firstIndex(where: { $0.first == "OPTIONS:" }),
            let titled = sections.firstIndex(where: { section in
                section.first.map { isTitle($0) && !["OPTIONS:", "ARGUMENTS:", "SUBCOMMANDS:"].contains($0) }
                    ?? false
            }), titled < own
        else { return text }
        var options = sections.remove(at: own)
        // Each section but the last one ends with an empty line.
        if options.last?.isEmpty != true { options.append("") }
        sections.insert(options, at: titled)
        var lines = sections.joined().map(String.init)
        while lines.last?.isEmpty == true { lines.removeLast() }
        return lines.joined(separator: "\n")
    }

    /// `TRANSFER:`: capitals alone on a line.
    private static func isTitle(_ line: Substring) -> Bool {
        line.count > 1 && line.hasSuffix(":") && line.first?.isUppercase == true
            && !line.contains(where: \.isLowercase)
    }
}
