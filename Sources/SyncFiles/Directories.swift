import CPosix
package import SyncSystem

/// Opens directories below a destination, each once while it is needed, and makes missing ones.
///
/// Every open goes through openat2(2) with `RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS`; where the kernel has no
/// openat2, component by component with `O_NOFOLLOW`. At most ``capacity`` descriptors are open.
///
/// Not `Sendable`: each thread has its own.
package final class Directories {
    private let root: Int32
    private let capacity: Int
    private var open: [[UInt8]: Int32] = [:]
    private var order: [[UInt8]] = []
    private var lastPath: [UInt8] = []
    private var last: Int32 = -1
    /// The last missing directory: nothing below it need be looked up.
    private var missing: [UInt8]?
    /// Called with each directory that is opened.
    package var opened: ((_ path: [UInt8], _ descriptor: Int32) -> Void)?
    /// Directories made by this object.
    package private(set) var made = 0

    package convenience init(_ destination: Destination, capacity: Int = 64) {
        self.init(below: destination.root, capacity: capacity)
    }

    /// - Parameter root: Stays open as long as this object lives.
    package init(below root: Int32, capacity: Int = 64) {
        self.root = root
        self.capacity = max(1, capacity)
    }

    deinit { closeAll() }

    /// Forgets and closes every directory.
    package func closeAll() {
        for descriptor in open.values { close(descriptor) }
        open = [:]
        order = []
        lastPath = []
        last = -1
    }

    /// The directory a path is in, as a descriptor this object owns.
    ///
    /// - Parameters:
    ///   - parent: The directory's path, relative, `/`-separated, no NUL; empty for the destination itself.
    ///   - create: Whether to make what is missing.
    /// - Returns: A descriptor, or `nil` when it does not exist and is not to be made.
    /// - Throws: ``FileError`` with `ELOOP` or `ENOTDIR` when a component is a link or a file.
    package func descriptor(_ parent: UnsafeBufferPointer<UInt8>, create: Bool) throws(FileError) -> Int32? {
        if parent.isEmpty { return root }
        if last >= 0, lastPath.count == parent.count, lastPath.elementsEqual(parent) { return last }
        if !create, isBelowMissing(parent) { return nil }
        let path = [UInt8](parent)
        if let known = open[path] {
            (last, lastPath) = (known, path)
            return known
        }
        guard let found = try openOrMake(path, create: create) else {
            missing = path
            return nil
        }
        missing = nil
        opened?(path, found)
        if open.count >= capacity, let oldest = order.first {
            order.removeFirst()
            if let descriptor = open.removeValue(forKey: oldest) { close(descriptor) }
        }
        open[path] = found
        order.append(path)
        (last, lastPath) = (found, path)
        return found
    }

    /// Calls `body` with the directory that a path is in and the path's last name. Nothing is copied.
    ///
    /// - Parameters:
    ///   - path: As for ``descriptor(_:create:)``; a NUL follows it, as in the tables' arenas, so its tail is a C string.
    ///   - create: Whether to make directories that are missing.
    /// - Returns: `nil` when the directory does not exist and is not to be made.
    /// - Throws: As ``descriptor(_:create:)``, and what `body` throws.
    @inlinable
    package func withLeaf<R: ~Copyable>(
        of path: UnsafeBufferPointer<UInt8>,
        create: Bool = false,
        _ body: (_ directory: Int32, _ leaf: UnsafePointer<CChar>) throws(FileError) -> R
    ) throws(FileError) -> R? {
        let name = path.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0
        let parent = UnsafeBufferPointer(rebasing: path[..<Swift.max(0, name - 1)])
        guard let base = path.baseAddress, let directory = try descriptor(parent, create: create) else {
            return nil
        }
        return try body(directory, UnsafeRawPointer(base + name).assumingMemoryBound(to: CChar.self))
    }

    /// The same for a path without a NUL.
    package func withLeaf<R>(
        of path: [UInt8],
        create: Bool = false,
        _ body: (_ directory: Int32, _ leaf: UnsafePointer<CChar>) throws(FileError) -> R
    ) throws(FileError) -> R? {
        try (path + [0]).withUnsafeBufferPointer { bytes throws(FileError) in
            try withLeaf(of: UnsafeBufferPointer(rebasing: bytes.dropLast()), create: create, body)
        }
    }

    private func isBelowMissing(_ path: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let missing, path.count >= missing.count, path.starts(with: missing) else { return false }
        return path.count == missing.count || path[missing.count] == 0x2F
    }

    private func openOrMake(_ path: [UInt8], create: Bool) throws(FileError) -> Int32? {
        let descriptor = openBeneath(path)
        if descriptor >= 0 { return descriptor }
        guard sa_errno() == ENOENT else { throw Self.error("enter", path) }
        guard create else { return nil }
        // Up to an existing directory, then down again. A path may have two thousand components: nothing here recurses.
        var missing = [path.count]
        var (above, isOurs) = (root, false)
        while let end = missing.last, let slash = path[..<end].lastIndex(of: 0x2F) {
            let parent = Array(path[..<slash])
            if let known = open[parent] {
                above = known
                break
            }
            let opened = openBeneath(parent)
            if opened >= 0 {
                (above, isOurs) = (opened, true)
                break
            }
            guard sa_errno() == ENOENT else { throw Self.error("enter", parent) }
            missing.append(slash)
        }
        for end in missing.reversed() {
            let step = Array(path[..<end])
            let name = Array(step[(step.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0)...])
            // Close what was opened on the way, whatever happens.
            let former = isOurs ? above : -1
            defer { if former >= 0 { close(former) } }
            isOurs = true
            if Self.withCString(name, { mkdirat(above, $0, 0o777) }) == 0 {
                made += 1
            } else if sa_errno() != EEXIST {
                throw Self.error("create directory", step)
            }
            let opened = Self.withCString(name) {
                sa_openat(above, $0, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
            }
            guard opened >= 0 else { throw Self.error("enter", step) }
            above = opened
        }
        return above
    }

    private func openBeneath(_ path: [UInt8]) -> Int32 {
        Self.withCString(path) { SyncSystem.openBeneath(root, $0, O_RDONLY | O_DIRECTORY) }
    }

    private static func withCString<R>(_ bytes: [UInt8], _ body: (UnsafePointer<CChar>) -> R) -> R {
        withUnsafeTemporaryAllocation(byteCount: bytes.count + 1, alignment: 1) { buffer in
            buffer.copyBytes(from: bytes)
            buffer[bytes.count] = 0
            guard let base = buffer.baseAddress else { return "".withCString(body) }
            return body(UnsafePointer(base.assumingMemoryBound(to: CChar.self)))
        }
    }

    private static func error(_ step: String, _ path: [UInt8]) -> FileError {
        let text = String(decoding: path, as: UTF8.self)
        switch sa_errno() {
        case ELOOP:
            return FileError(
                step: step,
                path: text,
                code: ELOOP,
                remark: "a component is a symbolic link; remove it, syncagent does not write through links"
            )
        case ENOTDIR:
            return FileError(
                step: step,
                path: text,
                code: ENOTDIR,
                remark: "a component is a file, but the manifest needs a directory there; move it away"
            )
        default: return .last(step, text)
        }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// The path's directory, as a slice of the same bytes; empty for a single name.
    @inlinable
    package var parentPath: Self { UnsafeBufferPointer(rebasing: self[..<(lastIndex(of: 0x2F) ?? 0)]) }
}
