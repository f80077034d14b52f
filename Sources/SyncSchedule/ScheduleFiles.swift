import CPosix
import Glibc
import SyncModel

/// Small files that are there whole or not at all.
package enum ScheduleFiles {
    /// Reads a file; `nil` if there is none.
    ///
    /// - Throws: ``ScheduleError`` with code `file`.
    package static func read(_ path: String) throws(ScheduleError) -> [UInt8]? {
        let file = sa_openat(AT_FDCWD, path, O_RDONLY, 0)
        guard file >= 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw failure("reading", path)
        }
        defer { close(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while bytes.count < 4 << 20 {
            let count = pread(file, &buffer, buffer.count, off_t(bytes.count))
            if count == 0 { return bytes }
            if count > 0 {
                bytes += buffer[..<count]
            } else if errno != EINTR {
                throw failure("reading", path)
            }
        }
        throw ScheduleError(.file, "\(escaped(path)) is larger than 4 MiB; that is no file of ours.")
    }

    /// Writes a file in the place of a former one: fsync(2), then rename(2). Makes the directories above it.
    ///
    /// - Throws: ``ScheduleError`` with code `file`.
    package static func write(_ bytes: [UInt8], to path: String, mode: UInt32 = 0o644) throws(ScheduleError) {
        let slash = path.lastIndex(of: "/") ?? path.startIndex
        try makeDirectory(String(path[..<slash]))
        // systemd and cron pass over names with a dot first.
        let temporary = path[..<slash] + "/." + path[slash...].dropFirst() + ".new-\(getpid())"
        unlink(String(temporary))
        let file = sa_openat(AT_FDCWD, String(temporary), O_WRONLY | O_CREAT | O_EXCL, mode)
        guard file >= 0 else { throw failure("writing", path) }
        var isWritten = true
        var rest = bytes[...]
        while isWritten, !rest.isEmpty {
            let start = off_t(bytes.count - rest.count)
            let count = rest.withUnsafeBytes { pwrite(file, $0.baseAddress, $0.count, start) }
            if count > 0 { rest = rest.dropFirst(count) } else if errno != EINTR { isWritten = false }
        }
        isWritten = isWritten && fsync(file) == 0
        let error = errno
        close(file)
        guard isWritten, rename(String(temporary), path) == 0 else {
            let error = isWritten ? errno : error
            unlink(String(temporary))
            throw failure("writing", path, error)
        }
    }

    /// Removes a file.
    ///
    /// - Returns: Whether there was one.
    /// - Throws: ``ScheduleError`` with code `file`.
    @discardableResult
    package static func remove(_ path: String) throws(ScheduleError) -> Bool {
        if unlink(path) == 0 { return true }
        if errno == ENOENT || errno == ENOTDIR { return false }
        throw failure("removing", path)
    }

    /// The names in a directory, in order; none where there is no directory.
    package static func names(in path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            names.append(
                withUnsafeBytes(of: &entry.pointee.d_name) { raw in
                    String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
                }
            )
        }
        return names.sorted()
    }

    private static func makeDirectory(_ path: String) throws(ScheduleError) {
        guard !path.isEmpty, mkdir(path, 0o755) != 0, errno != EEXIST else { return }
        guard errno == ENOENT, let slash = path.lastIndex(of: "/") else { throw failure("making", path) }
        try makeDirectory(String(path[..<slash]))
        guard mkdir(path, 0o755) == 0 || errno == EEXIST else { throw failure("making", path) }
    }

    private static func failure(_ step: String, _ path: String, _ error: Int32 = errno) -> ScheduleError {
        ScheduleError(.file, "\(step) \(escaped(path)): \(String(cString: strerror(error)))")
    }
}
