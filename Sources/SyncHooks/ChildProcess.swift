import CPosix
import SyncPlugins

/// A program that has been started, the leader of its process group, with the reading end of its output.
struct ChildProcess: ~Copyable {
    /// Process and process group; only used for signals while it, or its group, cannot be someone else's.
    let identifier: pid_t
    /// Standard output and error in one, so that their order is kept. Not blocking.
    let output: Int32
    /// Readable when the leader has ended, pidfd_open(2); -1 where the system has none.
    let ended: Int32

    deinit {
        close(output)
        if ended >= 0 { close(ended) }
    }

    /// Starts the invocation's program.
    ///
    /// - Throws: ``ProgramError``; nothing is left running.
    init(start invocation: HookInvocation, environment: HookEnvironment) throws(ProgramError) {
        let program = try resolveProgram(
            invocation.arguments.first ?? "",
            relativeTo: "/",
            destination: invocation.directory
        )
        var arguments = try CStrings(invocation.arguments)
        var variables = try CStrings(environment.variables(for: invocation))
        let directory = try Opened(directory: invocation.directory)
        let input = try Opened(holding: invocation.input)
        var ends: [Int32] = [-1, -1]
        guard sa_pipe(&ends) == 0 else { throw .system("make a pipe for", program, sa_errno()) }
        let child = Self.spawn(
            program,
            &arguments,
            &variables,
            directory.descriptor,
            input.descriptor,
            ends[1]
        )
        let code = sa_errno()
        close(ends[1])
        guard child > 0 else {
            close(ends[0])
            throw .system("run", program, code)
        }
        identifier = child
        output = ends[0]
        ended = sa_process_descriptor(child)
    }

    /// A program that was just written can be busy for a moment, while another fork holds its descriptor.
    private static func spawn(
        _ program: String,
        _ arguments: inout CStrings,
        _ variables: inout CStrings,
        _ directory: Int32,
        _ input: Int32,
        _ output: Int32
    ) -> pid_t {
        for _ in 0..<20 {
            let child = sa_spawn(
                program,
                &arguments.pointers,
                &variables.pointers,
                directory,
                input,
                output,
                0o022
            )
            if child > 0 || sa_errno() != ETXTBSY { return child }
            usleep(10_000)
        }
        sa_set_errno(ETXTBSY)
        return -1
    }

    /// Sends a signal to every process of the group.
    func signalGroup(_ number: Int32) { _ = kill(-identifier, number) }

    /// Whether any process, a zombie too, is left in the group. kill(2), signal 0.
    ///
    /// Asked right after the leader was reaped: while a member is left, the number is not given to another.
    var groupIsEmpty: Bool { kill(-identifier, 0) != 0 && sa_errno() == ESRCH }

    /// Takes the leader's end; `nil` while it runs.
    func reap() -> HookOutcome.End? {
        var value: Int32 = 0
        return switch sa_reap(identifier, &value) {
        case 0: nil
        case 1: .exited(value)
        case 2: .signalled(value)
        default: .notStarted("Another part of this process took the program's exit status.")
        }
    }
}

/// A descriptor above 2, closed at the end of its scope.
private struct Opened: ~Copyable {
    let descriptor: Int32

    deinit { close(descriptor) }

    init(directory path: String) throws(ProgramError) {
        let low = sa_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)
        descriptor = try Opened.above2(low, "open the destination", path)
    }

    /// An unnamed file with `bytes`, at its beginning.
    init(holding bytes: [UInt8]) throws(ProgramError) {
        let file = try Opened.above2(sa_unnamed_file("syncagent-report"), "keep a report for", "a hook")
        let code = Opened.fill(file, bytes)
        if code != 0 { close(file) }
        guard code == 0 else { throw .system("keep a report for", "a hook", code) }
        descriptor = file
    }

    /// Writes `bytes` from the start; the file's position stays there. 0, or errno.
    private static func fill(_ file: Int32, _ bytes: [UInt8]) -> Int32 {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                pwrite(file, buffer.baseAddress?.advanced(by: done), buffer.count - done, off_t(done))
            }
            if count < 0, sa_errno() == EINTR { continue }
            guard count > 0 else { return count < 0 ? sa_errno() : EIO }
            done += count
        }
        return 0
    }

    private static func above2(_ low: Int32, _ step: String, _ subject: String) throws(ProgramError) -> Int32
    {
        guard low >= 0 else { throw .system(step, subject, sa_errno()) }
        if low > 2 { return low }
        let high = sa_duplicate_above2(low)
        let code = sa_errno()
        close(low)
        guard high >= 0 else { throw .system(step, subject, code) }
        return high
    }
}
