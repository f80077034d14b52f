import SyncModel
import SyncSystem

/// A destination of layout `links`: each name at its top is a symbolic link to `.syncagent/now/NAME`, and `now` is a
/// link to the tree that readers see. So the destination itself is never exchanged with another directory, and may be a
/// mount point.
///
/// Other names at the top belong to others, and stay as they are.
struct TopLinks: Sendable {
    /// The destination and its path, for messages.
    let root: SharedDescriptor
    let path: String
    /// The directory `.syncagent` in it, and the directory of the trees.
    let home: SharedDescriptor
    let trees: SharedDescriptor

    static let now = "now"
    private static let temporary = "link.new"
    /// The program's directory, and the one that mkfs(8) creates at the top of a file system.
    private static let spared = ["\(Destination.stateName)", "lost+found"].map { Array($0.utf8CString) }

    /// A name with its terminating 0, in whatever encoding.
    typealias Name = [CChar]

    /// The tree that readers see; `nil` for none yet.
    ///
    /// - Throws: ``FileError`` if the link cannot be read: readers' tree must not count as missing then.
    var current: UInt64? {
        get throws(FileError) {
            guard let bytes = readLink(home.raw, Self.now) else {
                let code = Errno.last
                let isMissing = code == .noSuchFileOrDirectory
                // There is nothing, or no link, also at a second attempt.
                if isMissing || code == .invalidArgument, case .success(let there) = status(home.raw, Self.now),
                    there?.kind != .link
                {
                    guard there?.kind == .directory else { return nil }
                    throw FileError(
                        step: "use", path: "\(path)/\(Destination.stateName)/\(Self.now)",
                        remark:
                            "it is no link. If this is a copy that followed its links, remove "
                            + "\(escaped(path))/\(Destination.stateName): the files beside it stay", trouble: .inTheWay)
                }
                throw FileError(
                    step: "read", path: "\(path)/\(Destination.stateName)/\(Self.now)",
                    code: isMissing ? .ioError : code)
            }
            let target = String(decoding: bytes, as: UTF8.self)
            guard target.hasPrefix(TreeHome.treesName + "/") else { return nil }
            let number = UInt64(target.dropFirst(TreeHome.treesName.count + 1))
            // No tree has a greater number.
            return number.flatMap { $0 < .max / 2 - 1 ? $0 : nil }
        }
    }

    /// Switches readers to a tree, in one step. The links at the top must exist already.
    func point(to number: UInt64) -> Errno? {
        removeFile(Self.temporary, in: home.raw)
        return makeSymbolicLink(Self.temporary, in: home.raw, to: "\(TreeHome.treesName)/\(number)")
            ?? renameEntry(Self.temporary, in: home.raw, to: Self.now, in: home.raw)
    }

    // MARK: The links at the top

    /// The target of a name's link.
    private static func target(_ name: Name) -> [CChar] {
        "\(Destination.stateName)/\(now)/".utf8CString.dropLast() + name
    }

    /// Whether a name stays in place when the entries at the top are gathered: mkfs's directory, or a link of this
    /// program.
    static func isSpared(_ name: Name, in root: Int32) -> Bool {
        if spared.contains(name) { return true }
        guard case .success(let there?) = status(root, name), there.kind == .link,
            let target = readLink(root, name)
        else { return false }
        return target.map(CChar.init(bitPattern:)) + [0] == Self.target(name)
    }

    private enum Holder { case nobody, link, other }

    /// The kind of entry that a name at the top has.
    private func holder(of name: Name) throws(FileError) -> Holder {
        let found = status(root.raw, name)
        switch found {
        case .success(nil): return .nobody
        case .failure(let code): throw failure("look at", name, code)
        case .success(let there?):
            guard there.kind == .link else { return .other }
            guard let target = readLink(root.raw, name) else { throw failure("read", name, .last) }
            return target.map(CChar.init(bitPattern:)) + [0] == Self.target(name) ? .link : .other
        }
    }

    /// The first of these names that belongs to somebody else.
    func foreignName(among names: some Sequence<String>) throws(FileError) -> String? {
        for name in names where try holder(of: Array(name.utf8CString)) == .other { return name }
        return nil
    }

    /// Why readers do not come to a tree's entry by a name at the top; `nil` if they do.
    func obstacle(at name: String) throws(FileError) -> String? {
        switch try holder(of: Array(name.utf8CString)) {
        case .link: nil
        case .nobody: "its link at the top is gone"
        case .other: "\(escaped(name)) at the top is not its link; move it away"
        }
    }

    /// Creates links for all names at the top of a tree. Until readers see the tree, new links lead nowhere.
    ///
    /// - Parameter isPreview: Whether to create nothing, and only throw for a name that somebody else has.
    func cover(_ tree: UInt64, isPreview: Bool = false) throws(FileError) {
        for name in try names(of: tree) {
            switch try holder(of: name) {
            case .link: continue
            case .nobody: if !isPreview { try makeLink(name) }
            case .other:
                throw failure("show", name, .fileExists, "no pull has put it there; move it away")
            }
        }
        if !isPreview { try synchronize(root.raw) }
    }

    /// Removes links for names that a tree does not have; `nil` for all links.
    func uncover(_ tree: UInt64?) throws(FileError) {
        var wanted: Set<Name> = []
        if let tree { wanted.formUnion(try names(of: tree)) }
        var isChanged = false
        for name in try names(in: root, path) where !wanted.contains(name) {
            guard try holder(of: name) == .link else { continue }
            if let code = removeFile(name, in: root.raw) { throw failure("remove", name, code) }
            isChanged = true
        }
        if isChanged { try synchronize(root.raw) }
    }

    /// Removes all links that readers follow.
    func remove() throws(FileError) {
        try uncover(nil)
        if let code = removeFile(Self.now, in: home.raw), code != .noSuchFileOrDirectory {
            throw failure("remove", [], code)
        }
        try synchronize(home.raw)
    }

    /// Creates or replaces a link in one step.
    private func makeLink(_ name: Name) throws(FileError) {
        removeFile(Self.temporary, in: home.raw)
        let code =
            makeSymbolicLink(Self.temporary, in: home.raw, to: Self.target(name))
            ?? renameEntry(Self.temporary, in: home.raw, to: name, in: root.raw)
        if let code { throw failure("make a link of", name, code) }
    }

    // MARK: Entries from before

    /// Whether there is anything at the top that would become the first tree.
    func hasFiles() throws(FileError) -> Bool { try !names(in: root, path).allSatisfy(Self.spared.contains) }

    /// Moves everything at the top into a tree and replaces it by links, continuing where an earlier attempt ended. A
    /// file is in the tree before the link takes its name; a directory's name is missing for a moment.
    func gather(into tree: UInt64) throws(FileError) {
        guard let target = openDirectory("\(tree)", in: trees.raw, .noFollow) else {
            throw .last("open", "\(path)/\(Destination.stateName)/\(TreeHome.treesName)/\(tree)")
        }
        if try current != tree, let code = point(to: tree) { throw failure("switch", [], code) }
        let own = MountIdentity(of: root.raw)
        var directories: [Name] = []
        var files: [Name] = []
        for name in try names(in: root, path) where !Self.spared.contains(name) {
            guard try holder(of: name) == .other else { continue }
            let found: FileStatus
            switch status(root.raw, name) {
            case .success(let there?): found = there
            case .success(nil): continue
            // An entry left out here would be in the way of every later pull.
            case .failure(let code): throw failure("look at", name, code)
            }
            guard found.kind == .directory else {
                let code = addName(name, in: target.raw, to: name, in: root.raw)
                if let code, code != .fileExists { throw failure("move", name, code) }
                files.append(name)
                continue
            }
            // A mounted file system stays where it is.
            let opened = openDirectory(name, in: root.raw, .noFollow)
            if let opened, MountIdentity(of: opened.raw) != own { continue }
            directories.append(name)
        }
        try synchronize(target.raw)
        for name in directories {
            let code = renameEntry(name, in: root.raw, toFree: name, in: target.raw)
            if let code {
                throw failure(
                    "move", name, code,
                    code == .improperLink ? "it belongs to a layer of an image; begin with an empty directory" : nil)
            }
            try makeLink(name)
        }
        for name in files { try makeLink(name) }
        try cover(tree)
        try synchronize(target.raw)
    }

    // MARK: Names

    private func names(of tree: UInt64) throws(FileError) -> [Name] {
        let shown = "\(path)/\(Destination.stateName)/\(TreeHome.treesName)/\(tree)"
        guard let opened = openDirectory("\(tree)", in: trees.raw, .noFollow) else { throw .last("open", shown) }
        return try names(in: SharedDescriptor(opened), shown)
    }

    private func names(in directory: SharedDescriptor, _ shown: String) throws(FileError) -> [Name] {
        guard let copy = openDirectory(".", in: directory.raw) else { throw .last("read", shown) }
        var names: [Name] = []
        let code = forEachName(in: copy) { name, length, _ in
            names.append(Name(UnsafeBufferPointer(start: name, count: length)) + [0])
        }
        if let code { throw FileError(step: "read", path: shown, code: code) }
        return names
    }

    private func synchronize(_ directory: Int32) throws(FileError) {
        if let code = synchronizeDirectory(directory) { throw failure("sync", [], code) }
    }

    private func failure(_ step: String, _ name: Name, _ code: Errno, _ remark: String? = nil) -> FileError {
        let shown =
            name.isEmpty
            ? path : "\(path)/\(String(decoding: name.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self))"
        return FileError(step: step, path: shown, code: code, remark: remark)
    }
}
