/// A program that is run for a few lines of output, and never longer than its deadline.
///
/// It leads a session of its own; what it leaves running in its group ends with it.
extension ProgramStart {
    /// How it ended.
    package enum BriefEnd: Sendable, Equatable {
        /// By itself.
        case exited(Int32)
        /// Ended by a signal, not ours.
        case signalled(Int32)
        /// It ran into its deadline and was killed.
        case timedOut
        /// It was killed because it was no longer wanted.
        case stopped
        /// It could not be run: what the system said.
        case notRun(String)
        /// It ran, but somebody else has taken its exit status, or nobody can.
        case unknown

        fileprivate init(_ end: StartedProgram.End) {
            self =
                switch end {
                case .exited(let status): .exited(status)
                case .signalled(let number): .signalled(number)
                case .unknown: .unknown
                }
        }
    }

    /// How often to ask whether to stop.
    private static let tick = Duration.milliseconds(100)

    /// Runs it; blocks until it has ended.
    ///
    /// - Parameters:
    ///   - deadline: From now.
    ///   - limit: How many of the first **bytes** that it writes are kept; far more than a value of a property has.
    ///   - keepsErrors: Whether what it writes to standard error is kept by itself.
    ///   - isStopped: Asked several times a second.
    /// - Returns: How it ended, and what it wrote first.
    package func run(
        deadline: Duration, keeping limit: Int = 16 << 10, keepsErrors: Bool = false, isStopped: () -> Bool = { false }
    ) -> (end: BriefEnd, output: String, errors: String) {
        let last = ContinuousClock.now + deadline
        guard let out = Pipe(), let err = Pipe() else { return (.notRun(errnoText), "", "") }
        var start = self
        start.output = out.writer.raw
        if keepsErrors { start.error = err.writer.raw }
        let program: StartedProgram
        do throws(FileError) {
            program = try withExtendedLifetime((out, err)) { () throws(FileError) in try start.start() }
        } catch { return (.notRun(error.reason), "", "") }
        var output = Stream(out.reader, limit)
        var errors = Stream(err.reader, limit)
        var end: BriefEnd?
        while end == nil {
            end = program.reap().map(BriefEnd.init)
            guard end == nil else { break }
            let left = last - .now
            if left <= .zero { end = .timedOut } else if isStopped() { end = .stopped }
            guard end == nil else {
                program.signalGroup(.kill)
                // A killed program that the kernel cannot end now stays behind: nothing may hang on it.
                program.wait(until: .now + .seconds(1))
                break
            }
            // Without a descriptor that tells of its end, it is looked at again and again.
            let most = program.ended < 0 ? Duration.milliseconds(5) : min(left, Self.tick)
            var entries = [output.entry, errors.entry, PollEntry(program.ended)]
            waitForAny(of: &entries, atMost: Int32(clamping: most.milliseconds + 1))
            output.take()
            errors.take()
        }
        if !program.groupIsEmpty { program.signalGroup(.kill) }
        output.take()
        errors.take()
        return (end ?? .timedOut, output.text, errors.text)
    }

    /// The first bytes of what comes out of a pipe; the rest is read and dropped.
    private struct Stream {
        private let reader: SharedDescriptor
        private let limit: Int
        private var isOpen = true
        private var bytes: [UInt8] = []

        init(_ reader: SharedDescriptor, _ limit: Int) { (self.reader, self.limit) = (reader, limit) }

        var entry: PollEntry { PollEntry(isOpen ? reader.raw : -1) }
        var text: String { String(decoding: bytes, as: UTF8.self) }

        /// Takes what is there, in bounded steps: whoever writes without end is not waited for.
        mutating func take() {
            guard isOpen else { return }
            for _ in 0..<64 {
                var buffer = [UInt8](repeating: 0, count: 16 << 10)
                let result = buffer.withUnsafeMutableBytes { readSome(reader.raw, into: $0) }
                if result == .ended { isOpen = false }
                guard case .bytes(let count) = result else { return }
                bytes += buffer.prefix(min(count, limit - bytes.count))
            }
        }
    }
}
