import SyncModel
import SyncSystem

/// `publish.json`: what does not change from one publish of a directory to the next. JSON5, as the configuration file.
///
/// It lies in a tree that many may write to, so it names no programs and no keys, and no files but those beside and below it.
package struct PublishFile: Sendable, Equatable {
    /// The name of the file in the published directory.
    package static let name = "publish.json"

    /// The names of the project and of groups are checked by the publisher.
    package var project: String?
    /// The channel that points at it; `default` for the one without a name.
    package var channel: String?
    package var groups: [Group]?
    /// URLs as written.
    package var mirrors: [String]?
    package var filesURL: String?
    package var isLoose: Bool?
    /// What is kept of files besides their content.
    package var preserve: [Preserved]?
    /// Patterns as in groups.
    package var exclude: [String] = []
    /// Files of patterns.
    package var excludeFrom: [PatternFile] = []
    /// **Bytes**.
    package var packSize: UInt64?
    /// zstd's.
    package var level: Int?
    package var dictionary: DictionaryWord?
    package var deltas: Bool?
    package var manifestParts: Bool?
    package var safeLinks: Bool?

    /// A group of files, with the names of its hooks.
    package struct Group: Sendable, Equatable {
        package var name: String
        package var include: [String]
        package var hooks: [String]
    }

    /// A file of patterns: its path, relative to the directory of `publish.json`, and its text.
    package struct PatternFile: Sendable, Equatable {
        package var path: String
        package var text: [UInt8]
    }

    /// What can be kept of files besides their content.
    package enum Preserved: String, Sendable, CaseIterable { case times, modes }

    /// When a dictionary is made.
    package enum DictionaryWord: String, Sendable, CaseIterable { case auto, always, never }

    /// Every key.
    package static let keys = [
        "project", "channel", "groups", "mirrors", "files_url", "loose", "exclude", "exclude_from", "pack_size",
        "level", "dictionary", "deltas", "manifest_parts", "safe_links", "preserve",
    ]
    private static let groupKeys = ["include", "hooks"]
    private static let mostPatternFiles = 64
    /// Largest file of patterns, in **bytes**.
    private static let largestPatternFile = 1 << 20

    package init() {}

    /// Reads a file, and the files of patterns that it names.
    ///
    /// - Parameters:
    ///   - directory: Its directory. Files of patterns are there or below, and no link leads to them.
    ///   - mayBeLink: Whether it may be a symbolic link: somebody has named it.
    /// - Returns: `nil` when there is no such file.
    /// - Throws: ``SettingsError`` with path, line and key.
    package static func read(_ name: String, in directory: String, mayBeLink: Bool) throws(SettingsError)
        -> PublishFile?
    {
        let path = directory.hasSuffix("/") ? directory + name : "\(directory)/\(name)"
        guard let folder = openDirectory(directory) else { return nil }
        let trust = FileTrust(owner: .anyone, forbidden: 0, followsLinks: mayBeLink)
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(name, in: folder.raw, trust: trust, limit: ConfigurationFile.maximumSize, shown: path)
        } catch {
            if error.isMissing { return nil }
            throw SettingsError(error)
        }
        let raw = folder.raw
        return try parse(bytes, shown: escaped(path)) { path throws(SettingsError) in try patterns(path, in: raw) }
    }

    /// The text of a file of patterns below a directory; no link leads to it.
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

    /// Reads the text of a file.
    ///
    /// - Parameters:
    ///   - shown: The file's name for messages.
    ///   - patterns: Reads a file of patterns by its path, which is relative, without `..`.
    package static func parse(_ bytes: [UInt8], shown: String, patterns: (String) throws(SettingsError) -> [UInt8])
        throws(SettingsError) -> PublishFile
    {
        let root = try StrictObject(text: bytes, keys: keys, shown: shown)
        var file = PublishFile()
        file.project = try root.text("project", "the project's name")
        file.channel = try root.text("channel", "a channel's name")
        if let reason = ChannelName.meant(file.channel).flatMap(ChannelName.objection), let node = root.node("channel")
        {
            throw root.fault(node, "channel", reason)
        }
        file.mirrors = try root.texts("mirrors", "URLs")?.map(\.text)
        file.filesURL = try root.text("files_url", "a URL")
        file.isLoose = try root.flag("loose")
        for (text, place) in try root.texts("preserve", "words") ?? [] {
            guard let word = Preserved(rawValue: text) else {
                throw place.fault("it can be “times” and “modes”, not “\(escaped(text))”")
            }
            file.preserve = (file.preserve ?? []) + [word]
        }
        file.exclude = try root.texts("exclude", "patterns")?.map(\.text) ?? []
        for (text, place) in try root.texts("exclude_from", "paths of files") ?? [] {
            guard file.excludeFrom.count < mostPatternFiles else {
                throw place.fault("at most \(mostPatternFiles) files of patterns can be named")
            }
            guard !text.hasPrefix("/"), !text.hasPrefix("~"), !text.contains("\0"),
                !text.split(separator: "/").contains("..")
            else {
                throw place.fault(
                    "“\(escaped(text))” is not beside this file or below it; name others with --exclude-from")
            }
            let read = try place.reading(try patterns(text))
            file.excludeFrom.append(PatternFile(path: text, text: read))
        }
        file.packSize = try root.byteCount("pack_size")
        file.level = try root.integer("level", in: 1...19)
        file.dictionary = try root.word("dictionary")
        file.deltas = try root.flag("deltas")
        file.manifestParts = try root.flag("manifest_parts")
        file.safeLinks = try root.flag("safe_links")
        if root.node("groups") != nil {
            file.groups = []
            let groups = try root.inner("groups")
            for (name, _, node) in try root.named("groups") { file.groups?.append(try group(name, node, groups)) }
        }
        return file
    }

    /// `["maps/**"]`, or an object with `include` and `hooks`.
    private static func group(_ name: String, _ node: ConfigurationNode, _ groups: StrictObject) throws(SettingsError)
        -> Group
    {
        if case .list = node.value {
            return Group(name: name, include: try groups.texts(name, "patterns")?.map(\.text) ?? [], hooks: [])
        }
        let object = try groups.element(node, name, keys: groupKeys)
        return Group(
            name: name, include: try object.texts("include", "patterns")?.map(\.text) ?? [],
            hooks: try object.texts("hooks", "names of hooks")?.map(\.text) ?? [])
    }
}
