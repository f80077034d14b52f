import SyncSystem

/// A file that grows at its end, through a buffer of 64 KiB. It is created when the buffer is full for the first time,
/// or when its descriptor is needed. After the first failure, which is kept, nothing more is written.
struct AppendedFile: ~Copyable {
    /// **Bytes** appended.
    private(set) var length: UInt64 = 0
    /// The first failure; `nil` if there was none.
    private(set) var failure: FileError?
    private let directory: Int32
    private let name: String
    /// The path for messages.
    private let shown: String
    /// Whether the file's name is removed once it is open.
    private let isUnnamed: Bool
    private var file: Descriptor?
    private var buffer: [UInt8] = []
    private static let bufferLength = 1 << 16

    init(_ name: String, in destination: Destination, isUnnamed: Bool = false) {
        self.name = name
        self.isUnnamed = isUnnamed
        directory = destination.state
        shown = "\(destination.statePath)/\(name)"
        buffer.reserveCapacity(Self.bufferLength)
    }

    mutating func append(_ bytes: some Collection<UInt8>) {
        if buffer.count + bytes.count > Self.bufferLength { flush() }
        buffer.append(contentsOf: bytes)
        length += UInt64(bytes.count)
    }

    /// The descriptor, with everything written; the file stays open until this value ends.
    ///
    /// - Throws: The first failure since the file was started.
    mutating func written() throws(FileError) -> Int32 {
        flush()
        if let failure { throw failure }
        return raw
    }

    /// Appends the contents of another file.
    mutating func append(contentsOf other: inout AppendedFile) throws(FileError) {
        if let failure = other.failure { throw failure }
        let onDisk = other.length - UInt64(other.buffer.count)
        var offset: UInt64 = 0
        while offset < onDisk {
            let count = Int(min(UInt64(Self.bufferLength), onDisk - offset))
            flush()
            var read = 0
            let source = other.raw
            buffer = [UInt8](unsafeUninitializedCapacity: count) { target, used in
                read = readFully(source, into: UnsafeMutableRawBufferPointer(target), at: offset)
                used = max(0, read)
            }
            guard read == count else {
                throw FileError(step: "read back", path: other.shown, code: read < 0 ? .last : .ioError)
            }
            length += UInt64(count)
            offset += UInt64(count)
        }
        append(other.buffer)
    }

    private var raw: Int32 {
        switch file {
        case .some(let file): file.raw
        case .none: -1
        }
    }

    private mutating func flush() {
        guard failure == nil else { return buffer.removeAll(keepingCapacity: true) }
        if raw < 0 {
            do throws(FileError) { file = try createFile(name, in: directory, shown: shown) } catch {
                failure = error
                return
            }
            if isUnnamed { removeFile(name, in: directory) }
        }
        let start = length - UInt64(buffer.count)
        if let code = buffer.withUnsafeBytes({ writeAll($0, to: raw, at: start) }) {
            failure = FileError(step: "write", path: shown, code: code)
        }
        buffer.removeAll(keepingCapacity: true)
    }
}
