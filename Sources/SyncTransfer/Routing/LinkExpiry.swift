package import SyncCurl
import SyncModel

/// When a URL or a redirect expires.
package enum LinkExpiry {
    /// The end of a signed URL's life by its own parameters.
    ///
    /// AWS Signature Version 4 (`X-Amz-Date`, `X-Amz-Expires`), Google Cloud Storage V4 (`X-Goog-…`), CloudFront
    /// and S3 version 2 (`Expires`), Azure SAS (`se`).
    ///
    /// - Returns: **Seconds** since 1970, or `nil` when nothing says so.
    package static func ofURL(_ url: CurlURL) -> Int64? {
        guard let query = url.query else { return nil }
        var fields: [String: Substring] = [:]
        for field in query.split(separator: "&") {
            guard let equals = field.firstIndex(of: "=") else { continue }
            fields[field[..<equals].lowercased()] = field[field.index(after: equals)...]
        }
        for vendor in ["x-amz", "x-goog"] {
            if let date = fields["\(vendor)-date"].flatMap(isoTime),
                let life = fields["\(vendor)-expires"].flatMap({ Int64($0) }), (0...604_800).contains(life)
            {
                return date + life
            }
        }
        if let time = fields["expires"].flatMap({ Int64($0) }), time > 1_000_000_000 { return time }
        return fields["se"].flatMap(isoTime)
    }

    /// How long a redirect may be reused, in **seconds**. RFC 9111 §4.2, §5.2.2.
    /// The headers are as they came; `fallback` is for an answer that says nothing.
    package static func life(cacheControl: String?, expires: String?, fallback: Int64, now: Int64) -> Int64 {
        let directives = (cacheControl ?? "").lowercased().split(separator: ",").map { $0.filter { $0 != " " } }
        if directives.contains(where: { $0 == "no-store" || $0 == "no-cache" }) { return 0 }
        if let age = directives.first(where: { $0.hasPrefix("max-age=") }) {
            return decimal(age.dropFirst("max-age=".count)).flatMap { Int64(exactly: $0) } ?? 0
        }
        guard let expires else { return fallback }
        // RFC 9111 §5.3: an invalid date is in the past.
        return HTTPDate(expires).map { max(0, $0.seconds - now) } ?? 0
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
