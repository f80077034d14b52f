import CPosix

/// Opens a directory by name.
///
/// - Parameter flags: Additional flags, such as ``OpenFlags/noFollow``.
/// - Returns: `nil` if it cannot be opened; ``Errno/last`` says why.
package func openDirectory(
    _ path: UnsafePointer<CChar>, in directory: Int32 = currentDirectory, _ flags: OpenFlags = .readOnly
) -> Descriptor? { Descriptor(opening: path, in: directory, flags.union(.directory)) }

/// Opens an entry for reading, never through a link, and without waiting for the writer of a FIFO.
///
/// - Returns: `nil` if it cannot be opened; ``Errno/last`` says why.
package func openToRead(_ directory: Int32, _ name: UnsafePointer<CChar>) -> Descriptor? {
    Descriptor(opening: name, in: directory, .unwaitingNoFollow)
}

/// Opens an entry at a path below a directory, never through a symbolic link and never above that directory.
///
/// openat2(2) with `RESOLVE_BENEATH|RESOLVE_NO_SYMLINKS`; if the kernel lacks it, or a sandbox forbids it, component by
/// component with `O_NOFOLLOW`.
///
/// - Parameter path: Relative, without `..`.
/// - Returns: `nil` if it cannot be opened; ``Errno/last`` says why: ``Errno/tooManySymbolicLinkLevels`` or
///   ``Errno/notDirectory`` if a component is a link.
package func openBeneath(_ root: Int32, _ path: UnsafePointer<CChar>, _ flags: OpenFlags) -> Descriptor? {
    let opened = sa_openat_beneath(root, path, flags.rawValue | O_NOFOLLOW, 0)
    if opened >= 0 || (sa_errno() != ENOSYS && sa_errno() != EPERM) { return Descriptor(opened: opened) }
    var above: Descriptor?
    let components = UnsafeBufferPointer(start: path, count: strlen(path)).split(separator: 0x2F)
    for (index, component) in components.enumerated() {
        let flags = index == components.count - 1 ? flags : .directory
        let next = Descriptor(opening: Array(component) + [0], in: above?.raw ?? root, flags.union(.noFollow))
        guard let next else { return nil }
        above = consume next
    }
    return above
}

/// Whether an open directory is `ancestor`, or below it.
///
/// - Throws: Why that cannot be determined.
package func isInside(_ directory: Int32, _ ancestor: FileStatus) throws(Errno) -> Bool {
    guard var here = status(directory) else { throw .last }
    // The directories above are examined without being opened: one may be searchable and not readable.
    var start: Descriptor?
    var way = ".."
    while !here.isSameFile(as: ancestor) {
        guard let above = try status(start?.raw ?? directory, way).get() else { throw .noSuchFileOrDirectory }
        // The root is its own parent.
        if above.isSameFile(as: here) { return false }
        here = above
        way += "/.."
        // A path has 4,095 bytes at most.
        guard way.utf8.count > 3_000 else { continue }
        guard let opened = openDirectory(way, in: start?.raw ?? directory) else { throw .last }
        guard let found = status(opened.raw) else { throw .last }
        (here, way) = (found, "..")
        start = consume opened
    }
    return true
}
