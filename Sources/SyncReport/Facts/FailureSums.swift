package import SyncModel

/// Failed files, grouped by reason: the same failure at the same server is one problem, however many files and runs it
/// affected.
package struct FailureSums: Sendable {
    private struct Entry: Sendable {
        var problem: Problem
        /// The last affected run: only its files count.
        var run: String
        /// The key of the same problem for files that finally failed; `nil` if this is it.
        var final: String?
        /// Hashes of the paths that may yet come: each is asked for in several places.
        var open: Set<Int> = []
    }

    private var entries: [Entry] = []
    private var places: [String: Int] = [:]

    /// Most problems that are kept: a run may fail in a hundred thousand ways.
    static let limit = 200
    private static let examples = 3

    package init() {}

    /// In the order of their first occurrence.
    package var problems: [Problem] { entries.filter { $0.final.map { places[$0] == nil } ?? true }.map(\.problem) }

    /// Removes a path where it is a separate word: a file `a` is not removed from other words.
    private static func words(_ words: String, without path: String) -> String {
        var rest = ""
        var place = words.startIndex
        while !path.isEmpty, let found = words[place...].firstRange(of: path) {
            let before = words[..<found.lowerBound].last
            let after = words[found.upperBound...].first
            let isAlone = [before, after].allSatisfy { !($0?.isLetter ?? false) && !($0?.isNumber ?? false) }
            rest += words[place..<(isAlone ? found.lowerBound : found.upperBound)]
            place = found.upperBound
        }
        return rest + words[place...]
    }

    /// Takes one failed file.
    ///
    /// - Parameters:
    ///   - path: As in the manifest.
    ///   - reason: For people; it may begin with the requested URL.
    ///   - isFinal: Whether the file finally failed; otherwise it may still come from elsewhere.
    ///   - run: The run.
    ///   - time: The time, in **milliseconds** since 1970.
    package mutating func take(
        path: String?, reason: String, cause: FailureCause, isFinal: Bool = true, run: String = "", time: Int64
    ) {
        let (place, words) = Self.split(reason)
        // Reasons that differ only in the path are the same.
        let plain = path.map { Self.words(words, without: $0) } ?? words
        let final = "\(cause.rawValue)\n\(place)\n\(Self.kind(of: plain))"
        let key = isFinal ? final : "\(final)\n-"
        let index: Int
        if let known = places[key] {
            index = known
        } else {
            guard entries.count < Self.limit else { return }
            index = entries.count
            places[key] = index
            let detail = place.isEmpty ? words : "\(place): \(words)"
            let problem = Problem(kind: cause, detail: detail, time: time)
            entries.append(Entry(problem: problem, run: run, final: isFinal ? nil : final))
        }
        if entries[index].run != run {
            entries[index].run = run
            entries[index].problem.runs += 1
            entries[index].problem.files = 0
            entries[index].problem.examples = []
            entries[index].open = []
        }
        entries[index].problem.time = time
        if !isFinal, let path, !entries[index].open.insert(path.hashValue).inserted { return }
        entries[index].problem.files += 1
        if entries[index].problem.examples.count < Self.examples, let path {
            entries[index].problem.examples.append(path)
        }
    }

    /// Takes the event of a file that failed or was cancelled, or of a source that gave wrong bytes for one.
    package mutating func take(_ name: EventName, _ fields: JSONValue, run: String = "", time: Int64) {
        let (path, reason) = (fields.text("path"), fields.text("reason"))
        guard name == .sourceWrongBytes else {
            return take(path: path, reason: reason ?? "no reason is given", cause: fields.cause, run: run, time: time)
        }
        let source = fields.text("source") ?? "a source"
        take(
            path: path, reason: "\(source): \(reason ?? "")", cause: .wrongBytes, isFinal: false, run: run, time: time)
    }

    /// Splits `https://host/a/b.png: status 404; …` into `https://host` and `status 404`. The advice depends on the
    /// kind.
    static func split(_ reason: String) -> (place: String, words: String) {
        guard let origin = urlOrigin(reason), reason.hasPrefix(origin), let end = reason.firstIndex(of: " ") else {
            let words = reason.split(separator: ";", maxSplits: 1).first.map(String.init) ?? reason
            return ("", words)
        }
        let rest = reason[reason.index(after: end)...]
        return (origin, rest.split(separator: ";", maxSplits: 1).first.map(String.init) ?? String(rest))
    }

    /// The words without times and digests: "after 1 ms" and "after 2 ms" are the same. A status is kept.
    static func kind(of words: String) -> String {
        let parts = words.split(separator: " ")
        return parts.indices.filter { index in
            !parts[index].contains(where: \.isNumber) || index > 0 && parts[index - 1] == "status"
        }.map { String(parts[$0]) }.joined(separator: " ")
    }
}

extension JSONValue {
    /// The cause of a failure in an event; an unknown one of a newer program becomes `other`.
    var cause: FailureCause { text("cause").flatMap(FailureCause.init(rawValue:)) ?? .other }
}
