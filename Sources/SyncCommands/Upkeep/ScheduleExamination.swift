import SyncAgent
import SyncModel
import SyncSchedule

extension Examination {
    /// Whether every schedule can be understood, is in effect, and has somebody who starts it.
    static func schedules(_ access: StateAccess, _ findings: inout Findings) {
        // Without a home directory there are none.
        guard let records = try? ScheduleRecords() else { return }
        let installation = ScheduleInstallation()
        let commands = SystemCommands(environment: .ofProcess)
        for name in records.names {
            let subject = "schedule \(name)"
            do throws(ScheduleError) {
                guard let backend = try records.find(name)?.definition.backend else { continue }
                guard installation.isActive(name, on: backend) else {
                    findings.problem(
                        subject,
                        "\(backend.rawValue) does not have it",
                        "'syncagent schedule add' it again, or remove it"
                    )
                    continue
                }
                if backend == .systemdUser, !commands.doesLinger {
                    findings.problem(
                        subject,
                        "systemd stops your units when you log out",
                        "loginctl enable-linger \(escaped(commands.userName))"
                    )
                }
                if backend == .cron || backend == .cronSystem, !commands.isCronRunning {
                    findings.problem(
                        subject,
                        "no cron daemon is running",
                        "start cron, or use another --backend"
                    )
                }
                if backend == .agent, !AgentLock.isHeld(in: access.place.stateDirectory) {
                    findings.problem(
                        subject,
                        "it is the agent's, and none is running",
                        "make 'syncagent agent run' a service, or the container's main process"
                    )
                }
            } catch {
                findings.problem(subject, error.description, "see above")
            }
        }
    }
}
