import SyncModel
import SyncPlugins
import SyncSystem

/// A directory that only this user can access, created when first needed.
final class PrivateDirectory: Sendable {
    private let parent: String
    private let state = Mutex((path: String?.none, number: 0))

    /// - Parameter parent: Absolute.
    init(in parent: String) { self.parent = parent }

    deinit { remove() }

    /// Removes it once it is empty. It is created again when needed.
    func remove() {
        state.withLock { state in if let path = state.path, removeDirectory(path) == nil { state.path = nil } }
    }

    /// A path in it that was not used before.
    func newPath(for client: PluginClient) throws(PluginError) -> String {
        try state.withLock { state throws(PluginError) in
            state.number += 1
            if let path = state.path { return "\(path)/\(state.number)" }
            guard let path = makeTemporaryDirectory("\(parent)/syncagent-plugin-") else {
                let why = errnoText
                throw client.failure(.unavailable, "cannot make a directory in '\(escaped(parent))': \(why)")
            }
            do throws(FileError) { try checkParent(of: path) } catch {
                removeDirectory(path)
                throw client.failure(.unavailable, error.description)
            }
            state.path = path
            return "\(path)/\(state.number)"
        }
    }

    /// Makes a file and lets `write` fill it; the caller removes it.
    ///
    /// - Parameter write: Returns why a write failed.
    func file(for client: PluginClient, _ write: (Int32) -> Errno?) throws(PluginError) -> String {
        let path = try newPath(for: client)
        do throws(FileError) {
            let file = try createFile(path, .writeOnly)
            if let code = write(file.raw) { throw FileError(step: "write", path: path, code: code) }
        } catch {
            removeFile(path)
            var failure = client.failure(.unavailable, error.description)
            failure.isExhaustion = ProgramError(error).code == .exhausted
            throw failure
        }
        return path
    }

    /// Makes a FIFO; the caller removes it. mkfifo(3).
    func fifo(for client: PluginClient) throws(PluginError) -> String {
        let path = try newPath(for: client)
        if let code = makeFIFO(path, mode: 0o600) {
            throw client.failure(.unavailable, "cannot make the pipe '\(escaped(path))': \(code)")
        }
        return path
    }
}
