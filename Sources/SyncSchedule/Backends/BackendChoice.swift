/// Chooses the backend of a schedule, and says why.
///
/// - Parameters:
///   - named: The value of `--backend`; `nil` for the first that can start the schedule.
///   - backends: All backends, in the order in which they are tried.
///   - isForMachine: Whether the schedule is the machine's, not the user's.
///   - hasZone: Whether the schedule has a time zone of its own, which not every backend supports.
///   - machine: The machine on which it runs.
/// - Throws: ``ScheduleError`` that says what is missing and what would work.
package func chooseBackend(
    _ named: String?, of backends: [any ScheduleBackend], isForMachine: Bool, hasZone: Bool, _ machine: MachineFacts
) throws(ScheduleError) -> (backend: any ScheduleBackend, reason: String) {
    if isForMachine, !machine.isRoot {
        throw ScheduleError(.invalid, "--system is for root: use sudo, or leave it out for a schedule of your own.")
    }
    let candidates = backends.filter { $0.serves(machine: isForMachine, isRoot: machine.isRoot) }
    if let named {
        guard let backend = candidates.first(where: { $0.choice == named }) else {
            let words = backends.first { $0.choice == named }?.words ?? named
            throw ScheduleError(.invalid, "--system and --backend \(named): \(words) belongs to its user.")
        }
        return (backend, try backend.reason(on: machine, isNamed: true))
    }
    var lacks: [String] = []
    for backend in candidates {
        do throws(ScheduleError) {
            let reason = try backend.reason(on: machine, isNamed: false)
            if hasZone, !backend.knowsZones {
                lacks.append("\(backend.words) does not support time zones")
            } else {
                return (backend, list(lacks + (reason.isEmpty ? [] : [reason])))
            }
        } catch { lacks.append(error.description) }
    }
    let other = backends.first {
        $0.serves(machine: false, isRoot: machine.isRoot) && (!hasZone || $0.knowsZones)
            && (try? $0.reason(on: machine, isNamed: false)) != nil
    }
    let advice = other.map { "; without --system \($0.words) can start it" } ?? ""
    throw ScheduleError(.unavailable, "Nothing here starts schedules for the machine: \(list(lacks))\(advice).")
}

/// `a, b, and c`.
private func list(_ clauses: [String]) -> String {
    clauses.dropLast().map { $0 + ", " }.joined() + (clauses.count > 1 ? "and " : "") + (clauses.last ?? "")
}

extension ScheduleBackend {
    /// Whether the current backend of a schedule satisfies the request, so that no other has to be chosen.
    ///
    /// - Parameter named: The value of `--backend`; `nil` for any.
    package func accepts(_ named: String?, isForMachine wanted: Bool, hasZone: Bool) -> Bool {
        (knowsZones || !hasZone) && (isForMachine || !wanted) && (named == nil || named == choice)
    }
}
