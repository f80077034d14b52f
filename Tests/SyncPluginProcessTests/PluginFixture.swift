import Foundation
import SyncModel
import SyncPluginHost
import SyncPlugins
import SyncTestKit
import Synchronization
import Testing

/// Plugins written for a test, the clients that talk to them, and what is told of them.
final class PluginFixture: Sendable {
    let root: TemporaryRoot
    private let told = Mutex<[PluginNotice]>([])
    private let clients = Mutex<[PluginClient]>([])

    init() throws { root = try TemporaryRoot() }

    // A test that ended early leaves no process behind. Not on this thread: it may be one of the pool's few.
    deinit {
        let all = clients.withLock { $0 }
        guard !all.isEmpty else { return }
        Thread.detachNewThread { for client in all { client.close() } }
    }

    /// Why tests with plugins cannot run here; `nil` when they can.
    static let hasPython = FileManager.default.isExecutableFile(atPath: "/usr/bin/python3")

    /// What every test plugin begins with: `serve(handler)` answers what `handler(message)` returns.
    private static let prelude = """
        #!/usr/bin/python3
        import json, os, signal, subprocess, sys, threading, time
        lock = threading.Lock()
        def write(text):
            with lock:
                sys.stdout.write(text)
                sys.stdout.flush()
        def send(message):
            write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
        def answer(message, result):
            send({"id": message["id"], "result": result})
        points = ["resolver", "credential", "condition", "verifier", "hook", "observer", "transport"]
        def hello(message, protocol=1):
            answer(message, {"protocol": protocol, "name": "test", "points": points})
        def proceed(message):
            count = len(message["params"]["requests"])
            answer(message, {"dispositions": [{"disposition": "continue"}] * count})
        def urls(message):
            return [request["url"] for request in message["params"].get("requests", [])]
        def serve(handler):
            for line in sys.stdin:
                message = json.loads(line)
                if message["method"] == "initialize":
                    hello(message)
                elif message["method"] == "shutdown":
                    answer(message, None)
                    return
                else:
                    handler(message)

        """

    /// Writes a Python program and makes its configuration.
    func configuration(
        _ body: String, named name: String = "test", point: PluginPoint = .resolver, prelude: String? = nil,
        change: (inout PluginConfiguration) -> Void = { _ in }
    ) throws -> PluginConfiguration {
        let file = "plugins/syncagent-plugin-\(name)"
        try root.write(Array(((prelude ?? Self.prelude) + body + "\n").utf8), to: file, executable: true)
        let program = try PluginProgram(name, directory: root.path("plugins"), destination: root.path("dest"))
        return configuration(program, point: point, change: change)
    }

    /// Makes the configuration of a program that exists.
    func configuration(
        _ program: PluginProgram, point: PluginPoint?, change: (inout PluginConfiguration) -> Void = { _ in }
    ) -> PluginConfiguration {
        var configuration = PluginConfiguration(
            program: program, point: point, environment: ["HOME": "/root", "SECRET": "canary"], version: "0.0.0-test",
            notice: { [weak self] notice in self?.told.withLock { $0.append(notice) } })
        configuration.limits.shutdown = .milliseconds(300)
        configuration.runtimeDirectory = root.path
        change(&configuration)
        return configuration
    }

    /// The directory of the example plugins.
    static let examples = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Examples/plugins").path

    /// A plugin of Examples, copied to where nobody else can change it, whatever the checkout's permissions are.
    func example(_ name: String) throws -> PluginProgram {
        let file = URL(fileURLWithPath: "\(Self.examples)/\(PluginProgram.prefix)\(name)")
        try root.write(
            Array(try Data(contentsOf: file)), to: "plugins/\(PluginProgram.prefix)\(name)", executable: true)
        return try PluginProgram(name, directory: root.path("plugins"), destination: root.path("dest"))
    }

    /// A client for a Python program; closed with the fixture.
    func client(
        _ body: String, named name: String = "test", point: PluginPoint = .resolver,
        change: (inout PluginConfiguration) -> Void = { _ in }
    ) throws -> PluginClient { client(try configuration(body, named: name, point: point, change: change)) }

    func client(_ configuration: PluginConfiguration) -> PluginClient {
        let client = PluginClient(configuration)
        clients.withLock { $0.append(client) }
        return client
    }

    /// Notices so far, of one kind or of all.
    func notices(_ kind: PluginNotice.Kind? = nil) -> [String] {
        told.withLock { $0.filter { kind == nil || $0.kind == kind }.map(\.text) }
    }

    /// Whether a file below the root is there.
    func exists(_ name: String) -> Bool { root.read(name) != nil }

    func text(_ name: String) -> String { String(decoding: root.read(name) ?? [], as: UTF8.self) }
}

/// Runs what blocks on a thread of its own.
func blocking<R: Sendable>(_ body: @escaping @Sendable () -> R) async -> R {
    await withCheckedContinuation { continuation in Thread.detachNewThread { continuation.resume(returning: body()) } }
}

extension PluginClient {
    /// Asks a resolver about one URL, or says why it could not.
    func resolve(_ url: String = "https://a.example/1") async -> Result<RequestDisposition?, PluginError> {
        await blocking { [self] in
            do throws(PluginError) {
                let request = ResolverRequest(url: url, original: url)
                return .success(try self.resolve([request]).first)
            } catch { return .failure(error) }
        }
    }
}

extension Result where Success: Sendable, Failure == PluginError {
    /// The code of a failure.
    var code: PluginError.Code? { if case .failure(let error) = self { error.code } else { nil } }
    var message: String { if case .failure(let error) = self { error.message } else { "" } }
}

/// Whether a process is there and not a zombie. proc(5).
func isAlive(_ process: Int32) -> Bool {
    guard let status = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return false }
    let afterName = status.split(separator: ")").last ?? ""
    return !afterName.hasPrefix(" Z") && !afterName.hasPrefix(" X")
}

/// Waits until something is so; a test fails by its time limit otherwise.
func wait(until isSo: () -> Bool) async throws { while !isSo() { try await Task.sleep(for: .milliseconds(5)) } }

/// A result of a call that throws.
func outcome<R: Sendable>(_ body: @escaping @Sendable () throws -> R) async -> Result<R, PluginError> {
    await blocking {
        do { return .success(try body()) } catch let error as PluginError { return .failure(error) } catch {
            return .failure(PluginError(plugin: "?", code: .refused, message: "\(error)"))
        }
    }
}
