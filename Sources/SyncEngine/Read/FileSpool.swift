import SyncContent
import SyncModel
import SyncSystem

/// Holds a file's bytes until their SHA-256 has been checked, in memory or, if large, in an unnamed file.
///
/// The transport's thread appends until its transfer has ended; only then does the waiting thread read.
final class FileSpool: @unchecked Sendable {  // Safe: one of both at a time.
    /// Files up to this many **bytes** stay in memory.
    static let longestInMemory: UInt64 = 32 << 20

    private var bytes: [UInt8] = []
    private var count: UInt64 = 0
    private var hasher: SHA256Hasher
    /// Why bytes could not be stored.
    private(set) var failure: EngineError?
    private let file: SharedDescriptor?
    private let directory: String

    /// - Parameters:
    ///   - size: **Bytes** that will come.
    ///   - directory: Where a file may be made.
    init(size: UInt64, directory: String) throws(EngineError) {
        self.directory = directory
        do throws(DigestError) { hasher = try SHA256Hasher() } catch { throw EngineError(.internalError, "\(error)") }
        guard size > Self.longestInMemory else {
            file = nil
            return
        }
        let path = "\(directory)/syncagent-\(CurrentProcess.identifier)-\(UInt64.random(in: .min ... .max))"
        guard let opened = Descriptor(opening: path, OpenFlags.newFile.union(.readWrite), mode: 0o600) else {
            throw EngineError(
                .ioError, "cannot create a file in \(escaped(directory)): \(errnoText); set TMPDIR to another directory"
            )
        }
        removeFile(path)
        file = SharedDescriptor(opened)
    }

    /// Appends the next bytes.
    ///
    /// - Returns: Whether it could be kept.
    func append(_ piece: UnsafeRawBufferPointer) -> Bool {
        guard failure == nil else { return false }
        do throws(DigestError) { try hasher.update(piece) } catch {
            failure = EngineError(.internalError, "\(error)")
            return false
        }
        if let file {
            if let code = writeAll(piece, to: file.raw, at: count) {
                failure = EngineError(
                    .ioError,
                    "cannot write to a file in \(escaped(directory)): \(code); set TMPDIR to another directory")
                return false
            }
        } else {
            bytes.append(contentsOf: piece)
        }
        count += UInt64(piece.count)
        return true
    }

    /// Whether exactly the bytes with this digest have arrived; called once, at the end.
    func holds(_ digest: SHA256Digest, size: UInt64) throws(EngineError) -> Bool {
        do throws(DigestError) { return try hasher.finish() == digest && count == size } catch {
            throw EngineError(.internalError, "\(error)")
        }
    }

    /// Passes everything on in pieces of 1 MiB.
    func give(to take: (UnsafeRawBufferPointer) throws(EngineError) -> Void) throws(EngineError) {
        guard let file else {
            return try bytes.withUnsafeBufferPointer { bytes throws(EngineError) in
                try take(UnsafeRawBufferPointer(bytes))
            }
        }
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer { piece.deallocate() }
        var offset: UInt64 = 0
        while offset < count {
            let wanted = Int(min(UInt64(piece.count), count - offset))
            let target = UnsafeMutableRawBufferPointer(rebasing: piece[..<wanted])
            guard readFully(file.raw, into: target, at: offset) == wanted else {
                throw EngineError(.ioError, "cannot read back from \(escaped(directory)): \(errnoText)")
            }
            try take(UnsafeRawBufferPointer(target))
            offset += UInt64(wanted)
        }
    }
}
