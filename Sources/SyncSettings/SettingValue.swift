import Foundation
import SyncCurl
import SyncModel
package import SyncTransfer

/// How the values of settings are written, wherever they are written.
///
/// Every function throws a ``SettingsError`` that says what is wrong and what to write; whoever calls puts the name of
/// the option or the key before it.
package enum SettingValue {
    /// `90`, `90s`, `15m`, `6h`, `2d`: more than nothing, a year at most.
    package static func duration(_ text: String) throws(SettingsError) -> Duration {
        let units: [Character: Int64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
        let unit = text.last.flatMap { units[$0] }
        let digits = unit == nil ? text[...] : text.dropLast()
        let number = digits.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int64(digits) : nil
        let (seconds, overflow) = (number ?? 0).multipliedReportingOverflow(by: unit ?? 1)
        guard !overflow, (1...366 * 86_400).contains(seconds) else {
            throw SettingsError("'\(escaped(text))' is not a time such as 90s, 15m, 6h or 2d")
        }
        return .seconds(seconds)
    }

    /// A host name or address, without scheme and port; in lower case, an IPv6 address with its brackets.
    package static func host(_ text: String) throws(SettingsError) -> String {
        var host = text.lowercased()
        if host.filter({ $0 == ":" }).count > 1, !host.hasPrefix("[") { host = "[\(host)]" }
        guard let url = try? CurlURL("https://\(host)/"), url.origin.host == host, url.path == "/",
            url.query == nil
        else {
            throw SettingsError(
                "'\(escaped(text))' is not a host; write its name alone, such as cdn.example.com"
            )
        }
        return host
    }

    /// A host, or `all`.
    package static func exemption(_ text: String) throws(SettingsError) -> RedirectPolicy.Exemption {
        text == "all" ? .all : .hosts([try host(text)])
    }

    /// A rewriting rule. Its text is not shown: it can hold a signed URL.
    package static func rule(_ text: String) throws(SettingsError) -> String {
        do throws(RewriteRule.SyntaxError) {
            return try RewriteRule(text).description
        } catch {
            throw SettingsError(escaped(error.description))
        }
    }

    /// `Name: value`, or `@FILE`.
    package static func header(_ text: String, _ base: PathBase) throws(SettingsError) -> HeaderSetting {
        if text.hasPrefix("@") { return .file(try base.absolute(String(text.dropFirst()))) }
        if let problem = HeaderSetting.problem(with: text) { throw SettingsError(problem) }
        return .line(text)
    }

    /// A proxy's URL as curl(1) takes it: without a scheme it is http, and empty is none.
    ///
    /// - Parameter allowsUser: Whether the URL may carry user name and password, as environment variables do.
    package static func proxy(_ text: String, allowsUser: Bool = false) throws(SettingsError) -> ProxySettings
    {
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
                        + " or set proxy.user and proxy.password_file"
                )
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
        return ProxySettings(url: "\(scheme)://\(rest)", user: user, password: password)
    }

    private static let proxySchemes: Set = ["http", "https", "socks5h", "socks5", "socks4a", "socks4"]

    /// Hosts between commas or blanks, as in `no_proxy`.
    package static func hostList(_ text: String) -> [String] {
        text.split { $0 == "," || $0.isWhitespace }.map(String.init)
    }
}

/// What paths in settings are relative to.
package struct PathBase: Sendable, Equatable {
    /// Absolute: the current directory for a command line, the file's own for a configuration file.
    package let directory: String
    /// For `~/`; absolute.
    package let home: String?

    /// Makes a base of absolute paths.
    package init(directory: String, home: String?) {
        self.directory = directory
        self.home = home
    }

    /// A path made absolute: `~/` is the home directory, a relative one is below ``directory``.
    package func absolute(_ text: String) throws(SettingsError) -> String {
        guard !text.isEmpty, !text.contains("\0") else {
            throw SettingsError("a path is wanted, not an empty string")
        }
        if text.hasPrefix("/") { return text }
        if text.hasPrefix("~/"), let home { return home + text.dropFirst() }
        return directory == "/" ? "/" + text : "\(directory)/\(text)"
    }
}
