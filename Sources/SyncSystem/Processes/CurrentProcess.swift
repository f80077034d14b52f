import CPosix
package import SyncModel

/// Facts about this process, and its settings.
package enum CurrentProcess {
    /// getpid(2)
    package static var identifier: Int32 { getpid() }

    /// The effective user. geteuid(2)
    package static var user: UInt32 { geteuid() }

    /// The working directory. getcwd(3)
    ///
    /// - Returns: `nil` if it has been removed, or cannot be reached from the root directory, or if its path is not
    ///   UTF-8: a repaired path would refer to another directory.
    package static var workingDirectory: String? {
        guard let path = getcwd(nil, 0) else { return nil }
        defer { free(path) }
        guard let text = String(validatingCString: path), text.hasPrefix("/") else { return nil }
        return text
    }

    /// Whether the working directory exists with a path that is not UTF-8.
    static var hasNamelessDirectory: Bool {
        guard let path = getcwd(nil, 0) else { return false }
        defer { free(path) }
        return String(validatingCString: path) == nil
    }

    /// Opens /dev/null for each standard descriptor that is closed. Otherwise the next file to be opened would get its
    /// number, and with it the output. open(2) uses the lowest number.
    ///
    /// Writing to a standard output that was closed still fails, so that lost data is noticed.
    package static func holdStandardDescriptors() {
        for descriptor in STDIN_FILENO...STDERR_FILENO where sa_is_open(descriptor) == 0 {
            let flags: OpenFlags = descriptor == STDOUT_FILENO ? .readOnly : .readWrite
            _ = Descriptor(opening: "/dev/null", flags)?.release()
        }
    }

    /// Resets inherited signal settings with which nothing here works: ignored signals, such as a SIGCHLD that leaves
    /// programs without exit status, and blocked ones. Settings of nohup(1) are kept. To be called first of all.
    package static func resetSignals() { sa_reset_signals() }

    /// The umask before ``clearUmask()``.
    private static let ownUmask = Mutex<Umask?>(nil)

    /// The permission bits that files of a set lack by default: the umask with which this process was started.
    package static var umask: Umask { ownUmask.withLock { $0 } ?? Umask(bits: UInt16(truncatingIfNeeded: sa_umask())) }

    /// Clears the umask of this process: it works for several clients, each with its own umask, and umask(2) applies to
    /// all threads.
    package static func clearUmask() {
        let own = umask
        ownUmask.withLock { $0 = own }
        _ = CPosix.umask(0)
    }

    /// The machine's host name; `nil` if it has none. gethostname(2)
    package static var hostName: String? {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return nil }
        let name = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return name.isEmpty ? nil : name
    }

    /// The value of an environment variable. getenv(3)
    package static func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    /// Changes to another user, with that user's group alone, irrevocably. Only root may. setuid(2), setgroups(2)
    ///
    /// - Returns: Why that failed; rights that have been given up by then are not restored.
    package static func become(user: UInt32, group: UInt32) -> Errno? {
        guard setgroups(0, nil) == 0, setgid(group) == 0, setuid(user) == 0 else { return Errno.last }
        return nil
    }

    /// Limits the number of heaps of the C library; allocations of `large` **bytes** or more are returned to the system
    /// when freed. mallopt(3)
    package static func boundHeaps(_ most: Int, large: Int) {
        sa_bound_heaps(Int32(clamping: most), Int32(clamping: large))
    }

    /// Anonymous memory of this process in **bytes**; 0 if unknown. proc_pid_statm(5)
    package static var anonymousMemory: Int { sa_anonymous_memory() }

    /// Returns free pages of the heaps to the system. malloc_trim(3)
    package static func trimHeaps() { sa_trim_heaps() }

    /// Returns code pages of programs and libraries, which can be read again from the page cache. madvise(2)
    package static func releaseCode() { sa_release_code() }

    /// Ends the process now: nothing is flushed, and no handler runs. _exit(2)
    package static func exit(_ status: Int32) -> Never { _exit(status) }

    /// Makes a write of this thread to a pipe without a reader fail with ``Errno/brokenPipe`` only. pthread_sigmask(3)
    package static func blockPipeSignal() { sa_block_pipe_signal() }

    /// Raises the soft limit on open files up to the hard limit, to `most` at most. getrlimit(2)
    ///
    /// - Returns: The new limit; `nil` if unknown.
    package static func raiseOpenFileLimit(_ most: UInt64) -> Int? {
        let limit = sa_raise_open_files(rlim_t(most))
        return limit == 0 ? nil : Int(clamping: limit)
    }

    /// Limit of the address space in **bytes**; `UInt64.max` for none. RLIMIT_AS, getrlimit(2)
    package static var addressSpaceLimit: UInt64 { sa_address_space_limit() }
}

/// Whether a descriptor is a terminal. isatty(3)
package func isTerminal(_ descriptor: Int32) -> Bool { isatty(descriptor) == 1 }

/// The size of the terminal at a descriptor, in characters; `nil` if there is none, or its size is unknown.
package func terminalSize(_ descriptor: Int32) -> (columns: Int, rows: Int)? {
    var (columns, rows) = (Int32(0), Int32(0))
    guard sa_terminal_size(descriptor, &columns, &rows) == 0, columns > 0, rows > 0 else { return nil }
    return (Int(columns), Int(rows))
}

/// An entry of the user database. getpwuid(3)
package struct UserEntry: Sendable {
    package let name: String?
    package let home: String?

    /// - Returns: `nil` for a user without an entry.
    package init?(_ user: UInt32) {
        guard let entry = getpwuid(user) else { return nil }
        name = entry.pointee.pw_name.map { String(cString: $0) }
        home = entry.pointee.pw_dir.map { String(cString: $0) }
    }

    /// The entry of the user who started this process. getuid(2)
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

/// Number of online processors, at least one. sysconf(3), _SC_NPROCESSORS_ONLN
package var processorCount: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

/// Average number of runnable tasks over the last minute. getloadavg(3)
package var loadAverage: Double? {
    var average = 0.0
    return getloadavg(&average, 1) == 1 ? average : nil
}
