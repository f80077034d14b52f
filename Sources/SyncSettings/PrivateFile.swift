import Glibc
import SyncModel

/// A small text file whose owner and mode matter.
struct PrivateFile {
    let text: [UInt8]
    /// `nil` when only the owner may read it.
    let openToOthers: String?
    /// `nil` when only the owner may write it.
    let writableByOthers: String?

    /// Reads a regular file of at most `limit` **bytes** that belongs to this user or to root.
    ///
    /// - Returns: `nil` when there is no such file.
    /// - Throws: ``SettingsError`` that begins with the path.
    static func read(_ path: String, limit: Int) throws(SettingsError) -> PrivateFile? {
        func refusal(_ detail: String) -> SettingsError { SettingsError("\(escaped(path)): \(detail)") }
        // A FIFO must not block; what is opened is looked at before it is read.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw refusal(String(cString: strerror(errno)))
        }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw refusal(String(cString: strerror(errno))) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw refusal("not a regular file") }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw refusal("belongs to another user; it must be yours or root's")
        }
        guard status.st_size <= limit else { throw refusal("more than \(ByteCount(UInt64(limit)))") }
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        var length = 0
        while length < bytes.count {
            let count = bytes[length...].withUnsafeMutableBytes {
                Glibc.read(descriptor, $0.baseAddress, $0.count)
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw refusal(String(cString: strerror(errno))) }
            if count == 0 { break }
            length += count
        }
        guard length <= limit else { throw refusal("more than \(ByteCount(UInt64(limit)))") }
        let shown = escaped(path)
        return PrivateFile(
            text: Array(bytes[..<length]),
            openToOthers: status.st_mode & 0o077 == 0 ? nil : "others may read it; run: chmod 600 \(shown)",
            writableByOthers: status.st_mode & 0o022 == 0
                ? nil : "others may write it; run: chmod go-w \(shown)"
        )
    }

    /// Reads a file that holds a secret: it must be there, and its owner alone may read it.
    static func secret(_ path: String) throws(SettingsError) -> [String] {
        guard let file = try read(path, limit: 1 << 16) else {
            throw SettingsError("\(escaped(path)): No such file or directory")
        }
        if let reason = file.openToOthers { throw SettingsError("\(escaped(path)): \(reason)") }
        guard let text = String(validating: file.text, as: UTF8.self) else {
            throw SettingsError("\(escaped(path)): not UTF-8")
        }
        // A line's end is one Character, also CR LF.
        return text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map(String.init)
    }
}
