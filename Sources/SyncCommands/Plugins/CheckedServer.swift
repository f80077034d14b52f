import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncServer
import SyncSystem

/// Serves an object from a directory on 127.0.0.1, for transports to fetch, while `body` runs with its URL.
func whileServed<R: Sendable>(in directory: String, _ body: @escaping @Sendable (String) async throws -> R)
    async throws -> R
{
    _ = try SampleFiles.object(in: directory)
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
