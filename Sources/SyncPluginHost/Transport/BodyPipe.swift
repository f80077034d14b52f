import SyncModel
import SyncPlugins
import SyncSystem

/// A FIFO whose reading end is ours. mkfifo(3), fifo(7).
final class BodyPipe {
    let path: String
    /// Not blocking; -1 once closed.
    var reader: Int32 { descriptor?.raw ?? -1 }
    private var descriptor: SharedDescriptor?
    private var isLinked = true

    /// What a pipe holds, in **bytes**: all that an unprivileged user may ask for, pipe(7).
    private static let capacity: Int32 = 1 << 20

    /// Makes a FIFO and opens it, so that the plugin need not wait for a reader.
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

    /// Nobody can open it any more.
    func removeName() {
        if isLinked { removeFile(path) }
        isLinked = false
    }

    /// A plugin that writes on gets EPIPE.
    func close() { descriptor = nil }

    /// Reads what is there; ended once nobody has it open for writing.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> ReadResult { readSome(reader, into: buffer) }
}
