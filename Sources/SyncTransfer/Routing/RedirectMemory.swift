package import SyncCurl

/// What redirects taught: where a URL is, and where its neighbours are likely to be.
///
/// Spans of one pack, and files of one directory, are redirected alike. A lesson saves them the hops until it
/// expires or fails; then the original URL is asked again, so a lesson can be wrong without harm: it is for what has a
/// digest, and never for a manifest, which may stand behind a redirect to the latest one.
///
/// Lessons go on in the next process, see ``LinkRecord``.
package struct RedirectMemory: Sendable {
    /// Where a URL was found.
    package struct Lesson: Equatable, Sendable {
        /// Ask here.
        package let target: CurlURL
        /// The status of the first redirect that led there.
        package let status: Int
        /// Whether the original was answered from a public address.
        package let originIsPublic: Bool
        /// Whether it was learnt from a neighbour.
        package let isGuess: Bool
    }

    private var exact: [String: LinkRecord] = [:]
    private var directories: [Substring: LinkRecord] = [:]
    /// Directories whose files were found in different places: not guessed any more.
    private var distrusted: Set<Substring> = []
    /// Lessons that failed: other processes must not use them either.
    private var failed: Set<String> = []
    /// Raised whenever ``records(now:)`` has something new.
    package private(set) var version = 0

    /// What an earlier process has learnt.
    package init(_ records: [LinkRecord] = []) {
        for record in records {
            if record.isDirectory {
                directories[Substring(record.original)] = record
            } else {
                exact[record.original] = record
            }
        }
    }

    /// What is worth keeping for the next process, and what was known and has failed.
    ///
    /// A URL with a query may be a secret for as long as it is good for something. It is kept only where it says itself
    /// when that ends, and never beyond that.
    package func records(now: Int64) -> LinkChanges {
        let urls = exact.values.filter { record in
            guard !record.original.contains("?") else { return false }
            return !record.target.contains("?") || (try? CurlURL(record.target)).flatMap(LinkExpiry.ofURL) != nil
        }
        let learnt = (directories.values + urls).filter { $0.expires > now }
        return LinkChanges(learnt: learnt, failed: failed)
    }

    /// Notes that `original` was found at `target`, after the answer there was good.
    ///
    /// - Parameter life: For how many **seconds** that may be used; cut to what a signed URL says of itself.
    package mutating func learn(
        _ original: CurlURL, isAt target: CurlURL, status: Int, originIsPublic: Bool, life: Int64, now: Int64
    ) {
        var expires = now + min(max(0, life), Self.longestLife)
        if let end = LinkExpiry.ofURL(target) { expires = min(expires, end - Self.margin) }
        guard expires > now, original != target else { return }
        makeRoom(now: now)
        if exact[original.text]?.target != target.text { version += 1 }
        failed.remove(original.text)
        func record(_ original: String, _ target: String, isDirectory: Bool) -> LinkRecord {
            LinkRecord(
                original: original, target: target, isDirectory: isDirectory, status: status,
                originIsPublic: originIsPublic, expires: expires)
        }
        exact[original.text] = record(original.text, target.text, isDirectory: false)
        // A signature is for one object. Without one, a target of the same name suggests where its neighbours are.
        guard original.query == nil, target.query == nil, let name = original.path.split(separator: "/").last,
            target.path.split(separator: "/").last == name, !distrusted.contains(original.directory)
        else { return }
        let directory = original.directory
        directories[directory] = record(String(directory), String(target.directory), isDirectory: true)
    }

    /// Where to ask for a URL, if known.
    package func lesson(for original: CurlURL, now: Int64) -> Lesson? {
        func lesson(_ record: LinkRecord?, _ rest: Substring) -> Lesson? {
            guard let record, record.expires > now, let target = try? CurlURL(record.target + rest) else { return nil }
            return Lesson(
                target: target, status: record.status, originIsPublic: record.originIsPublic,
                isGuess: record.isDirectory)
        }
        if let lesson = lesson(exact[original.text], "") { return lesson }
        let directory = original.directory
        guard original.query == nil else { return nil }
        return lesson(directories[directory], original.text.dropFirst(directory.count))
    }

    /// Whether something is known about a URL, or about a directory, which ends with `/`.
    func isTaught(_ place: String) -> Bool { exact[place] != nil || directories[Substring(place)] != nil }

    /// A lesson about a URL has failed.
    package mutating func forget(_ original: CurlURL) {
        if exact.removeValue(forKey: original.text) != nil { noteFailure(original.text) }
        let directory = original.directory
        guard directories.removeValue(forKey: directory) != nil else { return }
        noteFailure(String(directory))
        if distrusted.count < Self.capacity { distrusted.insert(directory) }
    }

    private mutating func noteFailure(_ original: String) {
        version += 1
        if failed.count < Self.capacity { failed.insert(original) }
    }

    private mutating func makeRoom(now: Int64) {
        guard exact.count >= Self.capacity || directories.count >= Self.capacity else { return }
        exact = exact.filter { $0.value.expires > now }
        directories = directories.filter { $0.value.expires > now }
        if exact.count >= Self.capacity { exact = [:] }  // Learnt again at the price of some hops.
        if directories.count >= Self.capacity { directories = [:] }
    }

    private static let capacity = 4096
    /// A night: a redirect that names no lifetime, or a longer one, is asked for again after that.
    static let longestLife: Int64 = 12 * 3600
    /// **Seconds** before a link expires from which on it is not used for new requests: clocks differ.
    private static let margin: Int64 = 2
}

/// A lesson for the next process.
package struct LinkRecord: Equatable, Sendable {
    /// A URL, or a directory that ends with `/`. Without query.
    package let original: String
    /// Where it was found. May be signed: then it is valid only until ``expires``, and never logged.
    package let target: String
    /// Whether both are directories.
    package let isDirectory: Bool
    /// The status of the first redirect that led there.
    package let status: Int
    /// Whether the original was answered from a public address.
    package let originIsPublic: Bool
    /// **Seconds** since 1970.
    package let expires: Int64
}

/// What a process passes on to later ones.
package struct LinkChanges: Equatable, Sendable {
    /// Where things are.
    package var learnt: [LinkRecord] = []
    /// Originals of lessons that were wrong.
    package var failed: Set<String> = []
}
