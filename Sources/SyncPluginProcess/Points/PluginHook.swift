import CPosix
import SyncModel
package import SyncPlugins

/// Lets a plugin do what follows when a group is complete: method `hook.run`.
package struct PluginHook: GroupHook {
    private let client: PluginClient

    /// Most **bytes** of its output that are kept.
    private static let mostOutput = 64 << 10

    /// Calls the plugin of this client, which was made for ``PluginPoint/hook``.
    package init(_ client: PluginClient) { self.client = client }

    package func run(_ invocation: HookInvocation) -> HookOutcome {
        let clock = SuspendingClock()
        let start = clock.now
        let result: Result<JSONValue, PluginError>
        do throws(PluginError) {
            result = .success(try call(invocation))
        } catch {
            result = .failure(error)
        }
        var outcome = outcome(of: result)
        let time = (clock.now - start).components
        outcome.milliseconds = time.seconds * 1_000 + time.attoseconds / 1_000_000_000_000_000
        return outcome
    }

    private func call(_ invocation: HookInvocation) throws(PluginError) -> JSONValue {
        let report = try client.directory.file(holding: invocation.input, for: client)
        defer { unlink(report) }
        return try client.call(
            "hook.run",
            timeout: .seconds(max(1, invocation.timeout)),
            isStopped: invocation.isStopped
        ) { line in
            line.key("arguments")
            line.array { line in for argument in invocation.arguments.dropFirst() { line.value(argument) } }
            line.field("directory", invocation.directory)
            line.key("environment")
            line.object { line in
                for (name, value) in invocation.environment.sorted(by: { $0.key < $1.key }) {
                    line.field(name, value)
                }
            }
            line.field("report_path", report)
            line.field("timeout", invocation.timeout)
        }
    }

    private func outcome(of result: Result<JSONValue, PluginError>) -> HookOutcome {
        switch result {
        case .success(let value):
            guard let status = value["status"]?.integer.flatMap({ Int32(exactly: $0) }) else {
                return ended(.exited(70), "plugin \(client.name): its answer has no number 'status'")
            }
            return ended(.exited(status), value["output"]?.string ?? "", isTransient: status == 75)
        case .failure(let error):
            switch error.code {
            case .timedOut: return ended(.timedOut, error.description)
            case .cancelled: return ended(.stopped, "")
            case .unavailable: return ended(.notStarted(error.description), "", isTransient: true)
            // 70: EX_SOFTWARE, sysexits(3).
            case .badAnswer: return ended(.exited(70), error.description)
            default: return ended(.exited(1), error.description)
            }
        }
    }

    private func ended(_ end: HookOutcome.End, _ output: String, isTransient: Bool = false) -> HookOutcome {
        HookOutcome(
            end: end,
            output: String(decoding: output.utf8.prefix(Self.mostOutput), as: UTF8.self),
            milliseconds: 0,
            outputBytes: UInt64(output.utf8.count),
            isTransient: isTransient
        )
    }
}
