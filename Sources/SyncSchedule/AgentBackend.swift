/// The agent's own clock: it reads the definitions themselves, so there is nothing to install.
package struct AgentBackend: ScheduleBackend {
    package let name = "agent"
    package let words = "the agent"
    package let choice = "agent"
    package let isForMachine = false
    package let needsAgent = true

    package var advice: String? {
        "An agent is running and will start it. After a reboot nothing starts one: run 'syncagent agent run' as a "
            + "service, or as the container's main process."
    }

    /// It needs nothing of the machine.
    package func reason(on machine: MachineFacts, isNamed: Bool) -> String {
        isNamed ? "--backend agent" : ""
    }

    package func preview(_ start: ScheduledStart) -> String { "The agent's own clock; nothing is installed." }
    package func install(_ start: ScheduledStart) -> [String] { [] }
    package func holds(_ start: ScheduledStart) -> Bool { true }
    package func remove(_ name: String) -> Bool { false }
    package func isInEffect(_ name: String) -> Bool { true }

    package func concern(_ machine: MachineFacts) -> BackendConcern? {
        guard !machine.isAgentRunning() else { return nil }
        return BackendConcern(
            problem: "the agent starts it, and is not running",
            remedy: "run 'syncagent agent run' as a service, or as the container's main process"
        )
    }
}
