import SyncModel

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
