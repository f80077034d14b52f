package import SyncModel
package import SyncSystem

extension Staging {
    /// A directory being assembled: `.syncagent/staging/dir-<key>/`, its files under their final names.
    package struct Directory: Hashable, Sendable {
        /// FNV-1a of its final path, so that the next run recognises what an interrupted one has assembled.
        package let key: UInt64

        /// - Parameter path: Relative to the destination.
        package init(path: UnsafeBufferPointer<UInt8>) {
            key = path.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        }

        /// Reads a name back; `nil` when it is not one.
        init?(parsing name: String) {
            let digits = name.dropFirst(Self.prefix.count)
            guard let key = UInt64(digits, radix: 16) else { return nil }
            self.key = key
            guard self.name == name else { return nil }
        }

        private static let prefix = "dir-"

        var name: String { Self.prefix + padded(key, 16, radix: 16) }
    }

    /// Creates a file of a directory, with all of `bytes`, which the caller has verified; makes the directory, too.
    ///
    /// - Parameter executable: Gives mode 0777 instead of 0666, less the run's umask.
    /// - Returns: What the file system says of the file; nothing of that changes when the directory is moved.
    package func write(
        _ bytes: UnsafeRawBufferPointer, as leaf: UnsafePointer<CChar>, in target: Directory, executable: Bool
    ) throws(FileError) -> FileStatus {
        let opened = try open(target, make: true)
        guard let made = create(leaf, in: opened.raw, executable: executable) else {
            throw .last("create", shown(leaf, target))
        }
        do throws(Errno) { return try Self.fill(made, with: bytes) } catch {
            removeFile(leaf, in: opened.raw)
            throw FileError(step: "write", path: shown(leaf, target), code: error)
        }
    }

    /// Creates a symbolic link in a directory being assembled.
    package func link(to text: String, as leaf: UnsafePointer<CChar>, in target: Directory) throws(FileError)
        -> FileStatus
    {
        let opened = try open(target, make: true)
        if let code = Self.makeLink(to: text, as: leaf, in: opened.raw) {
            throw FileError(step: "create link", path: shown(leaf, target), code: code)
        }
        switch status(opened.raw, leaf) {
        case .success(let found?): return found
        case .success(nil): throw FileError(step: "find again", path: shown(leaf, target), code: .noSuchFileOrDirectory)
        case .failure(let code): throw FileError(step: "look at", path: shown(leaf, target), code: code)
        }
    }

    /// Moves a directory to its place, unless a directory that is not empty is there already.
    ///
    /// What has been moved is compared with what was filled. Another one, which somebody has put there meanwhile, is
    /// taken out of the tree again and removed. One that cannot be looked at stays: its files are then placed, and compared,
    /// one by one.
    ///
    /// - Parameters:
    ///   - name: Its last component.
    ///   - parent: Where it goes. One that hands something down to new directories (the set-group-id bit, a default
    ///     ACL; see mkdir(2), acl(5)) is refused with ``Errno/improperLink``: what is moved there would not get it.
    /// - Returns: ``Errno/staleNFSFileHandle`` when the directory is not the one that was filled.
    package func place(_ target: Directory, as name: Slice<UnsafeBufferPointer<UInt8>>, in parent: Int32) -> Errno? {
        guard !handsDownTraits(parent) else { return .improperLink }
        guard let filled = underWay.identity(of: target) else { return .noSuchFileOrDirectory }
        return withCString(name) { text in
            if let code = renameEntry(target.name, in: directory, to: text, in: parent) { return code }
            switch status(parent, text) {
            case .failure(let code): return code
            case .success(let found?) where found.kind == .directory && found.isSameFile(as: filled):
                underWay.forget(target)
                return nil
            case .success: break
            }
            let foreign = "foreign-\(target.name)"
            removeTree(foreign, in: directory)
            if renameEntry(text, in: parent, to: foreign, in: directory) == nil { removeTree(foreign, in: directory) }
            return .staleNFSFileHandle
        }
    }

    /// Moves one file of a directory to the same name elsewhere, replacing what is there.
    ///
    /// - Returns: ``Errno/staleNFSFileHandle`` when the directory is not the one that was filled.
    package func rename(
        memberNamed leaf: UnsafePointer<CChar>, of target: Directory, into other: Int32,
        _ prepare: (_ name: UnsafePointer<CChar>, _ directory: Int32) -> Void = { _, _ in }
    ) -> Errno? {
        do throws(FileError) {
            // By a name: nothing else may hold it while it is used.
            let opened = try open(target, make: false)
            prepare(leaf, opened.raw)
            return renameEntry(leaf, in: opened.raw, to: leaf, in: other)
        } catch { return error.code ?? .ioError }
    }

    /// Gives one file of a directory its mode and its time; see ``give(_:to:_:)``.
    package func give(
        _ traits: FileTraits, toMemberNamed leaf: UnsafePointer<CChar>, of target: Directory, _ known: FileStatus
    ) -> FileStatus {
        guard let opened = try? open(target, make: false) else { return known }
        return Self.give(traits, to: leaf, in: opened.raw, known) ?? known
    }

    /// Removes one file of a directory, if it exists.
    package func remove(memberNamed leaf: UnsafePointer<CChar>, of target: Directory) {
        if let opened = try? open(target, make: false) { removeFile(leaf, in: opened.raw) }
    }

    /// Removes an empty directory, if it exists.
    package func remove(_ target: Directory) {
        underWay.forget(target)
        _ = removeDirectory(target.name, in: directory)
    }

    private func open(_ target: Directory, make: Bool) throws(FileError) -> SharedDescriptor {
        try underWay.open(target, in: directory, make: make, shown: path)
    }

    private func shown(_ leaf: UnsafePointer<CChar>, _ target: Directory) -> String {
        "\(path)/\(target.name)/\(String(cString: leaf))"
    }
}

/// The directories being assembled: their identities, and descriptors of some.
///
/// A name in staging proves nothing: whoever may write there can replace it by a link or another directory. So a
/// directory is opened when it is created and used by descriptor from then on; if it has to be opened again, it must be
/// the same one.
final class UnderWay: Sendable {
    private struct State {
        var identities: [Staging.Directory: FileStatus] = [:]
        var open: [Staging.Directory: SharedDescriptor] = [:]
        var order: [Staging.Directory] = []
    }

    /// Most descriptors kept open.
    private static let capacity = 64
    private let state = Mutex(State())
    /// What they are made without.
    private let umask: Umask

    init(_ umask: Umask) { self.umask = umask }

    func identity(of target: Staging.Directory) -> FileStatus? { state.withLock { $0.identities[target] } }

    /// A directory by descriptor.
    ///
    /// - Parameters:
    ///   - parent: Where it is.
    ///   - make: Whether to make it when this run has not made it yet. What has its name then is removed.
    ///   - shown: The parent's path, for messages.
    /// - Throws: ``FileError``; with ``Errno/staleNFSFileHandle`` when another one has its name by now.
    func open(_ target: Staging.Directory, in parent: Int32, make: Bool, shown: String) throws(FileError)
        -> SharedDescriptor
    {
        try state.withLock { (state) throws(FileError) in
            if let known = state.open[target] { return known }
            let (name, known) = (target.name, state.identities[target])
            func failure(_ code: Errno, remark: String? = nil) -> FileError {
                FileError(step: "open", path: "\(shown)/\(name)", code: code, remark: remark)
            }
            if known == nil {
                guard make else { throw failure(.noSuchFileOrDirectory) }
                try self.make(name, in: parent, shown: shown)
            }
            let opened = SharedDescriptor(openDirectory(name, in: parent, .noFollow))
            if opened == nil, case let code = Errno.last,
                ![.noSuchFileOrDirectory, .notDirectory, .tooManySymbolicLinkLevels].contains(code)
            {
                throw failure(code)
            }
            guard let opened, let found = status(opened.raw), known?.isSameFile(as: found) ?? true else {
                throw failure(.staleNFSFileHandle, remark: "another process has put something in its place")
            }
            state.identities[target] = found
            if state.order.count >= Self.capacity { state.open[state.order.removeFirst()] = nil }
            state.open[target] = opened
            state.order.append(target)
            return opened
        }
    }

    private func make(_ name: String, in parent: Int32, shown: String) throws(FileError) {
        let mode = umask.less(0o777)
        guard var code = makeDirectory(name, in: parent, mode: mode) else { return }
        if code == .fileExists, removeTree(name, in: parent) {
            guard let again = makeDirectory(name, in: parent, mode: mode) else { return }
            code = again
        }
        throw FileError(step: "create", path: "\(shown)/\(name)", code: code)
    }

    func forget(_ target: Staging.Directory) {
        state.withLock { state in
            state.identities[target] = nil
            guard state.open.removeValue(forKey: target) != nil else { return }
            state.order.removeAll { $0 == target }
        }
    }
}

extension Staging {
    /// Files of directories that an interrupted run was assembling, with their **bytes**.
    package func members() -> [(directory: Directory, leaf: String, size: UInt64)] {
        var found: [(Directory, String, UInt64)] = []
        for target in directories() {
            guard let opened = open(target) else { continue }
            for leaf in (try? directoryEntries(opened.raw)) ?? [] {
                guard case .success(let known?) = status(opened.raw, leaf) else { continue }
                found.append((target, leaf, known.kind == .file ? known.size : 0))
            }
        }
        return found
    }

    /// Takes apart the directories that an interrupted run was assembling, and removes other things with such names.
    ///
    /// - Parameter digest: The digest that a file of a directory should have, by its name; what has none is removed.
    /// - Returns: How many files are among ``leftovers()`` now, to be checked like those.
    @discardableResult package func takeApart(_ digest: (Directory, _ leaf: String) -> SHA256Digest?) -> Int {
        var kept = 0
        for target in directories() {
            if let opened = open(target) {
                for leaf in (try? directoryEntries(opened.raw)) ?? [] {
                    guard let digest = digest(target, leaf), case .success(let known?) = status(opened.raw, leaf),
                        known.kind == .file
                    else { continue }
                    let isKept = newFile(lane: 0, digest: digest).name.withCString {
                        renameEntry(leaf, in: opened.raw, to: $0, in: descriptor(lane: 0)) == nil
                    }
                    if isKept { kept += 1 }
                }
            }
            removeTree(target.name, in: directory)
        }
        return kept
    }

    private func directories() -> [Directory] {
        ((try? directoryEntries(directory)) ?? []).compactMap(Directory.init(parsing:))
    }

    private func open(_ target: Directory) -> Descriptor? { openDirectory(target.name, in: directory, .noFollow) }
}
