import SyncAgent
import SyncEngine
package import SyncModel
package import SyncSchedule
package import SyncStore
import SyncSystem

extension ScheduleRecords.Record {
    /// The request for an occurrence: the schedule's request with the occurrence's own times.
    ///
    /// - Parameters:
    ///   - store: The user's store, for the finished runs of the session; `nil` if there is none.
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: The request, and the plan for its start; `nil` if the start was not planned.
    package func request(for occurrence: Occurrence, in store: SyncStore?, now: Int64) -> (
        request: RunRecipe, plan: ReadyBy?
    ) {
        let plan = occurrence.readyBy.map {
            ReadyBy.plan(occurrence, ready: $0, history: Self.history(session, in: store))
        }
        let start = plan?.start ?? occurrence.fire
        var request = definition.request
        request.origin = .schedule
        if start > now { request.notBefore = WallTime(milliseconds: start) }
        if let shown = occurrence.switchAt { request.atomic?.notBefore = WallTime(milliseconds: shown) }
        request.conditions.window = clock.dailyWindow
        // After the usual week it would end just as its window opens again.
        if request.conditions.window?.days != nil { request.deadlineSeconds = request.deadlineSeconds ?? 15 * 86_400 }
        return (request, plan)
    }

    /// The run that waits for the start planned for it, if one does.
    fileprivate func plannedRun(in store: SyncStore, now: Int64) -> AgentSchedules.PlannedRun? {
        guard timing.readyBy != nil, !definition.isPaused, let slot = memory.handled,
            let run = memory.run.flatMap({ try? store.run($0) }), run.state == .waiting, let start = run.notBefore,
            start > now, run.created < start - Self.lead
        else { return nil }
        let occurrence = timing.occurrence(slot, in: clock.zone, delay: clock.delay)
        // Not if the schedule has been replaced since by one with other times.
        guard let ready = occurrence.readyBy, occurrence.fire <= start, start <= ready else { return nil }
        var request = request(for: occurrence, in: store, now: now).request
        request.notBefore = run.recipe.notBefore
        return AgentSchedules.PlannedRun(
            name: name, occurrence: occurrence, run: run.identifier, request: request, due: start - Self.lead)
    }

    /// How many **milliseconds** before its planned start a run is asked for again: the server has that long to answer.
    private static let lead: Int64 = 60_000

    /// The received bytes and durations of a session's finished runs, newest first, from which later nights are
    /// planned.
    private static func history(_ session: String?, in store: SyncStore?) -> [(received: UInt64, elapsed: Int64)] {
        guard let session, let store else { return [] }
        // Without a history the run starts with its window: early, but never too late.
        let runs = (try? store.runs(session: session, limit: 100)) ?? []
        return runs.compactMap { run in
            guard run.state == .finished, run.result == .ok || run.result == .partial, let started = run.started,
                let finished = run.finished, 0 <= started, started <= finished
            else { return nil }
            return (run.counts.bytes.received, (finished - started).saturatingSubtract(run.counts.waited ?? 0))
        }
    }
}

extension ScheduleClock {
    /// The part of every day, or of the rule's days of the week, in which the agent works on it. It begins with this
    /// machine's own delay, so that a fleet with work left from last night does not start as one either.
    package var dailyWindow: DailyWindow? {
        guard let start = timing.recurrence.onlyTime, let length = timing.window else { return nil }
        let delay = delay / 60
        var window = DailyWindow(
            startMinute: (start + delay) % 1_440, lengthMinutes: max(1, length - delay), timeZone: timing.timeZone)
        let days = timing.recurrence.days
        // Days of the month are not told: what is left of such a run goes on the next day.
        guard !days.weekdays.isEmpty, days.monthDays.isEmpty || days.starredField != nil else { return window }
        let late = (start + delay) / 1_440
        window.days = Weekday.allCases.filter { days.weekdays.contains($0.adding(-late)) }
        return window
    }
}

extension ScheduleRecords {
    /// Records that a schedule could not start: as a failed run of its session, or with the schedule itself if it has
    /// no session, because it has never started, the session is busy, or the session is that of another destination.
    ///
    /// - Parameters:
    ///   - reason: The reason, for people.
    ///   - store: The user's store; `nil` if there is none.
    ///   - now: **Milliseconds** since 1970.
    package func note(
        _ name: String, _ reason: String, cause: FailureCause, status: ExitStatus, in store: SyncStore?, now: Int64
    ) {
        // An error that cannot be recorded has been reported to the caller, or to the log.
        guard var record = try? get(name) else { return }
        var request = record.definition.request
        request.session = record.session
        let tried = store?.recordTry(request, EngineError(status, reason, cause: cause), now: now)?.run
        if let store, let session = tried?.session ?? record.session, (try? store.session(session)) != nil {
            let event = SyncEvent(.scheduleFailed, time: now, session: session) {
                $0.field("schedule", name)
                $0.field("reason", reason)
                $0.field("cause", cause)
                $0.field("status", status.rawValue)
            }
            _ = try? store.append([event.json.bytes], to: session, time: now)
        }
        if let tried {
            (record.memory.session, record.memory.run) = (tried.session, tried.identifier)
            (record.memory.failure, record.memory.failed, record.memory.cause) = (nil, nil, nil)
            record.memory.fired = WallTime(milliseconds: now)
        } else {
            (record.memory.failure, record.memory.cause) = (reason, cause)
            record.memory.failed = WallTime(milliseconds: now)
        }
        try? put(record.memory, for: name)
    }
}

extension AgentSchedules {
    /// The recorded schedules of this user that the agent fires itself.
    ///
    /// - Parameters:
    ///   - now: **Milliseconds** since 1970.
    ///   - reason: Explains a run's start time, at a moment in **milliseconds** since 1970.
    package init(
        _ records: ScheduleRecords, store: SyncStore, now: @escaping @Sendable () -> Int64,
        reason: @escaping @Sendable (ReadyBy, Int64) -> String, log: @escaping @Sendable (String) -> Void
    ) {
        // A fault in a schedule's file is logged once, not at every read.
        let known = MessageDeduplicator()
        let warn: @Sendable (String) -> Void = { if known.isNew($0) { log($0) } }
        self.init(
            load: {
                let names: [String]
                do throws(ScheduleError) { names = try records.names() } catch {
                    warn("\(error)")
                    return ([], true)
                }
                var snapshot: Snapshot = ([], false)
                for name in names {
                    do throws(ScheduleError) {
                        guard let record = try records.find(name), record.backend.needsAgent,
                            !record.definition.isPaused
                        else { continue }
                        snapshot.entries.append((name, record.clock, record.memory.handled))
                    } catch {
                        // A malformed file stays so until somebody writes it again.
                        let isUnread = error.isOfReading
                        if isUnread { snapshot.hasUnread = true }
                        warn("schedule \(name)\(isUnread ? " does not run until it can be read" : ""): \(error)")
                    }
                }
                return snapshot
            },
            request: { name, occurrence in
                do throws(ScheduleError) {
                    let now = now()
                    let made = try records.get(name).request(for: occurrence, in: store, now: now)
                    return .success((made.request, made.plan.map { reason($0, now) }))
                } catch { return .failure(ControlError(.failed, error.description, exitStatus: .configuration)) }
            },
            remember: { name, occurrence, reply in
                do throws(ScheduleError) {
                    try records.remember(name, occurrence.slot, reply, fired: now())
                    return true
                } catch {
                    log("schedule \(name): \(error)")
                    return false
                }
            },
            failed: { name, error in
                records.note(name, error.message, cause: error.cause, status: error.exitStatus, in: store, now: now())
            })
        planned = {
            // Schedules that cannot be read are reported by `load`.
            ((try? records.names()) ?? []).compactMap { (try? records.find($0))?.plannedRun(in: store, now: now()) }
        }
        forget = { records.forget(session: $0) }
    }
}
