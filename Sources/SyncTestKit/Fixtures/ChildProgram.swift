import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// A program that a test has started; ended and waited for when the last reference goes.
public final class ChildProgram: Sendable {
    /// Its process identifier.
    public let processID: Int32

    private let outputPath: String
    /// The end as waitpid(2) told it, once it has.
    private let end = Mutex<Int32?>(nil)

    /// Starts a program in a process group of its own. `posix_spawn(3)`
    ///
    /// `output` gets standard output and standard error; standard input is empty. Each entry of `environment`
    /// replaces or adds one variable.
    ///
    /// - Throws: ``TestKitError`` when it cannot be started.
    public init(
        _ path: String,
        _ arguments: [String],
        output: String = "/dev/null",
        environment: [String: String] = [:]
    ) throws(TestKitError) {
        outputPath = output
        #if canImport(Darwin)
            var actions: posix_spawn_file_actions_t?
            var attributes: posix_spawnattr_t?
        #else
            var actions = posix_spawn_file_actions_t()
            var attributes = posix_spawnattr_t()
        #endif
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        // A signal for the test run, such as Ctrl-C, is ours to pass on; and no signal stays blocked or ignored.
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        posix_spawnattr_setflags(&attributes, Int16(flags))

        var variables = Self.environment()
        variables.merge(environment) { _, new in new }
        var argv = ([path] + arguments).map { strdup($0) } + [nil]
        var envp = variables.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in argv + envp { free(text) } }
        var made: pid_t = 0
        let status = posix_spawn(&made, path, &actions, &attributes, &argv, &envp)
        guard status == 0 else { throw TestKitError("\(path): \(String(cString: strerror(status)))") }
        processID = made
    }

    deinit { stop() }

    /// What it has written so far, unless its output is discarded.
    public var output: String { String(decoding: contents(of: outputPath) ?? [], as: UTF8.self) }

    /// Whether it has not ended yet.
    public var isRunning: Bool { poll() == nil }

    /// Its exit status, negative for a signal; `nil` while it runs.
    public func poll() -> Int32? {
        end.withLock { end in
            if end == nil {
                var status: Int32 = 0
                let waited = waitpid(processID, &status, WNOHANG)
                if waited == processID { end = Self.exitStatus(status) }
                if waited < 0, errno == ECHILD { end = 127 }
            }
            return end
        }
    }

    /// Waits for its end.
    ///
    /// - Throws: ``TestKitError`` with its output when there is none in time.
    public func wait(within deadline: Duration = .seconds(30)) throws(TestKitError) -> Int32 {
        let limit = ContinuousClock.now + deadline
        while ContinuousClock.now < limit {
            if let status = poll() { return status }
            pauseThread(milliseconds: 2)
        }
        throw TestKitError("process \(processID) did not end in \(deadline): \(output.suffix(2_000))")
    }

    /// Sends a signal to it alone; nothing when it has ended.
    public func signal(_ number: Int32) {
        // Not waited for yet, so the number cannot be another's.
        end.withLock { if $0 == nil { _ = kill(processID, number) } }
    }

    /// Asks it to end, then makes it end, and waits.
    public func stop() {
        signal(SIGTERM)
        if (try? wait(within: .seconds(3))) != nil { return }  // In time, or made to below.
        signal(SIGKILL)
        _ = try? wait(within: .seconds(10))  // Nothing is left to do about a process SIGKILL does not end.
    }

    /// Finds a program in `PATH` and where servers are kept; `nil` when it is not installed.
    public static func find(_ name: String) -> String? {
        let places = (environment()["PATH"] ?? "").split(separator: ":").map(String.init)
        return (places + ["/usr/sbin", "/usr/local/sbin", "/sbin"]).map { "\($0)/\(name)" }
            .first { access($0, X_OK) == 0 }
    }

    private static func environment() -> [String: String] {
        var variables: [String: String] = [:]
        for name in ["PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "PYENV_ROOT", "VIRTUAL_ENV"] {
            if let value = getenv(name) { variables[name] = String(cString: value) }
        }
        return variables
    }

    /// `wait(2)`
    private static func exitStatus(_ status: Int32) -> Int32 {
        status & 0x7F == 0 ? (status >> 8) & 0xFF : -(status & 0x7F)
    }
}
