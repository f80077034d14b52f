import CPosix
import SyncModel
import SyncPlugins
import SyncSystem

/// A FIFO whose reading end is ours. mkfifo(3), fifo(7).
final class BodyPipe {
    let path: String
    /// Not blocking; -1 once closed.
    private(set) var reader: Int32
    private var isLinked = true

    /// What a pipe holds, in **bytes**: all that an unprivileged user may ask for, pipe(7).
    private static let capacity: Int32 = 1 << 20

    /// Makes a FIFO and opens it, so that the plugin need not wait for a reader.
    init(in directory: PrivateDirectory, for client: PluginClient) throws(PluginError) {
        path = try directory.fifo(for: client)
        reader = sa_openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0)
        guard reader >= 0 else {
            let code = sa_errno()
            unlink(path)
            throw client.failure(.unavailable, "cannot open a pipe: \(errorText(code))")
        }
        sa_set_pipe_size(reader, Self.capacity)
    }

    deinit {
        removeName()
        close()
    }

    /// Nobody can open it any more.
    func removeName() {
        if isLinked { unlink(path) }
        isLinked = false
    }

    /// A plugin that writes on gets EPIPE.
    func close() {
        if reader >= 0 { _ = CPosix.close(reader) }
        reader = -1
    }

    enum ReadResult {
        case bytes(Int)
        /// Nothing there now.
        case nothing
        /// Nobody has it open for writing.
        case end
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        guard reader >= 0 else { return .end }
        let count = CPosix.read(reader, buffer.baseAddress, buffer.count)
        if count > 0 { return .bytes(count) }
        if count < 0, sa_errno() == EAGAIN || sa_errno() == EINTR { return .nothing }
        return .end
    }
}
