import SyncModel
package import SyncSystem

/// The redirect memory: where a URL was found, and where its neighbours are likely to be.
///
/// Spans of one pack, and files of one directory, are redirected alike. An entry saves them the hops until it
/// expires or fails; then the original URL is requested again, so a wrong entry does no harm. Entries are used for
/// objects with a digest, and never for a manifest, which may stand behind a redirect to the latest one. A manifest
/// may teach, though, where the files beside it are.
///
/// It is passed on to the next process, see ``add(to:now:)``.
package struct RedirectMemory: Sendable {
    /// A URL or a directory that a redirect led to: its text, the status of the first redirect, whether the original was
    /// answered from a public address, and until when this may be used, in **seconds** since 1970. The text may be a
    /// signed URL: then it is valid only until then, and is never logged.
    private typealias Target = (text: String, status: Int, originIsPublic: Bool, expires: Int64)

    private var exact: [String: Target] = [:]
    /// By directories, which end with `/`; so do the targets.
    private var directories: [Substring: Target] = [:]
    /// Directories whose files were found in different places. Their files' places are no longer guessed.
    private var distrusted: Set<Substring> = []
    /// Entries that failed: other processes must not use them either.
    private var failed: Set<String> = []
    /// Raised whenever there is something new for the next process.
    package private(set) var version = 0

    package init() {}

    /// Notes that `original` was found at `target`, after a good answer from there.
    ///
    /// - Parameter life: For how many **seconds** the entry may be used; cut to the expiry that a signed URL states.
    package mutating func learn(
        _ original: CurlURL, isAt target: CurlURL, status: Int, originIsPublic: Bool, life: Int64, now: Int64
    ) {
        var expires = now + min(max(0, life), Self.longestLife)
        if let end = target.expiry { expires = min(expires, end - Self.margin) }
        guard expires > now, original != target else { return }
        makeRoom(now: now)
        if exact[original.text]?.text != target.text { version += 1 }
        failed.remove(original.text)
        exact[original.text] = (target.text, status, originIsPublic, expires)
        // A signature is for one object. Without one, a target of the same name suggests where the neighbours are.
        // `/set` that became `/set/` has no name: it names the directory itself.
        guard original.query == nil, target.query == nil, let name = original.name, target.name == name,
            !distrusted.contains(original.directory)
        else { return }
        directories[original.directory] = (String(target.directory), status, originIsPublic, expires)
    }

    /// The URL to request in place of another, for that URL itself or, as a guess, for its directory, with the status of
    /// the redirect and whether that came from a public address.
    package func target(of original: CurlURL, now: Int64) -> (url: CurlURL, status: Int, originIsPublic: Bool)? {
        func target(_ found: Target?, _ rest: Substring) -> (url: CurlURL, status: Int, originIsPublic: Bool)? {
            guard let found, found.expires > now, let url = try? CurlURL(found.text + rest) else { return nil }
            return (url, found.status, found.originIsPublic)
        }
        if let known = target(exact[original.text], "") { return known }
        let directory = original.directory
        guard original.query == nil else { return nil }
        return target(directories[directory], original.text.dropFirst(directory.count))
    }

    /// Whether there is an entry for a URL, or for a directory, which ends with `/`.
    func isKnown(_ place: String) -> Bool { exact[place] != nil || directories[Substring(place)] != nil }

    /// Removes the entries for a URL after they have failed.
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

    /// How long a redirect may be reused, in **seconds**. RFC 9111 §4.2, §5.2.2.
    /// An answer without a lifetime gets ``longestLife``.
    package static func life(of answer: ResponseHeaders, now: Int64) -> Int64 {
        let directives = (answer.cacheControl ?? "").lowercased().split(separator: ",").map { $0.filter { $0 != " " } }
        if directives.contains(where: { $0 == "no-store" || $0 == "no-cache" }) { return 0 }
        if let age = directives.first(where: { $0.hasPrefix("max-age=") }) {
            return decimal(age.dropFirst("max-age=".count)).flatMap { Int64(exactly: $0) } ?? 0
        }
        guard let expires = answer.expires else { return longestLife }
        // RFC 9111 §5.3: an invalid date is in the past.
        return HTTPDate(expires).map { max(0, $0.seconds - now) } ?? 0
    }

    private mutating func makeRoom(now: Int64) {
        guard exact.count >= Self.capacity || directories.count >= Self.capacity else { return }
        exact = exact.filter { $0.value.expires > now }
        directories = directories.filter { $0.value.expires > now }
        if exact.count >= Self.capacity { exact = [:] }  // Learnt again for some hops.
        if directories.count >= Self.capacity { directories = [:] }
    }

    private static let capacity = 4096
    /// A night. A redirect that names no lifetime, or a longer one, is requested again after that.
    static let longestLife: Int64 = 12 * 3600
    /// **Seconds** before its expiry from which a link is not used for new requests: clocks differ.
    private static let margin: Int64 = 2
}

/// The memory of all processes: `links` in the state directory, readable only by its user (0600), since a signed link is
/// a secret while it is valid.
///
/// One line per entry: `url` or `directory`, the status, `public` or `local`, when it ends in seconds since 1970, the
/// original and the target. If two processes write at the same time, the later one wins, and the other's entries are
/// learnt again. A lost file costs some hops.
extension RedirectMemory {
    /// Entries kept: directories first, then the longest-lived.
    package static let mostKept = 1_000
    private static let header = "links 1"

    /// The entries of earlier processes still valid at a time in **seconds** since 1970.
    package init(from stateDirectory: String, now: Int64) {
        for words in keptLines("\(stateDirectory)/links", Self.header).prefix(Self.mostKept) {
            guard words.count == 6, ["url", "directory"].contains(words[0]), let status = Int(words[1]),
                ["public", "local"].contains(words[2]), let expires = Int64(words[3]), expires > now,
                // A URL that libcurl refuses is no link.
                (try? CurlURL(words[4])) != nil, (try? CurlURL(words[5])) != nil
            else { continue }
            let target: Target = (words[5], status, words[2] == "public", expires)
            if words[0] == "directory" { directories[words[4][...]] = target } else { exact[words[4]] = target }
        }
    }

    /// Adds this process's entries to the recorded ones, and removes expired and failed ones.
    ///
    /// A URL with a query may be a secret for as long as it is valid. It is kept only if it states its own expiry,
    /// and never beyond that.
    ///
    /// - Throws: ``FileError``; the former entries are then unchanged.
    package func add(to stateDirectory: String, now: Int64) throws(FileError) {
        var known = RedirectMemory(from: stateDirectory, now: now)
        for original in failed {
            known.exact[original] = nil
            known.directories[original[...]] = nil
        }
        // Another process may have learnt again what has expired here.
        known.directories.merge(directories.filter { $0.value.expires > now }) { $1 }
        for (original, target) in exact where target.expires > now && !original.contains("?") {
            guard !target.text.contains("?") || (try? CurlURL(target.text))?.expiry != nil else { continue }
            known.exact[original] = target
        }
        let entries =
            known.directories.map { (kind: "directory", original: String($0.key), target: $0.value) }
            + known.exact.map { (kind: "url", original: $0.key, target: $0.value) }
        let kept = entries.sorted {
            ($0.kind, -$0.target.expires, $0.original) < ($1.kind, -$1.target.expires, $1.original)
        }
        let lines = kept.prefix(Self.mostKept).map { entry in
            let (text, status, originIsPublic, expires) = entry.target
            return "\(entry.kind) \(status) \(originIsPublic ? "public" : "local") \(expires) \(entry.original) \(text)"
        }
        try keep(lines, in: "\(stateDirectory)/links", Self.header)
    }
}

extension CurlURL {
    /// The text behind the last `/` of the path; `nil` for a directory, whose path ends there.
    fileprivate var name: Substring? {
        path.split(separator: "/", omittingEmptySubsequences: false).last.flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The end of a signed URL's validity by its own parameters.
    ///
    /// AWS Signature Version 4 (`X-Amz-Date`, `X-Amz-Expires`), Google Cloud Storage V4 (`X-Goog-…`), CloudFront
    /// and S3 version 2 (`Expires`), Azure SAS (`se`).
    ///
    /// - Returns: **Seconds** since 1970, or `nil` if no parameter states it.
    package var expiry: Int64? {
        guard let query else { return nil }
        var fields: [String: Substring] = [:]
        for field in query.split(separator: "&") {
            guard let equals = field.firstIndex(of: "=") else { continue }
            fields[field[..<equals].lowercased()] = field[field.index(after: equals)...]
        }
        for vendor in ["x-amz", "x-goog"] {
            if let date = fields["\(vendor)-date"].flatMap(Self.isoTime),
                let life = fields["\(vendor)-expires"].flatMap({ Int64($0) }), (0...604_800).contains(life)
            {
                return date + life
            }
        }
        if let time = fields["expires"].flatMap({ Int64($0) }), time > 1_000_000_000 { return time }
        return fields["se"].flatMap(Self.isoTime)
    }

    /// `20261120T020000Z`, or `2026-11-20T02:00:00Z` with the colons as such or as `%3A`.
    private static func isoTime(_ text: Substring) -> Int64? {
        var digits = text.lowercased().replacing("%3a", with: "").filter { $0 != ":" && $0 != "-" }
        guard digits.hasSuffix("z") else { return nil }
        digits.removeLast()
        if let dot = digits.firstIndex(of: ".") { digits = String(digits[..<dot]) }
        let parts = digits.split(separator: "t")
        guard parts.count == 2, parts[0].count == 8, parts[1].count == 6, let date = decimal(parts[0]),
            let time = decimal(parts[1])
        else { return nil }
        let (year, month, day) = (Int64(date / 10_000), Int64(date / 100 % 100), Int64(date % 100))
        guard (1...12).contains(month), (1...31).contains(day) else { return nil }
        let seconds = Int64(time / 10_000) * 3600 + Int64(time / 100 % 100) * 60 + Int64(time % 100)
        return CivilDay(year: year, month: month, day: day).number * 86_400 + seconds
    }
}
