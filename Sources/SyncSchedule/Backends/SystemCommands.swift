import SyncSystem

/// Finds a program by name in `PATH`.
package typealias ProgramSearch = @Sendable (_ name: String) -> String?

/// - Returns: `nil` if it is not installed, or not executable for this user.
/// - Throws: Why that cannot be determined.
private func path(of name: String, _ search: ProgramSearch) throws(Errno) -> String? {
    if let found = search(name) { return found }
    var failure: Errno?
    // cron's PATH is short, and a user's has no sbin.
    for directory in ["/usr/bin", "/bin", "/usr/sbin", "/sbin"] {
        let candidate = "\(directory)/\(name)"
        if isPermitted(.execute, candidate) { return candidate }
        let code = Errno.last
        if ![.noSuchFileOrDirectory, .notDirectory, .permissionDenied].contains(code) { failure = failure ?? code }
    }
    if let failure { throw failure }
    return nil
}

/// Runs programs of the system that put schedules into effect, each to completion: messages in English, standard input
/// from memory.
///
/// - Parameter environment: Their environment.
package func systemCommands(environment: [String: String], _ search: @escaping ProgramSearch) -> CommandRunner {
    var variables = environment
    variables["LC_ALL"] = "C"
    variables["SYSTEMD_PAGER"] = ""
    // su(1) and sudo(8) drop it, but the user's manager still listens there.
    let runtime = "/run/user/\(CurrentProcess.user)"
    if variables["XDG_RUNTIME_DIR"] == nil, exists(runtime) { variables["XDG_RUNTIME_DIR"] = runtime }
    let given = variables.map { "\($0.key)=\($0.value)" }
    return { arguments, input in
        let name = arguments.first ?? ""
        let found: String?
        do throws(Errno) { found = try path(of: name, search) } catch {
            return CommandOutcome(status: 126, errors: "\(name): \(error)")
        }
        guard let program = found else { return CommandOutcome(status: 127, errors: "\(name) is not installed") }
        do throws(FileError) {
            let input = try unnamedFile("schedule", holding: input)
            let output = SharedDescriptor(try unnamedFile("schedule"))
            let errors = SharedDescriptor(try unnamedFile("schedule"))
            var start = ProgramStart([program] + arguments.dropFirst(), variables: given)
            (start.input, start.output, start.error) = (input.raw, output.raw, errors.raw)
            let end = try start.start().wait()
            let status: Int32 = if case .exited(let status) = end { status } else { 128 }
            let complaint = try readFile(errors.raw, limit: 1 << 20, shown: name)
            return CommandOutcome(
                status: status, output: try readFile(output.raw, limit: 64 << 20, shown: name),
                errors: String(decoding: complaint, as: UTF8.self))
        } catch { return CommandOutcome(status: 126, errors: "\(program): \(error.reason)") }
    }
}

extension MachineFacts {
    /// This machine.
    ///
    /// - Parameter isAgentRunning: Whether this user's agent is running.
    package init(_ search: @escaping ProgramSearch, isAgentRunning: @escaping @Sendable () -> Bool) {
        self.init(
            userName: UserEntry(CurrentProcess.user)?.name ?? "\(CurrentProcess.user)",
            isRoot: CurrentProcess.user == 0, exists: { SyncSystem.exists($0) },
            hasProgram: { ((try? path(of: $0, search)) ?? nil) != nil },
            isRunning: { names in
                // proc(5), /proc/pid/comm
                ((try? directoryEntries("/proc")) ?? []).contains { entry in
                    // Without a line, the process has just ended.
                    guard entry.first?.isNumber == true, let name = systemLine("/proc/\(entry)/comm") else {
                        return false
                    }
                    return names.contains(String(name))
                }
            }, isAgentRunning: isAgentRunning)
    }
}
