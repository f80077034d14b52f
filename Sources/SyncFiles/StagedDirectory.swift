import CPosix
package import SyncModel
package import SyncSystem

extension Staging {
    /// A directory under construction: `.syncagent/staging/dir-<key>/`, its files under their final names.
    package struct Directory: Hashable, Sendable {
        /// FNV-1a of the path it is to have: so the next run finds out what an interrupted one has put together.
        package let key: UInt64

        /// - Parameter path: Relative to the destination.
        package init(path: UnsafeBufferPointer<UInt8>) {
            key = path.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        }

        /// Reads a name back; `nil` when it is not one.
        init?(parsing name: String) {
            let digits = name.dropFirst(Self.prefix.count)
            guard name.hasPrefix(Self.prefix), digits.utf8.count == 16,
                let key = UInt64(digits, radix: 16), String(digits) == digits.lowercased()
            else { return nil }
            self.key = key
        }

        private static let prefix = "dir-"
        /// **Bytes** of a name.
        static let nameLength = 20

        /// Calls `body` with `dir-<key>` or, where there is a leaf, `dir-<key>/<leaf>`, as a C string on the stack.
        func withPath<R>(
            _ leaf: UnsafePointer<CChar>? = nil,
            _ body: (UnsafePointer<CChar>) -> R
        ) -> R {
            let length = leaf.map { strlen($0) } ?? 0
            return withUnsafeTemporaryAllocation(of: CChar.self, capacity: Self.nameLength + length + 2) {
                var end = 0
                for letter in Self.prefix.utf8 {
                    $0[end] = CChar(bitPattern: letter)
                    end += 1
                }
                for shift in stride(from: 60, through: 0, by: -4) {
                    let digit = UInt8(truncatingIfNeeded: key >> UInt64(shift)) & 15
                    $0[end] = CChar(bitPattern: digit < 10 ? 0x30 + digit : 0x57 + digit)
                    end += 1
                }
                if let leaf {
                    $0[end] = 0x2F
                    for position in 0..<length { $0[end + 1 + position] = leaf[position] }
                    end += 1 + length
                }
                $0[end] = 0
                return body(UnsafePointer($0.baseAddress.unsafelyUnwrapped))
            }
        }
    }

    /// Creates a file of a directory, with all of `bytes`, which the caller has verified; makes the directory, too.
    ///
    /// - Parameter executable: Gives mode 0777 instead of 0666, less the umask.
    /// - Returns: What the file system says of the file; nothing of that changes when the directory is moved.
    package func write(
        _ bytes: UnsafeRawBufferPointer,
        as leaf: UnsafePointer<CChar>,
        in target: Directory,
        executable: Bool
    ) throws(FileError) -> FileStatus {
        let raw = make(leaf, in: target) {
            sa_openat(directory, $0, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, executable ? 0o777 : 0o666)
        }
        guard raw >= 0 else { throw .last("create", shown(leaf, target)) }
        var code: Int32 = 0
        if !bytes.isEmpty { code = writeAll(raw, bytes, at: 0) }
        let found = code == 0 ? status(raw) : nil
        if code == 0, found == nil { code = sa_errno() }
        if close(raw) != 0, code == 0 { code = sa_errno() }
        guard code == 0, let found else {
            _ = target.withPath(leaf) { unlinkat(directory, $0, 0) }
            throw FileError(step: "write", path: shown(leaf, target), code: code)
        }
        return found
    }

    /// Makes a symbolic link in a directory under construction.
    package func link(
        to text: String,
        as leaf: UnsafePointer<CChar>,
        in target: Directory
    ) throws(FileError) -> FileStatus {
        guard make(leaf, in: target, with: { symlinkat(text, directory, $0) }) == 0 else {
            throw .last("create link", shown(leaf, target))
        }
        switch target.withPath(leaf, { status(directory, $0) }) {
        case .success(let found?): return found
        case .success(nil): throw FileError(step: "find again", path: shown(leaf, target), code: ENOENT)
        case .failure(let error):
            throw FileError(step: "look at", path: shown(leaf, target), code: error.errno)
        }
    }

    /// Makes an entry; first its directory where there is none, and instead of one that is in the way.
    private func make(
        _ leaf: UnsafePointer<CChar>,
        in target: Directory,
        with call: (UnsafePointer<CChar>) -> Int32
    ) -> Int32 {
        target.withPath(leaf) { path in
            let result = call(path)
            guard result < 0 else { return result }
            if sa_errno() == ENOENT {
                guard target.withPath(nil, { mkdirat(directory, $0, 0o777) }) == 0 || sa_errno() == EEXIST
                else {
                    return -1
                }
            } else {
                guard sa_errno() == EEXIST else { return -1 }
                _ = unlinkat(directory, path, 0)
            }
            return call(path)
        }
    }

    /// Moves a directory to its place, unless a directory with something in it stands there already.
    ///
    /// - Parameters:
    ///   - name: Its last component.
    ///   - parent: Where it goes. One that hands something down to new directories (the set-group-id bit, a default
    ///     ACL; see mkdir(2), acl(5)) is refused with `EXDEV`: what is moved there would not get it.
    /// - Returns: errno, 0 for success.
    package func place(
        _ target: Directory,
        as name: Slice<UnsafeBufferPointer<UInt8>>,
        in parent: Int32
    ) -> Int32 {
        guard sa_hands_down(parent) == 0 else { return EXDEV }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: name.count + 1) { buffer in
            for (position, byte) in name.enumerated() { buffer[position] = CChar(bitPattern: byte) }
            buffer[name.count] = 0
            let text = UnsafePointer(buffer.baseAddress.unsafelyUnwrapped)
            return target.withPath { sa_rename(directory, $0, parent, text) == 0 ? 0 : sa_errno() }
        }
    }

    /// Moves one file of a directory to the same name elsewhere, replacing what is there.
    ///
    /// - Returns: errno, 0 for success.
    package func rename(
        memberNamed leaf: UnsafePointer<CChar>,
        of target: Directory,
        into other: Int32
    ) -> Int32 {
        target.withPath(leaf) { sa_rename(directory, $0, other, leaf) == 0 ? 0 : sa_errno() }
    }

    /// Removes one file of a directory; a missing one is no matter.
    package func remove(memberNamed leaf: UnsafePointer<CChar>, of target: Directory) {
        _ = target.withPath(leaf) { unlinkat(directory, $0, 0) }
    }

    /// Removes a directory that has nothing in it any more; one that is gone is no matter.
    package func remove(_ target: Directory) {
        _ = target.withPath { unlinkat(directory, $0, AT_REMOVEDIR) }
    }

    private func shown(_ leaf: UnsafePointer<CChar>, _ target: Directory) -> String {
        "\(path)/" + target.withPath(leaf) { String(cString: $0) }
    }
}

extension Staging {
    /// Files of directories that an interrupted run was putting together, with their **bytes**.
    package func members() -> [(directory: Directory, leaf: String, size: UInt64)] {
        var found: [(Directory, String, UInt64)] = []
        for target in directories() {
            guard let opened = open(target) else { continue }
            for leaf in directoryEntries(opened.raw) {
                guard case .success(let known?) = status(opened.raw, leaf) else { continue }
                found.append((target, leaf, known.kind == .file ? known.size : 0))
            }
        }
        return found
    }

    /// Takes apart the directories that an interrupted run was putting together.
    ///
    /// - Parameter digest: The digest that a file of a directory should have, by its name; what has none is removed.
    /// - Returns: How many files are among ``leftovers()`` now, to be checked like those.
    @discardableResult
    package func takeApart(_ digest: (Directory, _ leaf: String) -> SHA256Digest?) -> Int {
        var kept = 0
        for target in directories() {
            guard let opened = open(target) else { continue }
            for leaf in directoryEntries(opened.raw) {
                if let digest = digest(target, leaf) {
                    let isKept = newFile(lane: 0, digest: digest).name.withCString {
                        sa_rename(opened.raw, leaf, descriptor(lane: 0), $0) == 0
                    }
                    if isKept { kept += 1 }
                }
                _ = unlinkat(opened.raw, leaf, 0)
            }
            remove(target)
        }
        return kept
    }

    private func directories() -> [Directory] {
        directoryEntries(directory).compactMap(Directory.init(parsing:))
    }

    private func open(_ target: Directory) -> Descriptor? {
        let raw = target.withPath { sa_openat(directory, $0, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0) }
        return raw < 0 ? nil : Descriptor(owning: raw)
    }
}
