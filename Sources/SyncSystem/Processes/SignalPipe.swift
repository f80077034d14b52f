import CPosix

import struct Synchronization.Atomic

/// Delivers signals as bytes in a pipe: the thread that reads them may do what a handler must not. signal-safety(7)
///
/// Uses handlers, not `SIG_IGN` or a blocked mask, because execve(2) resets them to the default actions, signal(7). A
/// signal that nohup(1) or a shell's `&` has set to ignored stays ignored, except SIGTERM.
package enum SignalPipe {
    // Neither end is ever closed: a handler may run at any time.
    private static let pipe = Pipe()
    /// The write end; -1 before anybody reads.
    private static let writer = Atomic<Int32>(-1)

    /// Makes writing to a closed pipe fail with ``Errno/brokenPipe`` instead of ending the process.
    package static func ignoreBrokenPipes() { sa_handle_signal(SIGPIPE) { _ in } }

    /// Calls `received` for each of these signals, on a thread of its own. Once per process.
    ///
    /// Without descriptors or a thread, the default actions remain: the process still ends when asked to.
    package static func listen(to signals: [Signal], _ received: @escaping @Sendable (Signal) -> Void) {
        guard let pipe else { return }
        let listener = try? WorkerThread(name: "signals") {
            for signal in signals { sa_unblock_signal(signal.rawValue) }
            var number: UInt8 = 0
            while true {
                waitToRead(pipe.reader.raw, atMost: nil)
                switch withUnsafeMutableBytes(of: &number, { readSome(pipe.reader.raw, into: $0) }) {
                case .bytes: received(Signal(rawValue: Int32(number)))
                case .nothing: continue
                case .ended, .failed: return
                }
            }
        }
        guard listener != nil else { return }
        // A handler must not block. If the pipe is full, a request is already pending.
        guard setBlocking(pipe.writer.raw, false) == nil else { return }
        writer.store(pipe.writer.raw, ordering: .releasing)
        for signal in signals {
            sa_handle_signal(signal.rawValue) { number in
                let code = sa_errno()
                var byte = UInt8(truncatingIfNeeded: number)
                // write(2) is async-signal-safe, signal-safety(7).
                _ = sa_write(SignalPipe.writer.load(ordering: .relaxed), &byte, 1)
                sa_set_errno(code)
            }
        }
    }
}
