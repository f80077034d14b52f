import SyncSystem

/// A destination of layout `links`: each name at its top is a symbolic link to `.syncagent/now/NAME`, and `now` one to the tree that
/// readers see. So the destination itself need not change places with anything, and may be a mount point.
///
/// Other names at the top are somebody else's, and stay as they are.
struct TopLinks: Sendable {
    /// The destination, and its path for messages.
    let root: SharedDescriptor
    let path: String
    /// `.syncagent` in it, and where the trees are.
    let home: SharedDescriptor
    let trees: SharedDescriptor

    static let now = "now"
    private static let temporary = "link.new"
    /// Ours, and what mkfs(8) puts at the top of a file system.
    private static let spared = ["\(Destination.stateName)", "lost+found"].map { Array($0.utf8CString) }

    /// A name with the 0 at its end, in whatever encoding.
    typealias Name = [CChar]

    /// Which tree readers see; `nil` for none yet.
    ///
    /// - Throws: ``FileError`` where it cannot be read: what readers see must not pass for nothing then.
    var current: UInt64? {
        get throws(FileError) {
            guard let bytes = readLink(home.raw, Self.now) else {
                let code = Errno.last
                let isMissing = code == .noSuchFileOrDirectory
                // Nothing is there, or something that is no link; a second look says the same.
                if isMissing || code == .invalidArgument, case .success(let there) = status(home.raw, Self.now),
                    there?.kind != .link
                {
                    return nil
                }
                throw FileError(
                    step: "read", path: "\(path)/\(Destination.stateName)/\(Self.now)",
                    code: isMissing ? .ioError : code)
            }
            let target = String(decoding: bytes, as: UTF8.self)
            guard target.hasPrefix(TreeHome.treesName + "/") else { return nil }
            let number = UInt64(target.dropFirst(TreeHome.treesName.count + 1))
            // A greater one is none of a tree.
            return number.flatMap { $0 < .max / 2 - 1 ? $0 : nil }
        }
    }

    /// Has readers see a tree, in one step. The links at the top are there by then.
    func point(to number: UInt64) -> Errno? {
        removeFile(Self.temporary, in: home.raw)
        return makeSymbolicLink(Self.temporary, in: home.raw, to: "\(TreeHome.treesName)/\(number)")
            ?? renameEntry(Self.temporary, in: home.raw, to: Self.now, in: home.raw)
    }

    // MARK: The links at the top

    /// Where the link of a name leads.
    private static func target(_ name: Name) -> [CChar] {
        "\(Destination.stateName)/\(now)/".utf8CString.dropLast() + name
    }

    /// Whether a name stays as it is when what is at the top is gathered: mkfs's, or a link of ours.
    static func isSpared(_ name: Name, in root: Int32) -> Bool {
        if spared.contains(name) { return true }
        guard case .success(let there?) = status(root, name), there.kind == .link,
            let target = readLink(root, name)
        else { return false }
        return target.map(CChar.init(bitPattern:)) + [0] == Self.target(name)
    }

    private enum Holder { case nobody, link, other }

    /// Whose a name at the top is.
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
    func stranger(among names: some Sequence<String>) throws(FileError) -> String? {
        for name in names where try holder(of: Array(name.utf8CString)) == .other { return name }
        return nil
    }

    /// Makes links for all names at the top of a tree. Until readers see the tree, new ones lead nowhere.
    func cover(_ tree: UInt64) throws(FileError) {
        for name in try names(of: tree) {
            switch try holder(of: name) {
            case .link: continue
            case .nobody: try makeLink(name)
            case .other:
                throw failure("show", name, .fileExists, "no pull has put it there; move it away")
            }
        }
        try synchronizeTop()
    }

    /// Removes links of names that a tree does not have; `nil` for all of them.
    func uncover(_ tree: UInt64?) throws(FileError) {
        var wanted: Set<Name> = []
        if let tree { wanted.formUnion(try names(of: tree)) }
        var isChanged = false
        for name in try names(in: root, path) where !wanted.contains(name) {
            guard try holder(of: name) == .link else { continue }
            if let code = removeFile(name, in: root.raw) { throw failure("remove", name, code) }
            isChanged = true
        }
        if isChanged { try synchronizeTop() }
    }

    /// Removes everything that readers follow.
    func remove() throws(FileError) {
        try uncover(nil)
        if let code = removeFile(Self.now, in: home.raw), code != .noSuchFileOrDirectory {
            throw failure("remove", [], code)
        }
        try synchronize(home.raw)
    }

    /// Makes or replaces a link in one step.
    private func makeLink(_ name: Name) throws(FileError) {
        removeFile(Self.temporary, in: home.raw)
        let code =
            makeSymbolicLink(Self.temporary, in: home.raw, to: Self.target(name))
            ?? renameEntry(Self.temporary, in: home.raw, to: name, in: root.raw)
        if let code { throw failure("make a link of", name, code) }
    }

    // MARK: What was there before

    /// Whether there is anything at the top that would become the first tree.
    func hasFiles() throws(FileError) -> Bool { try !names(in: root, path).allSatisfy(Self.spared.contains) }

    /// Makes a tree of everything at the top, and links of it, whatever of that has been done. A file has its place in the tree
    /// before the link takes its name; of a directory the name is free for a moment.
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
            // What is left out here is in the way of every later pull.
            case .failure(let code): throw failure("look at", name, code)
            }
            guard found.kind == .directory else {
                let code = addName(name, in: target.raw, to: name, in: root.raw)
                if let code, code != .fileExists { throw failure("move", name, code) }
                files.append(name)
                continue
            }
            // A file system of its own stays where it is.
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

    private func synchronizeTop() throws(FileError) { try synchronize(root.raw) }

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
