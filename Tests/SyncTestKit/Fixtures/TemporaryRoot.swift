import CPosix
import SyncSystem

/// A directory of a test's own, removed with all it holds when the last reference goes.
public final class TemporaryRoot: Sendable {
    /// Absolute, without a `/` at its end.
    public let path: String

    /// Makes a directory that nobody else has. `mkdtemp(3)`
    ///
    /// `parent` says where; `nil` for `TMPDIR`, else `/tmp`.
    public init(in parent: String? = nil) throws(TestKitError) {
        let parent = parent ?? getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        guard let made = makeTemporaryDirectory("\(parent)/syncagent-test-") else {
            throw .system("mkdtemp in \(parent)")
        }
        // Tests compare paths that the system resolved.
        guard let resolved = realPath(made) else { throw .system("realpath \(made)") }
        path = resolved
    }

    deinit { removeTree(path) }

    /// The absolute path of a name below.
    public func path(_ relative: String) -> String { "\(path)/\(relative)" }

    /// Writes a file below, with the directories it needs.
    public func write(_ bytes: [UInt8], to relative: String, executable: Bool = false) throws(TestKitError) {
        try makeDirectories(for: relative)
        let target = path(relative)
        try Self.put(bytes, target, mode: executable ? 0o755 : 0o644)
        if executable { waitUntilNobodyWrites(target) }
    }

    private static func put(_ bytes: [UInt8], _ target: String, mode: FileMode) throws(TestKitError) {
        let flags: OpenFlags = [.writeOnly, .create, .truncate]
        guard let file = Descriptor(opening: target, flags, mode: mode) else { throw .system("open \(target)") }
        if let code = bytes.withUnsafeBytes({ writeAll($0, to: file.raw, at: 0) }) {
            throw TestKitError("write \(target): \(code)")
        }
    }

    /// A child that another thread forked meanwhile has the descriptor until its execve(2), and a program that somebody may
    /// write to cannot be run: `ETXTBSY`. A read lease is given when nobody can: fcntl(2), `F_SETLEASE`. Waits 1 s at most.
    private func waitUntilNobodyWrites(_ target: String) {
        guard let file = Descriptor(opening: target) else { return }
        for _ in 0..<1_000 {
            guard sa_lease(file.raw, Int32(F_RDLCK)) != 0, sa_errno() == EAGAIN else { break }
            usleep(1_000)
        }
        _ = sa_lease(file.raw, Int32(F_UNLCK))
    }

    /// Writes text in UTF-8.
    public func write(_ text: String, to relative: String) throws(TestKitError) {
        try write(Array(text.utf8), to: relative)
    }

    /// Makes a symbolic link below.
    public func link(_ relative: String, to target: String) throws(TestKitError) {
        try makeDirectories(for: relative)
        if let code = makeSymbolicLink(path(relative), to: target) {
            throw TestKitError("symlink \(path(relative)): \(code)")
        }
    }

    /// The content of a file below; `nil` when there is none.
    public func read(_ relative: String) -> [UInt8]? { contents(of: path(relative)) }

    private func makeDirectories(for relative: String) throws(TestKitError) {
        let parent = relative.split(separator: "/").dropLast().joined(separator: "/")
        do throws(FileError) { try SyncSystem.makeDirectories(path(parent), mode: 0o755) } catch {
            throw TestKitError(error.description)
        }
    }
}

/// The bytes of a file, or `nil` when it cannot be read.
func contents(of path: String) -> [UInt8]? { try? readFile(path, trust: .input, limit: .max) }

/// What a name in a directory is; `nil` when there is nothing. Links are not followed.
func status(of path: String) -> FileStatus? {
    guard case .success(let found) = status(currentDirectory, path) else { return nil }
    return found
}

/// Names in a directory without `.` and `..`, in byte order; `nil` when it cannot be read.
func names(in path: String) -> [String]? {
    (try? directoryEntries(path))?.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
}

/// Removes a directory and all below it, without following links; what cannot be removed stays.
private func removeTree(_ path: String) {
    if status(of: path)?.kind == .directory {
        chmod(path, 0o700)
        for name in names(in: path) ?? [] { removeTree("\(path)/\(name)") }
        removeDirectory(path)
    } else {
        removeFile(path)
    }
}
