import CPosix

/// Why a system call failed: a value of errno(3), with swift-system's names.
///
/// A call without a result returns `Errno?`: `nil` on success. A call with a result returns `nil` on failure, and
/// ``last`` says why.
package struct Errno: Error, RawRepresentable, Hashable, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) { self.rawValue = rawValue }

    private init(_ rawValue: Int32) { self.rawValue = rawValue }

    /// The error of this thread's last failed call; to be read before the next call.
    package static var last: Errno { Errno(sa_errno()) }

    package static let notPermitted = Errno(EPERM)
    package static let noSuchFileOrDirectory = Errno(ENOENT)
    package static let noSuchProcess = Errno(ESRCH)
    package static let interrupted = Errno(EINTR)
    package static let ioError = Errno(EIO)
    package static let noSuchAddressOrDevice = Errno(ENXIO)
    package static let execFormatError = Errno(ENOEXEC)
    package static let resourceTemporarilyUnavailable = Errno(EAGAIN)
    package static let noMemory = Errno(ENOMEM)
    package static let permissionDenied = Errno(EACCES)
    package static let deviceOrResourceBusy = Errno(EBUSY)
    package static let fileExists = Errno(EEXIST)
    package static let improperLink = Errno(EXDEV)
    package static let operationNotSupportedByDevice = Errno(ENODEV)
    package static let notDirectory = Errno(ENOTDIR)
    package static let isDirectory = Errno(EISDIR)
    package static let invalidArgument = Errno(EINVAL)
    package static let tooManyOpenFilesInSystem = Errno(ENFILE)
    package static let tooManyOpenFiles = Errno(EMFILE)
    package static let inappropriateIOCTLForDevice = Errno(ENOTTY)
    package static let textFileBusy = Errno(ETXTBSY)
    package static let fileTooLarge = Errno(EFBIG)
    package static let noSpace = Errno(ENOSPC)
    package static let readOnlyFileSystem = Errno(EROFS)
    package static let tooManyLinks = Errno(EMLINK)
    package static let brokenPipe = Errno(EPIPE)
    package static let fileNameTooLong = Errno(ENAMETOOLONG)
    package static let noLocks = Errno(ENOLCK)
    package static let noFunction = Errno(ENOSYS)
    package static let directoryNotEmpty = Errno(ENOTEMPTY)
    package static let tooManySymbolicLinkLevels = Errno(ELOOP)
    package static let notSupported = Errno(EOPNOTSUPP)
    package static let noBufferSpace = Errno(ENOBUFS)
    package static let staleNFSFileHandle = Errno(ESTALE)
    package static let diskQuotaExceeded = Errno(EDQUOT)
}

extension Errno: CustomStringConvertible {
    /// strerror(3)
    package var description: String { String(cString: strerror(rawValue)) }

    /// Whether the call can simply be repeated: nothing was available, or a signal interrupted it.
    package var isTransient: Bool { self == .resourceTemporarilyUnavailable || self == .interrupted }
}

/// `nil` for 0, the result of a successful call.
@inline(__always) func failure(_ result: Int32) -> Errno? { result == 0 ? nil : .last }
