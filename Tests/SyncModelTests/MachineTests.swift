import SyncModel
import Testing

/// A life cycle as a table that people can check: rows are states, columns are inputs.
private struct Table<State: RawRepresentable<String> & CaseIterable & Sendable & Equatable> {
    private let inputs: [String]
    private let cells: [String: [String]]

    init(_ text: String) {
        let lines = text.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        inputs = lines.first ?? []
        cells = Dictionary(uniqueKeysWithValues: lines.dropFirst().map { ($0[0], Array($0.dropFirst())) })
    }

    /// What the table says of every cell; a cell that is missing is recorded.
    func check<Input: RawRepresentable<String> & CaseIterable>(_ after: (State, Input) -> Transition<State>) throws {
        #expect(inputs == Input.allCases.map(\.rawValue), "one column for every input")
        #expect(Set(cells.keys) == Set(State.allCases.map(\.rawValue)), "one row for every state")
        for state in State.allCases {
            let row = try #require(cells[state.rawValue])
            try #require(row.count == inputs.count)
            for (input, word) in zip(Input.allCases, row) {
                let expected: Transition<State>? =
                    switch word {
                    case "stays": .stays
                    case "refused": .refused
                    default: State(rawValue: word).map { .to($0) }
                    }
                #expect(after(state, input) == expected, "\(state.rawValue) × \(input.rawValue)")
            }
        }
    }
}

@Suite("Life cycles, cell by cell", .timeLimit(.minutes(10)))
struct MachineTests {
    @Test("A hook is owed from its group's completion until it has ended [S19 S21 S33 S39 S104 F089 F093 F095]")
    func hook() throws {
        try Table<HookRunState>(
            """
                    groupCompleted dropped  started  succeeded failed   askedForRetry interrupted replayed givenUp
            waiting pending        skipped  refused  refused   refused  refused       stays       refused  refused
            pending stays          skipped  running  refused   refused  refused       stays       stays    failed
            running stays          refused  refused  done      failed   pending       pending     refused  failed
            done    stays          stays    refused  stays     refused  refused       stays       pending  stays
            failed  stays          stays    refused  refused   stays    refused       stays       pending  stays
            skipped stays          stays    refused  refused   refused  refused       stays       refused  stays
            """
        ).check { (state: HookRunState, input: HookRunInput) in state.after(input) }
    }

    @Test("A group is sealed, completes once, and never after its run was given up [S37 S40 S42 S104 F122]")
    func group() throws {
        try Table<GroupState>(
            """
                      settled   cancelled
            open      completed cancelled
            completed stays     stays
            cancelled refused   stays
            """
        ).check { (state: GroupState, input: GroupInput) in state.after(input) }
    }

    @Test("A run survives its holder, stays paused, and ends once [S23 S24 S28 S98 S102 S104 S106]")
    func run() throws {
        try Table<RunState>(
            """
                       started released paused  resumed finished cancelled superseded
            waiting    running stays    paused  stays   refused  cancelled superseded
            running    refused waiting  paused  stays   finished cancelled superseded
            paused     refused stays    stays   waiting refused  cancelled superseded
            finished   refused stays    refused refused stays    refused   stays
            cancelled  refused stays    refused refused refused  stays     stays
            superseded refused stays    refused refused refused  stays     stays
            """
        ).check { (state: RunState, input: RunInput) in state.after(input) }
    }

    @Test("Whatever leads somewhere, done twice, changes nothing more [S106]")
    func repeatedInputs() {
        for state in RunState.allCases {
            for input in [RunInput.released, .paused, .resumed, .cancelled, .superseded, .finished] {
                if case .to(let next) = state.after(input) { #expect(next.after(input) == .stays) }
            }
        }
        for state in GroupState.allCases {
            for input in GroupInput.allCases {
                if case .to(let next) = state.after(input) { #expect(next.after(input) == .stays) }
            }
        }
    }

    @Test("A run that is over never opens again")
    func over() {
        for state in RunState.allCases where !state.isOpen {
            for input in RunInput.allCases { if case .to = state.after(input) { Issue.record("\(state) × \(input)") } }
        }
    }
}
