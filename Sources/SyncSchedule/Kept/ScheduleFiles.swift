import SyncModel
package import SyncSystem

// Small files that are written atomically, and that only this user and root can change.

/// Largest file, in **bytes**.
private let maximumSize = 4 << 20

/// Reads a file; `nil` if there is none.
///
/// - Throws: ``ScheduleError`` with code `file`.
package func readScheduleFile(_ path: String) throws(ScheduleError) -> [UInt8]? {
    do throws(FileError) {
        let bytes = try readFile(path, trust: .settings, limit: maximumSize)
        try checkDirectory(of: path)
        return bytes
    } catch {
        if error.isMissing { return nil }
        throw ScheduleError(
            .file, ScheduleError.reading + "\(escaped(path)): \(error.reason)", isRefusal: error.isRefusal)
    }
}

extension ScheduleError {
    fileprivate static let reading = "reading "

    /// Whether a file exists, as far as is known, and cannot be read: nothing is known about its contents.
    package var isOfReading: Bool { code == .file && description.hasPrefix(Self.reading) }
}

/// Writes a file in place of a former one: fsync(2), then rename(2). Creates the directories above it.
///
/// - Parameter directories: The mode of directories that are created.
/// - Throws: ``ScheduleError`` with code `file`.
package func writeScheduleFile(
    _ bytes: [UInt8], to path: String, mode: FileMode = 0o644, directories: FileMode = 0o755
) throws(ScheduleError) {
    let slash = path.lastIndex(of: "/") ?? path.startIndex
    do throws(FileError) {
        try checkParent(of: path)
        try makeDirectories(String(path[..<slash]), mode: directories)
        try checkDirectory(of: path)
        try replaceFile(path, with: bytes, mode: mode)
    } catch {
        throw ScheduleError(.file, "writing \(escaped(path)): \(error.reason)", isRefusal: error.isRefusal)
    }
}

/// Removes a file.
///
/// - Returns: Whether there was one.
/// - Throws: ``ScheduleError`` with code `file`.
@discardableResult package func removeScheduleFile(_ path: String) throws(ScheduleError) -> Bool {
    guard let code = removeFile(path) else { return true }
    let error = FileError(step: "remove", path: path, code: code)
    if error.isMissing { return false }
    throw ScheduleError(.file, "removing \(escaped(path)): \(error.reason)")
}

/// The names in a directory, sorted; empty if there is no directory.
///
/// - Throws: ``ScheduleError`` with code `file`.
package func scheduleFileNames(in path: String) throws(ScheduleError) -> [String] {
    do throws(Errno) { return try (directoryEntries(path) ?? []).sorted() } catch {
        throw ScheduleError(.file, ScheduleError.reading + "\(escaped(path)): \(error)")
    }
}
