import SyncModel
package import SyncSystem

/// The redirect memory: where a URL was found, and where its neighbours are likely to be.
///
/// Spans of one pack, and files of one directory, are redirected alike. An entry saves them the hops until it
/// expires or fails; then the original URL is requested again, so a wrong entry does no harm. Entries are used for
/// objects with a digest, and never for a manifest, which may stand behind a redirect to the latest one. A manifest
/// may teach, though, where the files beside it are.
///
/// Entries are passed on to the next process, see ``LinkRecord``.
package struct RedirectMemory: Sendable {
    private var exact: [String: LinkRecord] = [:]
    private var directories: [Substring: LinkRecord] = [:]
    /// Directories whose files were found in different places. Their files' places are no longer guessed.
    private var distrusted: Set<Substring> = []
    /// Entries that failed: other processes must not use them either.
    private var failed: Set<String> = []
    /// Raised whenever ``records(now:)`` has something new.
    package private(set) var version = 0

    /// Starts from the entries of earlier processes.
    package init(_ records: [LinkRecord] = []) {
        for record in records {
            if record.isDirectory {
                directories[Substring(record.original)] = record
            } else {
                exact[record.original] = record
            }
        }
    }

    /// The entries worth keeping for the next process, and those that were known and have failed.
    ///
    /// A URL with a query may be a secret for as long as it is valid. It is kept only if it states its own expiry,
    /// and never beyond that.
    package func records(now: Int64) -> [LinkRecord] {
        let urls = exact.values.filter { record in
            guard !record.original.contains("?") else { return false }
            return !record.target.contains("?") || (try? CurlURL(record.target))?.expiry != nil
        }
        return failed.map(LinkRecord.failed) + (directories.values + urls).filter { $0.expires > now }
    }

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
        if exact[original.text]?.target != target.text { version += 1 }
        failed.remove(original.text)
        func record(_ original: String, _ target: String, isDirectory: Bool) -> LinkRecord {
            LinkRecord(
                original: original, target: target, isDirectory: isDirectory, status: status,
                originIsPublic: originIsPublic, expires: expires)
        }
        exact[original.text] = record(original.text, target.text, isDirectory: false)
        // A signature is for one object. Without one, a target of the same name suggests where the neighbours are.
        // `/set` that became `/set/` has no name: it names the directory itself.
        guard original.query == nil, target.query == nil, let name = original.name, target.name == name,
            !distrusted.contains(original.directory)
        else { return }
        let directory = original.directory
        directories[directory] = record(String(directory), String(target.directory), isDirectory: true)
    }

    /// The entry for a URL and the URL to request: for the URL itself or, as a guess, for its directory.
    package func entry(for original: CurlURL, now: Int64) -> (record: LinkRecord, target: CurlURL)? {
        func entry(_ record: LinkRecord?, _ rest: Substring) -> (record: LinkRecord, target: CurlURL)? {
            guard let record, record.expires > now, let target = try? CurlURL(record.target + rest) else { return nil }
            return (record, target)
        }
        if let entry = entry(exact[original.text], "") { return entry }
        let directory = original.directory
        guard original.query == nil else { return nil }
        return entry(directories[directory], original.text.dropFirst(directory.count))
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
