import Foundation
package import SyncModel
import SyncSchedule
import SyncSystem
import SyncTransfer

/// The notation of the values of settings, the same wherever they are written.
///
/// Every function throws a ``SettingsError`` that says what is wrong and what to write; the caller puts the name of
/// the option or the key before it.
package enum SettingValue {
    /// The **seconds** that a time may have: at least one, a year at most.
    package static let seconds: ClosedRange<Int64> = 1...366 * 86_400

    /// `90`, `90s`, `15m`, `6h`, `2d`: one of ``seconds``.
    package static func duration(_ text: String) throws(SettingsError) -> Duration {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let unit = text.last.flatMap { units[$0] }
        let digits = unit == nil ? text[...] : text.dropLast()
        let isNumber = !digits.isEmpty && digits.utf8.allSatisfy { (0x30...0x39).contains($0) }
        let number = isNumber ? Int64(digits) : nil
        let (seconds, overflow) = (number ?? 0).multipliedReportingOverflow(by: unit ?? 1)
        guard !overflow, Self.seconds.contains(seconds) else {
            let limits = isNumber ? ", from 1s to 366d" : ""
            throw SettingsError("'\(escaped(text))' is not a time such as 90s, 15m, 6h or 2d\(limits)")
        }
        return .seconds(seconds)
    }

    /// Like ``duration(_:)``, but with its unit: a value that people give in hours or days is never meant in seconds.
    package static func period(_ text: String) throws(SettingsError) -> Duration {
        guard let last = text.last, last.isNumber, let number = UInt64(text) else { return try duration(text) }
        throw SettingsError(
            "'\(number)' needs a unit: \(number)d for days, \(number)h for hours, \(number)m for minutes")
    }

    /// A host name or address, without scheme and port; in lower case, an IPv6 address with its brackets.
    package static func host(_ text: String) throws(SettingsError) -> String {
        var host = text.lowercased()
        if host.filter({ $0 == ":" }).count > 1, !host.hasPrefix("[") { host = "[\(host)]" }
        guard let url = try? CurlURL("https://\(host)/"),
            url.origin.host == host || !host.utf8.allSatisfy({ $0 < 0x80 }), url.text == "https://\(url.origin.host)/"
        else { throw SettingsError("'\(escaped(text))' is not a host; write its name alone, such as cdn.example.com") }
        return url.origin.host
    }

    /// `022`, as umask(1) takes it.
    package static func umask(_ text: String) throws(SettingsError) -> Umask {
        if let mask = Umask(text) { return mask }
        throw SettingsError("an octal number from 000 to 777 is expected, not '\(escaped(text))'")
    }

    /// A number of files; 0 for none.
    package static func count(_ text: String) throws(SettingsError) -> Int {
        if let count = Int(text), count >= 0 { return count }
        throw SettingsError("a number of 0 or more is expected, not '\(escaped(text))'")
    }

    /// A host, or `all`.
    package static func exemption(_ text: String) throws(SettingsError) -> HostExemption {
        text == "all" ? .all : .hosts([try host(text)])
    }

    /// A rewriting rule. Its text is not shown: it can hold a signed URL.
    package static func rule(_ text: String) throws(SettingsError) -> String {
        try rethrowing(RewriteRule(text).description) { (error: SyncSystem.URLError) in
            SettingsError(escaped(error.description))
        }
    }

    /// `Name: value`, or `@FILE`.
    package static func header(_ text: String, _ base: PathBase) throws(SettingsError) -> TransferHeader {
        if text.hasPrefix("@") { return .file(try base.absolute(String(text.dropFirst()))) }
        if let problem = TransferHeader.problem(with: text) { throw SettingsError(problem) }
        return .line(text)
    }

    /// A proxy's URL as curl(1) takes it: http if there is no scheme, and no proxy if it is empty.
    ///
    /// - Parameter allowsUser: Whether the URL may carry user name and password, as environment variables do.
    package static func proxy(_ text: String, allowsUser: Bool = false) throws(SettingsError) -> ProxySettings {
        guard !text.isEmpty else { return ProxySettings(url: "") }
        var (scheme, rest) = ("http", Substring(text))
        if let mark = text.range(of: "://") {
            scheme = text[..<mark.lowerBound].lowercased()
            rest = text[mark.upperBound...]
        }
        guard proxySchemes.contains(scheme) else {
            throw SettingsError("the scheme of a proxy is http, https, socks5h, socks5, socks4a or socks4")
        }
        while rest.hasSuffix("/") { rest.removeLast() }
        var user: String?
        var password: String?
        if let at = rest.lastIndex(of: "@") {
            guard allowsUser else {
                throw SettingsError(
                    "a proxy's user and password do not go into its URL; write them into the credentials file"
                        + " under [\(scheme)://\(escaped(String(rest[rest.index(after: at)...])))],"
                        + " or set proxy.user and proxy.password_file")
            }
            let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            user = parts.first.map { $0.removingPercentEncoding ?? String($0) }
            password = parts.count > 1 ? parts[1].removingPercentEncoding ?? String(parts[1]) : nil
            rest = rest[rest.index(after: at)...]
        }
        // libcurl's own parser decides what a host and a port are.
        guard let url = try? CurlURL("http://\(rest)/"), url.path == "/", url.query == nil else {
            throw SettingsError("this is not a proxy's URL; write it as http://host:port")
        }
        let place = url.text.dropFirst("http://".count).dropLast()
        var proxy = ProxySettings(url: "\(scheme)://\(place)", user: user)
        proxy.password = password
        return proxy
    }

    private static let proxySchemes: Set = ["http", "https", "socks5h", "socks5", "socks4a", "socks4"]

    /// Hosts between commas or blanks, as in `no_proxy`.
    package static func hostList(_ text: String) -> [String] {
        text.split { $0 == "," || $0.isWhitespace }.map(String.init)
    }
}

/// The base of paths in settings.
package struct PathBase: Sendable, Equatable {
    /// Absolute: the current directory for a command line, the file's own for a configuration file. `nil` where the
    /// current directory has been removed.
    package let directory: String?
    /// The home directory, for `~/`; absolute.
    package let home: String?

    /// Makes a base of absolute paths.
    package init(directory: String?, home: String?) { (self.directory, self.home) = (directory, home) }

    /// A path made absolute: `~/` is the home directory, a relative path is below ``directory``.
    package func absolute(_ text: String) throws(SettingsError) -> String {
        guard !text.isEmpty, !text.contains("\0") else {
            throw SettingsError("a path is expected, not an empty string")
        }
        if text.hasPrefix("/") { return text }
        if text.hasPrefix("~/"), let home { return home + text.dropFirst() }
        guard let directory else { throw .noWorkingDirectory }
        return directory == "/" ? "/" + text : "\(directory)/\(text)"
    }
}

/// The notation of times of day, and of what holds in them.
extension SettingValue {
    /// `22:00-06:00`, over midnight too, or `02:00+4h`; in the machine's zone unless one follows, as in
    /// `22:00-06:00 Europe/Berlin`. Whether that zone exists is not checked.
    package static func window(_ text: String) throws(SettingsError) -> DailyWindow {
        let words = text.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        let zone = words.count > 1 ? String(words[1]) : nil
        let span = words.first ?? ""
        let problem = SettingsError("'\(escaped(text))' is not a time range such as 22:00-06:00 or 02:00+4h")
        guard let mark = span.firstIndex(where: { $0 == "-" || $0 == "+" }), let start = minute(span[..<mark]),
            start < 1_440, zone != ""
        else { throw problem }
        let rest = span[span.index(after: mark)...]
        var length: Int
        if span[mark] == "+" {
            let time = try duration(String(rest))
            length = Int(time / .seconds(60))
            guard .seconds(60 * length) == time else {
                throw SettingsError("'\(escaped(text))': a time range lasts whole minutes")
            }
        } else {
            guard let end = minute(rest) else { throw problem }
            // All day is +24h; 22:00-22:00 is more likely a slip.
            guard end != start else { throw SettingsError("'\(escaped(text))' has no length; +24h is all day") }
            length = end > start ? end - start : end + 1_440 - start
        }
        let window = DailyWindow(startMinute: start, lengthMinutes: length, timeZone: zone)
        guard window.isValid else { throw SettingsError("'\(escaped(text))' is longer than a day") }
        return window
    }

    /// `08:00-18:00=2M`: the most bytes a second at that time of day; `none` for no limit.
    package static func rateWindow(_ text: String) throws(SettingsError) -> RateWindow {
        guard let mark = text.lastIndex(of: "=") else {
            throw SettingsError("'\(escaped(text))' is not a time range and a rate, such as 08:00-18:00=2M")
        }
        let (window, rate) = (try window(String(text[..<mark])), text[text.index(after: mark)...])
        if rate == "none" { return RateWindow(window: window, limit: nil) }
        guard let limit = ByteCount(parsing: String(rate)), limit.bytes > 0 else {
            throw SettingsError(
                "'\(escaped(String(rate)))' is not a number of bytes a second such as 500K or 2M, and not 'none'")
        }
        return RateWindow(window: window, limit: limit.bytes)
    }

    /// The **bytes** that a run may take on a metered network: `allow` is `nil`, `deny` 0, `budget=500M` that number.
    package static func metered(_ text: String) throws(SettingsError) -> UInt64? {
        if text == "allow" { return nil }
        if text == "deny" { return 0 }
        let mark = "budget="
        guard text.hasPrefix(mark), let budget = ByteCount(parsing: String(text.dropFirst(mark.count))),
            budget.bytes > 0
        else { throw SettingsError("'\(escaped(text))' is not allow, deny or budget=500M") }
        return budget.bytes
    }

    /// `07:30` or `24:00`; **minutes** after midnight.
    private static func minute(_ text: Substring) -> Int? {
        text == "24:00" ? 1_440 : ScheduleTiming.minutes(String(text))
    }
}

extension TransferHeader {
    /// The name of a header whose value may be a secret; `nil` for a file and for names that never hold one.
    package var secretName: String? {
        guard case .line(let line) = self else { return nil }
        let name = Self.name(of: line)
        return Self.plainNames.contains(name.lowercased()) ? nil : name
    }

    /// The name before the colon.
    static func name(of line: String) -> String { String(line.prefix { $0 != ":" }) }

    /// Headers about preferences and caching; any other may be a key.
    private static let plainNames: Set = [
        "accept", "accept-language", "cache-control", "dnt", "from", "pragma", "referer", "user-agent",
    ]

    /// Checks `Name: value`. RFC 9110 §5.
    ///
    /// - Returns: The problem, without the value; `nil` for none.
    static func problem(with line: String) -> String? {
        guard let colon = line.firstIndex(of: ":"), colon != line.startIndex else { return "write it as Name: value" }
        guard line.isOneLine else { return "it has control characters" }
        let name = line[..<colon]
        guard name.utf8.allSatisfy(isToken) else {
            return "the name before the colon has characters that a header name cannot have"
        }
        guard !ownNames.contains(name.lowercased()) else { return "\(name) is set by syncagent itself; leave it out" }
        guard !line[line.index(after: colon)...].allSatisfy({ $0 == " " }) else { return "\(name) has no value" }
        return nil
    }

    private static let ownNames: Set = [
        "accept-encoding", "connection", "content-length", "expect", "host", "if-match", "if-modified-since",
        "if-none-match", "if-range", "if-unmodified-since", "keep-alive", "proxy-authorization", "range", "te",
        "trailer", "transfer-encoding", "upgrade",
    ]

    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
