import Testing

/// Lets so many rows of the catalogue be at work at a time.
///
/// A few hundred at once on two cores: the threads of Swift's tasks were busy preparing for 38 s before any row got
/// its next turn, and whatever was to happen in the middle of a transfer happened after its deadline.
actor RowGate {
    static let shared = RowGate(width: 48)

    private var free: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(width: Int) { free = width }

    /// Waits for its turn, in the order of the calls, then runs the cases of a row one after another. One that throws
    /// is recorded as an issue, and the next one runs.
    nonisolated func pass<Case: Sendable>(
        _ fault: MatrixFault, through cases: [Case], _ run: @Sendable (Case) async throws -> Void
    ) async {
        await enter()
        for each in cases { do { try await run(each) } catch { Issue.record("\(fault.name): \(error)") } }
        await leave()
    }

    private func enter() async {
        guard free == 0 else {
            free -= 1
            return
        }
        await withCheckedContinuation { waiting.append($0) }
    }

    private func leave() {
        guard !waiting.isEmpty else {
            free += 1
            return
        }
        waiting.removeFirst().resume()
    }
}
