import SyncModel
import SyncSystem

/// The entries of one directory in name order, read at once, so that the directory need not stay open.
struct DirectoryListing {
    struct Entry {
        fileprivate var nameStart: Int
        fileprivate var nameLength: Int
        let status: FileStatus
        var linkTarget: [UInt8]?
        /// The kind of anything that is no file, directory or link.
        var specialKind = ""
        /// Whether it was gone when it was looked at. Nobody knows what it was, so it is not simply left out.
        var hasVanished = false
    }

    private(set) var entries: [Entry] = []
    private var names: [UInt8] = []

    var count: Int { entries.count }

    /// Reads a directory and closes it.
    init(_ directory: consuming Descriptor, path: String) throws(PublishError) {
        let raw = directory.raw
        let code = try forEachName(in: directory) { name, length throws(PublishError) in
            try add(name, length, in: raw, path: path)
        }
        if let code { throw .reading(path, "list the directory", code: code) }
        let names = names
        names.withUnsafeBufferPointer { bytes in
            // No name has a `/`, which alone has another rank in this order.
            entries.sort { a, b in
                PathOrder.precedes(
                    UnsafeBufferPointer(rebasing: bytes[a.nameStart..<(a.nameStart + a.nameLength)]),
                    UnsafeBufferPointer(rebasing: bytes[b.nameStart..<(b.nameStart + b.nameLength)]))
            }
        }
    }

    /// The name's bytes, valid during `body`.
    func withName<R, Failure: Error>(_ index: Int, _ body: (UnsafeBufferPointer<UInt8>) throws(Failure) -> R)
        throws(Failure) -> R
    {
        let entry = entries[index]
        return try names.withUnsafeBufferPointer { names throws(Failure) in
            try body(UnsafeBufferPointer(rebasing: names[entry.nameStart..<(entry.nameStart + entry.nameLength)]))
        }
    }

    /// Removes entries by name and kind; returns how many.
    mutating func removeAll<Failure: Error>(
        where isGone: (UnsafeBufferPointer<UInt8>, FileStatus.Kind) throws(Failure) -> Bool
    ) throws(Failure) -> Int {
        let before = count
        var kept: [Entry] = []
        for index in entries.indices {
            let kind = entries[index].status.kind
            let isGone = try withName(index) { name throws(Failure) in try isGone(name, kind) }
            if !isGone { kept.append(entries[index]) }
        }
        entries = kept
        return before - count
    }

    private mutating func add(_ name: UnsafePointer<CChar>, _ length: Int, in descriptor: Int32, path: String)
        throws(PublishError)
    {
        let status: FileStatus
        switch SyncSystem.status(descriptor, name) {
        case .success(let found?): status = found
        case .success(nil): return addVanished(name, length)
        case .failure(let code): throw .reading("\(path)/\(String(cString: name))", "look at", code: code)
        }
        var entry = Entry(nameStart: names.count, nameLength: length, status: status)
        if status.kind == .link {
            guard let target = readLink(descriptor, name) else {
                if Errno.last == .noSuchFileOrDirectory { return addVanished(name, length) }
                throw .reading("\(path)/\(String(cString: name))", "read the link", code: .last)
            }
            entry.linkTarget = target
        } else if status.kind == .other {
            entry.specialKind = Self.specialKind(descriptor, name)
        }
        names.append(contentsOf: UnsafeRawBufferPointer(start: name, count: length))
        entries.append(entry)
    }

    private mutating func addVanished(_ name: UnsafePointer<CChar>, _ length: Int) {
        var entry = Entry(nameStart: names.count, nameLength: length, status: .unknown)
        entry.hasVanished = true
        names.append(contentsOf: UnsafeRawBufferPointer(start: name, count: length))
        entries.append(entry)
    }

    private static func specialKind(_ directory: Int32, _ name: UnsafePointer<CChar>) -> String {
        switch SpecialFile(name, in: directory) {
        case .fifo: "a fifo"
        case .socket: "a socket"
        case .blockDevice: "a block device"
        case .characterDevice: "a character device"
        case nil: "not a file, directory or link"
        }
    }
}
