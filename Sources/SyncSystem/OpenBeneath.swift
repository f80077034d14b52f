import CPosix

/// Opens a directory by name.
///
/// - Parameter flags: More of open(2), such as `O_NOFOLLOW`.
/// - Returns: `nil` when it cannot be opened; errno(3) says why.
package func openDirectory(
    _ path: UnsafePointer<CChar>,
    in directory: Int32 = AT_FDCWD,
    _ flags: Int32 = 0
) -> Descriptor? {
    Descriptor(opened: sa_openat(directory, path, O_RDONLY | O_DIRECTORY | flags, 0))
}

/// Opens whatever has a name to read it, never through a link, and without waiting for whoever writes to a FIFO.
///
/// - Returns: `nil` when it cannot be opened; errno(3) says why.
package func openToRead(_ directory: Int32, _ name: UnsafePointer<CChar>) -> Descriptor? {
    Descriptor(opened: sa_openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0))
}

/// Opens what is at a path below a directory, never through a symbolic link and never above that directory.
///
/// openat2(2) with `RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS`; where the kernel, or a sandbox, has no openat2, component by
/// component with `O_NOFOLLOW`.
///
/// - Parameter path: Relative, without `..`.
/// - Returns: A descriptor, or -1 with errno set: `ELOOP` or `ENOTDIR` when a component is a link.
package func openBeneath(_ root: Int32, _ path: UnsafePointer<CChar>, _ flags: Int32) -> Int32 {
    let opened = sa_openat_beneath(root, path, flags | O_NOFOLLOW, 0)
    if opened >= 0 || (sa_errno() != ENOSYS && sa_errno() != EPERM) { return opened }
    var current = root
    let components = UnsafeBufferPointer(start: path, count: strlen(path)).split(separator: 0x2F)
    for (index, component) in components.enumerated() {
        let last = index == components.count - 1
        let next = sa_openat(
            current,
            Array(component) + [0],
            (last ? flags : O_RDONLY | O_DIRECTORY) | O_NOFOLLOW,
            0
        )
        let code = sa_errno()
        if current != root { close(current) }
        sa_set_errno(code)
        if next < 0 { return -1 }
        current = next
    }
    return current
}

/// Where a symbolic link leads, as it is written. readlinkat(2); targets are shorter than `PATH_MAX`.
///
/// - Returns: `nil` when it cannot be read; errno(3) says why.
package func readLink(_ directory: Int32, _ name: UnsafePointer<CChar>) -> [UInt8]? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer in
        guard let start = buffer.baseAddress else { return nil }
        let count = readlinkat(directory, name, start, buffer.count)
        return count < 0 ? nil : buffer[..<count].map(UInt8.init(bitPattern:))
    }
}

/// Whether an open directory is `ancestor`, or below it.
package func isInside(_ directory: Int32, _ ancestor: FileStatus) -> Bool {
    var current = openDirectory(".", in: directory)
    while let here = current.take() {
        guard let status = status(here.raw) else { return false }
        if status.isSameFile(as: ancestor) { return true }
        guard let above = openDirectory("..", in: here.raw), let next = SyncSystem.status(above.raw),
            !next.isSameFile(as: status)  // The root is its own parent.
        else { return false }
        current = consume above
    }
    return false
}
