import SyncModel
package import SyncPlugins
import SyncSystem

/// Asks a plugin whether a run may go on: method `condition.state`.
package struct PluginCondition: Condition {
    package let name: String
    private let client: PluginClient

    /// Asks the plugin of this client, which was made for ``PluginPoint/condition``.
    ///
    /// - Parameter name: What `status` and events call it; `nil` for the plugin's name.
    package init(_ client: PluginClient, name: String? = nil) {
        self.client = client
        self.name = name ?? client.name
    }

    package func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        let answer = try client.call("condition.state") { line in
            line.field("destination", context.destination)
            line.field("received_bytes", context.receivedBytes)
            line.field("now", context.now)
        }
        let why = reason(answer["reason"]) ?? "plugin \(client.name) gave no reason"
        switch answer["state"]?.string {
        case "ok": return .ok
        case "blocked": return .blocked(reason: why, until: answer["until"]?.integer)
        case "unknown": return .unknown(reason: why)
        default: throw client.failure(.badAnswer, "its 'state' is not one of ok, blocked, unknown")
        }
    }
}

/// Asks a plugin what to show to an origin: method `credential.get`.
///
/// An answer with a line end or another control character in any text is refused whole.
package struct PluginCredentials: CredentialProvider {
    private let client: PluginClient

    /// Most **bytes** of any of its texts.
    private static let longest = 16 << 10

    /// Asks the plugin of this client, which was made for ``PluginPoint/credential``.
    package init(_ client: PluginClient) { self.client = client }

    package func credential(for request: CredentialRequest) throws(PluginError) -> Credential? {
        let answer = try client.call("credential.get") { line in
            line.field("origin", request.origin)
            line.field("refused", optional: request.refused)
        }
        guard let value = answer["credential"] else { throw bad("it has no 'credential'") }
        if value.isNull { return nil }
        guard let kind = try kind(value) else { throw bad("its 'kind', or what belongs to that, is missing") }
        return Credential(kind, expires: value["expires"]?.integer)
    }

    private func kind(_ value: JSONValue) throws(PluginError) -> Credential.Kind? {
        func text(_ key: String) throws(PluginError) -> String? {
            guard let text = value[key]?.string else { return nil }
            guard text.isOneLine, text.utf8.count <= Self.longest else {
                throw bad("its '\(key)' is not a single line of text")
            }
            return text
        }
        switch value["kind"]?.string {
        case "basic":
            guard let user = try text("user"), let password = try text("password") else { return nil }
            // RFC 7617, section 2.
            if user.utf8.contains(UInt8(ascii: ":")) { throw bad("its 'user' has a colon") }
            return .basic(user: user, password: password)
        case "bearer": return try text("token").map { .bearer(token: $0) }
        case "sigv4":
            guard let accessKey = try text("access_key"), let secretKey = try text("secret_key"),
                let region = try text("region"), let service = try text("service")
            else { return nil }
            return .sigV4(
                accessKey: accessKey, secretKey: secretKey, sessionToken: try text("session_token"), region: region,
                service: service)
        case "headers":
            switch WireText.headers(value["headers"]) {
            case .success(let fields): return fields.isEmpty ? nil : .headers(fields)
            case .failure(let refusal): throw bad(refusal.reason)
            }
        default: return nil
        }
    }

    private func bad(_ reason: String) -> PluginError {
        client.failure(.badAnswer, "its answer is not a credential: \(reason)")
    }
}

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
        var outcome = outcome(of: Result { () throws(PluginError) in try call(invocation) })
        outcome.milliseconds = (clock.now - start).milliseconds
        return outcome
    }

    private func call(_ invocation: HookInvocation) throws(PluginError) -> JSONValue {
        let report = try client.directory.file(holding: invocation.input, for: client)
        defer { removeFile(report) }
        return try client.call(
            "hook.run", timeout: .seconds(max(1, invocation.timeout)), isStopped: invocation.isStopped
        ) { line in
            line.field("arguments", invocation.arguments.dropFirst())
            line.field("directory", invocation.directory)
            line.object("environment") { line in
                for (name, value) in invocation.environment.sorted(by: { $0.key < $1.key }) { line.field(name, value) }
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
            case .unavailable:
                var outcome = ended(.notStarted(error.description), "", isTransient: true)
                outcome.isExhaustion = error.isExhaustion
                return outcome
            // 70: EX_SOFTWARE, sysexits(3).
            case .badAnswer: return ended(.exited(70), error.description)
            default: return ended(.exited(1), error.description)
            }
        }
    }

    private func ended(_ end: HookOutcome.End, _ output: String, isTransient: Bool = false) -> HookOutcome {
        HookOutcome(
            end: end, output: String(decoding: output.utf8.prefix(Self.mostOutput), as: UTF8.self), milliseconds: 0,
            outputBytes: UInt64(output.utf8.count), isTransient: isTransient)
    }
}

/// Tells a plugin of events: method `observer.events`. Its answer says that it has taken them, so that no more are on
/// their way than it can take.
package struct PluginObserver: EventObserver {
    private let client: PluginClient

    private static let most = 500
    /// **Bytes** of one question; an event that is longer goes alone.
    private static let mostBytes = 256 << 10

    /// Tells the plugin of this client, which was made for ``PluginPoint/observer``.
    package init(_ client: PluginClient) { self.client = client }

    package func observe(_ events: [ObservedEvent]) throws(PluginError) {
        var rest = events[...]
        while !rest.isEmpty {
            let batch = takeBatch(&rest, most: Self.most, bytes: Self.mostBytes) {
                $0.json.utf8.count + 2 * $0.name.utf8.count + 32
            }
            _ = try client.call("observer.events") { line in
                line.list("events", batch) { event, line in
                    line.field("name", event.name)
                    line.json("event", event.json)
                }
            }
        }
    }
}

/// Asks a plugin about staged files: method `verifier.verify`.
package struct PluginVerifier: FileVerifier {
    private let client: PluginClient

    /// Most files in one question, so that one deadline is for few files.
    private static let most = 64

    /// Asks the plugin of this client, which was made for ``PluginPoint/verifier``.
    package init(_ client: PluginClient) { self.client = client }

    package func verify(_ files: [StagedFile]) throws(PluginError) -> [FileVerdict] {
        var verdicts: [FileVerdict] = []
        for start in stride(from: 0, to: files.count, by: Self.most) {
            let batch = files[start..<min(start + Self.most, files.count)]
            let answer = try client.call("verifier.verify") { line in
                line.list("files", batch) { file, line in
                    line.field("path", file.path)
                    line.field("staged_path", file.stagedPath)
                    line.field("size", file.size)
                    line.field("sha256", file.sha256)
                }
            }
            guard let list = answer["verdicts"]?.array, list.count == batch.count else {
                throw client.failure(.badAnswer, "its answer has no list 'verdicts' with one entry for each file")
            }
            for value in list { verdicts.append(try verdict(value)) }
        }
        return verdicts
    }

    private func verdict(_ value: JSONValue) throws(PluginError) -> FileVerdict {
        switch value["verdict"]?.string {
        case "accepted": return .accepted
        case "refused": return .refused(reason: reason(value["reason"]) ?? "plugin \(client.name) gave no reason")
        default: throw client.failure(.badAnswer, "a verdict that is not one of accepted, refused")
        }
    }
}
