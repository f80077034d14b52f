import Foundation
import Logging
package import SyncAgent
package import SyncDaemon

/// A directory of its own and a control server in it, for as long as `body` runs.
package func withServer<R: Sendable>(
    of control: any AgentControl, options change: @Sendable (inout ControlServer) -> Void = { _ in },
    _ body: @escaping @Sendable (_ socketPath: String) async throws -> R
) async throws -> R {
    let directory = FileManager.default.temporaryDirectory.path + "/sa-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    // A leftover in the temporary directory harms nobody.
    defer { try? FileManager.default.removeItem(atPath: directory) }
    var server = server(at: directory + "/run/agent.sock", of: control)
    change(&server)
    return try await serving(server, body)
}

/// A server that does not run yet.
package func server(at socketPath: String, of control: any AgentControl = FakeAgent()) -> ControlServer {
    ControlServer(
        of: control, socketPath: socketPath, version: "9.8.7", now: { 784_111_777 },
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
}

/// Runs a server for as long as `body` runs.
package func serving<R: Sendable>(
    _ server: ControlServer, _ body: @escaping @Sendable (_ socketPath: String) async throws -> R
) async throws -> R {
    let (isUp, up) = AsyncStream.makeStream(of: Void.self)
    let (isOver, over) = AsyncStream.makeStream(of: Void.self)
    return try await withThrowingTaskGroup(of: R?.self) { group in
        group.addTask {
            defer { up.finish() }
            try await server.run(listening: { up.finish() }, until: { for await _ in isOver {} })
            return nil
        }
        group.addTask {
            defer { over.finish() }
            for await _ in isUp {}
            return try await body(server.socketPath)
        }
        var result: R?
        while let part = try await group.next() { result = result ?? part }
        guard let result else { throw CancellationError() }
        return result
    }
}
