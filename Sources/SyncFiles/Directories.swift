package import SyncModel
package import SyncSystem

/// Opens directories below a destination, each once while it is needed, and creates missing ones.
///
/// Every open goes through openat2(2) with `RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS`; where the kernel has no
/// openat2, component by component with `O_NOFOLLOW`. At most ``capacity`` descriptors are open.
///
/// Not `Sendable`: each thread has its own.
package final class Directories {
    private let root: Int32
    private let capacity: Int
    /// The umask for created directories.
    private let umask: Umask
    private var open: [[UInt8]: SharedDescriptor] = [:]
    private var order: [[UInt8]] = []
    private var lastPath: [UInt8] = []
    private var last: Int32 = -1
    /// The last missing directory. Nothing below it is looked up.
    private var missing: [UInt8]?
    /// Called with each directory that is opened.
    package var opened: ((_ path: [UInt8], _ descriptor: Int32) -> Void)?

    package convenience init(_ destination: Destination, capacity: Int = 64) {
        self.init(below: destination.root, umask: destination.umask, capacity: capacity)
    }

    /// - Parameters:
    ///   - root: The descriptor of the destination, which must outlive this object.
    ///   - umask: The umask for created directories.
    package init(below root: Int32, umask: Umask, capacity: Int = 64) {
        self.root = root
        self.umask = umask
        self.capacity = max(1, capacity)
    }

    /// Forgets and closes every directory.
    package func closeAll() {
        open = [:]
        order = []
        lastPath = []
        last = -1
    }

    /// The directory of a path, as a descriptor that this object owns.
    ///
    /// - Parameters:
    ///   - parent: The directory's path, relative, `/`-separated, no NUL; empty for the destination itself.
    ///   - create: Whether to create missing directories.
    /// - Returns: A descriptor, or `nil` if the directory does not exist and is not to be created.
    /// - Throws: ``FileError`` with ``Errno/tooManySymbolicLinkLevels`` or ``Errno/notDirectory`` if a component is a
    ///   link or a file.
    package func descriptor(_ parent: UnsafeBufferPointer<UInt8>, create: Bool) throws(FileError) -> Int32? {
        if parent.isEmpty { return root }
        if last >= 0, lastPath.count == parent.count, lastPath.elementsEqual(parent) { return last }
        if !create, isBelowMissing(parent) { return nil }
        let path = [UInt8](parent)
        if let known = open[path] {
            (last, lastPath) = (known.raw, path)
            return known.raw
        }
        guard let found = try openOrMake(path, create: create) else {
            missing = path
            return nil
        }
        missing = nil
        opened?(path, found.raw)
        if open.count >= capacity, let oldest = order.first {
            order.removeFirst()
            open[oldest] = nil
        }
        open[path] = found
        order.append(path)
        (last, lastPath) = (found.raw, path)
        return found.raw
    }

    /// Calls `body` with the directory of a path and the path's last name. Nothing is copied.
    ///
    /// - Parameters:
    ///   - path: As for ``descriptor(_:create:)``. A NUL follows it, as in the tables' arenas, so its tail is a C
    ///     string.
    ///   - create: Whether to create missing directories.
    /// - Returns: `nil` if the directory does not exist and is not to be created.
    /// - Throws: As ``descriptor(_:create:)``, and the errors of `body`.
    @inlinable package func withLeaf<R: ~Copyable>(
        of path: UnsafeBufferPointer<UInt8>, create: Bool = false,
        _ body: (_ directory: Int32, _ leaf: UnsafePointer<CChar>) throws(FileError) -> R
    ) throws(FileError) -> R? {
        let name = path.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0
        let parent = UnsafeBufferPointer(rebasing: path[..<Swift.max(0, name - 1)])
        guard let base = path.baseAddress, let directory = try descriptor(parent, create: create) else { return nil }
        return try body(directory, UnsafeRawPointer(base + name).assumingMemoryBound(to: CChar.self))
    }

    /// The same for a path without a NUL.
    package func withLeaf<R>(
        of path: [UInt8], create: Bool = false,
        _ body: (_ directory: Int32, _ leaf: UnsafePointer<CChar>) throws(FileError) -> R
    ) throws(FileError) -> R? {
        try (path + [0]).withUnsafeBufferPointer { bytes throws(FileError) in
            try withLeaf(of: UnsafeBufferPointer(rebasing: bytes.dropLast()), create: create, body)
        }
    }

    /// The status of the entry at a path; `nil` if there is none, or if that cannot be found out.
    package func status(of path: UnsafeBufferPointer<UInt8>) -> FileStatus? {
        let found = try? withLeaf(of: path) { directory, leaf -> FileStatus? in
            try? SyncSystem.status(directory, leaf).get()
        }
        return (found ?? nil) ?? nil
    }

    /// The same for a path without a NUL.
    package func status(at path: [UInt8]) -> FileStatus? {
        (path + [0]).withUnsafeBufferPointer { status(of: UnsafeBufferPointer(rebasing: $0.dropLast())) }
    }

    /// Gives the owner access to a directory that is closed to its owner. If that fails, the next access to the
    /// directory reports it.
    package func openToOwner(_ path: UnsafeBufferPointer<UInt8>) {
        _ = try? withLeaf(of: path) { directory, leaf in
            guard case .success(let found?) = SyncSystem.status(directory, leaf), found.kind == .directory,
                found.permissions & 0o700 != 0o700
            else { return }
            _ = setMode(leaf, in: directory, FileMode(found.permissions) | 0o700)
        }
    }

    /// Removes a directory, and those above it, as long as they are empty. rmdir(2). A directory that stays does no
    /// harm.
    ///
    /// - Parameter mayGo: Called before each removal; `false` ends it.
    package func removeEmpty(_ path: [UInt8], while mayGo: (UnsafeBufferPointer<UInt8>) -> Bool = { _ in true }) {
        var rest = path
        while !rest.isEmpty, rest.withUnsafeBufferPointer(mayGo) {
            // No directory is held open while it is removed.
            closeAll()
            let isGone = try? withLeaf(of: rest) { removeDirectory($1, in: $0) == nil }
            guard isGone == true else { return }
            rest.removeSubrange((rest.lastIndex(of: 0x2F) ?? 0)...)
        }
    }

    /// Makes the next access look up directories that were missing.
    package func forgetMissing() { missing = nil }

    private func isBelowMissing(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let missing, path.count >= missing.count, path.starts(with: missing) else { return false }
        return path.count == missing.count || path[missing.count] == 0x2F
    }

    private func openOrMake(_ path: [UInt8], create: Bool) throws(FileError) -> SharedDescriptor? {
        if let found = openBeneath(path) { return found }
        let code = Errno.last
        guard code == .noSuchFileOrDirectory else { throw Self.error("enter", path, code) }
        guard create else { return nil }
        // Up to an existing directory, then down again. A path may have two thousand components: nothing here recurses.
        var missing = [path.count]
        var above: SharedDescriptor?
        while let end = missing.last, let slash = path[..<end].lastIndex(of: 0x2F) {
            let parent = Array(path[..<slash])
            above = open[parent] ?? openBeneath(parent)
            if above != nil { break }
            let code = Errno.last
            guard code == .noSuchFileOrDirectory else { throw Self.error("enter", parent, code) }
            missing.append(slash)
        }
        for end in missing.reversed() {
            let step = Array(path[..<end])
            let name = Array(step[(step.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0)...])
            let parent = above?.raw ?? root
            let mode = umask.holding(in: parent).less(0o777)
            switch withCString(name, { makeDirectory($0, in: parent, mode: mode) }) {
            case nil, .fileExists: break
            case let code?: throw Self.error("create directory", step, code)
            }
            above = withCString(name) { SharedDescriptor(openDirectory($0, in: parent, .noFollow)) }
            guard above != nil else { throw Self.error("enter", step, .last) }
        }
        return above
    }

    private func openBeneath(_ path: [UInt8]) -> SharedDescriptor? {
        withCString(path) { SharedDescriptor(SyncSystem.openBeneath(root, $0, .directory)) }
    }

    private static func error(_ step: String, _ path: [UInt8], _ code: Errno) -> FileError {
        let remark: String? =
            switch code {
            case .tooManySymbolicLinkLevels:
                "a component is a symbolic link; remove it, syncagent does not write through links"
            case .notDirectory: "a component is a file, but the manifest needs a directory there; move it away"
            default: nil
            }
        return FileError(step: step, path: String(decoding: path, as: UTF8.self), code: code, remark: remark)
    }
}

/// Calls `body` with a name as a C string on the stack.
func withCString<R>(_ bytes: some Collection<UInt8>, _ body: (UnsafePointer<CChar>) -> R) -> R {
    withUnsafeTemporaryAllocation(byteCount: bytes.count + 1, alignment: 1) { buffer in
        buffer.copyBytes(from: bytes)
        buffer[bytes.count] = 0
        guard let base = buffer.baseAddress else { return "".withCString(body) }
        return body(UnsafePointer(base.assumingMemoryBound(to: CChar.self)))
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// The path's directory, as a slice of the same bytes; empty for a single name.
    @inlinable package var parentPath: Self { UnsafeBufferPointer(rebasing: self[..<(lastIndex(of: 0x2F) ?? 0)]) }
}
