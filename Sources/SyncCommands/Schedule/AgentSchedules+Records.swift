import SyncControl
import SyncDaemon
import SyncModel
import SyncSchedule
import SyncStore
import SyncSystem

extension AgentSchedules {
    /// The schedules that the agent of this user fires itself.
    init(_ records: ScheduleRecords, store: SyncStore, log: @escaping @Sendable (String) -> Void) {
        let told = ToldOnce()
        self.init(
            load: {
                records.names.compactMap { name in
                    do throws(ScheduleError) {
                        guard let record = try records.find(name), record.definition.backend == .agent,
                            !record.definition.isPaused
                        else { return nil }
                        return Entry(name: name, clock: record.clock, handled: record.memory.handled)
                    } catch {
                        told.tell("schedule \(name): \(error)", log)
                        return nil
                    }
                }
            },
            request: { name, occurrence in
                do throws(ScheduleError) {
                    let record = try records.get(name)
                    let session = record.memory.session ?? record.definition.request.session
                    let now = EngineAssembly.milliseconds()
                    let history = ScheduledRequest.history(session, in: store)
                    let made = ScheduledRequest(record, occurrence, history: history, now: now)
                    let text = SessionText(now: now, hasAgent: true)
                    return .success(
                        (
                            made.request,
                            made.plan.map { "starts \(text.moment(WallTime(milliseconds: $0.start))): \($0)" }
                        )
                    )
                } catch {
                    return .failure(ControlError(.failed, error.description, exitStatus: .configuration))
                }
            },
            remember: { name, occurrence, reply in
                do throws(ScheduleError) {
                    var memory = try records.get(name).memory
                    memory.handled = occurrence.slot
                    memory.fired = WallTime(milliseconds: EngineAssembly.milliseconds())
                    memory.session = reply.session
                    memory.run = reply.run
                    memory.failure = nil
                    try records.put(memory, for: name)
                    return true
                } catch {
                    log("schedule \(name): \(error)")
                    return false
                }
            },
            failed: { name, error in records.note(name, error.message, error.exitStatus, in: store) }
        )
    }
}

/// Says what is wrong with a schedule's file once, not at every look.
private final class ToldOnce: Sendable {
    private let said = Mutex<Set<String>>([])

    func tell(_ text: String, _ log: (String) -> Void) {
        if said.withLock({ $0.insert(text).inserted }) { log(text) }
    }
}
