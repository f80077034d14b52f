package import SyncModel

/// What starts schedules. A backend says all there is to say of it in its own file;
/// ``scheduleBackends(root:configuration:run:)`` is the one list that has to name it.
package protocol ScheduleBackend: Sendable {
    /// As it is kept with each schedule: `cron-system`.
    var name: String { get }
    /// For people: `cron.d`.
    var words: String { get }
    /// What `--backend` calls it: `cron`, whether for the machine or for the user.
    var choice: String { get }
    /// Whether it starts schedules for the machine, not for the user.
    var isForMachine: Bool { get }
    /// Whether it starts schedules by a time zone of their own.
    var knowsZones: Bool { get }
    /// Whether the agent starts them itself, so that one has to run.
    var needsAgent: Bool { get }
    /// For people, once a schedule is set up; `nil` for nothing.
    var advice: String? { get }

    /// Whether it is meant for schedules of the machine, or of the user.
    func serves(machine: Bool, isRoot: Bool) -> Bool

    /// Why it can start schedules here, for people; may be empty.
    ///
    /// - Parameter isNamed: Whether `--backend` asks for it; otherwise it is one of those that are tried in turn.
    /// - Throws: ``ScheduleError`` that says what is missing and, where it is named, what would do.
    func reason(on machine: MachineFacts, isNamed: Bool) throws(ScheduleError) -> String

    /// What would be installed, for people.
    func preview(_ start: ScheduledStart) throws(ScheduleError) -> String

    /// Has a schedule started from now on, in the place of a former one of its name. When that fails, everything is as
    /// it was.
    ///
    /// - Returns: What people should know.
    func install(_ start: ScheduledStart) throws(ScheduleError) -> [String]

    /// Whether exactly this is installed; reads and changes nothing.
    func holds(_ start: ScheduledStart) throws(ScheduleError) -> Bool

    /// Has a schedule started no more. A program that is not installed starts nothing.
    ///
    /// - Returns: Whether there was anything.
    @discardableResult func remove(_ name: String) throws(ScheduleError) -> Bool

    /// Whether it is in effect.
    func isInEffect(_ name: String) -> Bool

    /// What keeps schedules of this kind from being started on a machine, though they are installed.
    func concern(_ machine: MachineFacts) -> (problem: String, remedy: String)?
}

extension ScheduleBackend {
    package var knowsZones: Bool { true }
    package var needsAgent: Bool { false }
    package var advice: String? { nil }

    package func serves(machine: Bool, isRoot: Bool) -> Bool { machine == isForMachine }
}

/// Every backend, the one that is tried first in front.
///
/// - Parameters:
///   - root: Where the machine's own files begin; empty but in tests.
///   - configuration: Where the user's configuration is, absolute.
///   - run: How they ask programs of the system.
package func scheduleBackends(root: String, configuration: String, run: @escaping CommandRunner)
    -> [any ScheduleBackend]
{
    [
        // systemd.unit(5), "User Unit Search Path"
        SystemdBackend(isForMachine: false, directory: configuration + "/systemd/user", run: run),
        SystemdBackend(isForMachine: true, directory: root + "/etc/systemd/system", run: run), CronBackend(run: run),
        CronBackend(directory: root + "/etc/cron.d", run: run), AgentBackend(),
    ]
}

/// What is to be started: everything a timer or a crontab is made from.
package struct ScheduledStart: Sendable {
    package let name: String
    package let clock: ScheduleClock
    package let program: ScheduledProgram
    /// The day on which it is put into effect.
    package let today: CivilDay
}

/// The command that fires a schedule, wherever it is fired from.
package struct ScheduledProgram: Sendable, Equatable {
    /// The program's absolute path.
    package var path: String
    /// What it is told, such as `schedule run tower`.
    package var arguments: [String]
    /// Variables it needs to find what it found when the schedule was made, `NAME=value` each.
    package var variables: [String]

    /// Makes a command; no part of it may hold a control character: units and crontabs are lines.
    ///
    /// - Throws: ``ScheduleError`` with code `invalid`.
    package init(path: String, arguments: [String], variables: [String] = []) throws(ScheduleError) {
        guard path.hasPrefix("/") else {
            throw ScheduleError(.invalid, "The program's path is not absolute: '\(escaped(path))'.")
        }
        // env(1) would take it for a variable.
        guard !path.contains("=") else {
            throw ScheduleError(.invalid, "The program's path holds '=': '\(escaped(path))'. Put it elsewhere.")
        }
        for text in [path] + arguments + variables.map({ String($0.drop { $0 != "=" }.dropFirst()) }) {
            guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else {
                throw ScheduleError(
                    .invalid,
                    "'\(escaped(text))' holds a line break or another control character; a schedule cannot carry it.")
            }
        }
        (self.path, self.arguments, self.variables) = (path, arguments, variables)
    }

    func adding(_ argument: String) -> ScheduledProgram {
        var copy = self
        copy.arguments.append(argument)
        return copy
    }
}

/// What a backend can ask about a machine: whether it is there, and what may keep its schedules from being started.
package struct MachineFacts: Sendable {
    package let userName: String
    package let isRoot: Bool
    /// Whether there is a file or directory at an absolute path.
    package let exists: @Sendable (_ path: String) -> Bool
    /// Whether a program of this name is installed.
    package let hasProgram: @Sendable (_ name: String) -> Bool
    /// Whether a process of one of these names runs.
    package let isRunning: @Sendable (_ names: Set<String>) -> Bool
    package let isAgentRunning: @Sendable () -> Bool

    package init(
        userName: String, isRoot: Bool, exists: @escaping @Sendable (String) -> Bool,
        hasProgram: @escaping @Sendable (String) -> Bool, isRunning: @escaping @Sendable (Set<String>) -> Bool,
        isAgentRunning: @escaping @Sendable () -> Bool
    ) {
        (self.userName, self.isRoot, self.exists) = (userName, isRoot, exists)
        (self.hasProgram, self.isRunning, self.isAgentRunning) = (hasProgram, isRunning, isAgentRunning)
    }
}

/// How a program of the system ended.
package struct CommandOutcome: Sendable, Equatable {
    /// Its exit status; 127 when it is not installed, 126 when it could not be started.
    package var status: Int32
    package var output: [UInt8]
    /// What it said on standard error, for people.
    package var errors: String

    package init(status: Int32, output: [UInt8] = [], errors: String = "") {
        (self.status, self.output, self.errors) = (status, output, errors)
    }
}

/// Runs a program of the system: its name or path and arguments, and what it reads on standard input. Tests give
/// one that only takes notes.
package typealias CommandRunner = @Sendable (_ arguments: [String], _ input: [UInt8]) -> CommandOutcome

/// Why a schedule cannot be made, kept or put into effect.
package struct ScheduleError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of failure it is; the command's exit status follows from it.
    package enum Code: Sendable, Equatable {
        /// What was asked for makes no sense.
        case invalid
        /// There is no such schedule.
        case unknown
        /// This machine has nothing that could start it, or what it has refuses.
        case unavailable
        /// A file could not be read or written.
        case file
    }

    package let code: Code
    /// For people: what happened, to what, what to do.
    package let description: String

    /// Makes an error; foreign text in `description` must have gone through `escaped(_:)`.
    package init(_ code: Code, _ description: String) {
        (self.code, self.description) = (code, description)
    }
}
