import SyncManifest
import SyncModel

/// What a publish does where its options are silent: it repeats the choices of the base.
struct PublishChoices: Sendable, Equatable {
    /// Groups to declare, in this order.
    private(set) var groups: [Manifest.Group] = []
    /// Where else the published directory is available; URLs that end in `/`.
    private(set) var mirrors: [String] = []
    /// Where loose files are available, a URL that ends in `/`; `nil` if not given.
    private(set) var filesURL: String?
    /// Whether files stay as they are, without packs.
    private(set) var isLoose = false
    /// The traits of entries that are kept besides their content.
    private(set) var preserve: PublishOptions.KeptTraits = []
    /// Whether the base was published with other choices.
    private(set) var differsFromBase = false
    /// Descriptions of the choices taken from the base.
    private(set) var kept: [String] = []

    /// - Parameter ownPlace: Where files are unless the options say otherwise, relative to the manifest; see
    ///   ``OutputPlacement``.
    init(_ options: PublishOptions, base: Manifest?, ownPlace: String) throws(PublishError) {
        let former = base.map { Self(of: $0, options.packURLPrefix, ownPlace) } ?? Self()
        isLoose = options.isLoose ?? former.isLoose
        groups = options.groups ?? former.groups
        preserve = options.preserve ?? former.preserve
        if let given = options.mirrors {
            for url in given {
                let mirror = try PublishOptions.prefix(url, option: "the mirror", mayBeRelative: false)
                if !mirrors.contains(mirror) { mirrors.append(mirror) }
            }
            guard mirrors.count < ManifestLimits.standard.urlsPerFile else {
                throw .usage(
                    "there are \(mirrors.count) mirrors", "choose the best; a manifest names at most 64 places")
            }
        } else {
            mirrors = former.mirrors
        }
        filesURL =
            switch options.filesURL {
            // The place of these very files, which a base in packs can name, is not another one.
            case nil: isLoose && former.filesURL == ownPlace ? nil : former.filesURL
            case "": nil
            case let url?: try PublishOptions.prefix(url, option: "the files' URL", mayBeRelative: true)
            }
        differsFromBase =
            base != nil
            && (groups != former.groups || mirrors != former.mirrors || filesURL != former.filesURL
                || isLoose != former.isLoose || preserve != former.preserve)
        if options.isLoose == nil, isLoose { kept.append("--loose") }
        if options.preserve == nil, !preserve.isEmpty { kept.append("--preserve \(preserve.text)") }
        if options.groups == nil, !groups.isEmpty {
            kept.append((groups.count == 1 ? "the group " : "the groups ") + groups.map(\.name).joined(separator: ", "))
        }
        if options.mirrors == nil, !mirrors.isEmpty {
            kept.append(mirrors.count == 1 ? "1 mirror" : "\(mirrors.count) mirrors")
        }
        if options.filesURL == nil, filesURL != nil { kept.append("the files' URL") }
    }

    private init() {}

    /// The choices that can be seen in a manifest.
    private init(of base: Manifest, _ packURLPrefix: String, _ ownPlace: String) {
        groups = base.groups
        for table in [base.files, base.directories] {
            let (modes, times) = table.keepsTraits
            if modes { preserve.insert(.modes) }
            if times { preserve.insert(.times) }
        }
        let urls = Self.filePrefixes(base.files)
        isLoose = urls != nil && base.packs.isEmpty
        if isLoose {
            filesURL = urls?.first.flatMap { $0 == ownPlace ? nil : $0 }
            mirrors = (urls ?? []).dropFirst().compactMap { url in
                let place = filesURL == nil ? ownPlace : ""
                return url.hasSuffix(place) ? String(url.dropLast(place.count)) : nil
            }
        } else {
            filesURL = urls?.first
            // All packs of a set have the same mirrors; packs elsewhere have none.
            mirrors =
                base.packs.last { $0.urls.count > 1 }.map { pack in
                    Array(Self.prefixes(pack.urls, suffix: packURLPrefix + pack.sha256.packName).dropFirst())
                } ?? []
        }
    }

    /// The common prefixes of the URLs of all files; `nil` if they differ.
    private static func filePrefixes(_ files: FileTable) -> [String]? {
        func prefixes(_ row: Int) -> [String] {
            Self.prefixes(files.urls(row), suffix: files.withPath(row) { percentEncoded(bytes: $0) })
        }
        let rows = files.indices.lazy.filter { files.kind($0) != .link && files.size($0) > 0 }
        guard let found = rows.first.map(prefixes), !found.isEmpty else { return nil }
        return rows.allSatisfy { prefixes($0) == found } ? found : nil
    }

    /// The prefixes of URLs with a suffix; none if one ends otherwise.
    private static func prefixes(_ urls: [String], suffix: String) -> [String] {
        let prefixes = urls.compactMap { url in url.hasSuffix(suffix) ? String(url.dropLast(suffix.count)) : nil }
        return prefixes.count == urls.count ? prefixes : []
    }

    /// The URLs of a pack with this name in `packs/`.
    func packURLs(_ name: String) -> [String] { [name] + mirrors.map { $0 + name } }

    /// The prefixes of the URLs of files, best first.
    func filePrefixes(ownPlace: String) -> [String] {
        guard isLoose else { return filesURL.map { [$0] } ?? [] }
        if let filesURL { return [filesURL] + mirrors }
        return [ownPlace] + mirrors.map { $0 + ownPlace }
    }
}

extension PublishOptions {
    /// The project's name: the requested one, the base's, that of the set in the output, or the directory's own, with
    /// characters that are not allowed replaced by `-`. A set in the output keeps its name, unless the options permit
    /// another one.
    ///
    /// - Parameter published: The project of the set in the output; `nil` for none.
    func projectName(base: Manifest?, published: String?) throws(PublishError) -> String {
        if let project, let reason = ManifestRules.objection(identifier: project, what: "project") {
            throw .usage(reason, "choose a name such as com.example.tower")
        }
        if let name = project ?? base?.project ?? published {
            guard let published, name != published, !permits.contains(.otherProject) else { return name }
            throw .usage(
                "\(shown(output)) holds the project \(shown(published)), not \(shown(name))",
                project == nil
                    ? "the base has that name: keep the other one with --project \(shown(published)), name another output "
                        + "directory, or give the set its new name with --rename"
                    : "name another output directory, or give the set its new name with --rename")
        }
        let name = directory.split(separator: "/").last { $0 != "." && $0 != ".." } ?? ""
        let plain = name.utf8.prefix(100).map { byte -> UInt8 in
            isAlphanumeric(byte) || byte == 0x2D || byte == 0x2E || byte == 0x5F ? byte : 0x2D
        }
        let text = String(decoding: plain.drop { $0 == 0x2E || $0 == 0x2D }, as: UTF8.self)
        guard ManifestRules.objection(identifier: text, what: "project") == nil else {
            throw .usage(
                "cannot make a project name from \(shown(directory))",
                "name it with --project, such as com.example.tower")
        }
        return text
    }
}

extension PublishRun {
    /// Warns that the set in the output gets another name, which the options permit. A set with channels cannot get
    /// one, nor can a signed one, not even without a signature: its keys could never sign it again.
    mutating func checkRename() throws(PublishError) {
        guard let former = before.project, former != project else { return }
        guard try !output.hasChannels() else {
            throw .usage(
                "\(shown(options.output)) has channels, and what they point at is called \(shown(former))",
                "name another output directory")
        }
        if options.signing == nil, try output.isSigned() {
            throw .usage(
                "\(shown(options.output)) has signed releases, and a signed set keeps its name, \(shown(former))",
                "name another output directory")
        }
        report.warnings.append(
            "the set is called \(project) from now on, and no longer \(shown(former)): a pull into a directory of "
                + "\(shown(former)) is refused, and says what to do there; the files stay, and are not fetched again")
    }

    /// One warning for each group that selects nothing, and one for groups of the base that are no longer declared,
    /// since a hook that never runs is noticed too late.
    ///
    /// - Parameter filled: The groups that select something.
    func groupWarnings(_ filled: Set<String>) -> [String] {
        var lines: [String] = []
        for group in choices.groups where !filled.contains(group.name) {
            lines.append("group \(shown(group.name)) has no files")
        }
        let lost = (base?.manifest.groups ?? []).map(\.name).filter { name in
            !choices.groups.contains { $0.name == name }
        }
        if !lost.isEmpty {
            lines.append("the base declares groups that this manifest does not: \(shown(lost.joined(separator: ", ")))")
        }
        return lines
    }

    /// Notes which groups select something in a tree, or in a piece of one.
    ///
    /// - Throws: ``PublishError`` when readers would refuse so many patterns, and after a stop request.
    func noteGroups(
        _ tree: SourceTree, _ filled: inout Set<String>, _ budget: inout PatternBudget, isCancelled: () -> Bool
    ) throws(PublishError) {
        for group in choices.groups {
            let isFilled = filled.contains(group.name)
            if try selectsAnything(group, tree, &budget, isFilled: isFilled, isCancelled) { filled.insert(group.name) }
        }
    }

    /// Counts the cost of patterns as a reader of the manifest does: what a reader refuses must not be published.
    private func selectsAnything(
        _ group: Manifest.Group, _ tree: SourceTree, _ budget: inout PatternBudget, isFilled: Bool,
        _ isCancelled: () -> Bool
    ) throws(PublishError) -> Bool {
        var selects = isFilled
        for pattern in group.include {
            if isCancelled() { throw .cancelled }
            let glob = Glob(pattern)
            let (below, directories) = tree.rows(below: glob.literalPrefix)
            let reason = budget.spend(glob, paths: below.count + directories.count) {
                below.reduce(0) { $0 + Int(tree.entries[$1].pathLength) }
                    + directories.reduce(0) { $0 + tree.directories[$1].path.count }
            }
            if let reason {
                throw .invalid(
                    "group \(shown(group.name)), \(shown(pattern)): \(reason)",
                    "begin patterns with a directory: no reader would take this manifest")
            }
            guard !selects else { continue }
            for index in below {
                if index & 255 == 0, isCancelled() { throw .cancelled }
                if tree.withPath(index, glob.matches) {
                    selects = true
                    break
                }
            }
        }
        return selects
    }
}
