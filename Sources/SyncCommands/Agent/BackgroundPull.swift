import Foundation
import SyncAgent
import SyncAssembly
import SyncEngine
import SyncModel
import SyncStore
import SyncSystem

// A pull by the agent: everything it needs is made absolute here, in the user's environment.
extension EngineCall {
    /// Hands the pull to the agent, and reports the result.
    func pullInBackground() async throws {
        let environment = EnvironmentPaths.ofProcess
        let state = try StateAccess(environment: environment, output: output)
        let request = try await enqueueRequest(environment)
        let reply = try await saying("The agent is fetching the manifest; Ctrl-C stops waiting.") {
            try await state.askAgent { try await $0.enqueue(request) }
        }
        for warning in reply.warnings ?? [] { output.warning(warning) }
        if json { return output.event(Self.event(reply), flushing: true) }
        let text = SessionText(now: SystemTime.milliseconds())
        let name = escaped(reply.session)
        var words = "\(name): run \(reply.run) " + (reply.isNew ? "is" : "exists already and is") + " \(reply.state)"
        if let start = reply.notBefore { words += ", not before \(text.moment(start))" }
        if reply.state == .paused { words += "; 'syncagent resume \(name)' starts it" }
        output.message(words + ". 'syncagent status' and 'syncagent attach' show it.")
        if !recipe.conditions.words.isEmpty {
            output.message("It runs only \(recipe.conditions.words.joined(separator: ", ")).")
        }
        let agent = try await state.askAgent { try await $0.status() }
        output.message(
            agent.onDemand
                ? "It survives a logout and a crash. After a reboot it continues with the next command that needs the "
                    + "agent, or at once if 'syncagent agent run' is a service."
                : "It survives a reboot and continues as soon as the agent runs again.")
        if !reply.superseded.isEmpty { output.message("It replaces \(reply.superseded.joined(separator: ", ")).") }
    }

    /// Prints a message if the work takes longer than two seconds.
    private func saying<R: Sendable>(_ words: String, _ work: () async throws -> R) async throws -> R {
        let notice = Task { [output] in
            try await Task.sleep(for: .seconds(2))
            output.message(words)
        }
        defer { notice.cancel() }
        return try await work()
    }

    /// The request for the agent. The engine reads the manifest if the request needs it.
    ///
    /// - Parameter isReadOnly: Whether nothing is recorded yet, not even a trusted root.
    func enqueueRequest(_ environment: EnvironmentPaths, isReadOnly: Bool = false) async throws -> EnqueueRequest {
        let (_, settings) = try self.request.resolved(on: environment.host)
        var (request, project) = (recipe, String?.none)
        var root: SHA256Digest?
        try rethrowing(settings.keep(in: &request)) { (error: SettingsError) in
            CommandFailure(.usage, "\(error.description).")
        }
        // The manifest's project determines the destination. Trust is decided here: the agent uses only existing pins.
        // The hooks that groups name are not: a later release may name others.
        if recipe.destination == nil || recipe.trust != nil {
            let found = try await lookedUp(isReadOnly: isReadOnly)
            (project, root) = (found.project, found.root)
        }
        if !request.manifest.contains("://") { request.manifest = try EnvironmentPaths.standardized(request.manifest) }
        let destination = try EnvironmentPaths.standardized(recipe.destination ?? project ?? ".")
        try PullEngine.requireForeign(destination)
        request.destination = destination
        // The number that the agent plans with.
        if settings.transfer.connections != nil { request.settings.connections = settings.transfer.plannedConnections }
        request.deadlineSeconds = settings.transfer.deadline.map { $0.components.seconds }
        // A schedule outlives pins, so it names the root that was accepted now. A run starts from that root if it has
        // no pin.
        request.trust = recipe.origin == .schedule ? root.map { "SHA256:\($0)" } : nil
        return request
    }

    /// The manifest's project, and the root that the recipe trusts. Also checks all of the pull that can be checked.
    private func lookedUp(isReadOnly: Bool) async throws -> (project: String, root: SHA256Digest?) {
        var unnamed = recipe
        unnamed.session = nil
        return try await withReadOnlyEngine { [unnamed] in
            let (start, found, _) = try $0.prepare(unnamed, isReadOnly: isReadOnly)
            return (start.session.project, found.beginningOfTrust)
        }
    }

    private static func event(_ reply: EnqueueReply) -> JSONLine {
        SyncEvent(.runEnqueued, time: SystemTime.milliseconds(), session: reply.session, run: reply.run) { line in
            line.field("is_new", reply.isNew)
            line.field("state", reply.state)
            line.field("superseded", reply.superseded)
            line.time("not_before", reply.notBefore?.milliseconds)
        }.json
    }
}
