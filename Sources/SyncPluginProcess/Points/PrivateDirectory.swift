import CPosix
import SyncModel
import SyncPlugins
import Synchronization

/// A directory that only this user can look into, made when it is first needed.
final class PrivateDirectory: Sendable {
    private struct State {
        var path: String?
        var number = 0
    }

    private let parent: String
    private let state = Mutex(State())

    /// - Parameter parent: Absolute.
    init(in parent: String) { self.parent = parent }

    deinit { remove() }

    /// Removes it when nothing is in it any more. It is made again when it is needed again.
    func remove() {
        state.withLock { state in
            if let path = state.path, rmdir(path) == 0 { state.path = nil }
        }
    }

    /// A name in it that was not given before.
    func newPath(for client: PluginClient) throws(PluginError) -> String {
        let made: Result<String, PluginError> = state.withLock { state in
            state.number += 1
            if let path = state.path { return .success("\(path)/\(state.number)") }
            // mkdtemp(3) makes it with mode 0700.
            var template = Array("\(parent)/syncagent-plugin-XXXXXX".utf8CString)
            guard mkdtemp(&template) != nil else {
                let why = String(cString: strerror(sa_errno()))
                return .failure(
                    client.failure(.unavailable, "cannot make a directory in '\(escaped(parent))': \(why)")
                )
            }
            let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
            state.path = path
            return .success("\(path)/\(state.number)")
        }
        return try made.get()
    }

    /// Makes a file with `bytes`; the caller removes it.
    func file(holding bytes: [UInt8], for client: PluginClient) throws(PluginError) -> String {
        let path = try newPath(for: client)
        let file = sa_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        var code = file < 0 ? sa_errno() : 0
        var done = 0
        while code == 0, done < bytes.count {
            let count = bytes[done...].withUnsafeBytes { sa_write(file, $0.baseAddress, $0.count) }
            if count > 0 { done += count } else if sa_errno() != EINTR { code = sa_errno() }
        }
        if file >= 0 { close(file) }
        guard code == 0 else {
            unlink(path)
            throw client.failure(
                .unavailable,
                "cannot write '\(escaped(path))': \(String(cString: strerror(code)))"
            )
        }
        return path
    }

    /// Makes a FIFO; the caller removes it. mkfifo(3).
    func fifo(for client: PluginClient) throws(PluginError) -> String {
        let path = try newPath(for: client)
        guard mkfifo(path, 0o600) == 0 else {
            let why = String(cString: strerror(sa_errno()))
            throw client.failure(.unavailable, "cannot make the pipe '\(escaped(path))': \(why)")
        }
        return path
    }
}
