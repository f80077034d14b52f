import SyncModel
import Testing

/// The whole table: `·` stays, `x` is refused, else the state it leads to.
private let table = """
                waiting   running   paused    installed unchanged failed    cancelled
    started     running   ·         x         x         x         x         x
    delayed     ·         waiting   ·         ·         ·         ·         ·
    released    ·         waiting   ·         ·         ·         ·         ·
    paused      paused    paused    ·         ·         ·         ·         ·
    resumed     ·         ·         waiting   ·         ·         ·         ·
    installed   x         installed installed ·         x         x         ·
    unchanged   unchanged x         x         ·         ·         x         ·
    lost        ·         ·         ·         waiting   waiting   ·         ·
    failed      failed    failed    ·         x         x         ·         ·
    cancelled   cancelled cancelled cancelled ·         ·         ·         ·
    retried     ·         ·         ·         ·         ·         waiting   waiting
    """

@Suite("The life of a task, cell by cell", .timeLimit(.minutes(10)))
struct TaskMachineTests {
    @Test("Every state answers every input as the table says [S98 S99 S100 S102 S104 S110]")
    func cells() throws {
        let lines = table.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        let states = try #require(lines.first).map { TaskState(rawValue: $0) }
        #expect(states == TaskState.allCases)
        #expect(lines.dropFirst().map { TaskInput(rawValue: $0[0]) } == TaskInput.allCases)
        for line in lines.dropFirst() {
            try #require(line.count == TaskState.allCases.count + 1)
            let input = try #require(TaskInput(rawValue: line[0]))
            for (state, cell) in zip(TaskState.allCases, line.dropFirst()) {
                let expected: Transition<TaskState>? =
                    switch cell {
                    case "x": .refused
                    case "·": .stays
                    default: TaskState(rawValue: cell).map { .to($0) }
                    }
                #expect(state.after(input) == expected, "\(state.rawValue) × \(input.rawValue)")
            }
        }
    }

    @Test("A person's command is never refused and may be repeated [G8 S102 S106]")
    func commands() {
        for state in TaskState.allCases {
            for input in [TaskInput.paused, .resumed, .cancelled, .retried] {
                let next = state.after([input])
                #expect(next != nil && next?.after([input]) == next, "\(state) × \(input)")
            }
        }
    }

    @Test("Only work leads to installed, and only what is there is unchanged [S110]")
    func installedOnlyByWork() {
        for state in TaskState.allCases where state != .installed {
            for input in TaskInput.allCases where state.after(input) == .to(.installed) {
                #expect(input == .installed && (state == .running || state == .paused))
            }
        }
    }

    @Test("Nothing is shown as running without a process and a request on the wire [S23 S28 S105]")
    func now() {
        for recorded in [TaskState.waiting, .paused, .installed, .unchanged, .failed] {
            for run in RunState.allCases {
                for request in [nil] + RequestState.allCases.map(Optional.some) {
                    let shown = recorded.now(in: run, request: request)
                    if recorded != .waiting, recorded != .paused {
                        #expect(shown == recorded, "what has ended stays as it is")
                        continue
                    }
                    let expected: TaskState =
                        switch run {
                        case .running:
                            switch request {
                            case .resolving, .connecting, .receiving, .stalled: .running
                            case nil, .queued, .waiting: .waiting
                            }
                        case .waiting: .waiting
                        case .paused: .paused
                        case .finished: .failed
                        case .cancelled, .superseded: .cancelled
                        }
                    #expect(shown == expected, "\(run) \(String(describing: request))")
                }
            }
        }
    }
}
