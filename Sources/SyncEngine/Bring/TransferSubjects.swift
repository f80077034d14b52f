import SyncModel
package import SyncPlugins
import SyncSystem

/// What a transfer is for.
package struct TransferSubject: Sendable, Equatable {
    /// A pack, by its digest, or another object that is no file of the set; `nil` for a file.
    package var object: String?
    /// A file of the set that is fetched by its own URLs.
    package var path: String?
    /// Tasks that depend on it.
    package var tasks: Int
}

/// Knows what the transfers of this process are for: one entry per plan, since there may be a hundred thousand
/// transfers.
package final class TransferSubjects: Sendable {
    private struct Plan: Sendable {
        let numbers: Range<UInt64>
        let subject: @Sendable (_ place: Int) -> TransferSubject
        let tasks: @Sendable (_ place: Int, TaskInput) -> Void
    }

    private struct State: Sendable {
        var plans: [Plan] = []
        /// Answers given before: counting a span's tasks takes time.
        var known: [UInt64: TransferSubject] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    /// Numbers for the transfers of a plan, in a row.
    ///
    /// - Parameters:
    ///   - count: How many.
    ///   - subject: What the transfer at a place is for.
    ///   - tasks: Told what happens to the tasks of the transfer at a place.
    /// - Returns: The numbers; to be given to ``forget(_:)`` when all have ended.
    func begin(
        _ count: Int, _ subject: @escaping @Sendable (_ place: Int) -> TransferSubject,
        tasks: @escaping @Sendable (_ place: Int, TaskInput) -> Void
    ) -> Range<UInt64> {
        let numbers = TransferNumbers.next(count)
        state.withLock { $0.plans.append(Plan(numbers: numbers, subject: subject, tasks: tasks)) }
        return numbers
    }

    /// The transfers of a plan have ended.
    func forget(_ numbers: Range<UInt64>) {
        state.withLock { state in
            state.plans.removeAll { $0.numbers == numbers }
            state.known = state.known.filter { !numbers.contains($0.key) }
        }
    }

    /// What a transfer is for; `nil` if for no file of the set.
    package func subject(of id: TransferID) -> TransferSubject? {
        let number = id.rawValue
        let found = state.withLock { state in (state.known[number], state.plans.first { $0.numbers.contains(number) }) }
        guard found.0 == nil, let plan = found.1 else { return found.0 }
        let subject = plan.subject(Int(number - plan.numbers.lowerBound))
        state.withLock { state in
            if state.plans.contains(where: { $0.numbers == plan.numbers }) { state.known[number] = subject }
        }
        return subject
    }

    /// Passes an input on to the tasks of a transfer.
    func note(_ input: TaskInput, of id: TransferID) {
        let number = id.rawValue
        let plan = state.withLock { $0.plans.first { $0.numbers.contains(number) } }
        guard let plan else { return }
        plan.tasks(Int(number - plan.numbers.lowerBound), input)
    }
}
