import SyncSystem

/// A program that a test has started; ended and waited for when the last reference goes.
public final class ChildProgram: Sendable {
    /// Its process identifier.
    public var processID: Int32 { program.identifier }

    private let program: StartedProgram
    private let outputPath: String
    /// Its exit status, once it has ended.
    private let end = Mutex<Int32?>(nil)

    /// Starts a program in a session and a process group of its own.
    ///
    /// `output` gets standard output and standard error; standard input is empty. Each entry of `environment`
    /// replaces or adds one variable.
    ///
    /// - Throws: ``TestKitError`` when it cannot be started.
    public init(
        _ path: String, _ arguments: [String], output: String = "/dev/null", environment: [String: String] = [:]
    ) throws(TestKitError) {
        outputPath = output
        let log = Descriptor(opening: output, [.writeOnly, .create, .append], mode: 0o600)
        guard let log, let directory = openDirectory(".") else { throw .system("open \(output)") }
        let variables = Self.environment().merging(environment) { _, new in new }
        var start = ProgramStart([path] + arguments, variables: variables.map { "\($0.key)=\($0.value)" })
        start.directory = directory.raw
        start.output = log.raw
        do throws(FileError) { program = try start.start() } catch { throw TestKitError(error.description) }
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
                switch program.reap() {
                case .exited(let status): end = status
                case .signalled(let number): end = -number
                case .unknown: end = 127
                case nil: break
                }
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
        end.withLock { if $0 == nil { send(Signal(rawValue: number), to: processID) } }
    }

    /// Asks it to end, then makes it end, and waits.
    public func stop() {
        signal(Signal.terminate.rawValue)
        if (try? wait(within: .seconds(3))) != nil { return }  // In time, or made to below.
        signal(Signal.kill.rawValue)
        _ = try? wait(within: .seconds(10))  // Nothing is left to do about a process SIGKILL does not end.
    }

    /// Finds a program in `PATH` and where servers are kept; `nil` when it is not installed.
    public static func find(_ name: String) -> String? {
        let places = (environment()["PATH"] ?? "").split(separator: ":").map(String.init)
        return (places + ["/usr/sbin", "/usr/local/sbin", "/sbin"]).map { "\($0)/\(name)" }.first {
            isPermitted(.execute, $0)
        }
    }

    private static func environment() -> [String: String] {
        var variables: [String: String] = [:]
        for name in ["PATH", "HOME", "TMPDIR", "LANG", "LD_LIBRARY_PATH", "PYENV_ROOT", "VIRTUAL_ENV"] {
            variables[name] = CurrentProcess.variable(name)
        }
        return variables
    }
}
