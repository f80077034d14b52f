import CPosix

/// How a file is opened. open(2)
package struct OpenFlags: OptionSet, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) { self.rawValue = rawValue }

    package static let readOnly = OpenFlags(rawValue: O_RDONLY)
    package static let writeOnly = OpenFlags(rawValue: O_WRONLY)
    package static let readWrite = OpenFlags(rawValue: O_RDWR)
    package static let append = OpenFlags(rawValue: O_APPEND)
    package static let create = OpenFlags(rawValue: O_CREAT)
    /// With ``create``: fails if the name exists.
    package static let exclusive = OpenFlags(rawValue: O_EXCL)
    package static let truncate = OpenFlags(rawValue: O_TRUNC)
    package static let directory = OpenFlags(rawValue: O_DIRECTORY)
    /// Fails when the last component is a symbolic link.
    package static let noFollow = OpenFlags(rawValue: O_NOFOLLOW)
    /// Does not wait for the other end of a FIFO, nor for bytes.
    package static let nonBlocking = OpenFlags(rawValue: O_NONBLOCK)
    /// A terminal does not become the controlling terminal.
    package static let noControllingTerminal = OpenFlags(rawValue: O_NOCTTY)

    // Combinations that are used for every file: a literal of several flags would be combined each time.

    /// A file that must not exist yet, not even as a link.
    package static let newFile: OpenFlags = [.create, .exclusive, .noFollow]
    /// Never blocks, whatever the entry is.
    package static let unwaiting: OpenFlags = [.nonBlocking, .noControllingTerminal]
    /// The same, never through a link.
    package static let unwaitingNoFollow: OpenFlags = [.nonBlocking, .noControllingTerminal, .noFollow]
    /// A directory, never through a link.
    package static let realDirectory: OpenFlags = [.directory, .noFollow]
}

/// Permission bits with the set-id bits and the sticky bit, 0...0o7777. chmod(2)
package typealias FileMode = UInt32

/// Represents the working directory as an open directory. openat(2), `AT_FDCWD`
package let currentDirectory: Int32 = AT_FDCWD

extension Descriptor {
    /// Opens an entry, close-on-exec. openat(2)
    ///
    /// - Parameters:
    ///   - name: Relative to `directory`, or absolute.
    ///   - mode: The mode of a file that ``OpenFlags/create`` creates, less the umask.
    /// - Returns: `nil` if it cannot be opened; ``Errno/last`` says why.
    package init?(
        opening name: UnsafePointer<CChar>, in directory: Int32 = currentDirectory, _ flags: OpenFlags = .readOnly,
        mode: FileMode = 0
    ) { self.init(opened: openRaw(name, in: directory, flags, mode: mode)) }
}

/// Opens an entry. openat(2)
///
/// - Returns: A descriptor, or -1; ``Errno/last`` says why.
func openRaw(_ name: UnsafePointer<CChar>, in directory: Int32, _ flags: OpenFlags, mode: FileMode = 0) -> Int32 {
    while true {
        let raw = sa_openat(directory, name, flags.rawValue, mode_t(mode))
        if raw >= 0 || sa_errno() != EINTR { return raw }
    }
}
