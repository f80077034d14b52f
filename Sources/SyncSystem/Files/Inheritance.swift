import CPosix

/// The attributes that files inherit from the directory in which they are created: its group, if it has the
/// set-group-id bit, and its default ACL. inode(7), acl(5)
///
/// A file that is created elsewhere and moved there inherits nothing, so the attributes are applied here.
package struct Inheritance: Sendable {
    private let group: UInt32?
    /// The default ACL as an extended attribute: a version of 4 **bytes**, then entries of 8: tag, permissions, number.
    private var acl: [UInt8]

    /// - Returns: `nil` if nothing is inherited from the directory.
    /// - Throws: Why that cannot be determined. A file system without ACLs has none.
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
        // The other codes are various ways to say that there is none.
        if let failure, [.ioError, .noMemory, .staleNFSFileHandle].contains(failure) { throw failure }
        acl = Array(found[...])
        if group == nil, acl.isEmpty { return nil }
    }

    /// Most **bytes** of an extended attribute. xattr(7)
    private static let mostBytes = 65_536

    /// Applies the attributes to a file as if it had been created in the directory. Attributes that this user may not
    /// set, such as a group to which the user does not belong, are left unchanged.
    ///
    /// - Parameters:
    ///   - name: A file, or a link, which only gets the group.
    ///   - directory: Its current directory.
    ///   - mode: The mode that a program would request when creating the file.
    ///   - kept: Its final mode; `nil` for the result of `mode`.
    package func give(to name: UnsafePointer<CChar>, in directory: Int32, mode: FileMode, keeping kept: FileMode? = nil)
    {
        if let group { _ = fchownat(directory, name, uid_t.max, gid_t(group), AT_SYMLINK_NOFOLLOW) }
        guard !acl.isEmpty, let file = openToRead(directory, name), let found = status(file.raw), found.kind == .file
        else { return }
        let access = masked(mode)
        _ = access.withUnsafeBytes { sa_set_acl(file.raw, $0.baseAddress, $0.count) }
        if let kept { _ = setMode(file.raw, kept) }
    }

    /// The ACL of a new file: the default ACL, restricted by the mode. acl(5), "Object creation and default ACLs"
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

/// Removes the inheritable attributes from a directory of ours, because files for other places are created in it.
package func dropInheritance(_ directory: Int32) {
    guard handsDownTraits(directory) else { return }
    _ = sa_drop_default_acl(directory)
    if let found = status(directory), found.permissions & 0o2000 != 0 {
        _ = setMode(directory, FileMode(found.permissions & ~0o2000))
    }
}

/// Whether entries of a directory's file system can have ACLs. acl(5)
package func canHaveACLs(_ directory: Int32) -> Bool { sa_can_have_acl(directory) != 0 }

/// Gives an entry the ACLs of another one, or none if that has none: its own, which sets the mode as well, and the one
/// that a directory hands down. acl(5)
///
/// - Returns: `nil` also if there can be none. With the mode alone, an entry that should have an ACL would let in users
///   whom the ACL keeps out.
package func handOverACLs(of source: Int32, to target: Int32, isDirectory: Bool = true) -> Errno? {
    failure(sa_copy_acl(source, target, "system.posix_acl_access"))
        ?? (isDirectory ? failure(sa_copy_acl(source, target, "system.posix_acl_default")) : nil)
}

/// Identifies a mount of this machine: a file can be renamed only within one. statx(2), STATX_MNT_ID; otherwise the
/// file system.
package struct MountIdentity: Hashable, Sendable {
    private var mount: UInt64 = 0
    private var device: UInt64

    /// The mount of an open directory; `nil` if it cannot be examined.
    package init?(of directory: Int32) {
        guard let found = status(directory) else { return nil }
        device = found.device
        if sa_mount(directory, &mount) != 0 { mount = 0 }
    }
}
