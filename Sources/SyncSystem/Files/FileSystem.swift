import CPosix

/// What a file system has left. statvfs(3)
package struct FileSystemSpace: Sendable {
    /// **Bytes** that this user may still write.
    package let bytes: UInt64
    /// Files that can still be made; `nil` where there is no fixed number.
    package let inodes: UInt64?
    /// Whether it keeps files at all: those of the kernel, such as proc(5), have no blocks.
    package let keepsFiles: Bool

    /// Whether nothing can be written there. ST_RDONLY
    package let isReadOnly: Bool

    private init(_ info: statvfs) {
        let (bytes, overflow) = UInt64(info.f_bavail).multipliedReportingOverflow(by: UInt64(info.f_frsize))
        self.bytes = overflow ? .max : bytes
        inodes = info.f_files == 0 ? nil : UInt64(info.f_favail)
        isReadOnly = info.f_flag & UInt(ST_RDONLY) != 0
        keepsFiles = info.f_blocks > 0 || info.f_files > 0
    }

    /// Of the file system that an open file or directory is on.
    ///
    /// - Returns: `nil` when it does not say; ``Errno/last`` says why.
    package init?(of descriptor: Int32) {
        var info = statvfs()
        guard retryingOnInterrupt({ Int(fstatvfs(descriptor, &info)) }) == 0 else { return nil }
        self.init(info)
    }

    /// Of the file system that a path is on; links are followed.
    ///
    /// - Returns: `nil` when it does not say; ``Errno/last`` says why.
    package init?(at path: UnsafePointer<CChar>) {
        var info = statvfs()
        guard retryingOnInterrupt({ Int(statvfs(path, &info)) }) == 0 else { return nil }
        self.init(info)
    }
}

/// The kind of file system that a path is on, by its number; 0 where that is unknown. statfs(2), `f_type`
package func fileSystemType(_ path: UnsafePointer<CChar>) -> UInt32 { sa_file_system(path) }

/// Whether names that differ only in case are one in an open directory: FS_CASEFOLD_FL of ioctl_iflags(2), which ext4, f2fs
/// and tmpfs keep for each directory. False where a filesystem has no such flag, even if all of it folds case.
package func foldsCase(_ directory: Int32) -> Bool { sa_folds_case(directory) == 1 }
