import CPosix
import SyncSystem

/// Wakes a thread that waits in poll(2).
final class WakePipe: Sendable {
    private let pipe = Pipe()
    /// For poll(2); -1 when there was no pipe to be had.
    var reader: Int32 { pipe?.reader.raw ?? -1 }

    init() {
        if let pipe { _ = sa_set_blocking(pipe.writer.raw, 0) }
    }

    /// A full pipe wakes as well.
    func wake() {
        var byte: UInt8 = 1
        if let pipe { _ = write(pipe.writer.raw, &byte, 1) }
    }

    /// Takes every wake-up so far.
    func drain() {
        var bytes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        let size = MemoryLayout.size(ofValue: bytes)
        while read(reader, &bytes, size) > 0 {}
    }
}
