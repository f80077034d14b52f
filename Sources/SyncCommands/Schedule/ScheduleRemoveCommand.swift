import ArgumentParser
import SyncModel
import SyncSchedule
import SyncStore

/// `syncagent schedule remove`.
struct ScheduleRemoveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove a schedule with everything that was installed for it.",
        discussion:
            "Files that were pulled stay, and so does a run that is under way: 'syncagent cancel' ends it."
    )

    @OptionGroup
    var schedule: ScheduleArgument

    func run() async throws {
        let records = try ScheduleRecords()
        let name = schedule.name
        let session = try scheduling { () throws(ScheduleError) -> String? in
            guard try ScheduleFiles.read(records.path(name)) != nil else {
                _ = try records.get(name)
                return nil
            }
            return try records.discard(name)
        }
        let output = Output()
        output.message("\(name): removed.")
        guard let session, let store = try StateAccess(output: output).existingStore() else { return }
        let open = try asking { () throws(StoreError) in
            try store.runs(session: session, onlyOpen: true, limit: 1)
        }
        if let run = open.first {
            output.message(
                "Run \(run.identifier) is \(run.state.rawValue); 'syncagent cancel \(escaped(session))' ends it."
            )
        }
    }
}
