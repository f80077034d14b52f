import SyncModel
import Testing

@testable import SyncTransfer

/// The whole table: `·` stays, `x` is refused, else the state it leads to.
private let table = """
                    queued   until    resolver scout    record   parked   first    ended
    enqueued        queued   queued   queued   queued   queued   queued   queued   ·
    started         second   x        x        x        x        x        x        ·
    joined          second   second   second   second   second   second   second   ·
    missed          parked   parked   parked   parked   parked   parked   parked   ·
    until           until    until    until    until    until    until    until    ·
    resolver        resolver resolver resolver resolver resolver resolver resolver ·
    scout           scout    x        x        x        x        x        x        ·
    record          record   x        x        x        x        x        x        ·
    over            ended    ended    ended    ended    ended    ended    ended    ·
    """

private let until = Duration.seconds(1)
private let (first, second): (ExchangeID, ExchangeID) = (1, 2)

private let inputs: [PieceInput] = [
    .enqueued, .started(second), .joined(second), .missed, .postponed(.until(until)), .postponed(.resolver),
    .postponed(.scout),
    .postponed(.record), .over,
]
private let states: [PieceState] = [
    .queued, .waiting(.until(until)), .waiting(.resolver), .waiting(.scout), .waiting(.record), .parked,
    .running(first), .ended,
]

// Without defaults: what is new must be named, and so get a line.

private func name(_ input: PieceInput) -> String {
    switch input {
    case .enqueued: "enqueued"
    case .started: "started"
    case .joined: "joined"
    case .missed: "missed"
    case .postponed(let wait): name(.waiting(wait))
    case .over: "over"
    }
}

private func name(_ state: PieceState) -> String {
    switch state {
    case .queued: "queued"
    case .waiting(.until): "until"
    case .waiting(.resolver): "resolver"
    case .waiting(.scout): "scout"
    case .waiting(.record): "record"
    case .parked: "parked"
    case .running(let id): id == first ? "first" : "second"
    case .ended: "ended"
    }
}

@Suite("The states of one piece, cell by cell", .timeLimit(.minutes(10)))
struct PieceStateTests {
    @Test("Every state answers every input as the table says")
    func cells() throws {
        let lines = table.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(lines.first == states.map(name))
        #expect(lines.dropFirst().map { $0[0] } == inputs.map(name))
        for (input, line) in zip(inputs, lines.dropFirst()) {
            try #require(line.count == states.count + 1)
            for (state, cell) in zip(states, line.dropFirst()) {
                let next = state.after(input)
                switch cell {
                case "x": #expect(next == .refused, "\(state) × \(input)")
                case "·": #expect(next == .stays, "\(state) × \(input)")
                default:
                    let target = (states + [.running(second)]).first { name($0) == cell }
                    #expect(next == target.map { .to($0) }, "\(state) × \(input)")
                }
            }
        }
    }

    @Test("Whoever kept a ticket of before is told of every input that leads somewhere", arguments: inputs)
    func tickets(input: PieceInput) {
        var machine = PieceMachine(position: 0)
        let ticket = machine.ticket
        #expect(machine.take(input) == machine.ticket && machine.ticket != ticket)
        #expect(PieceState.queued.after(input) == .to(machine.state))
    }

    @Test("What cannot happen fails tests")
    func impossible() async {
        await #expect(processExitsWith: .failure) {
            var machine = PieceMachine(position: 0)
            machine.take(.postponed(.scout))
            machine.take(.started(1))
        }
    }
}
