import Foundation
import SyncAgent
import SyncModel
import SyncSystem

// How verbs that change something reach the agent: a running one, the user's systemd unit, or one started here.
extension StateAccess {
    /// The unit that is started when the user has enabled it.
    private static let unit = "syncagent.service"

    /// Makes sure that an agent answers; starts one if none does.
    ///
    /// - Returns: A client of the agent.
    /// - Throws: ``CommandFailure`` with status 69 if no agent answers within ten seconds.
    @discardableResult func reachAgent() async throws -> ControlClient {
        try await sayingWhatKeeps {
            do {
                if try await client.status().state != .stopping { return client }
            } catch let error as ControlError where error.code == .unreachable {
                await startUnit()
            }
            do {
                try await place.reach(
                    starting: EnvironmentPaths.ownProgram, environment: ProcessInfo.processInfo.environment
                ) { client }
            } catch let error as ControlError { throw CommandFailure(error) }
            return client
        }
    }

    /// Waits for an answer that an agent gives at once, and after some seconds reports what is waited for. An agent
    /// that is stopped (SIGSTOP), or whose disk hangs, has a minute.
    func sayingWhatKeeps<R>(_ answer: () async throws -> R) async throws -> R {
        let notice = Task { [output, place] in
            guard (try? await Task.sleep(for: .seconds(5))) != nil else { return }
            output.message(
                "Waiting for the agent, which has not answered on \(escaped(place.socketPath)) yet; its process ID is in "
                    + "\(escaped(place.stateDirectory))/agent.lock.")
        }
        defer { notice.cancel() }
        return try await answer()
    }

    /// Calls the agent; its errors become the command's.
    func askAgent<R: Sendable>(_ work: @Sendable (ControlClient) async throws -> R) async throws -> R {
        var (since, freshStarts) = (ContinuousClock.now, 3)
        while true {
            let client = try await reachAgent()
            let start = ContinuousClock.now
            do { return try await work(client) } catch let error as ControlError {
                // If an agent is lost after it has worked for a while, the next one gets its time, too. Not so after a
                // call that timed out: that agent still exists.
                let lasted = ContinuousClock.now - start
                if freshStarts > 0, lasted > .seconds(1), lasted < client.timeout {
                    (since, freshStarts) = (.now, freshStarts - 1)
                }
                // The agent stopped between two calls, so the next one is called. Every command may be repeated.
                let mayBeRepeated = error.code == .stopping || error.code == .unreachable
                guard mayBeRepeated, .now - since < .seconds(10) else { throw CommandFailure(error) }
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    /// Starts the user's unit if it is enabled. Whether that worked shows at the socket.
    private func startUnit() async {
        let environment = EnvironmentPaths.ofProcess
        // Without a user manager, systemctl(1) would only report that.
        guard let runtime = environment.baseDirectories.runtime, exists(runtime + "/systemd"),
            let program = environment.program(named: "systemctl")
        else { return }
        guard await Self.run(program, ["--user", "--quiet", "is-enabled", Self.unit]) else { return }
        _ = await Self.run(program, ["--user", "start", Self.unit])
    }

    private static func run(_ program: String, _ arguments: [String]) async -> Bool {
        let variables = ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" }
        let start = ProgramStart([program] + arguments, variables: variables)
        // If it cannot be started, it counts as failed.
        let end = try? await onThread("systemctl") { (try? start.start())?.wait() }
        return end == .exited(0)
    }
}
