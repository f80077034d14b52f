import SyncModel
import Testing

/// The whole table: `·` stays, `x` is refused, else state and effects by their first letters.
private let table = """
                waiting   running   paused    installed unchanged failed    cancelled
    started     running+r x         x         x         x         x         x
    clientGone  ·         ·         ·         ·         ·         ·         ·
    agentGone   ·         waiting   ·         ·         ·         ·         ·
    powerLost   waiting+k waiting+k paused+k  ·         ·         ·         ·
    paused      paused    paused+c  ·         ·         ·         ·         ·
    resumed     ·         ·         waiting   ·         ·         ·         ·
    delayed     ·         waiting+c ·         ·         ·         ·         ·
    spoiled     x         waiting+d paused+d  ·         ·         ·         ·
    installed   x         installed+t installed+t ·     x         x         ·
    unchanged   unchanged+t x       x         ·         ·         x         ·
    failed      failed+dt failed+dt ·         x         x         ·         ·
    expired     failed+dt failed+dt failed+dt ·         ·         ·         ·
    cancelled   cancelled+dt cancelled+dt cancelled+dt · ·        ·         ·
    superseded  cancelled+t cancelled+ct cancelled+t ·  ·         ·         ·
    retried     ·         ·         ·         ·         ·         waiting   waiting
    """

@Suite("The life of a task, cell by cell", .timeLimit(.minutes(1)))
struct TaskMachineTests {
    private static let letters: [Character: TaskEffect] = [
        "r": .request, "c": .checkpoint, "k": .recheck, "d": .discard, "t": .tell,
    ]

    @Test("Every state answers every input as the table says [S98 S99 S100 S102 S104 S108 S110]")
    func cells() throws {
        let lines = table.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        let states = try #require(lines.first).map { TaskState(rawValue: $0) }
        #expect(states == TaskState.allCases)
        #expect(lines.dropFirst().map { TaskInput(rawValue: $0[0]) } == TaskInput.allCases)
        for line in lines.dropFirst() {
            try #require(line.count == TaskState.allCases.count + 1)
            let input = try #require(TaskInput(rawValue: line[0]))
            for (state, cell) in zip(TaskState.allCases, line.dropFirst()) {
                #expect(
                    state.after(input) == step(cell, from: state),
                    "\(state.rawValue) × \(input.rawValue)"
                )
            }
        }
    }

    private func step(_ cell: String, from state: TaskState) -> TaskStep? {
        if cell == "x" { return .refused }
        if cell == "·" { return .be(state, []) }
        let parts = cell.split(separator: "+")
        let effects = parts.count > 1 ? parts[1].compactMap { Self.letters[$0] } : []
        return parts.first.flatMap { TaskState(rawValue: String($0)) }.map { .be($0, effects) }
    }

    @Test(
        "After kill or power loss nothing is left running, and asking twice changes nothing [S23 S28 S105 S106]"
    )
    func recovery() {
        for state in TaskState.allCases {
            for input in [TaskInput.agentGone, .powerLost] {
                guard case .be(let next, _) = state.after(input) else {
                    Issue.record("\(state) × \(input)")
                    continue
                }
                #expect(next != .running)
                guard case .be(let again, _) = next.after(input) else {
                    Issue.record("\(next) × \(input)")
                    continue
                }
                #expect(again == next)
                if state == .paused || state.isTerminal { #expect(next == state) }
            }
        }
    }

    @Test("A person's command is never refused and may be repeated [S102 S106]")
    func commands() {
        for state in TaskState.allCases {
            for input in [TaskInput.paused, .resumed, .cancelled, .superseded, .retried] {
                guard case .be(let next, _) = state.after(input) else {
                    Issue.record("\(state) × \(input)")
                    continue
                }
                #expect(next.after(input) == .be(next, []))
            }
        }
    }

    @Test("The last event comes exactly with the step into a terminal state [S29]")
    func lastEvent() {
        for state in TaskState.allCases {
            for input in TaskInput.allCases {
                guard case .be(let next, let effects) = state.after(input) else { continue }
                #expect(
                    effects.contains(.tell) == (next.isTerminal && !state.isTerminal),
                    "\(state) × \(input)"
                )
            }
        }
    }

    @Test("Only running leads to installed, or what was running when it was paused [S110]")
    func installedOnlyByWork() {
        for state in TaskState.allCases where state != .installed {
            for input in TaskInput.allCases {
                guard case .be(.installed, _) = state.after(input) else { continue }
                #expect(input == .installed && (state == .running || state == .paused))
            }
        }
    }

    @Test("Random lives never leave the table and settle their group once [S4 S37 S40 G8]", arguments: 0..<20)
    func randomLives(seed: UInt64) {
        var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
        func next(_ count: Int) -> Int {
            // xorshift64, G. Marsaglia, "Xorshift RNGs", 2003.
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return Int(state % UInt64(count))
        }
        var tasks = [TaskState](repeating: .waiting, count: 12)
        var tally = GroupTally(waiting: tasks.count)
        var settled = 0
        var told = 0
        for _ in 0..<4_000 {
            let task = next(tasks.count)
            let input = TaskInput.allCases[next(TaskInput.allCases.count)]
            // A group that is settled is sealed: what is tried again belongs to another run.
            if input == .retried { continue }
            guard case .be(let new, let effects) = tasks[task].after(input) else { continue }
            if effects.contains(.tell) { told += 1 }
            if tally.move(from: tasks[task], to: new) { settled += 1 }
            tasks[task] = new
            #expect(tally.isSettled == tasks.allSatisfy(\.isTerminal))
        }
        #expect(settled == 1)
        #expect(told == tasks.count)
    }

    @Test("A group's result counts what is in place [S39 S41]")
    func results() {
        func result(_ states: [TaskState]) -> RunResult {
            var tally = GroupTally(waiting: states.count)
            for state in states { _ = tally.move(from: .waiting, to: state) }
            return tally.result
        }
        #expect(result([]) == .ok)
        #expect(result([.installed, .unchanged]) == .ok)
        #expect(result([.installed, .failed]) == .partial)
        #expect(result([.unchanged, .cancelled]) == .partial)
        #expect(result([.failed, .cancelled]) == .failed)
        #expect(GroupTally(waiting: 0).isSettled)
    }

    @Test("A paused task, or a removal that is not done, keeps its group open [S37 S40]")
    func open() {
        var tally = GroupTally(waiting: 2)
        tally.openJobs = 1
        let pausing = tally.move(from: .waiting, to: .paused)
        let installing = tally.move(from: .waiting, to: .installed)
        #expect(!pausing && !installing && !tally.isSettled)
        tally.openJobs = 0
        #expect(!tally.isSettled)
        let failing = tally.move(from: .paused, to: .failed)
        #expect(failing && tally.isSettled)
        #expect(tally.result == .partial)
    }
}
