import Foundation
import SyncPluginHost
import SyncPlugins

/// A destination, a place for programs outside it, and hooks that run there.
final class HookFixture: Sendable {
    let root: String
    let destination: String
    let programs: String

    init() throws {
        root = FileManager.default.temporaryDirectory.path + "/hooks-" + UUID().uuidString
        destination = root + "/dest"
        programs = root + "/programs"
        for directory in [destination, programs] {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        }
    }

    // What cannot be removed is in the temporary directory.
    deinit { try? FileManager.default.removeItem(atPath: root) }

    /// Writes a shell script and returns its path.
    func script(_ body: String, named name: String = "hook", in directory: String? = nil, mode: Int = 0o755) throws
        -> String
    {
        let path = (directory ?? programs) + "/" + name
        try Data("#!/bin/sh\n\(body)\n".utf8).write(to: URL(fileURLWithPath: path))
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
        return path
    }

    func invocation(_ arguments: [String], report: [UInt8] = Array("{}".utf8), timeout: Int = 60) -> HookInvocation {
        HookInvocation(
            arguments: arguments, directory: destination,
            environment: [
                "SYNCAGENT_SESSION": "com.example.tower", "SYNCAGENT_RUN_ID": "20261120T020000Z-0000002a",
                "SYNCAGENT_GROUP": "all", "SYNCAGENT_RESULT": "ok", "SYNCAGENT_CHANGED": "3",
                "SYNCAGENT_DESTINATION": destination, "SYNCAGENT_ATTEMPT": "2",
            ], input: report, timeout: timeout)
    }

    /// Runs a script with the system's own environment and short waits.
    func run(
        _ body: String, report: [UInt8] = Array("{}".utf8), timeout: Int = 60, grace: Duration = .milliseconds(200),
        linger: Duration = .milliseconds(300), isStopped: @escaping @Sendable () -> Bool = { false }
    ) async throws -> HookOutcome {
        var limits = ProgramHook.Limits()
        limits.grace = grace
        limits.linger = linger
        let hook = ProgramHook(environment: ["HOME": "/root", "SECRET": "canary"], limits: limits)
        var invocation = invocation([try script(body)], report: report, timeout: timeout)
        invocation.isStopped = isStopped
        return await run(hook, invocation)
    }

    /// Runs a hook on a thread of its own: it blocks.
    func run(_ hook: ProgramHook, _ invocation: HookInvocation) async -> HookOutcome {
        await withCheckedContinuation { continuation in
            Thread.detachNewThread { continuation.resume(returning: hook.run(invocation)) }
        }
    }

    func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: root + "/" + name) }

    func contents(_ name: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(fileURLWithPath: root + "/" + name)), as: UTF8.self)
    }
}

/// Whether a process is there and not a zombie. proc(5).
func isAlive(_ process: Int32) -> Bool {
    guard let status = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else { return false }
    let afterName = status.split(separator: ")").last ?? ""
    return !afterName.hasPrefix(" Z") && !afterName.hasPrefix(" X")
}
