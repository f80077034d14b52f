package import SyncModel

/// The content of a listing: its files, the known facts about their contents, and the URLs of their bytes. Made by a
/// reader of that kind of listing, without I/O, which adds each file under its own name;
/// ``manifest(project:_:)`` makes an ordinary manifest of it.
package struct SourceListing: Sendable {
    /// One file, or a symbolic link.
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
        /// Where a symbolic link leads, which has nothing but that and its path; `nil` for a file.
        package let target: [UInt8]?

        package init(
            path: [UInt8], size: UInt64? = nil, digest: (algorithm: ContentCheck.Algorithm, hex: String)? = nil,
            stamp: String? = nil, urls: [String] = [], target: [UInt8]? = nil
        ) {
            (self.path, self.size, self.digest, self.stamp, self.urls) = (path, size, digest, stamp, urls)
            self.target = target
        }

        /// The SHA-256, if the listing states it.
        package var sha256: SHA256Digest? {
            guard let digest, digest.algorithm == .sha256 else { return nil }
            return SHA256Digest(hex: digest.hex)
        }

        /// Whether both size and SHA-256 are known, as a manifest needs them.
        package var isKnown: Bool { size != nil && sha256 != nil }
    }

    package var files: [File] = []
    /// The files by their paths.
    private var places: [[UInt8]: Int] = [:]

    package init() {}

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
        let names = groupNames
        let ordered = files.sorted { a, b in
            a.path.withUnsafeBufferPointer { a in b.path.withUnsafeBufferPointer { PathOrder.precedes(a, $0) } }
        }
        for file in ordered {
            let group = Self.group(file.path).flatMap { names.contains($0) ? $0 : nil }
            file.path.withUnsafeBufferPointer { path in
                if let target = file.target {
                    return target.withUnsafeBufferPointer { writer.link(path: path, target: $0, group: group) }
                }
                writer.file(
                    path: path, size: file.size, digest: file.isKnown ? file.sha256 : nil,
                    executable: file.isExecutable, urls: file.urls, group: group,
                    check: file.isKnown
                        ? nil : ContentCheck(file.digest, stamp: file.stamp, isSizeKnown: file.size != nil))
            }
            if writer.pending > 1 << 18 { writer.drain { text.append(contentsOf: $0) } }
        }
        writer.finish()
        writer.drain { text.append(contentsOf: $0) }
        return text
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
        let names = Set(files.lazy.compactMap { Self.group($0.path) })
        return names.count < ManifestLimits.standard.groups ? names : []
    }

    // MARK: Adding

    /// Adds a file, or a link.
    ///
    /// - Parameter place: For messages.
    /// - Throws: ``ListingError`` for a name that a manifest cannot have, for one that is listed already with other
    ///   content, and for a link that leads out of the tree.
    package mutating func add(_ file: File, at place: @autoclosure () -> String) throws(ListingError) {
        func refused(_ reason: String) -> ListingError {
            ListingError(place(), "\(quoted(String(decoding: file.path, as: UTF8.self))) \(reason)")
        }
        let reason = file.path.withUnsafeBufferPointer { ManifestRules.objection(path: $0) }
        if let reason { throw ListingError(place(), reason) }
        do throws(ManifestError) {
            try file.target?.withUnsafeBufferPointer { target throws(ManifestError) in
                try file.path.withUnsafeBufferPointer { path throws(ManifestError) in
                    _ = try ManifestRules.check(link: target, at: path)
                }
            }
        } catch {
            throw ListingError(place(), "\(quoted(String(decoding: file.path, as: UTF8.self))): \(error.reason)")
        }
        guard files.count < Self.mostFiles else {
            throw ListingError(
                place(),
                "more than \(Self.mostFiles) files, the most of one source; of a list, keep some lines in a file of your own"
            )
        }
        guard let known = places.updateValue(files.count, forKey: file.path) else { return files.append(file) }
        guard file.target == nil else { throw refused("is listed twice") }
        guard let old = files[known].digest, let new = file.digest,
            old.hex == new.hex || old.algorithm != new.algorithm && files[known].urls == file.urls
        else { throw refused("is listed twice, with different contents") }
        places[file.path] = known
        // A list may have several digests of each file: the strongest counts.
        if ContentCheck.Algorithm.allCases.first(where: { $0 == old.algorithm || $0 == new.algorithm })
            != old.algorithm
        {
            files[known].digest = new
            files[known].size = files[known].size ?? file.size
        }
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
