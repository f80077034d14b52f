import SyncPlugins
import Testing

@testable import SyncPluginHost

@Suite("When a hook is signalled", .timeLimit(.minutes(10)))
struct SupervisionTests {
    /// With as much time when this process is asked to stop as at any other time.
    private var fresh: Supervision {
        var limits = ProgramHook.Limits()
        limits.stopGrace = limits.grace
        return Supervision(timeout: .seconds(600), limits)
    }

    @Test("SIGTERM at the deadline, SIGKILL ten seconds later, then no more waiting [S34]")
    func deadline() {
        var machine = fresh
        #expect(machine.due == .seconds(600))
        #expect(machine.expired(at: .seconds(600), groupIsEmpty: false) == .terminate)
        #expect(machine.due == .seconds(610))
        #expect(machine.expired(at: .seconds(610), groupIsEmpty: false) == .kill)
        #expect(machine.due == .seconds(611))
        #expect(machine.expired(at: .seconds(611), groupIsEmpty: false) == .giveUp)
        #expect(machine.cause == .timedOut)
    }

    @Test("What is left after the program's end is ended, without blaming the program [F093]")
    func leftovers() {
        var machine = fresh
        machine.leaderEnded(at: .seconds(5))
        #expect(machine.due == .seconds(6))
        #expect(machine.expired(at: .seconds(6), groupIsEmpty: false) == .terminate)
        #expect(machine.expired(at: .seconds(16), groupIsEmpty: false) == .kill)
        #expect(machine.endedLeftovers)
        #expect(machine.cause == nil)
    }

    @Test("Output that a stranger holds open is left behind after the linger time [F093]")
    func strangerHoldsOutput() {
        var machine = fresh
        machine.leaderEnded(at: .seconds(5))
        #expect(machine.expired(at: .seconds(6), groupIsEmpty: true) == .giveUp)
        #expect(!machine.endedLeftovers)
    }

    @Test("An end after SIGTERM does not move the time of SIGKILL")
    func endWhileTerminating() {
        var machine = fresh
        #expect(machine.expired(at: .seconds(600), groupIsEmpty: false) == .terminate)
        machine.leaderEnded(at: .seconds(601))
        #expect(machine.due == .seconds(610))
        #expect(machine.expired(at: .seconds(610), groupIsEmpty: false) == .kill)
    }

    @Test("A hook that is in its last seconds when this process is to stop has no longer than any other")
    func stopAfterDeadline() {
        var machine = Supervision(timeout: .seconds(600), ProgramHook.Limits())
        #expect(machine.expired(at: .seconds(600), groupIsEmpty: false) == .terminate)
        for second in [601, 602] { #expect(machine.stopped(at: .seconds(second)) == .none) }
        #expect(machine.due == .milliseconds(601_600))
        #expect(machine.cause == .timedOut)
        #expect(machine.expired(at: .milliseconds(601_600), groupIsEmpty: false) == .kill)
        #expect(machine.due == .milliseconds(601_750))
        var leftovers = Supervision(timeout: .seconds(600), ProgramHook.Limits())
        leftovers.leaderEnded(at: .seconds(5))
        #expect(leftovers.expired(at: .seconds(6), groupIsEmpty: false) == .terminate)
        #expect(leftovers.stopped(at: .seconds(7)) == .none)
        #expect(leftovers.due == .milliseconds(7_600))
    }

    @Test("Stopping counts once, in any phase")
    func stop() {
        var machine = fresh
        #expect(machine.stopped(at: .seconds(3)) == .terminate)
        #expect(machine.stopped(at: .seconds(4)) == .none)
        #expect(machine.due == .seconds(13))
        #expect(machine.expired(at: .seconds(13), groupIsEmpty: false) == .kill)
        #expect(machine.stopped(at: .seconds(13)) == .none)
        #expect(machine.cause == .stopped)
        var late = fresh
        #expect(late.expired(at: .seconds(600), groupIsEmpty: false) == .terminate)
        #expect(late.stopped(at: .seconds(601)) == .none)
        #expect(late.cause == .timedOut)
    }

    @Test("Head and tail never overlap, whatever the pieces", arguments: [1, 3, 7, 64, 1000])
    func capture(piece: Int) {
        let bytes = (0..<1000).map { UInt8(truncatingIfNeeded: $0) }
        for length in [0, 5, 10, 11, 25, 30, 31, 999, 1000] {
            var capture = OutputCapture(head: 10, tail: 20)
            var start = 0
            while start < length {
                let end = min(length, start + piece)
                bytes[start..<end].withUnsafeBytes { capture.append($0) }
                start = end
            }
            #expect(capture.head == Array(bytes[..<min(10, length)]))
            #expect(capture.tail == Array(bytes[min(10, length)..<length].suffix(20)))
            #expect(capture.total == UInt64(length))
        }
    }
}
