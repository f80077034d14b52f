import CPosix
import SyncHooks

/// A running plugin: the leader of a process group, and the ends of its three pipes.
final class PluginChild {
    /// Process and process group.
    let identifier: pid_t
    /// What it writes. Not blocking.
    let output: Int32
    /// What it logs. Not blocking.
    let error: Int32
    /// Readable when the leader has ended, pidfd_open(2); -1 where the system has none.
    let ended: Int32
    /// What it reads; -1 once closed. Not blocking.
    private(set) var input: Int32

    deinit {
        closeInput()
        close(output)
        close(error)
        if ended >= 0 { close(ended) }
    }

    /// Starts a program with limits; nothing of this process but the pipes is open in it (V61).
    ///
    /// - Throws: ``ProgramError``; nothing is left running.
    init(start program: String, variables: [String], limits: PluginLimits) throws(ProgramError) {
        var arguments = try CStrings([program])
        var environment = try CStrings(variables)
        let pipes = PipeEnds()
        guard pipes.open() else { throw .system("make pipes for", program, sa_errno()) }
        var bounds = sa_limits(
            address_space: limits.addressSpace,
            data: limits.memory,
            cpu: limits.processorTime,
            descriptors: limits.descriptors
        )
        let ends = pipes.ofChild
        var child: pid_t = -1
        // A program that was just written can be busy for a moment, while another fork holds its descriptor.
        for _ in 0..<20 {
            child = sa_spawn_limited(
                program,
                &arguments.pointers,
                &environment.pointers,
                ends.root,
                ends.input,
                ends.output,
                ends.error,
                0o077,
                &bounds
            )
            if child > 0 || sa_errno() != ETXTBSY { break }
            usleep(10_000)
        }
        let code = sa_errno()
        guard child > 0 else { throw .system("run", program, code) }
        identifier = child
        (input, output, error) = pipes.takeOwn()
        ended = sa_process_descriptor(child)
    }

    func closeInput() {
        if input >= 0 { close(input) }
        input = -1
    }

    /// Sends a signal to every process of the group. Only before ``reap()``: the number is still its own.
    func signalGroup(_ number: Int32) {
        _ = kill(-identifier, number)
        // A stopped process takes SIGTERM only when it continues.
        if number == SIGTERM { _ = kill(-identifier, SIGCONT) }
    }

    /// Whether the leader has ended.
    var hasEnded: Bool { sa_has_ended(identifier) != 0 }

    /// Ends what the leader left in its group, then takes its end: in this order the number is its own.
    func reap() -> String {
        signalGroup(SIGKILL)
        var value: Int32 = 0
        return switch sa_reap(identifier, &value) {
        case 1: value == 0 ? "it ended by itself" : "it ended with status \(value)"
        case 2: "signal \(value) ended it (\(String(cString: strsignal(value))))"
        default: "it ended"
        }
    }
}

/// Three pipes and a directory while a program is being started; whatever is not taken is closed.
private final class PipeEnds {
    private var root: Int32 = -1
    private var input: [Int32] = [-1, -1]
    private var output: [Int32] = [-1, -1]
    private var error: [Int32] = [-1, -1]

    deinit { for descriptor in input + output + error + [root] where descriptor >= 0 { close(descriptor) } }

    /// What the child gets.
    var ofChild: (root: Int32, input: Int32, output: Int32, error: Int32) {
        (root, input[0], output[1], error[1])
    }

    func open() -> Bool {
        let low = sa_openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0)
        guard low >= 0 else { return false }
        root = sa_duplicate_above2(low)
        close(low)
        guard root >= 0, sa_pipe(&input) == 0, sa_pipe(&output) == 0, sa_pipe(&error) == 0 else {
            return false
        }
        // sa_pipe makes readers that do not wait; here the plugin reads, and we must not wait when we write.
        return sa_set_blocking(input[0], 1) == 0 && sa_set_blocking(input[1], 0) == 0
    }

    /// What this process keeps; the caller closes it.
    func takeOwn() -> (input: Int32, output: Int32, error: Int32) {
        defer {
            input[1] = -1
            output[0] = -1
            error[0] = -1
        }
        return (input[1], output[0], error[0])
    }
}
