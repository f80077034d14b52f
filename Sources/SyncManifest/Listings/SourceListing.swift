package import SyncModel

/// The content of a listing: its files, the known facts about their contents, and the URLs of their bytes. Made by a
/// reader of that kind of listing, without I/O; ``manifest(project:_:)`` makes an ordinary manifest of it.
package struct SourceListing: Sendable {
    /// One file.
    package struct File: Sendable {
        /// As in a manifest; the reader of the listing has checked it.
        package var path: [UInt8]
        /// **Bytes**; `nil` if the listing does not state it.
        package var size: UInt64?
        /// The strongest digest that the listing states.
        package var digest: (algorithm: ContentCheck.Algorithm, hex: String)?
        /// A value that changes with the content, where there is no digest.
        package var stamp: String?
        /// Absolute, or relative to the listing, best first.
        package var urls: [String]
        package var isExecutable = false

        package init(
            path: [UInt8], size: UInt64? = nil, digest: (algorithm: ContentCheck.Algorithm, hex: String)? = nil,
            stamp: String? = nil, urls: [String]
        ) { (self.path, self.size, self.digest, self.stamp, self.urls) = (path, size, digest, stamp, urls) }

        /// The SHA-256, if the listing states it.
        package var sha256: SHA256Digest? {
            guard let digest, digest.algorithm == .sha256 else { return nil }
            return SHA256Digest(hex: digest.hex)
        }

        /// Whether both size and SHA-256 are known, as a manifest needs them.
        package var isKnown: Bool { size != nil && sha256 != nil }
    }

    /// A symbolic link.
    package struct Link: Sendable {
        package var path, target: [UInt8]

        package init(path: [UInt8], target: [UInt8]) { (self.path, self.target) = (path, target) }
    }

    package var files: [File]
    package var links: [Link] = []

    package init(files: [File]) { self.files = files }

    /// Most files of a listing.
    package static let mostFiles = 500_000

    /// The project's name: letters, digits, `.`, `_` and `-` stay, others become a dot.
    package static func project(_ name: some StringProtocol) -> String {
        var text = ""
        for byte in name.utf8.prefix(255) {
            let isPlain = isAlphanumeric(byte) || [0x2E, 0x5F, 0x2D].contains(byte)
            text.unicodeScalars.append(isPlain ? Unicode.Scalar(byte) : ".")
        }
        let trimmed = text.drop { $0 == "." || $0 == "-" }
        return trimmed.isEmpty ? "set" : String(trimmed)
    }

    /// The project of a listing: the name of the directory that it lies in, or of its host.
    ///
    /// - Parameter location: An absolute path or a URL, of the listing itself.
    package static func project(ofDirectory location: String) -> String {
        let plain = location.prefix { $0 != "?" && $0 != "#" }
        let isURL = urlScheme(of: location) != nil
        let text = isURL ? String(plain.drop { $0 != "/" }.dropFirst(2)) : String(plain)
        let directory = text.split(separator: "/", omittingEmptySubsequences: false).dropLast().last { !$0.isEmpty }
        guard let directory else { return project(isURL ? text : "set") }
        let name = isURL ? percentDecoded(directory.utf8).map { String(decoding: $0, as: UTF8.self) } : nil
        return project(name ?? String(directory))
    }

    /// The manifest's text, the same for the same listing: files in path order, each in the group of its top-level
    /// directory, and unknown facts left to be learnt.
    package func manifest(project: String, _ origin: SourceOrigin) -> [UInt8] {
        var writer = ManifestWriter(project: project, revision: 0, created: nil, source: origin)
        var text: [UInt8] = []
        let rows = rows
        let names = groupNames
        for row in rows {
            let path = row.path
            let group = Self.group(path).flatMap { names.contains($0) ? $0 : nil }
            path.withUnsafeBufferPointer { path in
                switch row {
                case .file(let file):
                    writer.file(
                        path: path, size: file.size, digest: file.isKnown ? file.sha256 : nil,
                        executable: file.isExecutable,
                        urls: file.urls, group: group,
                        check: file.isKnown
                            ? nil : ContentCheck(file.digest, stamp: file.stamp, isSizeKnown: file.size != nil))
                case .link(let link):
                    link.target.withUnsafeBufferPointer { writer.link(path: path, target: $0, group: group) }
                }
            }
            if writer.pending > 1 << 18 { writer.drain { text.append(contentsOf: $0) } }
        }
        writer.finish()
        writer.drain { text.append(contentsOf: $0) }
        return text
    }

    private enum Row {
        case file(File)
        case link(Link)

        var path: [UInt8] {
            switch self {
            case .file(let file): file.path
            case .link(let link): link.path
            }
        }
    }

    /// All files and links, in path order.
    private var rows: [Row] {
        (files.map(Row.file) + links.map(Row.link)).sorted { a, b in
            a.path.withUnsafeBufferPointer { a in b.path.withUnsafeBufferPointer { PathOrder.precedes(a, $0) } }
        }
    }

    /// The top-level directory of a path, if it can name a group.
    private static func group(_ path: [UInt8]) -> String? {
        guard let slash = path.firstIndex(of: 0x2F) else { return nil }
        let name = String(decoding: path[..<slash], as: UTF8.self)
        return name != RunRecipe.groupOfAll && ManifestRules.objection(identifier: name, what: "group") == nil
            ? name : nil
    }

    /// The names of the groups; none if a manifest could not have so many.
    private var groupNames: Set<String> {
        var names: Set<String> = []
        for path in files.lazy.map(\.path) { if let name = Self.group(path) { names.insert(name) } }
        for path in links.lazy.map(\.path) { if let name = Self.group(path) { names.insert(name) } }
        return names.count < ManifestLimits.standard.groups ? names : []
    }
}

/// Why a listing is refused: where in it, what is wrong there, and what to do about it. The data is broken: exit status
/// 65.
package struct ListingError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Such as `line 7`; empty for the whole.
    package let place: String
    package let reason: String

    package init(_ place: String, _ reason: String) { (self.place, self.reason) = (place, reason) }

    /// The same reason at another place.
    package func at(_ place: String) -> ListingError { ListingError(place, reason) }

    package var description: String { place.isEmpty ? reason : "\(place): \(reason)" }
}

/// Adds files to a listing, each under its own name, as many as a listing may have.
package struct ListingBuilder {
    package private(set) var listing = SourceListing(files: [])
    private var seen: [[UInt8]: Int] = [:]

    package init() {}

    /// - Parameter place: For messages.
    /// - Throws: ``ListingError`` for a name that a manifest cannot have, or one that is listed already with other
    ///   content.
    package mutating func add(_ file: SourceListing.File, at place: @autoclosure () -> String) throws(ListingError) {
        try Self.check(path: file.path, at: place())
        guard listing.files.count + listing.links.count < SourceListing.mostFiles else {
            throw Self.tooMany(place())
        }
        if let known = seen.updateValue(listing.files.count, forKey: file.path) {
            guard known >= 0, let old = listing.files[known].digest, let new = file.digest,
                old.hex == new.hex || old.algorithm != new.algorithm && listing.files[known].urls == file.urls
            else { throw ListingError(place(), "\(Self.shown(file.path)) is listed twice, with different contents") }
            seen[file.path] = known
            // A list may have several digests of each file: the strongest counts.
            if ContentCheck.Algorithm.allCases.first(where: { $0 == old.algorithm || $0 == new.algorithm })
                != old.algorithm
            {
                listing.files[known].digest = new
                listing.files[known].size = listing.files[known].size ?? file.size
            }
            return
        }
        listing.files.append(file)
    }

    package mutating func add(_ link: SourceListing.Link, at place: @autoclosure () -> String) throws(ListingError) {
        try Self.check(path: link.path, at: place())
        do throws(ManifestError) {
            try link.target.withUnsafeBufferPointer { target throws(ManifestError) in
                try link.path.withUnsafeBufferPointer { path throws(ManifestError) in
                    _ = try ManifestRules.check(link: target, at: path)
                }
            }
        } catch { throw ListingError(place(), "\(Self.shown(link.path)): \(error.reason)") }
        guard listing.files.count + listing.links.count < SourceListing.mostFiles else {
            throw Self.tooMany(place())
        }
        guard seen.updateValue(-1, forKey: link.path) == nil else {
            throw ListingError(place(), "\(Self.shown(link.path)) is listed twice")
        }
        listing.links.append(link)
    }

    private static func tooMany(_ place: String) -> ListingError {
        ListingError(
            place,
            "more than \(SourceListing.mostFiles) files, the most of one source; of a list, keep some lines in a file of your own"
        )
    }

    private static func check(path: [UInt8], at place: @autoclosure () -> String) throws(ListingError) {
        let reason = path.withUnsafeBufferPointer { ManifestRules.objection(path: $0) }
        if let reason { throw ListingError(place(), reason) }
    }

    private static func shown(_ path: [UInt8]) -> String { quoted(String(decoding: path, as: UTF8.self)) }
}
