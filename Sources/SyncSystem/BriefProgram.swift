/// A program of the system that is run for a few lines of output, and never longer than its deadline.
///
/// It leads a session of its own and gets only the variables it is given.
package enum BriefProgram {
    /// How it ended.
    package enum End: Sendable, Equatable {
        /// By itself.
        case exited(Int32)
        /// Ended by a signal, not ours.
        case signalled(Int32)
        /// It ran into its deadline and was killed.
        case timedOut
        /// It could not be run: what the system said.
        case notRun(String)
    }

    /// Output that is kept, in **bytes**: far more than a value of a property has.
    private static let limit = 16 << 10

    /// Runs it; blocks until it has ended.
    ///
    /// - Parameters:
    ///   - arguments: An absolute path first.
    ///   - variables: `NAME=value`.
    ///   - deadline: From now.
    ///   - input: What it reads.
    ///   - error: An open file for its standard error; `nil` for where standard output goes.
    /// - Returns: How it ended, and the first **16 KiB** of what it wrote.
    package static func run(
        _ arguments: [String],
        variables: [String],
        deadline: Duration,
        input: [UInt8] = [],
        error: Int32? = nil
    ) -> (end: End, output: String) {
        let end = ContinuousClock.now + deadline
        let program: StartedProgram
        let reader: SharedDescriptor
        do throws(FileError) {
            guard let pipe = Pipe() else { throw .last("run", arguments.first ?? "") }
            var start = ProgramStart(arguments, variables: variables)
            start.output = pipe.writer.raw
            start.error = error
            let text = try unnamedFile("syncagent-input", holding: input)
            start.input = text.raw
            program = try withExtendedLifetime(pipe) { () throws(FileError) in try start.start() }
            reader = pipe.reader
        } catch {
            return (.notRun(error.reason), "")
        }
        var output: [UInt8] = []
        let isWhole = collect(from: reader.raw, into: &output, until: end)
        return (self.end(of: program, isWhole ? end : .now), String(decoding: output, as: UTF8.self))
    }

    /// Reads until the other end is closed.
    ///
    /// - Returns: `false` when that did not happen in time.
    private static func collect(
        from input: Int32,
        into output: inout [UInt8],
        until end: ContinuousClock.Instant
    ) -> Bool {
        while true {
            let left = end - .now
            guard left > .zero else { return false }
            guard waitToRead(input, atMost: left) else { continue }
            let result = withUnsafeTemporaryAllocation(byteCount: 4_096, alignment: 16) { buffer in
                let result = readSome(input, into: buffer)
                if case .bytes(let count) = result {
                    output.append(contentsOf: buffer.prefix(min(count, limit - output.count)))
                }
                return result
            }
            switch result {
            case .bytes, .nothing: continue
            case .ended, .failed: return true
            }
        }
    }

    /// Takes its end; kills its group when that does not come in time.
    private static func end(of program: StartedProgram, _ deadline: ContinuousClock.Instant) -> End {
        switch program.wait(until: deadline) {
        case .exited(let status): return .exited(status)
        case .signalled(let number): return .signalled(number)
        case .unknown: return .notRun(errnoText)
        case nil:
            program.signalGroup(.kill)
            // A killed program that the kernel cannot end now stays behind: nothing may hang on it.
            program.wait(until: .now + .milliseconds(200))
            return .timedOut
        }
    }
}
