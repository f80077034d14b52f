import SyncModel
import SyncSchedule

extension Examination {
    /// Whether every schedule can be understood, is in effect, and has somebody who starts it.
    static func schedules(_ access: StateAccess, _ findings: inout Findings) {
        // Without a home directory there are none.
        guard let records = try? ScheduleRecords() else { return }
        let installation = ScheduleInstallation()
        let machine = SystemCommands(environment: .ofProcess).facts(access)
        for name in records.names {
            let subject = "schedule \(name)"
            do throws(ScheduleError) {
                guard let definition = try records.find(name)?.definition, !definition.isPaused else {
                    continue
                }
                let backend = installation.backend(definition.backend)
                guard backend.isInEffect(name) else {
                    findings.problem(
                        subject,
                        "\(definition.backend.rawValue) does not have it",
                        "'syncagent schedule add' it again, or remove it"
                    )
                    continue
                }
                if let concern = backend.concern(machine) {
                    findings.problem(subject, concern.problem, concern.remedy)
                }
            } catch {
                findings.problem(subject, error.description, "see above")
            }
        }
    }
}
