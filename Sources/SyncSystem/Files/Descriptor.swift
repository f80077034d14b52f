import CPosix

/// One open file descriptor, closed exactly once.
package struct Descriptor: ~Copyable, Sendable {
    package let raw: Int32

    /// Takes ownership of an open descriptor.
    package init(owning raw: Int32) { self.raw = raw }

    /// Takes ownership of what a call gave; `nil` for -1.
    package init?(opened raw: Int32) {
        guard raw >= 0 else { return nil }
        self.raw = raw
    }

    /// Leaves ``Errno/last`` as it is: a call may have failed just before.
    deinit {
        let code = sa_errno()
        _ = CPosix.close(raw)
        sa_set_errno(code)
    }

    /// Closes now and tells what close(2) says: some filesystems report a failed write only here.
    package consuming func close() -> Errno? {
        let raw = self.raw
        discard self
        return failure(CPosix.close(raw))
    }

    /// Gives the ownership away, to a call that closes it.
    package consuming func release() -> Int32 {
        let raw = self.raw
        discard self
        return raw
    }
}

/// An open file descriptor that several have, closed when the last of them goes.
package final class SharedDescriptor: Sendable {
    private let descriptor: Descriptor

    package init(_ descriptor: consuming Descriptor) { self.descriptor = descriptor }

    /// `nil` where there is none.
    package init?(_ descriptor: consuming Descriptor?) {
        guard let descriptor else { return nil }
        self.descriptor = descriptor
    }

    package var raw: Int32 { descriptor.raw }
}

/// What errno(3) says at this moment.
package var errnoText: String { "\(Errno.last)" }

/// Calls again while a signal interrupts. signal(7), "Interruption of system calls".
@inline(__always) package func retryingOnInterrupt(_ call: () -> Int) -> Int {
    while true {
        let result = call()
        if result == -1, sa_errno() == EINTR { continue }
        return result
    }
}

/// Writes every byte at `offset`. pwrite(2) may take fewer than asked.
///
/// - Returns: Why a write failed.
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

/// Writes every byte at a descriptor's own position, however many calls it takes, and however long it is not ready. write(2)
///
/// - Returns: Why a write failed.
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
        // Whoever has made it not wait, as ssh(1) does, has done so for everyone who writes there.
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

/// Whether two memories hold the same bytes. memcmp(3)
package func isEqual(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
    guard left.count == right.count, let start = left.baseAddress, let other = right.baseAddress else {
        return left.count == right.count
    }
    return memcmp(start, other, left.count) == 0
}
