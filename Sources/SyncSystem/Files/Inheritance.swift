import CPosix

/// What a directory hands down to the files that are made in it: its group, where it has the set-group-id bit, and its default
/// ACL. inode(7), acl(5)
///
/// A file that is made elsewhere and moved there gets none of it, so it is given here.
package struct Inheritance: Sendable {
    private let group: UInt32?
    /// The default ACL as an extended attribute: a version of 4 **bytes**, then entries of 8: tag, permissions, number.
    private var acl: [UInt8]

    /// - Returns: `nil` where a directory hands nothing down.
    /// - Throws: Why that cannot be told. A file system without ACLs has none.
    package init?(of directory: Int32) throws(Errno) {
        var own = stat()
        guard fstat(directory, &own) == 0 else { throw .last }
        group = own.st_mode & mode_t(S_ISGID) == 0 ? nil : own.st_gid
        var failure: Errno?
        let found = [UInt8](unsafeUninitializedCapacity: Self.mostBytes) { buffer, used in
            let count = sa_default_acl(directory, buffer.baseAddress, buffer.count)
            if count < 0 { failure = .last }
            used = max(0, count)
        }
        // All others say in their own words that there is none.
        if let failure, [.ioError, .noMemory, .staleNFSFileHandle].contains(failure) { throw failure }
        acl = Array(found[...])
        if group == nil, acl.isEmpty { return nil }
    }

    /// Most **bytes** of an extended attribute. xattr(7)
    private static let mostBytes = 65_536

    /// Makes that of a file which it would be had it been made in the directory. What this user may not give, such as a group
    /// that is not one of his, stays.
    ///
    /// - Parameters:
    ///   - name: A file, or a link, which gets the group alone.
    ///   - directory: Where it is now.
    ///   - mode: What a program would ask for when it makes the file.
    ///   - kept: The mode that it has in the end; `nil` for what comes of `mode`.
    package func give(to name: UnsafePointer<CChar>, in directory: Int32, mode: FileMode, keeping kept: FileMode? = nil)
    {
        if let group { _ = fchownat(directory, name, uid_t.max, gid_t(group), AT_SYMLINK_NOFOLLOW) }
        guard !acl.isEmpty, let file = openToRead(directory, name), let found = status(file.raw), found.kind == .file
        else { return }
        let access = masked(mode)
        _ = access.withUnsafeBytes { sa_set_acl(file.raw, $0.baseAddress, $0.count) }
        if let kept { _ = setMode(file.raw, kept) }
    }

    /// The ACL of a new file: the default one, less what the mode does not allow. acl(5), "Object creation and default ACLs"
    private func masked(_ mode: FileMode) -> [UInt8] {
        var access = acl
        let starts = Array(stride(from: 4, to: acl.count - 7, by: 8))
        func tag(_ start: Int) -> UInt8 { acl[start] }
        let hasMask = starts.contains { tag($0) == Self.mask }
        for start in starts {
            let shift: FileMode? =
                switch tag(start) {
                case Self.owner: 6
                case Self.mask: 3
                case Self.owningGroup: hasMask ? nil : 3
                case Self.others: 0
                default: nil
                }
            if let shift { access[start + 2] &= UInt8(truncatingIfNeeded: mode >> shift & 7) }
        }
        return access
    }

    // Tags of entries. Linux, posix_acl_xattr.h
    private static let owner: UInt8 = 0x01
    private static let owningGroup: UInt8 = 0x04
    private static let mask: UInt8 = 0x10
    private static let others: UInt8 = 0x20
}

/// Takes from a directory of ours what it would hand down: files are made in it that are meant for other places.
package func dropInheritance(_ directory: Int32) {
    guard handsDownTraits(directory) else { return }
    _ = sa_drop_default_acl(directory)
    if let found = status(directory), found.permissions & 0o2000 != 0 {
        _ = setMode(directory, FileMode(found.permissions & ~0o2000))
    }
}

/// Tells the mounts of this machine apart: a file can be moved only within one. statx(2), STATX_MNT_ID; without that, by file
/// systems.
package struct MountIdentity: Hashable, Sendable {
    private var mount: UInt64 = 0
    private var device: UInt64

    /// Of an open directory; `nil` when it cannot be looked at.
    package init?(of directory: Int32) {
        guard let found = status(directory) else { return nil }
        device = found.device
        if sa_mount(directory, &mount) != 0 { mount = 0 }
    }
}
