import SyncModel
import SyncSystem

/// The private keys among the files of a source, which nobody means to publish. For any thread.
final class FoundKeys: Sendable {
    private let files = Mutex<[Int]>([])

    func add(_ file: Int) { files.withLock { $0.append(file) } }

    /// The error that names them; `nil` for none.
    func error(in tree: SourceTree) -> PublishError? {
        let found = files.withLock { $0.sorted() }
        guard !found.isEmpty else { return nil }
        let more = found.count - WalkNotes.named
        return .refused(
            found.count == 1 ? "1 file is a private key:" : "\(found.count) files are private keys:",
            details: found.prefix(WalkNotes.named).map { shown(tree.path($0)) }
                + (more > 0 ? ["and \(more) more"] : []),
            "move them, or leave them out with --exclude; if everybody may have them: --allow-private-keys; "
                + "nothing was published")
    }

    /// Whether a file begins as files of private keys do: PEM (RFC 7468) of PKCS#8, PKCS#1, SEC 1 and OpenSSH, with whatever
    /// blocks are before the key, as `openssl ecparam -genkey` and servers that want one file have it; and PuTTY's.
    ///
    /// - Parameter bytes: The file, or the first 64 KiB of it at least.
    static func isPrivateKey(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard
            let start = bytes.prefix(512).firstIndex(where: {
                ![0x20, 0x09, 0x0A, 0x0D, 0xEF, 0xBB, 0xBF].contains($0)
            })
        else { return false }
        let text = bytes[start...]
        if text.starts(with: "PuTTY-User-Key-File-".utf8) { return true }
        guard ["-----BEGIN ", "---- BEGIN ", "Bag Attributes"].contains(where: { text.starts(with: $0.utf8) }) else {
            return false
        }
        return text.split(separator: 0x0A).contains { line in
            guard line.starts(with: "-----BEGIN ".utf8) || line.starts(with: "---- BEGIN ".utf8) else { return false }
            return String(decoding: line.prefix(80), as: UTF8.self).contains("PRIVATE KEY")
        }
    }
}

extension EncodeWorker.Source {
    /// Whether a file that was read must not be published; it is noted then.
    func refusesKey(_ file: Int, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard !options.permits.contains(.privateKeys), FoundKeys.isPrivateKey(bytes) else { return false }
        privateKeys.add(file)
        return true
    }
}
