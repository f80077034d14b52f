import Foundation
import Logging
package import SyncAgent
package import SyncDaemon

/// A directory of its own and a control server in it, for as long as `body` runs.
package func withServer<R: Sendable>(
    of control: any AgentControl, options change: @Sendable (inout ControlServer.Options) -> Void = { _ in },
    _ body: @escaping @Sendable (_ socketPath: String) async throws -> R
) async throws -> R {
    let directory = FileManager.default.temporaryDirectory.path + "/sa-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    // A leftover in the temporary directory harms nobody.
    defer { try? FileManager.default.removeItem(atPath: directory) }
    var options = ControlServer.Options(
        socketPath: directory + "/run/agent.sock", version: "9.8.7", now: { 784_111_777 })
    change(&options)
    return try await serving(options, control, body)
}

/// Runs a server for as long as `body` runs.
package func serving<R: Sendable>(
    _ options: ControlServer.Options, _ control: any AgentControl,
    _ body: @escaping @Sendable (_ socketPath: String) async throws -> R
) async throws -> R {
    let server = ControlServer(
        options, control: control, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
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
            return try await body(options.socketPath)
        }
        var result: R?
        while let part = try await group.next() { result = result ?? part }
        guard let result else { throw CancellationError() }
        return result
    }
}
