package import SyncModel
package import SyncSystem

import struct Synchronization.Atomic

/// Holds unfinished files: `.syncagent/staging/`, on the destination's filesystem.
///
/// A file's name is the SHA-256 that its content must have, so that the next run can check and use what an interrupted
/// run left, without any record. Each worker writes into a directory of its own, a lane, since two threads that
/// create files in one directory wait for each other. Files for a file system mounted below the destination are staged
/// there, in `.syncagent/staging/` at its top; its lanes follow the others.
///
/// The directories hand down nothing to new files; files get what their destination hands down when they are moved
/// there.
package final class Staging: Sendable {
    /// `.syncagent/staging`.
    var directory: Int32 { own.raw }
    private let own: Descriptor
    /// The directories `.syncagent/staging/<lane>`, the same number on each file system.
    private let lanes: [SharedDescriptor]
    private let destination: Destination
    /// The number of lanes on each file system.
    private let lanesEach: Int
    let path: String
    private static let mostLanes = 1024
    /// The largest serial number in use.
    private let lastSerial = Atomic<UInt32>(0)
    private let isLittered = Atomic(false)
    /// The directories being assembled.
    private let inProgress = Mutex(InProgress())
    /// The umask for staged files.
    private let umask: Umask

    /// Opens the staging directory with at least `count` lanes on each file system.
    package init(_ destination: Destination, lanes count: Int) throws(FileError) {
        let path = "\(destination.statePath)/staging"
        (self.path, self.destination) = (path, destination)
        func entries(_ directory: Int32) throws(FileError) -> [String] {
            do throws(Errno) { return try directoryEntries(directory) } catch {
                throw FileError(step: "read", path: path, code: error)
            }
        }
        own = try openPrivateDirectory("staging", in: destination.state, create: false, shown: path)
        dropInheritance(own.raw)
        // Nobody may write to a file that other trees share.
        umask = destination.sharesFiles ? Umask(bits: destination.umask.bits | 0o222) : destination.umask
        // Nothing is moved to a file system without staging.
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
        // Leftovers keep their names: one may be moved into place while another file is created.
        var last = UInt32(0)
        for place in places {
            for lane in 0..<each {
                let made = try openPrivateDirectory("\(lane)", in: place, create: true, shown: "\(path)/\(lane)")
                dropInheritance(made.raw)
                for name in try entries(made.raw) { last = max(last, File(lane: lane, parsing: name)?.serial ?? 0) }
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

    /// A name that no other staged file has, even with the same content.
    package func newFile(lane: Int, digest: SHA256Digest, isPart: Bool = false) -> File {
        let serial = lastSerial.wrappingAdd(1, ordering: .relaxed).newValue
        return File(lane: lane, digest: digest, serial: serial, isPart: isPart)
    }

    /// A name for the first bytes of a blob of the pack with this SHA-256.
    package func newFile(lane: Int, partialBlobOf pack: SHA256Digest) -> File {
        var file = newFile(lane: lane, digest: pack, isPart: true)
        file.isPartialBlob = true
        return file
    }

    /// The descriptor of a lane's directory.
    package func descriptor(lane: Int) -> Int32 { lanes[lane % lanes.count].raw }

    /// Creates `file` with all of `bytes`, which the caller has verified.
    ///
    /// - Parameter executable: Whether the mode is 0777 instead of 0666, less the run's umask.
    /// - Returns: The file's status.
    @discardableResult package func write(_ bytes: UnsafeRawBufferPointer, to file: File, executable: Bool)
        throws(FileError) -> FileStatus
    {
        try file.withName { name in
            Result { () throws(FileError) in
                try write(
                    bytes, as: name, in: descriptor(lane: file.lane), executable: executable, shown: shown(file))
            }
        }.get()
    }

    /// Creates a file with these bytes; removes it if it cannot be written.
    ///
    /// - Parameter shown: The file's path, for messages.
    private func write(
        _ bytes: UnsafeRawBufferPointer, as name: UnsafePointer<CChar>, in directory: Int32, executable: Bool,
        shown: @autoclosure () -> String
    ) throws(FileError) -> FileStatus {
        guard let made = create(name, in: directory, executable: executable) else { throw .last("create", shown()) }
        do throws(Errno) { return try Self.fill(made, with: bytes) } catch {
            note(removal: removeFile(name, in: directory))
            throw FileError(step: "write", path: shown(), code: error)
        }
    }

    /// Writes the bytes of a new file and closes it.
    ///
    /// - Returns: The file's status.
    private static func fill(_ file: consuming Descriptor, with bytes: UnsafeRawBufferPointer) throws(Errno)
        -> FileStatus
    {
        if let code = writeAll(bytes, to: file.raw, at: 0) { throw code }
        guard let found = SyncSystem.status(file.raw) else { throw .last }
        if let code = file.close() { throw code }
        return found
    }

    /// The present status of a staged file; `nil` on failure. fstatat(2).
    package func fileStatus(of file: File) -> FileStatus? {
        file.withName { name in
            guard case .success(let found) = SyncSystem.status(descriptor(lane: file.lane), name) else { return nil }
            return found
        }
    }

    /// Creates `file`, empty, for writing, in place of a leftover; `nil` on failure, for which ``Errno/last`` is set.
    package func create(_ file: File, executable: Bool) -> Descriptor? {
        file.withName { create($0, in: descriptor(lane: file.lane), executable: executable) }
    }

    func create(_ name: UnsafePointer<CChar>, in directory: Int32, executable: Bool) -> Descriptor? {
        makeFile(name, in: directory, mode: mode(executable: executable))
    }

    private func mode(executable: Bool) -> FileMode { umask.less(executable ? 0o777 : 0o666) }

    /// Gives a leftover of an earlier run the mode that it would have if it were created now, since that run may have
    /// had another umask.
    package func renew(_ descriptor: Int32, executable: Bool) -> Errno? {
        setMode(descriptor, mode(executable: executable))
    }

    /// Creates a symbolic link under a staged name.
    package func link(to target: String, as file: File) throws(FileError) {
        let code = file.withName { Self.makeLink(to: target, as: $0, in: descriptor(lane: file.lane)) }
        if let code { throw FileError(step: "create link", path: shown(file), code: code) }
    }

    /// Creates a symbolic link, replacing an existing file.
    static func makeLink(to target: String, as name: UnsafePointer<CChar>, in directory: Int32) -> Errno? {
        let code = makeSymbolicLink(name, in: directory, to: target)
        guard code == .fileExists else { return code }
        removeFile(name, in: directory)
        return makeSymbolicLink(name, in: directory, to: target)
    }

    /// Opens a staged file for reading and writing; `nil` if it does not exist or does not belong to this user alone: a
    /// link, a FIFO, another user's file, or one with a second name.
    package func open(_ file: File) -> Descriptor? {
        try? openFile(file.name, in: descriptor(lane: file.lane), .readWrite, trust: .staged)
    }

    /// Sets a staged file's mode and time before it becomes visible.
    ///
    /// - Parameter known: The status when the file was hashed; `nil` for a link.
    /// - Returns: The present status; `known` after a failure, which is noticed when the file is in its place.
    package func give(_ traits: FileTraits, to file: File, _ known: FileStatus?) -> FileStatus? {
        file.withName { Self.give(traits, to: $0, in: descriptor(lane: file.lane), known) }
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
        // Another file may have this name by now.
        guard let opened = openToRead(directory, name), let found = SyncSystem.status(opened.raw),
            found.isSameFile(as: known), found.size == known.size, found.modified == known.modified
        else { return known }
        return (try? traits.give(to: opened.raw, found, shown: "")) ?? known
    }

    /// Removes a staged file, if it exists.
    package func remove(_ file: File) {
        note(removal: file.withName { removeFile($0, in: descriptor(lane: file.lane)) })
    }

    private func note(removal code: Errno?) {
        if let code, code != .noSuchFileOrDirectory { isLittered.store(true, ordering: .relaxed) }
    }

    /// Whether a file could not be removed, and is still there.
    package var hasLeftovers: Bool { isLittered.load(ordering: .relaxed) }

    /// Moves a staged file to `name` in `directory`, replacing an existing file. rename(2): old or new, never none.
    ///
    /// - Parameter prepare: Called first, with the file's staged place.
    package func rename(
        _ file: File, to name: UnsafePointer<CChar>, in directory: Int32,
        _ prepare: (_ name: UnsafePointer<CChar>, _ directory: Int32) -> Void = { _, _ in }
    ) -> Errno? {
        file.withName {
            let lane = descriptor(lane: file.lane)
            prepare($0, lane)
            return renameEntry($0, in: lane, to: name, in: directory)
        }
    }

    /// The files of all lanes, with their parsed names.
    ///
    /// - Parameter removing: Whether entries with other names are removed.
    package func leftovers(removing: Bool = true) -> [(file: File, size: UInt64)] {
        var found: [(File, UInt64)] = []
        let mounts = destination.mounts
        for (lane, descriptor) in lanes.map(\.raw).enumerated() {
            if lane >= lanesEach, mounts[lane / lanesEach - 1].staged == nil { continue }
            for entry in (try? directoryEntries(descriptor)) ?? [] {
                guard let file = File(lane: lane, parsing: entry),
                    case .success(let known) = SyncSystem.status(descriptor, entry), let known, known.kind == .file
                else {
                    if removing { removeTree(entry, in: descriptor) }
                    continue
                }
                found.append((file, known.size))
            }
        }
        return found
    }

    /// Removes all staged files.
    ///
    /// - Throws: The first failure; the other files are removed all the same.
    package func clear() throws(FileError) {
        var failure: FileError?
        func empty(_ directory: Int32, shown: String, of isMeant: (String) -> Bool) {
            let names: [String]
            do throws(Errno) { names = try directoryEntries(directory) } catch {
                failure = failure ?? FileError(step: "read", path: shown, code: error)
                return
            }
            for name in names where isMeant(name) {
                guard let code = removeFile(name, in: directory), !removeTree(name, in: directory) else { continue }
                // For a directory, the error about its contents says more than that it is a directory.
                let reason = code == .isDirectory ? Errno.last : code
                failure = failure ?? FileError(step: "remove", path: "\(shown)/\(name)", code: reason)
            }
        }
        for (lane, opened) in lanes.enumerated() { empty(opened.raw, shown: "\(path)/\(lane)") { _ in true } }
        empty(directory, shown: path) { Directory(parsing: $0) != nil }
        if let failure { throw failure }
    }

    /// The staged file's path, for messages.
    package func shown(_ file: File) -> String { "\(path)/\(file.lane)/\(file.name)" }
}

extension Staging {
    /// A staged file: its lane, and its name there. The name is its digest, a serial number, since several files may
    /// have the same content, and `.part` while it is filled out of order. A `.begun` file holds the first bytes of a
    /// blob of the pack with that digest.
    package struct File: Hashable, Sendable {
        package var lane: Int
        package var digest: SHA256Digest
        package var serial: UInt32
        package var isPart: Bool
        /// Whether it is part of a blob rather than of a file; ``isPart`` is then true as well.
        package var isPartialBlob = false

        package init(lane: Int, digest: SHA256Digest, serial: UInt32 = 0, isPart: Bool = false) {
            self.lane = lane
            self.digest = digest
            self.serial = serial
            self.isPart = isPart
        }

        /// The largest serial number. No run comes near it, so the next one never wraps around to a name that is taken.
        private static let mostSerial = UInt32.max >> 1

        /// Parses a name; `nil` if it is not one of ``name``.
        package init?(lane: Int, parsing name: String) {
            var rest = Substring(name)
            isPartialBlob = rest.hasSuffix(Self.partialBlob)
            isPart = isPartialBlob || rest.hasSuffix(Self.part)
            if isPart { rest = rest.dropLast((isPartialBlob ? Self.partialBlob : Self.part).utf8.count) }
            let parts = rest.split(separator: ".", omittingEmptySubsequences: false)
            guard let first = parts.first, parts.count <= 2, let digest = SHA256Digest(hex: first.utf8) else {
                return nil
            }
            (self.lane, self.digest) = (lane, digest)
            if parts.count == 2 {
                guard let serial = UInt32(parts[1]), serial <= Self.mostSerial else { return nil }
                self.serial = serial
            } else {
                serial = 0
            }
            guard self.name.utf8.elementsEqual(name.utf8) else { return nil }
        }

        package var name: String { (serial == 0 ? digest.hex : "\(digest.hex).\(serial)") + suffix }

        private static let part = ".part"
        private static let partialBlob = ".begun"
        private var suffix: String { isPartialBlob ? Self.partialBlob : isPart ? Self.part : "" }

        /// Calls `body` with the name as a C string, built on the stack.
        package func withName<R: ~Copyable>(_ body: (UnsafePointer<CChar>) -> R) -> R {
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: 96) { buffer in
                var end = 64
                digest.writeHex { buffer[$0] = CChar(bitPattern: $1) }
                if serial != 0 {
                    buffer[end] = 0x2E
                    end += 1
                    for digit in String(serial).utf8 {
                        buffer[end] = CChar(bitPattern: digit)
                        end += 1
                    }
                }
                if isPart {
                    for letter in suffix.utf8 {
                        buffer[end] = CChar(bitPattern: letter)
                        end += 1
                    }
                }
                buffer[end] = 0
                return body(UnsafePointer(buffer.baseAddress.unsafelyUnwrapped))
            }
        }
    }
}

extension Staging {
    /// A directory being assembled: `.syncagent/staging/dir-<key>/`, its files under their final names.
    package struct Directory: Hashable, Sendable {
        /// FNV-1a of its final path, so that the next run recognises what an interrupted one has assembled.
        package let key: UInt64

        /// - Parameter path: The path relative to the destination.
        package init(path: UnsafeBufferPointer<UInt8>) {
            key = path.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
        }

        /// Parses a name; `nil` if it is not one.
        init?(parsing name: String) {
            let digits = name.dropFirst(Self.prefix.count)
            guard let key = UInt64(digits, radix: 16) else { return nil }
            self.key = key
            guard self.name == name else { return nil }
        }

        private static let prefix = "dir-"

        var name: String { Self.prefix + padded(key, 16, radix: 16) }
    }

    /// Creates a file of a directory with all of `bytes`, which the caller has verified. Creates the directory, too.
    ///
    /// - Parameter executable: Whether the mode is 0777 instead of 0666, less the run's umask.
    /// - Returns: The file's status, which does not change when the directory is moved.
    package func write(
        _ bytes: UnsafeRawBufferPointer, as leaf: UnsafePointer<CChar>, in target: Directory, executable: Bool
    ) throws(FileError) -> FileStatus {
        let opened = try open(target, make: true)
        return try write(bytes, as: leaf, in: opened.raw, executable: executable, shown: shown(leaf, target))
    }

    /// Creates a symbolic link in a directory being assembled.
    package func link(to text: String, as leaf: UnsafePointer<CChar>, in target: Directory) throws(FileError)
        -> FileStatus
    {
        let opened = try open(target, make: true)
        try FileError.check(Self.makeLink(to: text, as: leaf, in: opened.raw), "create link", shown(leaf, target))
        switch status(opened.raw, leaf) {
        case .success(let found?): return found
        case .success(nil): throw FileError(step: "find again", path: shown(leaf, target), code: .noSuchFileOrDirectory)
        case .failure(let code): throw FileError(step: "look at", path: shown(leaf, target), code: code)
        }
    }

    /// Moves a directory to its place, unless a directory that is not empty is there already.
    ///
    /// The moved directory is compared with the one that was filled. If somebody has replaced it meanwhile, it is
    /// taken out of the tree again and removed. If it cannot be examined, it stays: its files are then moved, and
    /// compared, one by one.
    ///
    /// - Parameters:
    ///   - name: The directory's last component.
    ///   - parent: The target directory. One that hands something down to new directories (the set-group-id bit, a
    ///     default ACL; see mkdir(2), acl(5)) is refused with ``Errno/improperLink``: the moved directory would not get
    ///     it.
    /// - Returns: ``Errno/staleNFSFileHandle`` if the directory is not the one that was filled.
    package func place(_ target: Directory, as name: Slice<UnsafeBufferPointer<UInt8>>, in parent: Int32) -> Errno? {
        guard !handsDownTraits(parent) else { return .improperLink }
        guard let filled = inProgress.withLock({ $0.identities[target] }) else { return .noSuchFileOrDirectory }
        return withCString(name) { text in
            if let code = renameEntry(target.name, in: directory, to: text, in: parent) { return code }
            switch status(parent, text) {
            case .failure(let code): return code
            case .success(let found?) where found.kind == .directory && found.isSameFile(as: filled):
                inProgress.withLock { $0.forget(target) }
                return nil
            case .success: break
            }
            let foreign = "foreign-\(target.name)"
            removeTree(foreign, in: directory)
            if renameEntry(text, in: parent, to: foreign, in: directory) == nil { removeTree(foreign, in: directory) }
            return .staleNFSFileHandle
        }
    }

    /// Moves one file of a directory to the same name elsewhere, replacing what is there.
    ///
    /// - Returns: ``Errno/staleNFSFileHandle`` if the directory is not the one that was filled.
    package func rename(
        memberNamed leaf: UnsafePointer<CChar>, of target: Directory, into other: Int32,
        _ prepare: (_ name: UnsafePointer<CChar>, _ directory: Int32) -> Void = { _, _ in }
    ) -> Errno? {
        do throws(FileError) {
            // Bound to a name: the descriptor must stay open while it is used.
            let opened = try open(target, make: false)
            prepare(leaf, opened.raw)
            return renameEntry(leaf, in: opened.raw, to: leaf, in: other)
        } catch { return error.code ?? .ioError }
    }

    /// Gives one file of a directory its mode and its time; see ``give(_:to:_:)``.
    package func give(
        _ traits: FileTraits, toMemberNamed leaf: UnsafePointer<CChar>, of target: Directory, _ known: FileStatus
    ) -> FileStatus {
        guard let opened = try? open(target, make: false) else { return known }
        return Self.give(traits, to: leaf, in: opened.raw, known) ?? known
    }

    /// Removes one file of a directory, if it exists.
    package func remove(memberNamed leaf: UnsafePointer<CChar>, of target: Directory) {
        if let opened = try? open(target, make: false) { removeFile(leaf, in: opened.raw) }
    }

    /// Removes an empty directory, if it exists.
    package func remove(_ target: Directory) {
        inProgress.withLock { $0.forget(target) }
        _ = removeDirectory(target.name, in: directory)
    }

    private func shown(_ leaf: UnsafePointer<CChar>, _ target: Directory) -> String {
        "\(path)/\(target.name)/\(String(cString: leaf))"
    }
}

extension Staging {
    /// The directories being assembled: their identities, and descriptors of some.
    ///
    /// A name in staging proves nothing: anybody who may write there can replace it by a link or another directory. So
    /// a directory is opened when it is created and used by descriptor from then on. If it has to be opened again, it
    /// must be the same one.
    private struct InProgress {
        var identities: [Directory: FileStatus] = [:]
        var open: [Directory: SharedDescriptor] = [:]
        var order: [Directory] = []

        /// Most descriptors kept open.
        static let capacity = 64

        mutating func forget(_ target: Directory) {
            identities[target] = nil
            guard open.removeValue(forKey: target) != nil else { return }
            order.removeAll { $0 == target }
        }
    }

    /// Opens a directory being assembled.
    ///
    /// - Parameter make: Whether to create it if this run has not created it yet. An existing entry with its name is
    ///   removed.
    /// - Throws: ``FileError``; with ``Errno/staleNFSFileHandle`` if another directory has its name by now.
    private func open(_ target: Directory, make: Bool) throws(FileError) -> SharedDescriptor {
        try inProgress.withLock { (state) throws(FileError) in
            if let known = state.open[target] { return known }
            let (name, known) = (target.name, state.identities[target])
            func failure(_ code: Errno, remark: String? = nil) -> FileError {
                FileError(step: "open", path: "\(path)/\(name)", code: code, remark: remark)
            }
            if known == nil {
                guard make else { throw failure(.noSuchFileOrDirectory) }
                try self.make(name)
            }
            let opened = SharedDescriptor(openDirectory(name, in: directory, .noFollow))
            if opened == nil, case let code = Errno.last,
                ![.noSuchFileOrDirectory, .notDirectory, .tooManySymbolicLinkLevels].contains(code)
            {
                throw failure(code)
            }
            guard let opened, let found = status(opened.raw), known?.isSameFile(as: found) ?? true else {
                throw failure(.staleNFSFileHandle, remark: "another process has put something in its place")
            }
            state.identities[target] = found
            if state.order.count >= InProgress.capacity { state.open[state.order.removeFirst()] = nil }
            state.open[target] = opened
            state.order.append(target)
            return opened
        }
    }

    private func make(_ name: String) throws(FileError) {
        let mode = destination.umask.less(0o777)
        guard var code = makeDirectory(name, in: directory, mode: mode) else { return }
        if code == .fileExists, removeTree(name, in: directory) {
            guard let again = makeDirectory(name, in: directory, mode: mode) else { return }
            code = again
        }
        throw FileError(step: "create", path: "\(path)/\(name)", code: code)
    }
}

extension Staging {
    /// Files of directories that an interrupted run was assembling, with their **bytes**.
    package func members() -> [(directory: Directory, leaf: String, size: UInt64)] {
        var found: [(Directory, String, UInt64)] = []
        for target in directories() {
            guard let opened = open(target) else { continue }
            for leaf in (try? directoryEntries(opened.raw)) ?? [] {
                guard case .success(let known?) = status(opened.raw, leaf) else { continue }
                found.append((target, leaf, known.kind == .file ? known.size : 0))
            }
        }
        return found
    }

    /// Takes apart the directories that an interrupted run was assembling, and removes other entries with such names.
    ///
    /// - Parameter digest: The digest that a file of a directory should have; a file without one is removed.
    /// - Returns: How many files were moved to ``leftovers(removing:)``, to be checked like those.
    @discardableResult package func takeApart(_ digest: (Directory, _ leaf: String) -> SHA256Digest?) -> Int {
        var kept = 0
        for target in directories() {
            if let opened = open(target) {
                for leaf in (try? directoryEntries(opened.raw)) ?? [] {
                    guard let digest = digest(target, leaf), case .success(let known?) = status(opened.raw, leaf),
                        known.kind == .file
                    else { continue }
                    let isKept = newFile(lane: 0, digest: digest).withName {
                        renameEntry(leaf, in: opened.raw, to: $0, in: descriptor(lane: 0)) == nil
                    }
                    if isKept { kept += 1 }
                }
            }
            removeTree(target.name, in: directory)
        }
        return kept
    }

    private func directories() -> [Directory] {
        ((try? directoryEntries(directory)) ?? []).compactMap(Directory.init(parsing:))
    }

    private func open(_ target: Directory) -> Descriptor? { openDirectory(target.name, in: directory, .noFollow) }
}
