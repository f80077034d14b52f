package import SyncModel

/// Files that were not brought, summed up by why: what failed in the same way at the same server is one problem, however
/// many files and runs it met.
package struct FailureSums: Sendable {
    private struct Entry: Sendable {
        var problem: Problem
        /// The run that it was met in last: only its files count.
        var run: String
        /// The same problem with files that were not brought in the end; `nil` where this is it.
        var final: String?
        /// Hashes of the paths that may yet come: each is asked for in several places.
        var open: Set<Int> = []
    }

    private var entries: [Entry] = []
    private var places: [String: Int] = [:]

    /// What is kept: a run that fails in a hundred thousand ways is told in some of them.
    static let limit = 200
    private static let examples = 3

    package init() {}

    /// In the order in which they were met first.
    package var problems: [Problem] { entries.filter { $0.final.map { places[$0] == nil } ?? true }.map(\.problem) }

    /// Leaves a path out where it stands for itself: the file `a` is not in every word.
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

    /// Takes one file.
    ///
    /// - Parameters:
    ///   - path: As in the manifest.
    ///   - reason: For people; it may begin with the URL that was asked.
    ///   - isFinal: Whether the file was not brought; otherwise it may yet come from elsewhere.
    ///   - run: In which run.
    ///   - time: When, **milliseconds** since 1970.
    package mutating func take(
        path: String?, reason: String, cause: FailureCause, isFinal: Bool = true, run: String = "", time: Int64
    ) {
        let (place, words) = Self.split(reason)
        // Where everything else is one, the path is no other reason.
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

    /// `https://host/a/b.png: status 404; …` is `https://host` and `status 404`. What to do comes from the kind.
    static func split(_ reason: String) -> (place: String, words: String) {
        guard let origin = urlOrigin(reason), reason.hasPrefix(origin), let end = reason.firstIndex(of: " ") else {
            let words = reason.split(separator: ";", maxSplits: 1).first.map(String.init) ?? reason
            return ("", words)
        }
        let rest = reason[reason.index(after: end)...]
        return (origin, rest.split(separator: ";", maxSplits: 1).first.map(String.init) ?? String(rest))
    }

    /// Words without times and digests: "after 1 ms" and "after 2 ms" are the same. A status is not.
    static func kind(of words: String) -> String {
        let parts = words.split(separator: " ")
        return parts.indices.filter { index in
            !parts[index].contains(where: \.isNumber) || index > 0 && parts[index - 1] == "status"
        }.map { String(parts[$0]) }.joined(separator: " ")
    }
}
