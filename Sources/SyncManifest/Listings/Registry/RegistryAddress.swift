package import SyncModel

/// The artifact that `oci://HOST[:PORT]/NAME[:TAG|@sha256:HEX]` names, and its URLs in a registry. OCI Distribution
/// Specification 1.1.
package struct RegistryAddress: Sendable, Equatable {
    /// Host and port, as written; docker's own names for its hub are all the same host.
    package let host: String
    /// The repository.
    package let name: String
    /// A tag, or `sha256:HEX`.
    package let reference: String

    package static let scheme = "oci"

    /// - Throws: ``ListingError`` for text that names no artifact.
    package init(_ location: String) throws(ListingError) {
        guard location.hasPrefix("oci://") else {
            throw ListingError("", "an artifact is oci://HOST/NAME:TAG")
        }
        var rest = location.dropFirst("oci://".utf8.count)
        let slash = rest.firstIndex(of: "/")
        let host = rest[..<(slash ?? rest.endIndex)].lowercased()
        // Messages repeat neither a password nor a query.
        guard !host.contains("@") else {
            throw ListingError(
                "",
                host.contains("@sha256:")
                    ? "no registry before the name; write oci://HOST/NAME@sha256:HEX"
                    : "a user name in a URL; log in with 'docker login' or 'oras login'")
        }
        guard !rest.contains("?"), !rest.contains("#") else {
            throw ListingError("", "an artifact has no query or fragment")
        }
        guard let slash, Self.isHost(host) else {
            throw ListingError("", "\(quoted(host)) is not a registry; write oci://HOST/NAME:TAG")
        }
        rest = rest[rest.index(after: slash)...]
        var digest: Substring?
        if let at = rest.firstIndex(of: "@") {
            digest = rest[rest.index(after: at)...]
            rest = rest[..<at]
        }
        var tag: Substring?
        if let colon = rest.firstIndex(of: ":") {
            tag = rest[rest.index(after: colon)...]
            rest = rest[..<colon]
        }
        let components = rest.split(separator: "/", omittingEmptySubsequences: false)
        guard rest.utf8.count <= 255, components.allSatisfy(Self.isComponent) else {
            throw ListingError(
                "",
                "\(quoted(String(rest))) is not the name of a repository: lower case letters, digits, '.', '_', '-', '/'"
            )
        }
        if let tag, !Self.isTag(tag) { throw ListingError("", "\(quoted(String(tag))) is not a tag") }
        if let digest, Self.sha256(digest) == nil {
            throw ListingError("", "\(quoted(String(digest))) is not a digest; write @sha256: and 64 digits")
        }
        let isHub = ["docker.io", "index.docker.io", "registry-1.docker.io"].contains(host)
        self.host = isHub ? Self.hub : host
        name = isHub && components.count == 1 ? "library/\(rest)" : String(rest)
        reference = digest.map(String.init) ?? tag.map(String.init) ?? "latest"
    }

    /// The host of docker's own hub.
    package static let hub = "registry-1.docker.io"

    /// The digest in ``reference``; `nil` for a tag.
    package var digest: SHA256Digest? { Self.sha256(Substring(reference)) }

    /// The project of its manifest: the last two components of the path.
    package var project: String {
        SourceListing.project(name.split(separator: "/").suffix(2).joined(separator: "."))
    }

    /// The URLs at which the registry may be, best first, without a slash at the end: on this machine it may speak
    /// plain http.
    package var endpoints: [String] { isLoopback ? ["http://\(host)", "https://\(host)"] : ["https://\(host)"] }

    private var isLoopback: Bool {
        let bare = host.hasPrefix("[") ? host.prefix { $0 != "]" } + "]" : host.prefix { $0 != ":" }
        return bare == "localhost" || bare == "[::1]"
            || bare.hasPrefix("127.") && bare.allSatisfy { $0.isASCII && $0.isNumber || $0 == "." }
    }

    /// The URL of a manifest in a registry.
    ///
    /// - Parameter reference: A tag or a digest.
    package func manifestURL(_ endpoint: String, _ reference: String) -> String {
        "\(endpoint)/v2/\(name)/manifests/\(reference)"
    }

    /// The URL of a blob, up to its digest.
    package func blobPrefix(_ endpoint: String) -> String { "\(endpoint)/v2/\(name)/blobs/" }

    /// The same repository with another tag or digest.
    package func with(_ reference: String) -> RegistryAddress {
        RegistryAddress(host: host, name: name, reference: reference)
    }

    private init(host: String, name: String, reference: String) {
        (self.host, self.name, self.reference) = (host, name, reference)
    }

    /// The address as text.
    package var text: String { "oci://\(host)/\(name)\(digest == nil ? ":" : "@")\(reference)" }

    // MARK: Releases

    /// The tag of one release of the set that has this tag: it stays where the tag itself moves on.
    package func releaseTag(_ revision: UInt64) -> String { "\(reference).r\(revision)" }

    /// The revision in a ``releaseTag(_:)``; `nil` for another tag.
    package func revision(ofTag tag: String) -> UInt64? {
        guard tag.hasPrefix(reference + ".r") else { return nil }
        let number = tag.dropFirst(reference.utf8.count + 2)
        return UInt64(number).flatMap { "\($0)" == number ? $0 : nil }
    }

    /// Whether the tag is one that a set with another tag keeps for itself: ``releaseTag(_:)``, or `TAG.unnamed`.
    package var isReserved: Bool {
        guard let dot = reference.lastIndex(of: "."), dot > reference.startIndex else { return false }
        let end = reference[reference.index(after: dot)...]
        if end == "unnamed" { return true }
        return end.first == "r" && end.utf8.count > 1
            && end.utf8.dropFirst().allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    /// The longest tag that leaves room for the number of a release, in **bytes**.
    package static let longestTag = 128 - ".r18446744073709551615".utf8.count

    /// The digest in `sha256:HEX`.
    package static func sha256(_ text: Substring) -> SHA256Digest? {
        guard text.hasPrefix("sha256:"), !text.contains(where: \.isUppercase) else { return nil }
        return SHA256Digest(hex: text.dropFirst("sha256:".utf8.count).utf8)
    }

    /// Whether a text is a host name or an address, perhaps with a port.
    private static func isHost(_ text: String) -> Bool {
        guard text.utf8.count <= 255 else { return false }
        var rest = text[...]
        if rest.hasPrefix("[") {
            guard let end = rest.firstIndex(of: "]") else { return false }
            let inside = rest[rest.index(after: rest.startIndex)..<end]
            guard !inside.isEmpty, inside.utf8.allSatisfy({ hexadecimalValue($0) != nil || $0 == 0x3A || $0 == 0x2E })
            else { return false }
            rest = rest[rest.index(after: end)...]
        } else {
            let name = rest.prefix { $0 != ":" }
            guard let first = name.utf8.first, isAlphanumeric(first),
                name.utf8.allSatisfy({ isAlphanumeric($0) || $0 == 0x2E || $0 == 0x2D })
            else { return false }
            rest = rest[name.endIndex...]
        }
        guard !rest.isEmpty else { return true }
        let port = rest.dropFirst()
        return rest.hasPrefix(":") && port.utf8.allSatisfy { (0x30...0x39).contains($0) }
            && UInt16(port).map { $0 > 0 } == true
    }

    /// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
    private static func isComponent(_ text: Substring) -> Bool {
        func isPlain(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) }
        guard let first = text.utf8.first, let last = text.utf8.last, isPlain(first), isPlain(last) else {
            return false
        }
        guard text.utf8.allSatisfy({ isPlain($0) || [0x2D, 0x2E, 0x5F].contains($0) }) else { return false }
        return text.utf8.split(whereSeparator: isPlain).allSatisfy { run in
            run.allSatisfy { $0 == 0x2D } || run.elementsEqual([0x2E]) || run.elementsEqual([0x5F])
                || run.elementsEqual([0x5F, 0x5F])
        }
    }

    /// `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`
    private static func isTag(_ text: Substring) -> Bool {
        guard let first = text.utf8.first, isAlphanumeric(first) || first == 0x5F, text.utf8.count <= 128 else {
            return false
        }
        return text.utf8.allSatisfy { isAlphanumeric($0) || [0x2D, 0x2E, 0x5F].contains($0) }
    }
}
