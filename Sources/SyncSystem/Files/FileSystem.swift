import CPosix

/// The free space of a file system. statvfs(3)
package struct FileSystemSpace: Sendable {
    /// **Bytes** that this user may still write.
    package let bytes: UInt64
    /// Files that can still be created; `nil` if there is no fixed number.
    package let inodes: UInt64?
    /// Whether it stores files at all: those of the kernel, such as proc(5), have no blocks.
    package let keepsFiles: Bool

    /// Whether it is mounted read-only. ST_RDONLY
    package let isReadOnly: Bool

    private init(_ info: statvfs) {
        let (bytes, overflow) = UInt64(info.f_bavail).multipliedReportingOverflow(by: UInt64(info.f_frsize))
        self.bytes = overflow ? .max : bytes
        inodes = info.f_files == 0 ? nil : UInt64(info.f_favail)
        isReadOnly = info.f_flag & UInt(ST_RDONLY) != 0
        keepsFiles = info.f_blocks > 0 || info.f_files > 0
    }

    /// The file system of an open file or directory.
    ///
    /// - Returns: `nil` if it cannot be determined; ``Errno/last`` says why.
    package init?(of descriptor: Int32) {
        var info = statvfs()
        guard retryingOnInterrupt({ Int(fstatvfs(descriptor, &info)) }) == 0 else { return nil }
        self.init(info)
    }

    /// The file system of a path; links are followed.
    ///
    /// - Returns: `nil` if it cannot be determined; ``Errno/last`` says why.
    package init?(at path: UnsafePointer<CChar>) {
        var info = statvfs()
        guard retryingOnInterrupt({ Int(statvfs(path, &info)) }) == 0 else { return nil }
        self.init(info)
    }
}

/// The type of the file system at a path, as a number; 0 if unknown. statfs(2), `f_type`
package func fileSystemType(_ path: UnsafePointer<CChar>) -> UInt32 { sa_file_system(path) }

/// Whether an open directory is case-insensitive: FS_CASEFOLD_FL of ioctl_iflags(2), which ext4, f2fs and tmpfs keep
/// for each directory. False on a file system without this flag, even if all of it is case-insensitive.
package func foldsCase(_ directory: Int32) -> Bool { sa_folds_case(directory) == 1 }
