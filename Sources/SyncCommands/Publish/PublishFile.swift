import SyncAssembly
import SyncManifest
import SyncModel
import SyncPublisher
import SyncSystem

/// `publish.json`: settings that do not change from one publish of a directory to the next. JSON5, as the configuration
/// file.
///
/// Many users may be able to write to the directory, so the file names no programs, no keys, and no files but those
/// beside and below it.
extension PublishOptions {
    /// The name of the file in the published directory.
    static let fileName = "publish.json"

    private static let keys = [
        "project", "channel", "groups", "mirrors", "files_url", "loose", "exclude", "exclude_from", "pack_size",
        "level", "dictionary", "deltas", "manifest_parts", "safe_links", "preserve", "retain",
    ]
    private static let mostPatternFiles = 64
    /// Largest file of patterns, in **bytes**.
    private static let largestPatternFile = 1 << 20

    /// Reads a settings file and the pattern files that it names.
    ///
    /// - Parameters:
    ///   - directory: The directory of the file. Pattern files are there or below, and are not reached through links.
    ///   - mayBeLink: Whether the file may be a symbolic link, as one named by an option may.
    /// - Returns: `false` if there is no such file.
    /// - Throws: ``SettingsError`` with path, line and key.
    mutating func read(_ name: String, in directory: String, mayBeLink: Bool) throws(SettingsError) -> Bool {
        let path = directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)"
        guard let folder = openDirectory(directory) else {
            let error = FileError.last("open", directory)
            // Files that it may exclude would be published.
            guard error.isMissing else { throw SettingsError(error) }
            return false
        }
        let trust = FileTrust(owner: .anyone, forbidden: 0, followsLinks: mayBeLink)
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(name, in: folder.raw, trust: trust, limit: ConfigurationFile.maximumSize, shown: path)
        } catch {
            if error.isMissing { return false }
            throw SettingsError(error)
        }
        let raw = folder.raw
        try take(bytes, shown: escaped(path)) { path throws(SettingsError) in try Self.patterns(path, in: raw) }
        return true
    }

    /// The text of a pattern file below a directory, not reached through a link.
    private static func patterns(_ path: String, in directory: Int32) throws(SettingsError) -> [UInt8] {
        guard let file = openBeneath(directory, path, .unwaiting) else {
            switch Errno.last {
            case .tooManySymbolicLinkLevels: throw SettingsError("there is a symbolic link in it")
            case let code: throw SettingsError("cannot open it: \(code)")
            }
        }
        guard status(file.raw)?.kind == .file else { throw SettingsError("it is not a regular file") }
        do throws(FileError) { return try readFile(file.raw, limit: largestPatternFile, shown: path) } catch {
            throw SettingsError(error.reason)
        }
    }

    /// Applies the text of a settings file. The names of the project and of groups are checked when the set is
    /// published.
    ///
    /// - Parameters:
    ///   - shown: The file's name for messages.
    ///   - patterns: Reads a pattern file by its path, which is relative and has no `..`.
    mutating func take(_ bytes: [UInt8], shown: String, patterns: (String) throws(SettingsError) -> [UInt8])
        throws(SettingsError)
    {
        let root = try StrictObject(text: bytes, keys: Self.keys, shown: shown)
        project = try root.text("project", "the project's name") ?? project
        if let name = try root.text("channel", "a channel's name"), let node = root.node("channel") {
            (channel, keepsReleases) = (ChannelName.meant(name), true)
            if let reason = channel.flatMap(ChannelName.objection) { throw root.fault(node, "channel", reason) }
        }
        if let urls = try root.texts("mirrors", "URLs") {
            for (url, place) in urls {
                if let objection = webURLObjection(url) { throw place.fault("it is \(objection)") }
            }
            mirrors = urls.map(\.text)
        }
        if let url = try root.text("files_url", "a URL"), let node = root.node("files_url") {
            if let objection = webURLObjection(url) { throw root.fault(node, "files_url", "it is \(objection)") }
            filesURL = url
        }
        isLoose = try root.flag("loose") ?? isLoose
        if let words = try root.texts("preserve", "words") {
            var traits: KeptTraits = []
            for (text, place) in words {
                guard let kept = KeptTraits(words: [text]) else {
                    throw place.fault("it can be “times” and “modes”, not “\(escaped(text))”")
                }
                traits.formUnion(kept)
            }
            preserve = traits
        }
        exclude += try root.texts("exclude", "patterns")?.map(\.text) ?? []
        for (text, place) in try root.texts("exclude_from", "paths of files") ?? [] {
            guard givenPatterns.count < Self.mostPatternFiles else {
                throw place.fault("at most \(Self.mostPatternFiles) files of patterns can be named")
            }
            guard !text.hasPrefix("/"), !text.hasPrefix("~"), !text.contains("\0"),
                !text.split(separator: "/").contains("..")
            else {
                throw place.fault(
                    "“\(escaped(text))” is not beside this file or below it; name others with --exclude-from")
            }
            givenPatterns.append((text, try place.reading(try patterns(text))))
        }
        packSize = try root.byteCount("pack_size") ?? packSize
        level = try root.integer("level", in: 1...19).map { Int32(clamping: $0) } ?? level
        dictionary = try root.word("dictionary") ?? dictionary
        deltas = try root.flag("deltas") ?? deltas
        isInParts = try root.flag("manifest_parts") ?? isInParts
        leavesOutUnsafeLinks = try root.flag("safe_links") ?? leavesOutUnsafeLinks
        retain = try root.integer("retain", in: PublishOptions.retained) ?? retain
        guard root.node("groups") != nil else { return }
        let inner = try root.inner("groups")
        groups = try root.named("groups").map { group throws(SettingsError) in
            try Self.group(group.name, group.node, inner)
        }
    }

    /// `["maps/**"]`, or an object with `include` and `hooks`.
    private static func group(_ name: String, _ node: ConfigurationNode, _ groups: StrictObject) throws(SettingsError)
        -> Manifest.Group
    {
        var group = Manifest.Group(name: name, include: [], hooks: [])
        if case .list = node.value {
            group.include = try groups.texts(name, "patterns")?.map(\.text) ?? []
        } else {
            let object = try groups.element(node, name, keys: ["include", "hooks"])
            group.include = try object.texts("include", "patterns")?.map(\.text) ?? []
            group.hooks = try object.texts("hooks", "names of hooks")?.map(\.text) ?? []
        }
        // Its hooks would be called in every run.
        guard !group.include.isEmpty else { throw groups.fault(node, name, "no pattern says which files it has") }
        return group
    }
}
