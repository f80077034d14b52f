package import SyncModel

/// What starts schedules: three implementations, and ``BackendKind`` for the names under which they are kept.
package protocol ScheduleBackend: Sendable {
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
    @discardableResult
    func remove(_ name: String) throws(ScheduleError) -> Bool

    /// Whether it is in effect.
    func isInEffect(_ name: String) -> Bool

    /// What keeps schedules of this kind from being started on a machine, though they are installed.
    func concern(_ machine: MachineFacts) -> BackendConcern?
}

/// What is to be started: everything a timer or a crontab is made from.
package struct ScheduledStart: Sendable {
    package let name: String
    package let clock: ScheduleClock
    package let program: ScheduledProgram
    /// The day on which it is put into effect.
    package let today: CivilDay

    /// See the properties.
    package init(name: String, clock: ScheduleClock, program: ScheduledProgram, today: CivilDay) {
        self.name = name
        self.clock = clock
        self.program = program
        self.today = today
    }
}

/// What a backend wants to know of a machine when it says what may keep its schedules from being started.
package struct MachineFacts: Sendable {
    package let userName: String
    package let doesLinger: @Sendable () -> Bool
    package let isCronRunning: @Sendable () -> Bool
    package let isAgentRunning: @Sendable () -> Bool

    /// See the properties.
    package init(
        userName: String,
        doesLinger: @escaping @Sendable () -> Bool,
        isCronRunning: @escaping @Sendable () -> Bool,
        isAgentRunning: @escaping @Sendable () -> Bool
    ) {
        self.userName = userName
        self.doesLinger = doesLinger
        self.isCronRunning = isCronRunning
        self.isAgentRunning = isAgentRunning
    }
}

/// Why schedules may not be started, and what to do about it.
package struct BackendConcern: Sendable, Equatable {
    package let problem: String
    package let remedy: String
}

/// The names of what starts schedules, as they are kept with each.
package enum BackendKind: String, Sendable, CaseIterable, Codable {
    case systemdUser = "systemd-user"
    case systemdSystem = "systemd-system"
    case cron
    /// A file in cron.d, of the machine.
    case cronSystem = "cron-system"
    /// The agent's own clock.
    case agent

    /// Whether it starts schedules for the machine, not for the user.
    package var isForMachine: Bool { self == .systemdSystem || self == .cronSystem }

    /// Whether it starts schedules by a time zone of their own.
    package var knowsZones: Bool { self != .cron && self != .cronSystem }

    /// For people: `systemd (user)`.
    package var words: String {
        switch self {
        case .systemdUser: "systemd (user)"
        case .systemdSystem: "systemd"
        case .cron: "cron"
        case .cronSystem: "cron.d"
        case .agent: "the agent"
        }
    }

    /// What does it.
    ///
    /// - Parameters:
    ///   - root: Where the machine's own files begin; empty but in tests.
    ///   - userUnits: Where the user's units are, absolute.
    ///   - run: Starts programs of the system.
    package func backend(root: String, userUnits: String, run: @escaping CommandRunner) -> any ScheduleBackend
    {
        switch self {
        case .systemdUser: SystemdBackend(.user, directory: userUnits, run: run)
        case .systemdSystem: SystemdBackend(.system, directory: root + "/etc/systemd/system", run: run)
        case .cron: CronBackend(run: run)
        case .cronSystem: CronBackend(directory: root + "/etc/cron.d", run: run)
        case .agent: AgentBackend()
        }
    }
}

/// The agent's own clock: it reads the definitions themselves, so there is nothing to install.
package struct AgentBackend: ScheduleBackend {
    /// There is one.
    package init() {}

    package func preview(_ start: ScheduledStart) -> String { "The agent's own clock; nothing is installed." }
    package func install(_ start: ScheduledStart) -> [String] { [] }
    package func holds(_ start: ScheduledStart) -> Bool { true }
    package func remove(_ name: String) -> Bool { false }
    package func isInEffect(_ name: String) -> Bool { true }

    package func concern(_ machine: MachineFacts) -> BackendConcern? {
        guard !machine.isAgentRunning() else { return nil }
        return BackendConcern(
            problem: "it is the agent's, and none is running",
            remedy: "run 'syncagent agent run' as a service, or as the container's main process"
        )
    }
}

/// How a program of the system ended.
package struct CommandOutcome: Sendable, Equatable {
    /// Its exit status; 127 when it could not be started.
    package var status: Int32
    package var output: [UInt8]
    /// What it said on standard error, for people.
    package var errors: String

    /// See the properties.
    package init(status: Int32, output: [UInt8] = [], errors: String = "") {
        self.status = status
        self.output = output
        self.errors = errors
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
        self.code = code
        self.description = description
    }
}
