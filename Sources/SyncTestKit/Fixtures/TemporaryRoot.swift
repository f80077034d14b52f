import CPosix

/// A directory of a test's own, removed with all it holds when the last reference goes.
public final class TemporaryRoot: Sendable {
    /// Absolute, without a `/` at its end.
    public let path: String

    /// Makes a directory that nobody else has. `mkdtemp(3)`
    ///
    /// `parent` says where; `nil` for `TMPDIR`, else `/tmp`.
    public init(in parent: String? = nil) throws(TestKitError) {
        let parent = parent ?? getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(parent)/syncagent-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw .system("mkdtemp in \(parent)") }
        let made = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        // Tests compare paths that the system resolved.
        guard let resolved = realpath(made, nil) else { throw .system("realpath \(made)") }
        defer { free(resolved) }
        path = String(cString: resolved)
    }

    deinit { removeTree(path) }

    /// The absolute path of a name below.
    public func path(_ relative: String) -> String { "\(path)/\(relative)" }

    /// Writes a file below, with the directories it needs.
    public func write(_ bytes: [UInt8], to relative: String, executable: Bool = false) throws(TestKitError) {
        try makeDirectories(for: relative)
        let target = path(relative)
        try write(bytes, to: target, mode: executable ? 0o755 : 0o644)
        if executable { waitUntilNobodyWrites(target) }
    }

    private func write(_ bytes: [UInt8], to target: String, mode: mode_t) throws(TestKitError) {
        let file = sa_openat(AT_FDCWD, target, O_WRONLY | O_CREAT | O_TRUNC, mode)
        guard file >= 0 else { throw .system("open \(target)") }
        defer { close(file) }
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { CPosix.write(file, $0.baseAddress, $0.count) }
            guard count > 0 else { throw .system("write \(target)") }
            rest = rest.dropFirst(count)
        }
    }

    /// A child that another thread forked meanwhile has the descriptor until its execve(2), and a program that somebody may
    /// write to cannot be run: `ETXTBSY`. A read lease is given when nobody can: fcntl(2), `F_SETLEASE`. Waits 1 s at most.
    private func waitUntilNobodyWrites(_ target: String) {
        let file = sa_openat(AT_FDCWD, target, O_RDONLY, 0)
        guard file >= 0 else { return }
        defer { close(file) }
        for _ in 0..<1_000 {
            guard sa_lease(file, Int32(F_RDLCK)) != 0, sa_errno() == EAGAIN else { break }
            usleep(1_000)
        }
        _ = sa_lease(file, Int32(F_UNLCK))
    }

    /// Writes text in UTF-8.
    public func write(_ text: String, to relative: String) throws(TestKitError) {
        try write(Array(text.utf8), to: relative)
    }

    /// Makes a symbolic link below.
    public func link(_ relative: String, to target: String) throws(TestKitError) {
        try makeDirectories(for: relative)
        guard symlink(target, path(relative)) == 0 else { throw .system("symlink \(path(relative))") }
    }

    /// The content of a file below; `nil` when there is none.
    public func read(_ relative: String) -> [UInt8]? { contents(of: path(relative)) }

    private func makeDirectories(for relative: String) throws(TestKitError) {
        var current = path
        for component in relative.split(separator: "/").dropLast() {
            current += "/\(component)"
            guard mkdir(current, 0o755) == 0 || sa_errno() == EEXIST else {
                throw .system("mkdir \(current)")
            }
        }
    }
}

/// The bytes of a file, or `nil` when it cannot be read.
func contents(of path: String) -> [UInt8]? {
    let file = sa_openat(AT_FDCWD, path, O_RDONLY, 0)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while true {
        let count = read(file, &buffer, buffer.count)
        if count < 0 { return nil }
        if count == 0 { return bytes }
        bytes += buffer[..<count]
    }
}

/// What a name in a directory is. Links are not followed.
enum NodeKind: Equatable {
    case directory
    case file(executable: Bool)
    case link(String)
    case other

    init?(path: String) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return nil }
        switch sa_file_kind(&status) {
        case 0: self = .file(executable: status.st_mode & 0o100 != 0)
        case 1: self = .directory
        case 2:
            var buffer = [UInt8](repeating: 0, count: 4_096)
            let count = buffer.withUnsafeMutableBytes {
                $0.baseAddress.map { base in readlink(path, base, 4_096) } ?? 0
            }
            self = .link(String(decoding: buffer.prefix(max(0, count)), as: UTF8.self))
        default: self = .other
        }
    }
}

/// Names in a directory without `.` and `..`, in byte order; `nil` when it cannot be read.
func names(in path: String) -> [String]? {
    guard let directory = opendir(path) else { return nil }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
        let name = withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
        if name != ".", name != ".." { names.append(name) }
    }
    return names.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
}

/// Removes a directory and all below it, without following links; what cannot be removed stays.
private func removeTree(_ path: String) {
    if NodeKind(path: path) == .directory {
        chmod(path, 0o700)
        for name in names(in: path) ?? [] { removeTree("\(path)/\(name)") }
        rmdir(path)
    } else {
        unlink(path)
    }
}
