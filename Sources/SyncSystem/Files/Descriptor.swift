import CPosix

/// One open file descriptor, closed exactly once.
package struct Descriptor: ~Copyable, Sendable {
    package let raw: Int32

    /// Takes ownership of an open descriptor.
    package init(owning raw: Int32) { self.raw = raw }

    /// Takes ownership of the result of a call; `nil` for -1.
    package init?(opened raw: Int32) {
        guard raw >= 0 else { return nil }
        self.raw = raw
    }

    /// Preserves ``Errno/last``: a call may have failed just before.
    deinit {
        let code = sa_errno()
        _ = CPosix.close(raw)
        sa_set_errno(code)
    }

    /// Closes the descriptor now and returns the error of close(2): some file systems report a failed write only here.
    package consuming func close() -> Errno? {
        let raw = self.raw
        discard self
        return failure(CPosix.close(raw))
    }

    /// Releases ownership, for a call that closes the descriptor.
    package consuming func release() -> Int32 {
        let raw = self.raw
        discard self
        return raw
    }
}

/// An open file descriptor with shared ownership, closed with the last reference.
package final class SharedDescriptor: Sendable {
    private let descriptor: Descriptor

    package init(_ descriptor: consuming Descriptor) { self.descriptor = descriptor }

    /// `nil` if there is no descriptor.
    package init?(_ descriptor: consuming Descriptor?) {
        guard let descriptor else { return nil }
        self.descriptor = descriptor
    }

    package var raw: Int32 { descriptor.raw }
}

/// The current text of errno(3).
package var errnoText: String { "\(Errno.last)" }

/// Repeats a call while a signal interrupts it. signal(7), "Interruption of system calls".
@inline(__always) package func retryingOnInterrupt(_ call: () -> Int) -> Int {
    while true {
        let result = call()
        if result == -1, sa_errno() == EINTR { continue }
        return result
    }
}

/// Writes all bytes at `offset`. pwrite(2) may write fewer than requested.
///
/// - Returns: Why a write failed; `nil` on success.
package func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32, at offset: UInt64) -> Errno? {
    var done = 0
    while done < bytes.count {
        guard let start = off_t(exactly: offset &+ UInt64(done)) else { return .fileTooLarge }
        let written = retryingOnInterrupt {
            pwrite(descriptor, bytes.baseAddress?.advanced(by: done), bytes.count - done, start)
        }
        if written < 0 { return .last }
        if written == 0 { return .ioError }
        done += written
    }
    return nil
}

/// Writes all bytes at a descriptor's own position, in as many calls as needed, and waits while it is not ready.
/// write(2)
///
/// - Returns: Why a write failed; `nil` on success.
package func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32) -> Errno? {
    var rest = bytes[...]
    while !rest.isEmpty {
        let count = writeSome(descriptor, UnsafeRawBufferPointer(rebasing: rest))
        if count > 0 {
            rest = rest.dropFirst(count)
            continue
        }
        let code = count == 0 ? .ioError : Errno.last
        guard code.isTransient else { return code }
        // Another process, such as ssh(1), may have made the open file non-blocking for everyone.
        var entries = [PollEntry(descriptor, isForWriting: true)]
        if code != .interrupted { waitForAny(of: &entries, atMost: -1) }
    }
    return nil
}

/// Reads until `target` is full or the file ends.
///
/// - Returns: **Bytes** read, or -1; ``Errno/last`` says why.
package func readFully(_ descriptor: Int32, into target: UnsafeMutableRawBufferPointer, at offset: UInt64) -> Int {
    var done = 0
    while done < target.count {
        guard let start = off_t(exactly: offset &+ UInt64(done)) else {
            sa_set_errno(EFBIG)
            return -1
        }
        let count = retryingOnInterrupt {
            pread(descriptor, target.baseAddress?.advanced(by: done), target.count - done, start)
        }
        if count < 0 { return -1 }
        if count == 0 { break }
        done += count
    }
    return done
}

/// Whether two buffers hold the same bytes. memcmp(3)
package func isEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    guard left.count == right.count, let start = left.baseAddress, let other = right.baseAddress else {
        return left.count == right.count
    }
    return memcmp(start, other, left.count) == 0
}
