import Foundation
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncServer
import SyncSystem

/// A directory that only this user can access.
struct ScratchDirectory: Sendable {
    let path: String

    init(in parent: String) throws(CommandFailure) {
        guard let path = makeTemporaryDirectory("\(parent)/syncagent-check-") else {
            throw CommandFailure(.cannotCreate, "Cannot make a directory in \(escaped(parent)).")
        }
        self.path = path
    }

    // If it cannot be removed, it stays in a directory for temporary files.
    func remove() { try? FileManager.default.removeItem(atPath: path) }
}

/// An object on a local server, for transports to fetch.
struct CheckedServer: Sendable {
    private let directory: String

    init(in directory: String) throws(PluginError) {
        self.directory = directory
        _ = try SampleFiles.object(in: directory)
    }

    /// Serves the object on 127.0.0.1 while `body` runs.
    func whileServed<R: Sendable>(_ body: @escaping @Sendable (String) async throws -> R) async throws -> R {
        let server = try StaticServer(directory: directory)
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let (stops, stop) = AsyncStream.makeStream(of: Void.self)
        return try await withThrowingTaskGroup(of: R?.self) { group in
            group.addTask {
                defer { port.finish() }
                try await server.run(listening: { port.yield($0) }, until: { for await _ in stops {} })
                return nil
            }
            group.addTask {
                defer { stop.finish() }
                for await number in ports { return try await body("http://127.0.0.1:\(number)/object.bin") }
                return nil
            }
            var result: R?
            for try await value in group { result = value ?? result }
            guard let result else {
                throw CommandFailure(.unavailable, "Cannot start the test server on a local port.")
            }
            return result
        }
    }
}
