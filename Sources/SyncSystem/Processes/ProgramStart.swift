import CPosix

/// A program to start, as the leader of its own session and process group: with default signal handlers and mask, and
/// no descriptors but the three that it is given.
package struct ProgramStart: Sendable {
    /// Resource limits of setrlimit(2) for each of its processes; 0 leaves one unchanged.
    package struct Limits: Sendable {
        /// **Bytes** of heap and private mappings, RLIMIT_DATA.
        ///
        /// Not address space: Go, Node and threads reserve far more than they use.
        package var data: UInt64
        /// **Seconds** of processor time, RLIMIT_CPU.
        package var processorTime: UInt64
        /// Open files, RLIMIT_NOFILE.
        package var descriptors: UInt64

        package init(data: UInt64, processorTime: UInt64, descriptors: UInt64) {
            (self.data, self.processorTime, self.descriptors) = (data, processorTime, descriptors)
        }
    }

    /// Its absolute path.
    package var program: String
    /// argv, its own name first.
    package var arguments: [String]
    /// `NAME=value`, environ(7): its complete environment.
    package var variables: [String]
    /// An open directory as its working directory; `nil` for the root directory.
    package var directory: Int32?
    /// Standard input; `nil` for /dev/null.
    package var input: Int32?
    /// Standard output; `nil` for /dev/null.
    package var output: Int32?
    /// Standard error; `nil` for the same as standard output, which preserves their order.
    package var error: Int32?
    package var mask: FileMode = 0o022
    package var limits: Limits?

    /// - Parameter arguments: First the program's absolute path.
    package init(_ arguments: [String], variables: [String]) {
        program = arguments.first ?? ""
        (self.arguments, self.variables) = (arguments, variables)
    }

    /// Starts the program. One that was just written can be busy briefly, while another fork holds its descriptor.
    ///
    /// - Throws: ``FileError``; with a remark for a text that no system call accepts. Nothing is left running.
    package func start() throws(FileError) -> StartedProgram {
        for text in [program] + arguments + variables where text.utf8.contains(0) {
            throw FileError(
                step: "run", path: text, code: .invalidArgument, remark: "A program's argument contains a NUL.")
        }
        // Above 2, where no dup2 onto 0, 1 or 2 can overwrite them.
        func above2(_ descriptor: Int32) throws(FileError) -> Descriptor {
            guard let high = Descriptor(opened: sa_duplicate_above2(descriptor)) else { throw .last("run", program) }
            return high
        }
        guard let root = openDirectory("/"), let null = Descriptor(opening: "/dev/null", .readWrite) else {
            throw .last("run", program)
        }
        let directory = try above2(self.directory ?? root.raw)
        let input = try above2(self.input ?? null.raw)
        let output = try above2(self.output ?? null.raw)
        let error = try above2(self.error ?? output.raw)
        var argv = arguments.map { strdup($0) } + [nil]
        var envp = variables.map { strdup($0) } + [nil]
        defer { for text in argv + envp { free(text) } }
        guard !argv.dropLast().contains(nil), !envp.dropLast().contains(nil) else {
            throw FileError(step: "run", path: program, code: .noMemory)
        }
        func spawn(_ limits: UnsafePointer<sa_limits>?) -> Int32 {
            sa_spawn_limited(program, &argv, &envp, directory.raw, input.raw, output.raw, error.raw, mask, limits)
        }
        var bounds = sa_limits()
        if let limits {
            bounds.data = limits.data
            bounds.cpu = limits.processorTime
            bounds.descriptors = limits.descriptors
        }
        var child: Int32 = -1
        for _ in 0..<20 {
            child = limits == nil ? spawn(nil) : spawn(&bounds)
            if child > 0 || Errno.last != .textFileBusy { break }
            pauseThread(milliseconds: 10)
        }
        guard child > 0 else { throw .last("run", program) }
        return StartedProgram(identifier: child)
    }
}

/// A program that has been started.
package struct StartedProgram: Sendable {
    /// How it ended.
    package enum End: Sendable, Equatable {
        case exited(Int32)
        /// Ended by a signal.
        case signalled(Int32)
        /// Another part of this process took its exit status.
        case unknown
    }

    /// Process and process group; used for signals only while the number cannot belong to another.
    package let identifier: Int32
    private let descriptor: SharedDescriptor?

    fileprivate init(identifier: Int32) {
        self.identifier = identifier
        descriptor = SharedDescriptor(Descriptor(opened: sa_process_descriptor(identifier)))
    }

    /// Readable once it has ended, pidfd_open(2); -1 if the system does not support that.
    package var ended: Int32 { descriptor?.raw ?? -1 }

    /// Sends a signal to every process of its group.
    package func signalGroup(_ signal: Signal) {
        send(signal, to: -identifier)
        // A stopped process handles SIGTERM only once it continues.
        if signal == .terminate { _ = kill(-identifier, SIGCONT) }
    }

    /// Whether no process, not even a zombie, is left in its group. kill(2), signal 0.
    ///
    /// Asked right after it was reaped: while a member is left, the number is not given to another.
    package var groupIsEmpty: Bool {
        sa_reap_group(identifier)
        return send(Signal(rawValue: 0), to: -identifier) == .noSuchProcess
    }

    /// Whether it has ended; its exit status is not taken.
    package var hasEnded: Bool { sa_has_ended(identifier) != 0 }

    /// Takes its exit status; `nil` while it runs.
    package func reap() -> End? {
        var value: Int32 = 0
        return switch sa_reap(identifier, &value) {
        case 0: nil
        case 1: .exited(value)
        case 2: .signalled(value)
        default: .unknown
        }
    }

    /// Waits for its end, and takes its exit status.
    ///
    /// - Parameter deadline: `nil` for no limit.
    /// - Returns: `nil` if it has not ended in time.
    @discardableResult package func wait(until deadline: ContinuousClock.Instant? = nil) -> End? {
        while true {
            if let end = reap() { return end }
            let left = deadline.map { $0 - .now }
            if let left, left <= .zero { return nil }
            // Without a descriptor, it is polled.
            waitToRead(ended, atMost: ended < 0 ? min(left ?? .seconds(1), .milliseconds(2)) : left)
        }
    }
}

/// A file without a name that contains `bytes`. memfd_create(2)
///
/// - Throws: ``FileError`` with the step "keep".
package func unnamedFile(_ name: String, holding bytes: [UInt8] = []) throws(FileError) -> Descriptor {
    guard let file = Descriptor(opened: sa_unnamed_file(name)) else { throw .last("keep", name) }
    let code = bytes.withUnsafeBytes { writeAll($0, to: file.raw, at: 0) }
    if let code { throw FileError(step: "keep", path: name, code: code) }
    return file
}
