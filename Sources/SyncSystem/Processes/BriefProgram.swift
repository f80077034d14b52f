/// A program that is run for its output, with a deadline.
///
/// It leads its own session; processes that it leaves in its group are ended, too.
extension ProgramStart {
    /// How the program ended; its description is a sentence about the program.
    package enum BriefEnd: Sendable, Equatable, CustomStringConvertible {
        /// It exited.
        case exited(Int32)
        /// It was ended by a signal that we did not send.
        case signalled(Int32)
        /// It reached its deadline and was killed.
        case timedOut
        /// It was killed because the caller stopped it.
        case stopped
        /// It was killed because it wrote nothing for too long.
        case silent
        /// It was killed because it wrote more than the limit.
        case overflowed
        /// It could not be started, with the system's reason.
        case notRun(String)
        /// It ran, but its exit status is not available.
        case unknown

        fileprivate init(_ end: StartedProgram.End) {
            self =
                switch end {
                case .exited(let status): .exited(status)
                case .signalled(let number): .signalled(number)
                case .unknown: .unknown
                }
        }

        package var description: String {
            switch self {
            case .exited(let status): "it exited with status \(status)"
            case .signalled(let number): "it was killed by signal \(number)"
            case .timedOut: "it took too long and was ended"
            case .stopped: "it was stopped"
            case .silent: "it wrote nothing for too long and was ended"
            case .overflowed: "it wrote too much and was ended"
            case .notRun(let reason): "it cannot be started: \(reason)"
            case .unknown: "its exit status is not known"
            }
        }
    }

    /// Interval between checks whether to stop.
    private static let tick = Duration.milliseconds(100)

    /// Runs the program; blocks until it has ended.
    ///
    /// - Parameters:
    ///   - deadline: From now.
    ///   - limit: How many of the first **bytes** of output are kept; far more than a value of a property has.
    ///   - keepsErrors: Whether standard error is kept separately.
    ///   - isStopped: Asked several times a second.
    /// - Returns: How it ended, and the beginning of its output.
    package func run(
        deadline: Duration, keeping limit: Int = 16 << 10, keepsErrors: Bool = false, isStopped: () -> Bool = { false }
    ) -> (end: BriefEnd, output: String, errors: String) {
        let (end, output, errors) = run(
            deadline, nil, output: limit, errors: limit, endsBeyond: false, keepsErrors: keepsErrors, isStopped)
        return (end, String(decoding: output, as: UTF8.self), String(decoding: errors, as: UTF8.self))
    }

    /// Runs the program for all of its standard output; blocks until it has ended.
    ///
    /// - Parameters:
    ///   - deadline: From now.
    ///   - silence: Longest time without any output; `nil` for no limit but the deadline.
    ///   - most: Most **bytes** of output; a program that writes more is killed.
    ///   - errors: About how many of the last **bytes** of standard error are kept.
    ///   - isStopped: Asked several times a second.
    package func collect(
        deadline: Duration, silence: Duration? = nil, most: Int, errors: Int = 16 << 10,
        isStopped: () -> Bool = { false }
    ) -> (end: BriefEnd, output: [UInt8], errors: String) {
        let (end, output, errors) = run(
            deadline, silence, output: most, errors: errors, endsBeyond: true, keepsErrors: true, isStopped)
        return (end, output, String(decoding: errors, as: UTF8.self))
    }

    /// - Parameters:
    ///   - limit: **Bytes** of output that are kept, and of errors.
    ///   - endsBeyond: Whether more output ends the program, and its last errors are kept; otherwise the first of both
    ///     are kept, and the rest is dropped.
    private func run(
        _ deadline: Duration, _ silence: Duration?, output limit: Int, errors errorLimit: Int, endsBeyond: Bool,
        keepsErrors: Bool, _ isStopped: () -> Bool
    ) -> (end: BriefEnd, output: [UInt8], errors: [UInt8]) {
        let last = ContinuousClock.now + deadline
        guard let out = Pipe(), let err = Pipe() else { return (.notRun(errnoText), [], []) }
        var start = self
        start.output = out.writer.raw
        if keepsErrors { start.error = err.writer.raw }
        let program: StartedProgram
        do throws(FileError) {
            program = try withExtendedLifetime((out, err)) { () throws(FileError) in try start.start() }
        } catch { return (.notRun(error.reason), [], []) }
        var output = Stream(out.reader, limit)
        var errors = Stream(err.reader, errorLimit, keepsLast: endsBeyond)
        var end: BriefEnd?
        var heard = ContinuousClock.now
        while end == nil {
            end = program.reap().map(BriefEnd.init)
            guard end == nil else { break }
            let left = last - .now
            if left <= .zero {
                end = .timedOut
            } else if isStopped() {
                end = .stopped
            } else if endsBeyond, output.isBeyond {
                end = .overflowed
            } else if let silence, .now - heard > silence {
                end = .silent
            }
            guard end == nil else {
                program.signalGroup(.kill)
                // A killed program that the kernel cannot end now is left behind, so that nothing hangs.
                program.wait(until: .now + .seconds(1))
                break
            }
            // Without a descriptor that reports its end, it is polled.
            let most = program.ended < 0 ? Duration.milliseconds(5) : min(left, Self.tick)
            var entries = [output.entry, errors.entry, PollEntry(program.ended)]
            waitForAny(of: &entries, atMost: Int32(clamping: most.milliseconds + 1))
            let (hasWritten, hasComplained) = (output.take(), errors.take())
            if hasWritten || hasComplained { heard = .now }
        }
        if !program.groupIsEmpty { program.signalGroup(.kill) }
        output.take()
        errors.take()
        if endsBeyond, case .exited = end, output.isBeyond { end = .overflowed }
        return (end ?? .timedOut, output.bytes, errors.bytes)
    }

    /// The first or the last bytes from a pipe; the rest is read and dropped.
    private struct Stream {
        private let reader: SharedDescriptor
        private let limit: Int
        private let keepsLast: Bool
        private var isOpen = true
        private(set) var bytes: [UInt8] = []
        /// Whether there was more than is kept.
        private(set) var isBeyond = false

        init(_ reader: SharedDescriptor, _ limit: Int, keepsLast: Bool = false) {
            (self.reader, self.limit, self.keepsLast) = (reader, limit, keepsLast)
        }

        var entry: PollEntry { PollEntry(isOpen ? reader.raw : -1) }

        /// Reads the available bytes, in bounded steps: a program that writes endlessly does not block the caller.
        ///
        /// - Returns: Whether there were any.
        @discardableResult mutating func take() -> Bool {
            guard isOpen else { return false }
            var buffer = [UInt8](repeating: 0, count: 16 << 10)
            for step in 0..<64 {
                let result = buffer.withUnsafeMutableBytes { readSome(reader.raw, into: $0) }
                if result == .ended { isOpen = false }
                guard case .bytes(let count) = result else { return step > 0 }
                if keepsLast, bytes.count + count > 2 * limit { bytes.removeFirst(min(bytes.count, limit)) }
                let kept = keepsLast ? count : min(count, limit - bytes.count)
                if kept < count { isBeyond = true }
                bytes += buffer.prefix(kept)
            }
            return true
        }
    }
}
