import SyncModel

/// A Metalink, RFC 5854: files with their sizes, digests and mirrors.
package enum Metalink {
    /// The longest document, in **bytes**.
    package static let limit = 16 << 20

    private static let namespace = "urn:ietf:params:xml:ns:metalink"
    /// Most mirrors of one file that are kept, those with the best priorities.
    private static let mostURLs = ManifestLimits.standard.urlsPerFile

    /// Whether a text looks like a Metalink.
    package static func isMetalink(_ text: [UInt8]) -> Bool {
        let head = String(decoding: text.prefix(4_096), as: UTF8.self)
        guard let root = head.firstRange(of: "metalink") else { return false }
        return head[..<root.lowerBound].last.map { $0 == "<" || $0 == ":" } ?? false
    }

    /// Reads a Metalink.
    ///
    /// - Parameters:
    ///   - schemes: The schemes that this machine can fetch, in lower case; other mirrors are left out.
    ///   - resolve: Makes a relative URL absolute.
    package static func read(_ text: [UInt8], schemes: Set<String>, resolve: (String) -> String) throws(ListingError)
        -> SourceListing
    {
        guard text.count <= limit else {
            throw ListingError(
                "",
                "the Metalink has \(text.count) bytes, above the limit of \(limit); keep some of its files in one of your own"
            )
        }
        var xml = try XMLText(text)
        var listing = SourceListing()
        var prefix = ""
        var path: [String] = []
        var file = SourceListing.File(path: [])
        var urls: [(priority: Int, url: String)] = []
        var content: [UInt8] = []
        var attributes: [String: String] = [:]
        while let piece = try xml.next() {
            switch piece {
            case .start(let name, let given):
                if path.isEmpty { prefix = try Self.prefix(ofRoot: name, given, xml) }
                path.append(name.hasPrefix(prefix) ? String(name.dropFirst(prefix.utf8.count)) : "")
                (content, attributes) = ([], given)
                guard path == ["metalink", "file"] else { continue }
                guard let name = given["name"] else { throw xml.broken("a file without a name") }
                (file, urls) = (SourceListing.File(path: Array(name.utf8)), [])
            case .text(let text):
                guard content.count + text.count <= 65_536 || path.count != 3 else {
                    throw xml.broken("a text is too long")
                }
                if path.count == 3 { content += text }
            case .end:
                if path.count == 3, path[1] == "file" {
                    try take(path[2], attributes, content, into: &file, &urls, xml)
                } else if path == ["metalink", "file"] {
                    file.urls = try kept(urls, of: file, schemes, resolve, xml)
                    if file.digest?.hex == SHA256Digest.ofNothing.hex { file.size = 0 }
                    do throws(ListingError) { try listing.add(file, at: "") } catch { throw xml.broken(error.reason) }
                }
                path.removeLast()
                content = []
            }
        }
        return listing
    }

    /// The namespace prefix of Metalink's elements, with its colon; empty without one.
    private static func prefix(ofRoot name: String, _ attributes: [String: String], _ xml: XMLText) throws(ListingError)
        -> String
    {
        let prefix = name.lastIndex(of: ":").map { String(name[...$0]) } ?? ""
        let declaration = prefix.isEmpty ? "xmlns" : "xmlns:" + prefix.dropLast()
        guard name == prefix + "metalink" else { throw xml.broken("this is not a Metalink") }
        guard attributes[declaration] == namespace else {
            throw xml.broken("the Metalink is of another version than RFC 5854's, 4; ask for a .meta4")
        }
        return prefix
    }

    /// Takes an element of a file.
    private static func take(
        _ name: String, _ attributes: [String: String], _ content: [UInt8], into file: inout SourceListing.File,
        _ urls: inout [(priority: Int, url: String)], _ xml: XMLText
    ) throws(ListingError) {
        let text = content.drop(while: XMLText.isSpace).reversed().drop(while: XMLText.isSpace).reversed()
        switch name {
        case "size":
            guard file.size == nil, let count = UInt64(String(decoding: text, as: UTF8.self)),
                count <= UInt64(Int64.max)
            else { throw xml.broken("an invalid size, or two sizes") }
            file.size = count
        case "hash":
            let names: [String: ContentCheck.Algorithm] = [
                "sha-256": .sha256, "sha-384": .sha384, "sha-512": .sha512, "sha-1": .sha1, "md5": .md5,
            ]
            guard let algorithm = names[attributes["type"]?.lowercased() ?? ""] else { return }
            guard let read = ContentCheck.digest(algorithm, text) else {
                throw xml.broken("the digest is not \(algorithm.byteCount * 2) hexadecimal digits")
            }
            let order = ContentCheck.Algorithm.allCases
            let known = file.digest.flatMap { order.firstIndex(of: $0.algorithm) } ?? order.count
            if let new = order.firstIndex(of: algorithm), new < known { file.digest = read }
        case "url":
            let priority = attributes["priority"].flatMap { Int($0) } ?? 999_999
            guard (1...999_999).contains(priority) else { throw xml.broken("a priority is from 1 to 999999") }
            urls.append((priority, plain(text)))
            guard urls.count <= 4_096 else { throw xml.broken("too many mirrors of one file") }
        default: break
        }
    }

    /// The mirrors of a file that this machine can ask, the best first.
    private static func kept(
        _ urls: [(priority: Int, url: String)], of file: SourceListing.File, _ schemes: Set<String>,
        _ resolve: (String) -> String, _ xml: XMLText
    ) throws(ListingError) -> [String] {
        let best = urls.enumerated().sorted {
            ($0.element.priority, $0.offset) < ($1.element.priority, $1.offset)
        }.map(\.element.url)
        var kept: [String] = []
        var objection: String?
        for url in best.map(resolve) {
            let scheme = urlScheme(of: url)
            guard scheme.map(schemes.contains) ?? !url.contains(":"), !kept.contains(url) else { continue }
            if scheme.map(webSchemes.contains) ?? true, let reason = ManifestRules.objection(url: url) {
                objection = reason
                continue
            }
            kept.append(url)
            if kept.count == mostURLs { break }
        }
        guard kept.isEmpty else { return kept }
        throw xml.broken(
            "\(quoted(String(decoding: file.path, as: UTF8.self))) has no mirror that can be asked over http(s)"
                + (objection.map { ": \($0)" } ?? ""))
    }

    /// An IRI as a URI: everything outside of ASCII is percent-encoded. RFC 3987 section 3.1.
    private static func plain(_ text: some Sequence<UInt8>) -> String {
        var result = ""
        for byte in text {
            if byte > 0x20, byte < 0x7F {
                result.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                result += percentEncoded(bytes: CollectionOfOne(byte))
            }
        }
        return result
    }
}
