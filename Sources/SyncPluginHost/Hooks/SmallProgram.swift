import SyncModel
package import SyncPlugins
import SyncSystem

/// A program that answers one question by its exit status, without JSON-RPC: 0 yes, 1 no, anything else undetermined.
/// Its first line of output is the reason. It is started for each question, with a time limit.
package struct SmallProgram: Sendable {
    /// argv; an absolute path first. No shell interprets it.
    package let arguments: [String]
    /// Longest time for one answer.
    package let limit: Duration
    /// Asked several times a second; `true` ends the program early.
    private let isStopped: @Sendable () -> Bool
    private let environment: [String]

    /// Finds and checks a program.
    ///
    /// - Parameters:
    ///   - arguments: First a path, or a name that is searched in the hooks' PATH.
    ///   - destination: The tree from which nothing may run.
    ///   - limit: Longest time for one answer.
    ///   - environment: This process's variables, of which the program gets few.
    ///   - isStopped: Whether to end it early.
    /// - Throws: ``/SyncPlugins/PluginError`` for a program that is missing, or that others could change.
    package init(
        _ arguments: [String], destination: String?, limit: Duration, environment: [String: String],
        isStopped: @escaping @Sendable () -> Bool = { false }
    ) throws(PluginError) {
        let name = arguments.first ?? ""
        do throws(ProgramError) {
            let path = try resolveProgram(name, relativeTo: "/", destination: destination ?? "/dev/null")
            try physicalProgram(path, role: "program", destination: destination)
            self.arguments = [path] + arguments.dropFirst()
        } catch { throw PluginError(plugin: Self.name(of: name), code: .unavailable, message: error.message) }
        (self.limit, self.isStopped) = (limit, isStopped)
        self.environment = programVariables(environment)
    }

    /// Its name in events and messages: the name of its file.
    package var name: String { Self.name(of: arguments.first ?? "") }

    private static func name(of path: String) -> String { path.split(separator: "/").last.map(String.init) ?? path }

    enum Answer: Sendable, Equatable {
        case yes
        /// With its first line of output, if any.
        case no(String?)
        /// Undetermined, with the reason.
        case trouble(String)
    }

    private static let stopped = "it was stopped before it answered"
    /// The first **bytes** of output that are kept.
    private static let kept = 4_096

    /// Runs the program and waits for the answer, only slightly longer than ``limit``.
    ///
    /// - Parameters:
    ///   - input: Its standard input; `nil` for none.
    ///   - variables: `NAME=value`, in addition to those of every program.
    func ask(reading input: Int32? = nil, variables: [String]) -> Answer {
        guard !isStopped() else { return .trouble(Self.stopped) }
        var start = ProgramStart(arguments, variables: environment + variables)
        start.input = input
        let (end, output, errors) = start.run(
            deadline: limit, keeping: Self.kept, keepsErrors: true, isStopped: isStopped)
        switch end {
        case .exited(0): return .yes
        case .exited(1): return .no(Self.firstLine(output) ?? Self.firstLine(errors))
        case .exited:
            let words = Self.firstLine(errors) ?? Self.firstLine(output)
            return .trouble("\(end)" + (words.map { ": \($0)" } ?? ""))
        case .timedOut, .silent, .overflowed:
            return .trouble("it has not answered within \(limit.components.seconds) s and was ended")
        case .stopped: return .trouble(Self.stopped)
        case .signalled, .unknown, .notRun: return .trouble("\(end)")
        }
    }

    /// The first line that is not empty, without leading whitespace; `nil` for none.
    private static func firstLine(_ text: String) -> String? {
        let lines = text.split(whereSeparator: \.isNewline).map { line in line.drop { $0.isWhitespace } }
        return lines.first { !$0.isEmpty }.map { String($0.prefix(200)) }
    }
}

/// The words of a command line: whitespace separates, quotes and backslashes group. As in sh(1), without any expansion.
///
/// - Returns: `nil` for an unclosed quote or an empty command.
package func commandWords(_ text: String) -> [String]? {
    var words: [String] = []
    var word: String?
    var quote: Character?
    var isEscaped = false
    for character in text {
        if isEscaped {
            word = (word ?? "") + String(character)
            isEscaped = false
        } else if character == "\\", quote != "'" {
            isEscaped = true
        } else if let open = quote {
            if character == open { quote = nil } else { word = (word ?? "") + String(character) }
        } else if character == "'" || character == "\"" {
            quote = character
            word = word ?? ""
        } else if character.isWhitespace {
            if let found = word { words.append(found) }
            word = nil
        } else {
            word = (word ?? "") + String(character)
        }
    }
    guard quote == nil, !isEscaped else { return nil }
    if let word { words.append(word) }
    return words.first?.isEmpty == false ? words : nil
}

/// Shows each file to a program before the file is installed: 0 accept, 1 refuse, anything else undetermined.
package struct ProgramVerifier: FileVerifier {
    private let program: SmallProgram
    private let instances: Int

    /// Default of the longest time for one file.
    package static let limit = Duration.seconds(60)

    /// - Parameters:
    ///   - program: Includes the limit for one file.
    ///   - instances: How many instances may run at a time.
    package init(_ program: SmallProgram, instances: Int) {
        self.program = program
        self.instances = max(1, instances)
    }

    /// Default number of instances for a number of cores: a scanner mostly waits for a service.
    package static func instances(cores: Int) -> Int { min(max(2, cores), 16) }

    package func verify(_ files: [StagedFile]) -> [FileVerdict] {
        let found = concurrently(
            over: files.count, threads: instances, name: "verify", isStopped: { false }, by: { _ in self }
        ) { verifier, position in verifier.verdict(files[position]) }
        return found.sorted { $0.place < $1.place }.map(\.result)
    }

    private func verdict(_ file: StagedFile) -> FileVerdict {
        guard let bytes = Descriptor(opening: file.stagedPath, .noFollow) else {
            return .unchecked(reason: "it cannot be opened for \(program.name): \(errnoText)")
        }
        let answer = program.ask(
            reading: bytes.raw,
            variables: [
                "SYNCAGENT_PATH=\(file.path)", "SYNCAGENT_FILE=\(file.stagedPath)", "SYNCAGENT_SIZE=\(file.size)",
                "SYNCAGENT_SHA256=\(file.sha256)",
            ])
        return switch answer {
        case .yes: .accepted
        case .no(let reason): .refused(reason: reason ?? "\(program.name) refuses it")
        case .trouble(let reason): .unchecked(reason: "\(program.name): \(reason)")
        }
    }
}

/// Asks a program whether a run may proceed: 0 yes, 1 not now, anything else undetermined.
package final class ProgramCondition: Condition {
    package var name: String { program.name }
    private let program: SmallProgram
    private let clock: @Sendable () -> ContinuousClock.Instant
    private let last = Mutex<(state: ConditionState, time: ContinuousClock.Instant)?>(nil)

    /// Longest time for one answer: an evaluation of all conditions takes at most five seconds.
    package static let limit = Duration.seconds(4)
    /// How long an answer is reused: a run evaluates its conditions every few seconds.
    package static let interval = Duration.seconds(30)

    /// - Parameters:
    ///   - program: With ``limit`` as its limit.
    ///   - clock: The clock.
    package init(
        _ program: SmallProgram, clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        (self.program, self.clock) = (program, clock)
    }

    package func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        let now = clock()
        if let known = last.withLock({ $0 }), now - known.time < Self.interval { return known.state }
        let answer = program.ask(variables: [
            "SYNCAGENT_DESTINATION=\(context.destination)", "SYNCAGENT_RECEIVED=\(context.receivedBytes)",
        ])
        let state: ConditionState =
            switch answer {
            case .yes: .ok
            case .no(let reason): .blocked(reason: reason ?? "\(name) gave no reason")
            case .trouble(let reason): .unknown(reason: reason)
            }
        last.withLock { $0 = (state, now) }
        return state
    }
}
