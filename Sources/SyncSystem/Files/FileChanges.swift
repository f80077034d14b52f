import CPosix
package import SyncModel

/// Sets the permission bits of an open file or directory. fchmod(2)
package func setMode(_ descriptor: Int32, _ mode: FileMode) -> Errno? { failure(fchmod(descriptor, mode_t(mode))) }

/// Sets the permission bits of the entry at a path; links are followed. chmod(2)
package func setMode(_ path: UnsafePointer<CChar>, _ mode: FileMode) -> Errno? { failure(chmod(path, mode_t(mode))) }

/// The same for a name in a directory, without opening it: this needs no right to read, and follows no link.
/// fchmodat(2), AT_SYMLINK_NOFOLLOW
package func setMode(_ name: UnsafePointer<CChar>, in directory: Int32, _ mode: FileMode) -> Errno? {
    failure(fchmodat(directory, name, mode_t(mode), AT_SYMLINK_NOFOLLOW))
}

/// Copies the owner and group of one open file or directory to another, as far as this user may. fchown(2)
///
/// - Returns: Why they could not be determined; `nil` on success.
package func handOverOwner(of source: Int32, to target: Int32) -> Errno? {
    var (one, other) = (stat(), stat())
    guard fstat(source, &one) == 0, fstat(target, &other) == 0 else { return .last }
    // This user, or the file system, may not allow it. Two calls, because only one of them may be allowed.
    if one.st_gid != other.st_gid { _ = fchown(target, uid_t.max, one.st_gid) }
    if one.st_uid != other.st_uid { _ = fchown(target, one.st_uid, gid_t.max) }
    return nil
}

/// Sets or clears the execute bits wherever reading is allowed; set-id and sticky bits are cleared. fchmod(2)
package func setExecutable(_ descriptor: Int32, _ isExecutable: Bool) -> Errno? {
    failure(sa_set_executable(descriptor, isExecutable ? 1 : 0))
}

/// Sets the modification time of an open file, in **nanoseconds** since 1970; its access time is kept. futimens(3)
package func setModified(_ descriptor: Int32, _ nanoseconds: Int64) -> Errno? {
    withTimes(nanoseconds) { futimens(descriptor, $0) }
}

/// The same for a name, even of a link. utimensat(2)
package func setModified(_ name: UnsafePointer<CChar>, in directory: Int32, _ nanoseconds: Int64) -> Errno? {
    withTimes(nanoseconds) { utimensat(directory, name, $0, AT_SYMLINK_NOFOLLOW) }
}

/// Sets the access and modification times of an open file to now. futimens(3)
package func touch(_ descriptor: Int32) -> Errno? { failure(futimens(descriptor, nil)) }

private func withTimes(_ nanoseconds: Int64, _ call: (UnsafePointer<timespec>) -> Int32) -> Errno? {
    let (seconds, rest) = floorDivision(nanoseconds, 1_000_000_000)
    var times = (timespec(tv_sec: 0, tv_nsec: sa_utime_omit()), timespec(tv_sec: Int(seconds), tv_nsec: Int(rest)))
    return withUnsafePointer(to: &times) { pointer in
        pointer.withMemoryRebound(to: timespec.self, capacity: 2) { failure(call($0)) }
    }
}

/// Truncates an open file, or extends it with zeros. ftruncate(2)
package func setLength(_ descriptor: Int32, _ bytes: UInt64) -> Errno? {
    guard let length = off_t(exactly: bytes) else { return .fileTooLarge }
    return retryingOnInterrupt { Int(ftruncate(descriptor, length)) } == 0 ? nil : .last
}

/// Syncs a file or directory to its disk. fsync(2)
package func synchronize(_ descriptor: Int32) -> Errno? {
    retryingOnInterrupt { Int(fsync(descriptor)) } == 0 ? nil : .last
}

/// The same for a directory: its names. Some file systems cannot sync one and report EINVAL, which is ignored.
package func synchronizeDirectory(_ descriptor: Int32) -> Errno? {
    let code = synchronize(descriptor)
    return code == .invalidArgument ? nil : code
}

/// As ``synchronize(_:)``, without metadata that is not needed for reading, such as times. fdatasync(2)
package func synchronizeData(_ descriptor: Int32) -> Errno? {
    retryingOnInterrupt { Int(fdatasync(descriptor)) } == 0 ? nil : .last
}

/// Syncs the whole file system that contains an open file or directory. syncfs(2)
package func synchronizeFileSystem(_ descriptor: Int32) -> Errno? { failure(sa_syncfs(descriptor)) }

/// Starts to write dirty data to the disk; a hint, and does not block. sync_file_range(2)
package func startWriteback(_ descriptor: Int32) { sa_start_writeback(descriptor) }

/// Announces that the file will be read sequentially; a hint. posix_fadvise(2)
package func willReadThrough(_ descriptor: Int32) { sa_will_read_through(descriptor) }

/// Clones a whole file, if the file system can. ioctl_ficlone(2)
package func cloneFile(_ source: Int32, to target: Int32) -> Errno? { failure(sa_clone_file(target, source)) }

/// Copies bytes of a file, from its beginning.
///
/// - Parameter size: How many **bytes**; `nil` for all.
/// - Returns: Why not all are copied; ``Errno/ioError`` if the file is shorter.
package func copyBytes(of source: Int32, _ size: UInt64? = nil, to target: Int32) -> Errno? {
    withUnsafeTemporaryAllocation(byteCount: 1 << 17, alignment: 64) { buffer in
        var offset: UInt64 = 0
        while size.map({ offset < $0 }) ?? true {
            let length = size.map { Int(min(UInt64(buffer.count), $0 - offset)) } ?? buffer.count
            let count = readFully(source, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<length]), at: offset)
            if count < 0 { return .last }
            if count == 0 { return size == nil ? nil : .ioError }
            let code = writeAll(UnsafeRawBufferPointer(rebasing: buffer[..<count]), to: target, at: offset)
            if let code { return code }
            offset += UInt64(count)
        }
        return nil
    }
}

/// Clones a range of a file, if the file system can; all in **bytes**, multiples of its blocks. ioctl_ficlonerange(2)
package func cloneRange(_ source: Int32, at offset: UInt64, count: UInt64, to target: Int32, at start: UInt64) -> Errno?
{ failure(sa_clone_range(target, start, source, offset, count)) }

/// The offset at or after `offset` at which data begins; `.max` if only a hole follows, `offset` if holes are not
/// supported. lseek(2), SEEK_DATA; moves the descriptor's own position.
package func nextData(_ descriptor: Int32, _ offset: Int64) -> Int64 { sa_next_data(descriptor, offset) }

/// The offset at or after `offset` at which a hole begins or the file ends; `.max` if holes are not supported.
/// lseek(2), SEEK_HOLE; moves the descriptor's own position.
package func nextHole(_ descriptor: Int32, _ offset: Int64) -> Int64 { sa_next_hole(descriptor, offset) }

/// Whether a directory created in this one inherits attributes that a moved one does not get. mkdir(2), acl(5)
package func handsDownTraits(_ directory: Int32) -> Bool { sa_hands_down(directory) != 0 }

extension Umask {
    /// The umask that applies to new files in a directory: none if there is a default ACL. umask(2), acl(5)
    package func holding(in directory: Int32) -> Umask {
        bits != 0 && sa_has_default_acl(directory) != 0 ? Umask(bits: 0) : self
    }

    /// The mode without these bits.
    package func less(_ mode: FileMode) -> FileMode { mode & ~FileMode(bits) }
}

/// Locks an open file or directory exclusively, until its descriptor is closed. flock(2)
///
/// - Returns: ``Errno/resourceTemporarilyUnavailable`` if another process has it locked.
package func lockWhole(_ descriptor: Int32) -> Errno? {
    retryingOnInterrupt { Int(flock(descriptor, LOCK_EX | LOCK_NB)) } == 0 ? nil : .last
}
