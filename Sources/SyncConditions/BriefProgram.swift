import CPosix
import SyncSystem

/// A program of the system that is run for a few lines of output, and never longer than its deadline.
///
/// It leads a session of its own, reads nothing and gets only the variables it is given.
enum BriefProgram {
    /// How it ended.
    enum End: Sendable, Equatable {
        /// By itself.
        case exited(Int32)
        /// Ended by a signal, not ours.
        case signalled(Int32)
        /// It ran into its deadline and was killed.
        case timedOut
        /// It could not be run: what the system said.
        case notRun(String)
    }

    /// Output that is kept, in **bytes**: far more than a value of a property has.
    private static let limit = 16 << 10

    /// Runs it; blocks until it has ended.
    ///
    /// - Parameters:
    ///   - arguments: An absolute path first.
    ///   - variables: `NAME=value`.
    ///   - deadline: From now.
    /// - Returns: How it ended, and what it wrote to standard output and error.
    static func run(
        _ arguments: [String],
        variables: [String],
        deadline: Duration
    ) -> (end: End, output: String) {
        let end = ContinuousClock.now + deadline
        var pipe: [Int32] = [-1, -1]
        guard sa_pipe(&pipe) == 0 else { return (.notRun(errnoText), "") }
        defer { close(pipe[0]) }
        let child = start(arguments, variables, output: pipe[1])
        let failure = errnoText
        close(pipe[1])
        guard child > 0 else { return (.notRun(failure), "") }
        var output: [UInt8] = []
        let isWhole = collect(from: pipe[0], into: &output, until: end)
        return (reap(child, isWhole ? end : .now), String(decoding: output, as: UTF8.self))
    }

    private static func start(_ arguments: [String], _ variables: [String], output: Int32) -> pid_t {
        var argv = arguments.map { strdup($0) } + [nil]
        var envp = variables.map { strdup($0) } + [nil]
        defer { for text in argv + envp { free(text) } }
        guard let program = argv[0], argv.dropLast().allSatisfy({ $0 != nil }) else { return -1 }
        let root = above2(sa_openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0))
        let nothing = above2(sa_openat(AT_FDCWD, "/dev/null", O_RDONLY, 0))
        defer {
            let code = sa_errno()
            close(root)
            close(nothing)
            sa_set_errno(code)
        }
        guard root >= 0, nothing >= 0 else { return -1 }
        return sa_spawn(program, &argv, &envp, root, nothing, output, 0o022)
    }

    private static func above2(_ low: Int32) -> Int32 {
        guard (0...2).contains(low) else { return low }
        defer { close(low) }
        return sa_duplicate_above2(low)
    }

    /// Reads until the other end is closed.
    ///
    /// - Returns: `false` when that did not happen in time.
    private static func collect(
        from input: Int32,
        into output: inout [UInt8],
        until end: ContinuousClock.Instant
    ) -> Bool {
        while true {
            let left = end - .now
            guard left > .zero else { return false }
            var entry = pollfd(fd: input, events: Int16(POLLIN), revents: 0)
            guard poll(&entry, 1, milliseconds(left)) > 0 else { continue }
            let count = withUnsafeTemporaryAllocation(byteCount: 4_096, alignment: 16) { buffer in
                let count = read(input, buffer.baseAddress, buffer.count)
                if count > 0 { output.append(contentsOf: buffer.prefix(min(count, limit - output.count))) }
                return count
            }
            if count == 0 { return true }
            if count < 0, sa_errno() != EAGAIN, sa_errno() != EINTR { return true }
        }
    }

    /// Takes its end; kills its group when that does not come in time.
    private static func reap(_ child: pid_t, _ end: ContinuousClock.Instant) -> End {
        var value: Int32 = 0
        var killed = 0
        while true {
            switch sa_reap(child, &value) {
            case 0: break
            case 1: return killed > 0 ? .timedOut : .exited(value)
            case 2: return killed > 0 ? .timedOut : .signalled(value)
            default: return .notRun(errnoText)
            }
            if killed > 0 || ContinuousClock.now >= end {
                if killed == 0 { _ = kill(-child, SIGKILL) }
                killed += 1
                // A killed program that the kernel cannot end now stays behind: nothing may hang on it.
                if killed > 100 { return .timedOut }
            }
            usleep(2_000)
        }
    }

    private static func milliseconds(_ time: Duration) -> Int32 {
        Int32(
            clamping: time.components.seconds * 1_000 + time.components.attoseconds / 1_000_000_000_000_000
                + 1
        )
    }
}
