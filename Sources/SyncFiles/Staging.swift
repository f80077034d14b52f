import CPosix
package import SyncModel
package import SyncSystem
import Synchronization

/// Where unfinished bytes live: `.syncagent/staging/`, on the destination's filesystem.
///
/// A file's name is the SHA-256 that its content must have, so that whatever an interrupted run left behind
/// can be checked and used by the next one without any record of it. Each worker writes into a directory of
/// its own, since two threads that create files in one directory wait for each other.
package final class Staging: Sendable {
    /// `.syncagent/staging`.
    let directory: Int32
    /// `.syncagent/staging/<lane>`.
    private let lanes: [Int32]
    let path: String
    private static let mostLanes = 1024
    /// The largest serial number in use.
    private let lastSerial = Atomic<UInt32>(0)
    /// The directories under construction.
    let underWay = UnderWay()

    /// Opens the staging directory with one lane a worker, and one more for parts of large files.
    package init(_ destination: Destination, lanes count: Int) throws(FileError) {
        path = "\(destination.path)/.syncagent/staging"
        directory = sa_openat(destination.state, "staging", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
        guard directory >= 0 else { throw .last("open", path) }
        do throws(FileError) { try checkPrivate(directory, shown: path) } catch {
            close(directory)
            throw error
        }
        var opened: [Int32] = []
        // Lanes that a run with more workers left are looked after, too.
        let existing = directoryEntries(directory).compactMap { Int($0) }.filter {
            (0..<Self.mostLanes).contains($0)
        }
        for lane in 0..<max(1, count, (existing.max() ?? 0) + 1) {
            do throws(FileError) {
                opened.append(try Self.lane("\(lane)", in: directory, path: path))
            } catch {
                opened.forEach { close($0) }
                close(directory)
                throw error
            }
        }
        lanes = opened
        // Names of left-overs are taken: one may be on its way to its place while another file is made.
        let taken = opened.flatMap(directoryEntries).compactMap { StagedName(parsing: $0)?.serial }
        lastSerial.store(taken.max() ?? 0, ordering: .relaxed)
    }

    deinit {
        lanes.forEach { close($0) }
        close(directory)
    }

    private static func lane(_ name: String, in directory: Int32, path: String) throws(FileError) -> Int32 {
        if mkdirat(directory, name, 0o700) != 0, sa_errno() != EEXIST {
            throw .last("create", "\(path)/\(name)")
        }
        let raw = sa_openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
        guard raw >= 0 else { throw .last("open", "\(path)/\(name)") }
        do throws(FileError) { try checkPrivate(raw, shown: "\(path)/\(name)") } catch {
            close(raw)
            throw error
        }
        return raw
    }

    /// A staged file: which lane, and its name there.
    package struct File: Sendable, Hashable {
        package var lane: Int
        package var name: StagedName

        package init(lane: Int, name: StagedName) {
            self.lane = lane
            self.name = name
        }
    }

    /// A name that no other file in staging has, whatever content they share.
    package func newFile(lane: Int, digest: SHA256Digest, isPart: Bool = false) -> File {
        let serial = lastSerial.wrappingAdd(1, ordering: .relaxed).newValue
        return File(lane: lane, name: StagedName(digest: digest, serial: serial, isPart: isPart))
    }

    /// A name for the first bytes of a blob of the pack with this SHA-256.
    package func newFile(lane: Int, begunOf pack: SHA256Digest) -> File {
        var file = newFile(lane: lane, digest: pack, isPart: true)
        file.name.isBegun = true
        return file
    }

    /// The descriptor of a lane's directory.
    package func descriptor(lane: Int) -> Int32 { lanes[lane % lanes.count] }

    /// Creates `file` with all of `bytes`, which the caller has verified.
    ///
    /// - Parameter executable: Gives mode 0777 instead of 0666, less the umask.
    /// - Returns: What the file system says of it.
    @discardableResult
    package func write(
        _ bytes: UnsafeRawBufferPointer,
        to file: File,
        executable: Bool
    ) throws(FileError) -> FileStatus {
        let raw = create(file, executable: executable)
        guard raw >= 0 else { throw .last("create", shown(file)) }
        var code: Int32 = 0
        if !bytes.isEmpty { code = writeAll(raw, bytes, at: 0) }
        let found = code == 0 ? SyncSystem.status(raw) : nil
        if code == 0, found == nil { code = sa_errno() }
        if close(raw) != 0, code == 0 { code = sa_errno() }
        guard code == 0, let found else {
            remove(file)
            throw FileError(step: "write", path: shown(file), code: code)
        }
        return found
    }

    /// What the file system says of a staged file now; `nil` when it cannot be asked. fstatat(2).
    package func fileStatus(of file: File) -> FileStatus? {
        file.name.withCString { name in
            guard case .success(let found) = SyncSystem.status(descriptor(lane: file.lane), name) else {
                return nil
            }
            return found
        }
    }

    /// Creates `file`, empty, for writing; -1 with errno set when that fails. A left-over is replaced.
    package func create(_ file: File, executable: Bool) -> Int32 {
        let mode: mode_t = executable ? 0o777 : 0o666
        return file.name.withCString { name in
            let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW
            let raw = sa_openat(descriptor(lane: file.lane), name, flags, mode)
            guard raw < 0, sa_errno() == EEXIST else { return raw }
            _ = unlinkat(descriptor(lane: file.lane), name, 0)
            return sa_openat(descriptor(lane: file.lane), name, flags, mode)
        }
    }

    /// Makes a symbolic link under a staged name.
    package func link(to target: String, as file: File) throws(FileError) {
        let code: Int32 = file.name.withCString { name in
            if symlinkat(target, descriptor(lane: file.lane), name) == 0 { return 0 }
            guard sa_errno() == EEXIST else { return sa_errno() }
            _ = unlinkat(descriptor(lane: file.lane), name, 0)
            return symlinkat(target, descriptor(lane: file.lane), name) == 0 ? 0 : sa_errno()
        }
        guard code == 0 else { throw FileError(step: "create link", path: shown(file), code: code) }
    }

    /// Opens a staged file for reading and writing; `nil` when it is not there, or is not one of ours alone: a link,
    /// a FIFO, another user's, a file with another name somewhere.
    package func open(_ file: File) -> Descriptor? {
        try? openFile(file.name.text, in: descriptor(lane: file.lane), O_RDWR, trust: .staged)
    }

    /// Removes a staged file; a missing one is no matter.
    package func remove(_ file: File) {
        _ = file.name.withCString { unlinkat(descriptor(lane: file.lane), $0, 0) }
    }

    /// Moves a staged file to `name` in `directory`, replacing what is there. rename(2): old or new, never none.
    package func rename(_ file: File, to name: UnsafePointer<CChar>, in directory: Int32) -> Int32 {
        file.name.withCString {
            sa_rename(descriptor(lane: file.lane), $0, directory, name) == 0 ? 0 : sa_errno()
        }
    }

    /// Every file in every lane, with its name read back; what has no such name is removed.
    package func leftovers() -> [(file: File, size: UInt64)] {
        var found: [(File, UInt64)] = []
        for (lane, descriptor) in lanes.enumerated() {
            for entry in directoryEntries(descriptor) {
                guard let name = StagedName(parsing: entry),
                    case .success(let known) = SyncSystem.status(descriptor, entry),
                    let known, known.kind == .file
                else {
                    removeTree(entry, in: descriptor)
                    continue
                }
                found.append((File(lane: lane, name: name), known.size))
            }
        }
        return found
    }

    /// Moves what has been placed back to its staged name: it is not what was verified.
    package func takeBack(_ file: File, from name: UnsafePointer<CChar>, in directory: Int32) {
        _ = file.name.withCString { sa_rename(directory, name, descriptor(lane: file.lane), $0) }
    }

    /// The staged file's path, for messages.
    package func shown(_ file: File) -> String { "\(path)/\(file.lane)/\(file.name.text)" }
}
