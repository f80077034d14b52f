/// The agent's own clock: it reads the definitions itself, so there is nothing to install.
struct AgentBackend: ScheduleBackend {
    let name = "agent"
    let words = "the agent"
    let choice = "agent"
    let isForMachine = false
    let needsAgent = true

    var advice: String? {
        "An agent is running and will start it. After a reboot nothing starts one: run 'syncagent agent run' as a "
            + "service, or as the container's main process."
    }

    /// Has no requirements.
    func reason(on machine: MachineFacts, isNamed: Bool) -> String { isNamed ? "--backend agent" : "" }

    func preview(_ start: ScheduledStart) -> String { "The agent's own clock; nothing is installed." }
    func install(_ start: ScheduledStart) -> [String] { [] }
    func holds(_ start: ScheduledStart) -> Bool { true }
    func remove(_ name: String) -> Bool { false }
    func isInEffect(_ name: String) -> Bool { true }

    func concern(_ machine: MachineFacts) -> (problem: String, remedy: String)? {
        guard !machine.isAgentRunning() else { return nil }
        return (
            "the agent starts it, and is not running",
            "run 'syncagent agent run' as a service, or as the container's main process"
        )
    }
}
