import CPosix
package import SyncModel

/// What the system knows of this process.
package enum CurrentProcess {
    /// getpid(2)
    package static var identifier: Int32 { getpid() }

    /// Whose files it may touch. geteuid(2)
    package static var user: UInt32 { geteuid() }

    /// The directory that relative paths start from. getcwd(3)
    ///
    /// - Returns: `nil` when it has been removed, or cannot be reached from the root directory, or when its path is not UTF-8:
    ///   repaired, that would be the path of another one.
    package static var workingDirectory: String? {
        guard let path = getcwd(nil, 0) else { return nil }
        defer { free(path) }
        guard let text = String(validatingCString: path), text.hasPrefix("/") else { return nil }
        return text
    }

    /// Whether the working directory is there, and its path is not UTF-8.
    static var hasNamelessDirectory: Bool {
        guard let path = getcwd(nil, 0) else { return false }
        defer { free(path) }
        return String(validatingCString: path) == nil
    }

    /// Opens /dev/null for each standard descriptor that the caller has closed. Otherwise the next file to be opened would get
    /// its number, and what is written there. open(2) takes the lowest number.
    ///
    /// What is written to a standard output that was closed fails all the same: data that goes nowhere is lost.
    package static func holdStandardDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where sa_is_open(descriptor) == 0 {
            let flags: OpenFlags = descriptor == STDOUT_FILENO ? .readOnly : .readWrite
            _ = Descriptor(opening: "/dev/null", flags)?.release()
        }
    }

    /// Undoes what whoever started this program has left it and nothing here can work with: ignored signals, such as a SIGCHLD
    /// that leaves programs without exit status, and blocked ones. What nohup(1) asks for stays. To be called first of all.
    package static func resetSignals() { sa_reset_signals() }

    /// What it had before ``clearUmask()``.
    private static let ownUmask = Mutex<Umask?>(nil)

    /// Permission bits that files of a set do not get where nobody says otherwise: as whoever started this process said.
    package static var umask: Umask { ownUmask.withLock { $0 } ?? Umask(bits: UInt16(truncatingIfNeeded: sa_umask())) }

    /// From here on this process takes no permissions from what it makes: it works for several, each with a umask of its own.
    /// umask(2) is one for all threads.
    package static func clearUmask() {
        let own = umask
        ownUmask.withLock { $0 = own }
        _ = CPosix.umask(0)
    }

    /// The machine's name, as it calls itself; `nil` when it has none. gethostname(2)
    package static var hostName: String? {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return nil }
        let name = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return name.isEmpty ? nil : name
    }

    /// The value of an environment variable. getenv(3)
    package static func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    /// Goes on as another user, with that user's group alone, and never again as the one before. Only root may. setuid(2),
    /// setgroups(2)
    ///
    /// - Returns: Why it cannot; what has been given up by then stays given up.
    package static func become(user: UInt32, group: UInt32) -> Errno? {
        guard setgroups(0, nil) == 0, setgid(group) == 0, setuid(user) == 0 else { return Errno.last }
        return nil
    }

    /// At most so many heaps of the C library; what has `large` **bytes** or more goes back to the system when it is freed.
    /// mallopt(3)
    package static func boundHeaps(_ most: Int, large: Int) {
        sa_bound_heaps(Int32(clamping: most), Int32(clamping: large))
    }

    /// How many **bytes** of memory it has that belong to no file; 0 where nobody knows. proc_pid_statm(5)
    package static var anonymousMemory: Int { sa_anonymous_memory() }

    /// Free pages of the heaps go back to the system. malloc_trim(3)
    package static func trimHeaps() { sa_trim_heaps() }

    /// So do pages of programs and libraries that were read: they come back from the page cache. madvise(2)
    package static func releaseCode() { sa_release_code() }

    /// Ends it now: nothing is flushed, and no handler runs. _exit(2)
    package static func exit(_ status: Int32) -> Never { _exit(status) }

    /// A write of this thread to a pipe without a reader fails with ``Errno/brokenPipe`` and nothing more. pthread_sigmask(3)
    package static func blockPipeSignal() { sa_block_pipe_signal() }

    /// Raises the soft limit on open files towards the hard one, to `most` at most. getrlimit(2)
    ///
    /// - Returns: What it is now; `nil` where that is unknown.
    package static func raiseOpenFileLimit(_ most: UInt64) -> Int? {
        let limit = sa_raise_open_files(rlim_t(most))
        return limit == 0 ? nil : Int(clamping: limit)
    }

    /// How many **bytes** of address space it may have; `UInt64.max` for as many as there are. RLIMIT_AS, getrlimit(2)
    package static var addressSpaceLimit: UInt64 { sa_address_space_limit() }
}

/// Whether a descriptor is a terminal. isatty(3)
package func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

/// The size of the terminal at a descriptor, in characters; `nil` where there is none, or it does not know.
package func terminalSize(_ descriptor: Int32) -> (columns: Int, rows: Int)? {
    var (columns, rows) = (Int32(0), Int32(0))
    guard sa_terminal_size(descriptor, &columns, &rows) == 0, columns > 0, rows > 0 else { return nil }
    return (Int(columns), Int(rows))
}

/// An entry of the system's users. getpwuid(3)
package struct UserEntry: Sendable {
    package let name: String?
    package let home: String?

    /// - Returns: `nil` for a user without an entry.
    package init?(_ user: UInt32) {
        guard let entry = getpwuid(user) else { return nil }
        name = entry.pointee.pw_name.map { String(cString: $0) }
        home = entry.pointee.pw_dir.map { String(cString: $0) }
    }

    /// Of whoever has started this process. getuid(2)
    package static var own: UserEntry? { UserEntry(getuid()) }
}

/// A signal to a process. signal(7)
package struct Signal: RawRepresentable, Hashable, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) { self.rawValue = rawValue }

    package static let hangUp = Signal(rawValue: SIGHUP)
    package static let interrupt = Signal(rawValue: SIGINT)
    package static let terminate = Signal(rawValue: SIGTERM)
    package static let kill = Signal(rawValue: SIGKILL)
}

extension Signal: CustomStringConvertible {
    /// strsignal(3)
    package var description: String { strsignal(rawValue).map { String(cString: $0) } ?? "unknown" }
}

/// Sends a signal to a process. kill(2)
@discardableResult package func send(_ signal: Signal, to process: Int32) -> Errno? {
    failure(kill(process, signal.rawValue))
}

/// Processors that are switched on, at least one. sysconf(3), _SC_NPROCESSORS_ONLN
package var processorCount: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

/// How many tasks wanted a processor over the last minute, on average. getloadavg(3)
package var loadAverage: Double? {
    var average = 0.0
    return getloadavg(&average, 1) == 1 ? average : nil
}
