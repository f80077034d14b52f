import CPosix
package import SyncModel

/// Gives an open file or directory its permission bits. fchmod(2)
package func setMode(_ descriptor: Int32, _ mode: FileMode) -> Errno? { failure(fchmod(descriptor, mode_t(mode))) }

/// Gives whatever has a path its permission bits; links are followed. chmod(2)
package func setMode(_ path: UnsafePointer<CChar>, _ mode: FileMode) -> Errno? { failure(chmod(path, mode_t(mode))) }

/// The same of what has a name in a directory, without opening it: neither the right to read it is needed, nor is a link
/// followed. fchmodat(2), AT_SYMLINK_NOFOLLOW
package func setMode(_ name: UnsafePointer<CChar>, in directory: Int32, _ mode: FileMode) -> Errno? {
    failure(fchmodat(directory, name, mode_t(mode), AT_SYMLINK_NOFOLLOW))
}

/// Gives an open file or directory the owner and the group of another one, where this user may. fchown(2)
///
/// - Returns: Why nobody knows which they have.
package func handOverOwner(of source: Int32, to target: Int32) -> Errno? {
    var (one, other) = (stat(), stat())
    guard fstat(source, &one) == 0, fstat(target, &other) == 0 else { return .last }
    // It may be none of this user's, or none that files can have here. Apart, since one of them may be all that is allowed.
    if one.st_gid != other.st_gid { _ = fchown(target, uid_t.max, one.st_gid) }
    if one.st_uid != other.st_uid { _ = fchown(target, one.st_uid, gid_t.max) }
    return nil
}

/// Gives or takes the execute bits, where the file may be read; set-id and sticky bits are dropped. fchmod(2)
package func setExecutable(_ descriptor: Int32, _ isExecutable: Bool) -> Errno? {
    failure(sa_set_executable(descriptor, isExecutable ? 1 : 0))
}

/// Says when an open file was modified, in **nanoseconds** since 1970; the time of its last use stays. futimens(3)
package func setModified(_ descriptor: Int32, _ nanoseconds: Int64) -> Errno? {
    withTimes(nanoseconds) { futimens(descriptor, $0) }
}

/// The same of what has a name, a link itself too. utimensat(2)
package func setModified(_ name: UnsafePointer<CChar>, in directory: Int32, _ nanoseconds: Int64) -> Errno? {
    withTimes(nanoseconds) { utimensat(directory, name, $0, AT_SYMLINK_NOFOLLOW) }
}

/// Says that an open file was used and modified just now. futimens(3)
package func touch(_ descriptor: Int32) -> Errno? { failure(futimens(descriptor, nil)) }

private func withTimes(_ nanoseconds: Int64, _ call: (UnsafePointer<timespec>) -> Int32) -> Errno? {
    let (seconds, rest) = floorDivision(nanoseconds, 1_000_000_000)
    var times = (timespec(tv_sec: 0, tv_nsec: sa_utime_omit()), timespec(tv_sec: Int(seconds), tv_nsec: Int(rest)))
    return withUnsafePointer(to: &times) { pointer in
        pointer.withMemoryRebound(to: timespec.self, capacity: 2) { failure(call($0)) }
    }
}

/// Makes an open file shorter, or longer with zeros. ftruncate(2)
package func setLength(_ descriptor: Int32, _ bytes: UInt64) -> Errno? {
    guard let length = off_t(exactly: bytes) else { return .fileTooLarge }
    return retryingOnInterrupt { Int(ftruncate(descriptor, length)) } == 0 ? nil : .last
}

/// Writes everything of a file or directory to its disk. fsync(2)
package func synchronize(_ descriptor: Int32) -> Errno? {
    retryingOnInterrupt { Int(fsync(descriptor)) } == 0 ? nil : .last
}

/// The same for a directory: its names. Some file systems sync none, and say so with EINVAL; nothing more can be done there.
package func synchronizeDirectory(_ descriptor: Int32) -> Errno? {
    let code = synchronize(descriptor)
    return code == .invalidArgument ? nil : code
}

/// As ``synchronize(_:)``, without what is not needed to read it back, such as times. fdatasync(2)
package func synchronizeData(_ descriptor: Int32) -> Errno? {
    retryingOnInterrupt { Int(fdatasync(descriptor)) } == 0 ? nil : .last
}

/// Writes everything of the file system that something is on to its disk. syncfs(2)
package func synchronizeFileSystem(_ descriptor: Int32) -> Errno? { failure(sa_syncfs(descriptor)) }

/// The disk begins with what has been written; a hint, nobody waits. sync_file_range(2)
package func startWriteback(_ descriptor: Int32) { sa_start_writeback(descriptor) }

/// The file will be read from its beginning to its end; a hint. posix_fadvise(2)
package func willReadThrough(_ descriptor: Int32) { sa_will_read_through(descriptor) }

/// Shares the blocks of a whole file, where the file system can. ioctl_ficlone(2)
package func cloneFile(_ source: Int32, to target: Int32) -> Errno? { failure(sa_clone_file(target, source)) }

/// Copies bytes of a file, from its beginning.
///
/// - Parameter size: How many **bytes**; `nil` for all of them.
/// - Returns: Why not all of it is copied; ``Errno/ioError`` where the file is shorter.
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

/// Shares some blocks of a file, where the file system can; all in **bytes**, multiples of its blocks. ioctl_ficlonerange(2)
package func cloneRange(_ source: Int32, at offset: UInt64, count: UInt64, to target: Int32, at start: UInt64) -> Errno?
{ failure(sa_clone_range(target, start, source, offset, count)) }

/// Where data begins at or behind `offset`; `.max` where only a hole follows, `offset` where holes are not known. lseek(2),
/// SEEK_DATA; moves the descriptor's own position.
package func nextData(_ descriptor: Int32, _ offset: Int64) -> Int64 { sa_next_data(descriptor, offset) }

/// Where a hole begins at or behind `offset`, or the file ends; `.max` where holes are not known. lseek(2), SEEK_HOLE; moves the
/// descriptor's own position.
package func nextHole(_ descriptor: Int32, _ offset: Int64) -> Int64 { sa_next_hole(descriptor, offset) }

/// Whether new directories get something from this one that a moved one does not. mkdir(2), acl(5)
package func handsDownTraits(_ directory: Int32) -> Bool { sa_hands_down(directory) != 0 }

extension Umask {
    /// What counts for new files in a directory: nothing where a default ACL decides. umask(2), acl(5)
    package func holding(in directory: Int32) -> Umask {
        bits != 0 && sa_has_default_acl(directory) != 0 ? Umask(bits: 0) : self
    }

    /// The mode that is left of another one.
    package func less(_ mode: FileMode) -> FileMode { mode & ~FileMode(bits) }
}

/// Locks an open file or directory for this process alone, until its descriptor closes. flock(2)
///
/// - Returns: ``Errno/resourceTemporarilyUnavailable`` when another has it.
package func lockWhole(_ descriptor: Int32) -> Errno? {
    retryingOnInterrupt { Int(flock(descriptor, LOCK_EX | LOCK_NB)) } == 0 ? nil : .last
}
