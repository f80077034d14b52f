package import SyncModel
package import SyncSystem

import struct Synchronization.Atomic

/// Holds unfinished files: `.syncagent/staging/`, on the destination's filesystem.
///
/// A file's name is the SHA-256 that its content must have, so that whatever an interrupted run left can be checked and
/// used by the next one without any record. Each worker writes into a directory of its own, since two threads that
/// create files in one directory wait for each other. What goes to a file system mounted below the destination is held there,
/// in `.syncagent/staging/` at its top: its lanes follow the others.
///
/// The directories hand nothing down to files made in them: what their destination hands down is given on the way there.
package final class Staging: Sendable {
    /// `.syncagent/staging`.
    var directory: Int32 { own.raw }
    private let own: Descriptor
    /// `.syncagent/staging/<lane>`, as many on each file system.
    private let lanes: [SharedDescriptor]
    private let destination: Destination
    /// How many there are on each.
    private let lanesEach: Int
    let path: String
    private static let mostLanes = 1024
    /// The largest serial number in use.
    private let lastSerial = Atomic<UInt32>(0)
    /// The directories being assembled.
    let underWay: UnderWay
    /// What files here are made without.
    private let umask: Umask

    /// Opens the staging directory with one lane per worker, and one more for parts of large files.
    package init(_ destination: Destination, lanes count: Int) throws(FileError) {
        let path = "\(destination.path)/.syncagent/staging"
        (self.path, self.destination) = (path, destination)
        func entries(_ directory: Int32) throws(FileError) -> [String] {
            do throws(Errno) { return try directoryEntries(directory) } catch {
                throw FileError(step: "read", path: path, code: error)
            }
        }
        own = try openPrivateDirectory("staging", in: destination.state, create: false, shown: path)
        dropInheritance(own.raw)
        umask = destination.umask
        underWay = UnderWay(umask)
        // Nothing goes to a file system without staging.
        let top = own.raw
        let places = [top] + destination.mounts.map { $0.staged ?? top }
        // Includes the lanes of an earlier run with more workers.
        var each = max(1, count)
        for place in places {
            for name in try entries(place) {
                if let lane = Int(name), (0..<Self.mostLanes).contains(lane), "\(lane)" == name {
                    each = max(each, lane + 1)
                }
            }
        }
        lanesEach = each
        var opened: [SharedDescriptor] = []
        // Leftovers keep their names: one may be on its way into place while another file is created.
        var last = UInt32(0)
        for place in places {
            for lane in 0..<each {
                let made = try openPrivateDirectory("\(lane)", in: place, create: true, shown: "\(path)/\(lane)")
                dropInheritance(made.raw)
                for name in try entries(made.raw) { last = max(last, StagedName(parsing: name)?.serial ?? 0) }
                opened.append(SharedDescriptor(made))
            }
        }
        lanes = opened
        lastSerial.store(last, ordering: .relaxed)
    }

    /// The lane on the file system that a path of the destination is on.
    package func lane(_ lane: Int, for path: UnsafeBufferPointer<UInt8>) -> Int {
        destination.mounts.isEmpty ? lane : lane % lanesEach + lanesEach * destination.fileSystem(of: path)
    }

    /// Whether a staged file can be moved to a path: it is on the same file system.
    package func fits(_ file: File, _ path: UnsafeBufferPointer<UInt8>) -> Bool {
        destination.mounts.isEmpty || file.lane / lanesEach == destination.fileSystem(of: path)
    }

    /// A staged file: its lane and its name there.
    package struct File: Sendable, Hashable {
        package var lane: Int
        package var name: StagedName

        package init(lane: Int, name: StagedName) {
            self.lane = lane
            self.name = name
        }
    }

    /// A name that no other file in staging has, even with the same content.
    package func newFile(lane: Int, digest: SHA256Digest, isPart: Bool = false) -> File {
        let serial = lastSerial.wrappingAdd(1, ordering: .relaxed).newValue
        return File(lane: lane, name: StagedName(digest: digest, serial: serial, isPart: isPart))
    }

    /// A name for the first bytes of a blob of the pack with this SHA-256.
    package func newFile(lane: Int, partialBlobOf pack: SHA256Digest) -> File {
        var file = newFile(lane: lane, digest: pack, isPart: true)
        file.name.isPartialBlob = true
        return file
    }

    /// The descriptor of a lane's directory.
    package func descriptor(lane: Int) -> Int32 { lanes[lane % lanes.count].raw }

    /// Creates `file` with all of `bytes`, which the caller has verified.
    ///
    /// - Parameter executable: Gives mode 0777 instead of 0666, less the run's umask.
    /// - Returns: What the file system says of it.
    @discardableResult package func write(_ bytes: UnsafeRawBufferPointer, to file: File, executable: Bool)
        throws(FileError) -> FileStatus
    {
        guard let made = create(file, executable: executable) else { throw .last("create", shown(file)) }
        do throws(Errno) { return try Self.fill(made, with: bytes) } catch {
            remove(file)
            throw FileError(step: "write", path: shown(file), code: error)
        }
    }

    /// Writes the bytes of a new file and closes it.
    ///
    /// - Returns: What the file system says of it.
    static func fill(_ file: consuming Descriptor, with bytes: UnsafeRawBufferPointer) throws(Errno) -> FileStatus {
        if let code = writeAll(bytes, to: file.raw, at: 0) { throw code }
        guard let found = SyncSystem.status(file.raw) else { throw .last }
        if let code = file.close() { throw code }
        return found
    }

    /// What the file system says of a staged file now; `nil` when it cannot be asked. fstatat(2).
    package func fileStatus(of file: File) -> FileStatus? {
        file.name.withCString { name in
            guard case .success(let found) = SyncSystem.status(descriptor(lane: file.lane), name) else { return nil }
            return found
        }
    }

    /// Creates `file`, empty, for writing; `nil` on failure, and ``Errno/last`` says why. A leftover is replaced.
    package func create(_ file: File, executable: Bool) -> Descriptor? {
        file.name.withCString { create($0, in: descriptor(lane: file.lane), executable: executable) }
    }

    func create(_ name: UnsafePointer<CChar>, in directory: Int32, executable: Bool) -> Descriptor? {
        makeFile(name, in: directory, mode: mode(executable: executable))
    }

    private func mode(executable: Bool) -> FileMode { umask.less(executable ? 0o777 : 0o666) }

    /// Gives what an earlier run has left the mode that it would have if it were made now: that run may have had another
    /// umask.
    package func renew(_ descriptor: Int32, executable: Bool) -> Errno? {
        setMode(descriptor, mode(executable: executable))
    }

    /// Creates a symbolic link under a staged name.
    package func link(to target: String, as file: File) throws(FileError) {
        let code = file.name.withCString { Self.makeLink(to: target, as: $0, in: descriptor(lane: file.lane)) }
        if let code { throw FileError(step: "create link", path: shown(file), code: code) }
    }

    /// Creates a symbolic link, replacing what is in the way.
    static func makeLink(to target: String, as name: UnsafePointer<CChar>, in directory: Int32) -> Errno? {
        let code = makeSymbolicLink(name, in: directory, to: target)
        guard code == .fileExists else { return code }
        removeFile(name, in: directory)
        return makeSymbolicLink(name, in: directory, to: target)
    }

    /// Opens a staged file for reading and writing; `nil` if it does not exist or is not ours alone: a link, a FIFO,
    /// another user's file, or one with a second name.
    package func open(_ file: File) -> Descriptor? {
        try? openFile(file.name.text, in: descriptor(lane: file.lane), .readWrite, trust: .staged)
    }

    /// Sets a staged file's mode and time before it becomes visible.
    ///
    /// - Parameter known: What the file system said of it when it was hashed; `nil` for a link.
    /// - Returns: What it says now; `known` where something went wrong, which shows when the file is in its place.
    package func give(_ traits: FileTraits, to file: File, _ known: FileStatus?) -> FileStatus? {
        file.name.withCString { Self.give(traits, to: $0, in: descriptor(lane: file.lane), known) }
    }

    static func give(_ traits: FileTraits, to name: UnsafePointer<CChar>, in directory: Int32, _ known: FileStatus?)
        -> FileStatus?
    {
        guard let known, known.kind == .file else {
            _ = traits.giveTime(to: name, in: directory)
            guard known != nil, case .success(let now?) = SyncSystem.status(directory, name), now.kind == .link else {
                return known
            }
            return now
        }
        // Another file may have its name by now.
        guard let opened = openToRead(directory, name), let found = SyncSystem.status(opened.raw),
            found.isSameFile(as: known), found.size == known.size, found.modified == known.modified
        else { return known }
        return (try? traits.give(to: opened.raw, found, shown: "")) ?? known
    }

    /// Removes a staged file, if it exists.
    package func remove(_ file: File) { _ = file.name.withCString { removeFile($0, in: descriptor(lane: file.lane)) } }

    /// Moves a staged file to `name` in `directory`, replacing what is there. rename(2): old or new, never none.
    ///
    /// - Parameter prepare: Called with where it is before that.
    package func rename(
        _ file: File, to name: UnsafePointer<CChar>, in directory: Int32,
        _ prepare: (_ name: UnsafePointer<CChar>, _ directory: Int32) -> Void = { _, _ in }
    ) -> Errno? {
        file.name.withCString {
            let lane = descriptor(lane: file.lane)
            prepare($0, lane)
            return renameEntry($0, in: lane, to: name, in: directory)
        }
    }

    /// Every file in every lane, with its parsed name.
    ///
    /// - Parameter removing: Whether what has another name is removed.
    package func leftovers(removing: Bool = true) -> [(file: File, size: UInt64)] {
        var found: [(File, UInt64)] = []
        let mounts = destination.mounts
        for (lane, descriptor) in lanes.map(\.raw).enumerated() {
            if lane >= lanesEach, mounts[lane / lanesEach - 1].staged == nil { continue }
            for entry in (try? directoryEntries(descriptor)) ?? [] {
                guard let name = StagedName(parsing: entry),
                    case .success(let known) = SyncSystem.status(descriptor, entry), let known, known.kind == .file
                else {
                    if removing { removeTree(entry, in: descriptor) }
                    continue
                }
                found.append((File(lane: lane, name: name), known.size))
            }
        }
        return found
    }

    /// Removes everything.
    package func clear() {
        for (file, _) in leftovers() { remove(file) }
        takeApart { _, _ in nil }
    }

    /// The staged file's path, for messages.
    package func shown(_ file: File) -> String { "\(path)/\(file.lane)/\(file.name.text)" }
}
