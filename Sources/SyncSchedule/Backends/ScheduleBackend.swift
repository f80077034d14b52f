package import SyncModel

/// A mechanism that starts schedules. Everything about a backend is in its own file; only
/// ``scheduleBackends(root:configuration:run:)`` lists it by name.
package protocol ScheduleBackend: Sendable {
    /// The name stored with each schedule: `cron-system`.
    var name: String { get }
    /// For people: `cron.d`.
    var words: String { get }
    /// The name in `--backend`: `cron`, whether for the machine or for the user.
    var choice: String { get }
    /// Whether it starts schedules for the machine, not for the user.
    var isForMachine: Bool { get }
    /// Whether it can start schedules by a time zone of their own.
    var knowsZones: Bool { get }
    /// Whether the agent itself starts them, so that an agent has to run.
    var needsAgent: Bool { get }
    /// Advice for people once a schedule is set up; `nil` for none.
    var advice: String? { get }

    /// Whether it is meant for schedules of the machine, or of the user.
    func serves(machine: Bool, isRoot: Bool) -> Bool

    /// Why it can start schedules here, for people; may be empty.
    ///
    /// - Parameter isNamed: Whether `--backend` names it; otherwise the backends are tried in turn.
    /// - Throws: ``ScheduleError`` that says what is missing and, if the backend is named, what would work.
    func reason(on machine: MachineFacts, isNamed: Bool) throws(ScheduleError) -> String

    /// A preview of what would be installed, for people.
    func preview(_ start: ScheduledStart) throws(ScheduleError) -> String

    /// Puts a schedule into effect in place of a former one of its name. On failure, everything is as it was.
    ///
    /// - Returns: Notes for people.
    func install(_ start: ScheduledStart) throws(ScheduleError) -> [String]

    /// Whether exactly this is installed; changes nothing.
    func holds(_ start: ScheduledStart) throws(ScheduleError) -> Bool

    /// Takes a schedule out of effect. A program that is not installed starts nothing.
    ///
    /// - Returns: Whether there was anything.
    @discardableResult func remove(_ name: String) throws(ScheduleError) -> Bool

    /// Whether it is in effect.
    func isInEffect(_ name: String) -> Bool

    /// A problem that keeps installed schedules of this kind from being started on a machine.
    func concern(_ machine: MachineFacts) -> (problem: String, remedy: String)?
}

extension ScheduleBackend {
    package var knowsZones: Bool { true }
    package var needsAgent: Bool { false }
    package var advice: String? { nil }

    package func serves(machine: Bool, isRoot: Bool) -> Bool { machine == isForMachine }
}

/// All backends, in the order in which they are tried.
///
/// - Parameters:
///   - root: The root of the machine's own files; empty except in tests.
///   - configuration: The user's configuration directory, absolute.
///   - run: Runs programs of the system.
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

/// A start to install: everything that a timer or a crontab is made from.
package struct ScheduledStart: Sendable {
    package let name: String
    package let clock: ScheduleClock
    package let program: ScheduledProgram
    /// The day on which it takes effect.
    package let today: CivilDay
}

/// The command that fires a schedule, whatever starts it.
package struct ScheduledProgram: Sendable, Equatable {
    /// The program's absolute path.
    package var path: String
    /// Its arguments, such as `schedule run tower`.
    package var arguments: [String]
    /// Variables with which it finds the same directories as when the schedule was made, each `NAME=value`.
    package var variables: [String]

    /// Makes a command. No part may contain a control character: units and crontabs consist of lines.
    ///
    /// - Throws: ``ScheduleError`` with code `invalid`.
    package init(path: String, arguments: [String], variables: [String] = []) throws(ScheduleError) {
        guard path.hasPrefix("/") else {
            throw ScheduleError(.invalid, "The program's path is not absolute: '\(escaped(path))'.")
        }
        // env(1) would treat it as a variable.
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
}

/// The facts about a machine that a backend can ask for.
package struct MachineFacts: Sendable {
    package let userName: String
    package let isRoot: Bool
    /// Whether there is a file or directory at an absolute path.
    package let exists: @Sendable (_ path: String) -> Bool
    /// Whether a program with this name is installed.
    package let hasProgram: @Sendable (_ name: String) -> Bool
    /// Whether a process with one of these names is running.
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

/// The result of a program of the system.
package struct CommandOutcome: Sendable, Equatable {
    /// Its exit status; 127 if it is not installed, 126 if it could not be started.
    package var status: Int32
    package var output: [UInt8]
    /// Its standard error, for people.
    package var errors: String

    package init(status: Int32, output: [UInt8] = [], errors: String = "") {
        (self.status, self.output, self.errors) = (status, output, errors)
    }
}

/// Runs a program of the system, given its name or path, its arguments and its standard input. Tests supply one that
/// only records the calls.
package typealias CommandRunner = @Sendable (_ arguments: [String], _ input: [UInt8]) -> CommandOutcome

/// Why a schedule cannot be created, stored or put into effect.
package struct ScheduleError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of failure; it determines the command's exit status.
    package enum Code: Sendable, Equatable {
        /// The request makes no sense.
        case invalid
        /// There is no such schedule.
        case unknown
        /// This machine has nothing that could start it, or the backend refuses.
        case unavailable
        /// A file could not be read or written.
        case file
        /// A definition was read and cannot be used.
        case malformed
    }

    package let code: Code
    /// For people: what happened, to what, and what to do.
    package let description: String
    /// Whether a file is not trusted, because others could change it.
    package let isRefusal: Bool

    /// Makes an error; foreign text in `description` must have gone through `escaped(_:)`.
    package init(_ code: Code, _ description: String, isRefusal: Bool = false) {
        (self.code, self.description, self.isRefusal) = (code, description, isRefusal)
    }
}
