import ArgumentParser
import Foundation
import SyncAgent
import SyncAssembly
import SyncModel
import SyncPlugins
import SyncSchedule
import SyncSystem

/// The parts of the environment that commands use, read in one place.
struct EnvironmentPaths: Sendable {
    let lookup: @Sendable (String) -> String?
    private let home: String?

    /// Reads variables with `lookup`; `home` stands in for a missing `HOME`.
    init(home: String?, lookup: @escaping @Sendable (String) -> String?) { (self.home, self.lookup) = (home, lookup) }

    /// The environment of this process; without `HOME`, the home directory of passwd(5).
    static let ofProcess = EnvironmentPaths(home: UserEntry.own?.home, lookup: CurrentProcess.variable)

    /// The state directory of the system's own user, as in Examples/systemd, for pulls by no person's account.
    static let systemState = "/var/lib/syncagent"

    /// The environment of the system's own user. As root, this process becomes that user: files that root creates there
    /// would be inaccessible to it.
    ///
    /// - Parameter state: Its state directory, absolute.
    /// - Throws: ``CommandFailure`` with status 66 if there is none, 77 for other users.
    static func ofSystem(_ state: String = systemState) throws(CommandFailure) -> EnvironmentPaths {
        let shown = escaped(state)
        guard let found = status(following: state) else {
            throw CommandFailure(.noInput, "There is no state of the system's user: \(shown): \(Errno.last).")
        }
        let user = found.user
        if CurrentProcess.user != user {
            let code = CurrentProcess.user == 0 ? CurrentProcess.become(user: user, group: found.group) : .notPermitted
            if let code {
                let name = UserEntry(user)?.name.map { " \(escaped($0))" } ?? " \(user)"
                throw CommandFailure(
                    .refused,
                    "\(shown) belongs to the user\(name): \(code); run this as that user or root, such as with sudo.")
            }
        }
        let parent = state.split(separator: "/").dropLast().map { "/" + $0 }.joined()
        return EnvironmentPaths(home: UserEntry(user)?.home) { name in
            if name == "XDG_STATE_HOME" { return parent }
            return name == "HOME" || name.hasPrefix("XDG_") ? nil : CurrentProcess.variable(name)
        }
    }

    /// `$XDG_STATE_HOME/syncagent`, by default `~/.local/state/syncagent`; absolute.
    ///
    /// XDG Base Directory Specification 0.8: a variable that holds a relative path is ignored.
    ///
    /// - Throws: ``CommandFailure`` with status 73 if there is no home directory either, or if the directory is not
    ///   private to this user: the message says what to do, as for root after `sudo -E`.
    func stateDirectory() throws(CommandFailure) -> String {
        let path = try statePath()
        do throws(FileError) { _ = try openStateDirectory(path, create: false) } catch {
            if !error.isMissing { throw CommandFailure(.cannotCreate, error.ofState) }
        }
        return path
    }

    /// The path of the state directory, without a check, for callers that only show it.
    func statePath() throws(CommandFailure) -> String { try own(baseDirectories.state, "XDG_STATE_HOME") }

    /// `$XDG_CONFIG_HOME/syncagent`, by default `~/.config/syncagent`; absolute.
    func configurationDirectory() throws(CommandFailure) -> String {
        try own(baseDirectories.configuration, "XDG_CONFIG_HOME")
    }

    /// The machine's configuration file, for all of its users.
    static let machineConfiguration = "/etc/syncagent/config.json"

    /// The configuration files that are read if no option names another: the user's, then the machine's.
    var configurationFiles: [String] {
        // Without a home there is no user's file. In an image, the configuration directory may be the machine's.
        let own = (try? configurationDirectory()).map { $0 + "/config.json" } ?? Self.machineConfiguration
        return own == Self.machineConfiguration ? [own] : [own, Self.machineConfiguration]
    }

    /// The base of relative paths on the command line.
    var pathBase: PathBase { PathBase(directory: CurrentProcess.workingDirectory, home: lookup("HOME") ?? home) }

    /// The places of settings and plugins: programs of plugins are in `$XDG_CONFIG_HOME/syncagent/plugins`, and their
    /// pipes below the runtime directory.
    var host: HostEnvironment {
        let base = pathBase
        var variables = ProcessInfo.processInfo.environment
        // systemd's services of the machine have no HOME: logins, programs and hooks find the same there as in a shell.
        variables["HOME"] = base.home ?? variables["HOME"]
        var host = HostEnvironment(base: base, variables: variables, lookup: lookup)
        host.files = configurationFiles
        let file = configurationFiles.first ?? Self.machineConfiguration
        host.pluginDirectory = file.split(separator: "/").dropLast().map { "/" + $0 }.joined() + "/plugins"
        host.runtimeDirectory = baseDirectories.runtime ?? "/tmp"
        return host
    }

    /// This program's file; its link in proc(5) also works after the file has been replaced.
    static var ownProgram: String {
        let link = "/proc/self/exe"
        let path = try? FileManager.default.destinationOfSymbolicLink(atPath: link)
        return path.flatMap { isPermitted(.execute, $0) ? $0 : nil } ?? link
    }

    /// The program for a name without a slash: the first match in `PATH`. execvp(3).
    func program(named name: String) -> String? {
        for directory in (lookup("PATH") ?? "").split(separator: ":") where directory.hasPrefix("/") {
            let candidate = "\(directory)/\(name)"
            if isPermitted(.execute, candidate) { return candidate }
        }
        return nil
    }

    /// The absolute path of a program given as `./reindex`, `/usr/bin/true` or `true`.
    ///
    /// A path need not exist yet, since a pull may install it; a bare name has to be in `PATH` now.
    func absoluteProgram(_ text: String, option: String) throws -> String {
        guard !text.isEmpty, !text.contains("\0") else { throw ValidationError("\(option) needs a program.") }
        if isHookProgram(text), !text.hasPrefix("/") {
            guard option.hasSuffix("hook") else {
                throw ValidationError("\(option) takes a program, not '\(escaped(shownHookProgram(text)))'.")
            }
            if let fault = RunHook.objection(to: [text]) { throw ValidationError("\(option): \(fault).") }
            return text
        }
        if text.contains("/"), try exists(Self.absolute(text)) || !isCommandLine(text) {
            return try Self.absolute(text)
        }
        if isCommandLine(text) {
            throw ValidationError(
                "\(option) takes a program without arguments, not '\(escaped(text))': write a script that calls it"
                    + (option.hasSuffix("hook")
                        ? ", or name a hook in the manifest that has \"arguments\" in the configuration file." : "."))
        }
        guard let found = program(named: text) else {
            throw ValidationError(
                "\(option): no program '\(escaped(text))' in PATH; write ./\(escaped(text)) for one in this directory.")
        }
        return found
    }

    /// Whether the text is a program followed by arguments, as in a shell.
    private func isCommandLine(_ text: String) -> Bool {
        guard let space = text.firstIndex(of: " ") else { return false }
        let word = String(text[..<space])
        guard word.contains("/") else { return program(named: word) != nil }
        return (try? Self.absolute(word)).map { isPermitted(.execute, $0) } ?? false
    }

    /// A path resolved against the working directory.
    ///
    /// - Throws: ``CommandFailure`` with status 73 for a relative path if the working directory has been removed, or
    ///   has a path that is not UTF-8.
    static func absolute(_ path: String) throws(CommandFailure) -> String {
        try rethrowing(absolutePath(path)) { (error: FileError) in CommandFailure(.cannotCreate, "\(error).") }
    }

    /// The same without `.`, `..` and doubled slashes, for paths that are recorded and used later, elsewhere.
    static func standardized(_ path: String) throws(CommandFailure) -> String {
        URL(fileURLWithPath: try absolute(path)).standardizedFileURL.path
    }

    /// Whether the terminal can move its cursor. terminfo(5) names a terminal that cannot `dumb`.
    var hasCapableTerminal: Bool {
        guard let term = lookup("TERM") else { return false }
        return !term.isEmpty && term != "dumb"
    }

    /// Whether messages may have colours: on a capable terminal as standard error, and without <https://no-color.org>.
    var wantsColour: Bool { isTerminal(STDERR_FILENO) && hasCapableTerminal && (lookup("NO_COLOR") ?? "").isEmpty }

    /// Whether the locale names no UTF-8. locale(7): the first of the three variables that is set counts.
    var isASCIIOnly: Bool {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].compactMap(lookup).first { !$0.isEmpty } ?? "C"
        return !locale.lowercased().replacing("-", with: "").contains("utf8")
    }

    var baseDirectories: BaseDirectories { BaseDirectories(home: home, lookup: lookup) }

    private func own(_ directory: String?, _ variable: String) throws(CommandFailure) -> String {
        guard let directory else {
            throw CommandFailure(.cannotCreate, "Cannot determine the home directory. Set HOME or \(variable).")
        }
        // U+FFFD stands in for bytes that are not UTF-8, so the path would be another directory.
        guard !directory.unicodeScalars.contains("\u{FFFD}") else {
            throw CommandFailure(
                .cannotCreate, "\(escaped(directory)): this path is not UTF-8. Set HOME or \(variable) to one that is.")
        }
        return directory + "/syncagent"
    }
}

extension EnvironmentPaths {
    /// The place of the agent's socket and state.
    func agentPlace() throws(CommandFailure) -> AgentPlace {
        AgentPlace.found(stateDirectory: try statePath(), runtimeDirectory: baseDirectories.runtime)
    }

    /// The place for an agent in this process.
    func ownAgentPlace() throws(CommandFailure) -> AgentPlace {
        AgentPlace.own(stateDirectory: try statePath(), runtimeDirectory: baseDirectories.runtime)
    }

    /// The run whose hook this process belongs to, if any.
    func hookRun() -> String? { lookup("SYNCAGENT_RUN_ID").flatMap { $0.isEmpty ? nil : $0 } }

    /// The group whose hook this process belongs to, if any.
    func hookGroup() -> String? { lookup("SYNCAGENT_GROUP").flatMap { $0.isEmpty ? nil : $0 } }

    /// The batch of files for this process's hook, if any.
    func hookBatch() -> String? { lookup("SYNCAGENT_BATCH") }

    /// The destination of the run whose hook this process belongs to, if any.
    func hookDestination() -> String? { baseDirectories.path("SYNCAGENT_DESTINATION") }

    /// The places that conditions examine. `DBUS_SYSTEM_BUS_ADDRESS` may name another system bus.
    var machinePlaces: MachinePlaces {
        var places = MachinePlaces()
        places.bus = SystemBus(address: lookup("DBUS_SYSTEM_BUS_ADDRESS"))
        return places
    }

    /// The socket on which systemd listens. sd_notify(3)
    func notifySocket() -> String? { lookup("NOTIFY_SOCKET") }

    /// The interval in **microseconds** within which systemd's watchdog expects a sign of life from `process`.
    /// sd_watchdog_enabled(3)
    func watchdogMicroseconds(process: Int32) -> Int64? {
        if let owner = lookup("WATCHDOG_PID"), owner != String(process) { return nil }
        return lookup("WATCHDOG_USEC").flatMap { Int64($0) }.flatMap { $0 >= 2 ? $0 : nil }
    }
}
