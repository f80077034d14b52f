import CPosix
import SyncFiles
import SyncSystem

/// The entries of one directory in name order, read at once, so that the directory need not stay open.
struct DirectoryListing {
    struct Entry {
        fileprivate var nameStart: Int
        fileprivate var nameLength: Int
        let status: FileStatus
        /// The target of a link, as written.
        var linkTarget: [UInt8]?
        /// The kind of anything that is no file, directory or link.
        var specialKind = ""
    }

    private(set) var entries: [Entry] = []
    private var names: [UInt8] = []

    var count: Int { entries.count }

    /// Reads a directory and closes it. Entries that vanish meanwhile are left out.
    init(owning descriptor: Int32, path: String) throws(PublishError) {
        guard let stream = fdopendir(descriptor) else {
            let code = sa_errno()
            close(descriptor)
            throw .reading(path, "list the directory", code: code)
        }
        defer { closedir(stream) }
        while true {
            sa_set_errno(0)
            guard let record = readdir(stream) else {
                let code = sa_errno()
                guard code == 0 else { throw .reading(path, "list the directory", code: code) }
                break
            }
            try add(record, in: descriptor, path: path)
        }
        let names = names
        names.withUnsafeBufferPointer { bytes in
            entries.sort { a, b in
                compare(
                    bytes[a.nameStart..<(a.nameStart + a.nameLength)],
                    bytes[b.nameStart..<(b.nameStart + b.nameLength)]
                ) < 0
            }
        }
    }

    /// The name's bytes, valid during `body`.
    func withName<R>(_ index: Int, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        let entry = entries[index]
        return names.withUnsafeBufferPointer { names in
            body(UnsafeBufferPointer(rebasing: names[entry.nameStart..<(entry.nameStart + entry.nameLength)]))
        }
    }

    /// Removes entries by name and kind; returns how many.
    mutating func removeAll(where isGone: (UnsafeBufferPointer<UInt8>, FileStatus.Kind) -> Bool) -> Int {
        let before = count
        let kept = entries.indices.filter { index in
            !withName(index) { isGone($0, entries[index].status.kind) }
        }
        entries = kept.map { entries[$0] }
        return before - count
    }

    private mutating func add(
        _ record: UnsafeMutablePointer<dirent>,
        in descriptor: Int32,
        path: String
    ) throws(PublishError) {
        guard let offset = MemoryLayout<dirent>.offset(of: \.d_name) else { return }
        let name = UnsafeRawPointer(record).advanced(by: offset).assumingMemoryBound(to: CChar.self)
        let length = strlen(name)
        if name[0] == 0x2E, length == 1 || (length == 2 && name[1] == 0x2E) { return }
        let status: FileStatus
        switch SyncSystem.status(descriptor, name) {
        case .success(let found?): status = found
        case .success(nil): return
        case .failure(let code):
            throw .reading("\(path)/\(String(cString: name))", "look at", code: code.errno)
        }
        var entry = Entry(nameStart: names.count, nameLength: length, status: status)
        if status.kind == .link {
            guard let target = readLink(descriptor, name) else {
                if sa_errno() == ENOENT { return }
                throw .reading("\(path)/\(String(cString: name))", "read the link", code: sa_errno())
            }
            entry.linkTarget = target
        } else if status.kind == .other {
            entry.specialKind = Self.specialKind(descriptor, name)
        }
        names.append(contentsOf: UnsafeRawBufferPointer(start: name, count: length))
        entries.append(entry)
    }

    private static func specialKind(_ directory: Int32, _ name: UnsafePointer<CChar>) -> String {
        var status = stat()
        guard fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return "not a file" }
        return switch status.st_mode & mode_t(S_IFMT) {
        case mode_t(S_IFIFO): "a fifo"
        case mode_t(S_IFSOCK): "a socket"
        case mode_t(S_IFBLK): "a block device"
        case mode_t(S_IFCHR): "a character device"
        default: "not a file, directory or link"
        }
    }
}

/// Byte order: negative, zero or positive.
private func compare(_ a: Slice<UnsafeBufferPointer<UInt8>>, _ b: Slice<UnsafeBufferPointer<UInt8>>) -> Int {
    let shared = min(a.count, b.count)
    if shared > 0, let left = a.base.baseAddress, let right = b.base.baseAddress {
        let order = memcmp(left + a.startIndex, right + b.startIndex, shared)
        if order != 0 { return Int(order) }
    }
    return a.count - b.count
}
