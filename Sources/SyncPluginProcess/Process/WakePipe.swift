import CPosix

/// Wakes a thread that waits in poll(2).
final class WakePipe: Sendable {
    /// For poll(2); -1 when there was no pipe to be had.
    let reader: Int32
    private let writer: Int32

    init() {
        var ends: [Int32] = [-1, -1]
        let made = sa_pipe(&ends) == 0
        reader = made ? ends[0] : -1
        writer = made ? ends[1] : -1
        if made { _ = sa_set_blocking(writer, 0) }
    }

    deinit {
        if reader >= 0 { close(reader) }
        if writer >= 0 { close(writer) }
    }

    /// A full pipe wakes as well.
    func wake() {
        var byte: UInt8 = 1
        _ = write(writer, &byte, 1)
    }

    /// Takes every wake-up so far.
    func drain() {
        var bytes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        let size = MemoryLayout.size(ofValue: bytes)
        while read(reader, &bytes, size) > 0 {}
    }
}
