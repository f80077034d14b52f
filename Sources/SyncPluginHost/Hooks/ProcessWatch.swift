import SyncPlugins
import SyncSystem

extension HookInvocation {
    /// Writes the report to the beginning of a file.
    ///
    /// - Returns: Why a write failed; `nil` on success.
    func spoolInput(to file: Int32) -> Errno? {
        var (offset, failure): (UInt64, Errno?) = (0, nil)
        writeInput { bytes in
            failure = bytes.withUnsafeBytes { writeAll($0, to: file, at: offset) }
            offset &+= UInt64(bytes.count)
            return failure == nil
        }
        return failure
    }
}

/// Watches one program until it, its process group and its output have ended.
struct ProcessWatch: ~Copyable {
    private let program: StartedProgram
    /// Its standard output and error on one pipe, which preserves their order. Non-blocking.
    private let output: SharedDescriptor
    private var supervision: Supervision
    private var capture: OutputCapture
    private let isStopped: @Sendable () -> Bool
    private var outputIsOpen = true
    private var end: HookOutcome.End?
    private var groupIsEmpty = false

    /// Starts the invocation's program.
    ///
    /// - Throws: ``ProgramError``; nothing is left running.
    init(start invocation: HookInvocation, variables: [String], limits: ProgramHook.Limits) throws(ProgramError) {
        let path = try resolveProgram(
            invocation.arguments.first ?? "", relativeTo: "/", destination: invocation.directory)
        guard let directory = openDirectory(invocation.directory) else {
            throw .system("open the destination", invocation.directory, .last)
        }
        let input: Descriptor
        do throws(FileError) { input = try unnamedFile("syncagent-report") } catch {
            throw .system("store the report for", path, error.code ?? .ioError)
        }
        if let code = invocation.spoolInput(to: input.raw) { throw .system("store the report for", path, code) }
        guard let pipe = Pipe() else { throw .system("make a pipe for", path, .last) }
        var start = ProgramStart(invocation.arguments, variables: variables)
        start.program = path
        start.directory = directory.raw
        start.input = input.raw
        start.output = pipe.writer.raw
        do throws(FileError) {
            program = try withExtendedLifetime(pipe) { () throws(FileError) in try start.start() }
        } catch { throw ProgramError(error) }
        output = pipe.reader
        supervision = Supervision(timeout: .seconds(max(0, invocation.timeout)), limits)
        capture = OutputCapture(head: limits.outputHead, tail: limits.outputTail)
        isStopped = invocation.isStopped
    }

    /// Interval between checks whether to stop.
    private static let tick = Duration.milliseconds(100)
    /// Interval between checks of a group whose leader has ended: no system call reports when it is empty.
    private static let groupTick = Duration.milliseconds(10)

    /// Waits for the end, and signals the group when ``Supervision`` says so.
    ///
    /// - Parameter elapsed: Time since the program's start.
    /// - Returns: The outcome, without its duration.
    consuming func untilEnd(_ elapsed: () -> Duration) -> HookOutcome {
        while true {
            wait(for: supervision.due - elapsed())
            takeEnd(at: elapsed())
            if end != nil, groupIsEmpty, !outputIsOpen { break }
            var action = Supervision.Action.none
            if elapsed() >= supervision.due {
                action = supervision.expired(at: elapsed(), groupIsEmpty: groupIsEmpty)
            } else if isStopped() {
                action = supervision.stopped(at: elapsed())
            }
            if action == .giveUp { break }
            perform(action)
        }
        return outcome
    }

    /// Waits for output or an end, at most `time`, and reads the output.
    private mutating func wait(for time: Duration) {
        let isFast = end != nil || program.ended < 0
        let most = max(.zero, min(time, isFast ? Self.groupTick : Self.tick))
        var entries = [PollEntry(outputIsOpen ? output.raw : -1), PollEntry(end == nil ? program.ended : -1)]
        // One more, because milliseconds are rounded down.
        let milliseconds = Int32(clamping: most.milliseconds + (most > .zero ? 1 : 0))
        if waitForAny(of: &entries, atMost: milliseconds), entries[0].isReady { readOutput() }
    }

    private mutating func takeEnd(at now: Duration) {
        if end == nil, let taken = program.reap() {
            end =
                switch taken {
                case .exited(let status): .exited(status)
                case .signalled(let number): .signalled(number)
                case .unknown:
                    .unknown(
                        "it ran and ended, but its exit status is lost: this process ignores SIGCHLD, or another part of it took it"
                    )
                }
            supervision.leaderEnded(at: now)
        }
        if end != nil, !groupIsEmpty { groupIsEmpty = program.groupIsEmpty }
    }

    private func perform(_ action: Supervision.Action) {
        guard !groupIsEmpty else { return }
        switch action {
        case .terminate: program.signalGroup(.terminate)
        case .kill: program.signalGroup(.kill)
        case .none, .giveUp: break
        }
    }

    /// Reads the available output, but only a limited number of pieces, so that a program that never stops writing
    /// still meets its deadline.
    private mutating func readOutput() {
        withUnsafeTemporaryAllocation(byteCount: 64 << 10, alignment: 16) { buffer in
            for _ in 0..<16 {
                switch readSome(output.raw, into: buffer) {
                case .bytes(let count): capture.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                case .nothing: return
                case .ended, .failed:
                    outputIsOpen = false
                    return
                }
            }
        }
    }

    private var outcome: HookOutcome {
        let reached = supervision.cause ?? end ?? .timedOut
        return HookOutcome(
            end: reached, output: capture.text, milliseconds: 0, outputBytes: capture.total,
            endedLeftovers: supervision.endedLeftovers, isTransient: reached == .exited(75))
    }
}
