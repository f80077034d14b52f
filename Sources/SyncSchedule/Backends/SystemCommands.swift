import SyncSystem

/// Programs of the system that put schedules into effect.
package struct SystemCommands: Sendable {
    private let environment: [String: String]
    private let search: @Sendable (_ name: String) -> String?

    /// - Parameters:
    ///   - environment: What they are given.
    ///   - search: Where a program of a name is, in `PATH`.
    package init(environment: [String: String], search: @escaping @Sendable (_ name: String) -> String?) {
        self.environment = environment
        self.search = search
    }

    /// Runs one to its end: messages in English, standard input from memory.
    package var run: CommandRunner {
        { [self] arguments, input in
            guard let name = arguments.first, let program = path(of: name) else {
                return CommandOutcome(status: 127, errors: "\(arguments.first ?? "") is not installed")
            }
            do throws(FileError) {
                let input = try unnamedFile("schedule", holding: input)
                let (output, errors) = (
                    SharedDescriptor(try unnamedFile("schedule")), SharedDescriptor(try unnamedFile("schedule"))
                )
                var start = ProgramStart([program] + arguments.dropFirst(), variables: variables)
                start.input = input.raw
                start.output = output.raw
                start.error = errors.raw
                let end = try start.start().wait()
                let status: Int32 = if case .exited(let status) = end { status } else { 128 }
                let complaint = try readFile(errors.raw, limit: 1 << 20, shown: name)
                return CommandOutcome(
                    status: status, output: try readFile(output.raw, limit: 64 << 20, shown: name),
                    errors: String(decoding: complaint, as: UTF8.self))
            } catch { return CommandOutcome(status: 126, errors: "\(program): \(error.reason)") }
        }
    }

    /// What backends can ask about this machine.
    ///
    /// - Parameter isAgentRunning: Whether this user's agent runs.
    package func facts(isAgentRunning: @escaping @Sendable () -> Bool) -> MachineFacts {
        MachineFacts(
            userName: UserEntry(CurrentProcess.user)?.name ?? "\(CurrentProcess.user)",
            isRoot: CurrentProcess.user == 0, exists: { exists($0) }, hasProgram: { path(of: $0) != nil },
            isRunning: Self.isRunning, isAgentRunning: isAgentRunning)
    }

    private func path(of name: String) -> String? {
        if let found = search(name) { return found }
        // cron's PATH is short, and that of a user has no sbin.
        return ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map { "\($0)/\(name)" }.first { isPermitted(.execute, $0) }
    }

    private var variables: [String] {
        var variables = environment
        variables["LC_ALL"] = "C"
        variables["SYSTEMD_PAGER"] = ""
        // Lost by su(1) and sudo(8); the user's manager listens there all the same.
        let runtime = "/run/user/\(CurrentProcess.user)"
        if variables["XDG_RUNTIME_DIR"] == nil, exists(runtime) { variables["XDG_RUNTIME_DIR"] = runtime }
        return variables.map { "\($0.key)=\($0.value)" }
    }

    /// Whether a process of one of these names runs. proc(5), /proc/pid/comm
    @Sendable private static func isRunning(_ names: Set<String>) -> Bool {
        ((try? directoryEntries("/proc")) ?? []).contains { entry in
            // Without a line it has just ended.
            guard entry.first?.isNumber == true, let name = systemLine("/proc/\(entry)/comm") else { return false }
            return names.contains(String(name))
        }
    }
}
