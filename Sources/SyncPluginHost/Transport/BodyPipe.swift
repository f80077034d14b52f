import SyncModel
import SyncPlugins
import SyncSystem

/// A FIFO that this process reads. mkfifo(3), fifo(7).
final class BodyPipe {
    let path: String
    /// Non-blocking; -1 once closed.
    var reader: Int32 { descriptor?.raw ?? -1 }
    private var descriptor: SharedDescriptor?
    private var isLinked = true

    /// Capacity of a pipe, in **bytes**: the most that an unprivileged user may request, pipe(7).
    private static let capacity: Int32 = 1 << 20

    /// Makes and opens a FIFO, so that the plugin need not wait for a reader.
    init(in directory: PrivateDirectory, for client: PluginClient) throws(PluginError) {
        path = try directory.fifo(for: client)
        guard let opened = Descriptor(opening: path, .nonBlocking) else {
            let code = Errno.last
            removeFile(path)
            throw client.failure(.unavailable, "cannot open a pipe: \(code)")
        }
        setPipeSize(opened.raw, Self.capacity)
        descriptor = SharedDescriptor(opened)
    }

    deinit { removeName() }

    /// Removes the name, so that nobody can open it any more.
    func removeName() {
        if isLinked { removeFile(path) }
        isLinked = false
    }

    /// Closes the reader; a plugin that continues to write gets EPIPE.
    func close() { descriptor = nil }

    /// Reads the available bytes; ended once no writer is left.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult { readSome(reader, into: buffer) }
}
