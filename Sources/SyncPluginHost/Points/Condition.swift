import SyncModel
package import SyncPlugins
import SyncSystem

/// Asks a plugin whether a run may proceed: method `condition.state`.
package struct PluginCondition: Condition {
    package let name: String
    private let client: PluginClient

    /// Uses this client's plugin; the client must have been made for ``PluginPoint/condition``.
    ///
    /// - Parameter name: Its name in `status` and events; `nil` for the plugin's name.
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

/// Checks a condition.
///
/// - Parameters:
///   - condition: In any state.
///   - destination: A directory, absolute.
///   - now: **Milliseconds** since 1970.
package func check(condition: any Condition, destination: String = "/tmp", now: Int64) -> [CheckResult] {
    var book: [CheckResult] = []
    let context = ConditionContext(destination: destination, now: now)

    book.rule(
        "Its name is lower case, words joined by _ or -",
        "The name appears in status and events, where scripts look for it."
    ) {
        let isGood = condition.name.utf8.allSatisfy { byte in
            (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x5F || byte == 0x2D
        }
        return isGood && !condition.name.isEmpty ? nil : "it is called '\(condition.name)'"
    }
    book.rule(
        "It answers ok, blocked with a reason, or unknown with a reason",
        "People read the reason in status: say what blocks in a few words."
    ) { fault(of: condition, context) }
    book.rule(
        "If it says until when it blocks, that time is in the future, and within a year",
        "'until' is in milliseconds since 1970; leave it out when it is not known."
    ) {
        let result = Result { () throws(PluginError) in try condition.state(in: context) }
        guard case .success(.blocked(_, .some(let until))) = result, !ConditionState.isEnd(until, at: now) else {
            return nil
        }
        if until > now { return "until is more than a year ahead" }
        return "until is \(now.saturatingSubtract(until)) ms ago" + (until < now / 500 ? "; is it in seconds?" : "")
    }
    book.rule(
        "It handles a destination that does not exist, and many bytes", "Answer unknown for what cannot be checked."
    ) {
        fault(
            of: condition, ConditionContext(destination: "/nonexistent/\u{1F5BC} x", receivedBytes: 1 << 50, now: now))
    }
    book.rule("Ten questions in a row are answered", "It is asked every few seconds for as long as a run lasts.") {
        for _ in 0..<10 { if let fault = fault(of: condition, context) { return fault } }
        return nil
    }
    book.rule("Four callers at a time all get answers", "Requests arrive before earlier ones are answered.") {
        together(4) { _ in fault(of: condition, context) }
    }
    return book
}

private func fault(of condition: any Condition, _ context: ConditionContext) -> String? {
    switch Result(catching: { () throws(PluginError) in try condition.state(in: context) }) {
    case .failure(let error): "it failed: \(error.message)"
    case .success(.ok): nil
    case .success(.blocked(let reason, _)): reason.isEmpty ? "blocked without a reason" : nil
    case .success(.unknown(let reason)): reason.isEmpty ? "unknown without a reason" : nil
    }
}
