/// What redirects taught: where a URL is, and where its neighbours are likely to be.
///
/// Spans of one pack, and files of one directory, are redirected alike. A lesson saves them the hops until it
/// expires or fails; then the original URL is asked again, so a lesson can be wrong without harm.
package struct RedirectMemory: Sendable {
    /// Where a URL was found.
    package struct Lesson: Equatable, Sendable {
        /// Ask here.
        package let target: CurlURL
        /// The status of the first redirect that led there.
        package let status: Int
        /// Whether the original was answered from a public address (V29).
        package let originIsPublic: Bool
        /// Whether it was learnt from a neighbour.
        package let isGuess: Bool
    }

    private struct Entry {
        let target: String
        let status: Int
        let originIsPublic: Bool
        let expires: Int64
    }

    private var exact: [String: Entry] = [:]
    private var directories: [Substring: Entry] = [:]
    /// Directories whose neighbours went elsewhere: not guessed about again.
    private var distrusted: Set<Substring> = []

    /// Nothing learnt.
    package init() {}

    /// Notes that `original` was found at `target`, after the answer there was good.
    ///
    /// - Parameters:
    ///   - original: Where the chain began.
    ///   - target: Where it ended.
    ///   - status: The status of the first redirect.
    ///   - originIsPublic: Whether the original was answered from a public address.
    ///   - life: For how many **seconds** that may be used; cut to what a signed URL says of itself.
    ///   - now: **Seconds** since 1970.
    package mutating func learn(
        _ original: CurlURL,
        isAt target: CurlURL,
        status: Int,
        originIsPublic: Bool,
        life: Int64,
        now: Int64
    ) {
        var expires = now + min(max(0, life), Self.longestLife)
        if let end = LinkExpiry.ofURL(target) { expires = min(expires, end - Self.margin) }
        guard expires > now, original != target else { return }
        makeRoom(now: now)
        exact[original.text] = Entry(
            target: target.text,
            status: status,
            originIsPublic: originIsPublic,
            expires: expires
        )
        // A signature is for one object. Without one, a target of the same name says where the neighbours are.
        guard original.query == nil, target.query == nil, let name = original.path.split(separator: "/").last,
            target.path.split(separator: "/").last == name, !distrusted.contains(original.directory)
        else { return }
        directories[original.directory] = Entry(
            target: String(target.directory),
            status: status,
            originIsPublic: originIsPublic,
            expires: expires
        )
    }

    /// Where to ask for a URL, if anything is known.
    package func lesson(for original: CurlURL, now: Int64) -> Lesson? {
        if let entry = exact[original.text], entry.expires > now, let target = try? CurlURL(entry.target) {
            return Lesson(
                target: target,
                status: entry.status,
                originIsPublic: entry.originIsPublic,
                isGuess: false
            )
        }
        let directory = original.directory
        guard original.query == nil, let entry = directories[directory], entry.expires > now,
            let target = try? CurlURL(entry.target + original.text.dropFirst(directory.count))
        else { return nil }
        return Lesson(
            target: target,
            status: entry.status,
            originIsPublic: entry.originIsPublic,
            isGuess: true
        )
    }

    /// Whether anything is known about a URL, or about a directory, that ends with `/`.
    func isTaught(_ place: String) -> Bool { exact[place] != nil || directories[Substring(place)] != nil }

    /// What was known about a URL has failed.
    package mutating func forget(_ original: CurlURL) {
        exact[original.text] = nil
        let directory = original.directory
        guard directories.removeValue(forKey: directory) != nil else { return }
        if distrusted.count < Self.capacity { distrusted.insert(directory) }
    }

    private mutating func makeRoom(now: Int64) {
        guard exact.count >= Self.capacity || directories.count >= Self.capacity else { return }
        exact = exact.filter { $0.value.expires > now }
        directories = directories.filter { $0.value.expires > now }
        if exact.count >= Self.capacity { exact = [:] }  // Learnt again at the price of some hops.
        if directories.count >= Self.capacity { directories = [:] }
    }

    private static let capacity = 4096
    /// An hour: long for one run, short for a server that moves.
    private static let longestLife: Int64 = 3600
    /// **Seconds** before a signature's end from which it is not used for a new request: clocks differ.
    private static let margin: Int64 = 2
}
