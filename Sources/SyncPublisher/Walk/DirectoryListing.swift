import SyncManifest
import SyncModel
import SyncSystem

/// The entries of one directory in name order, read at once, so that the directory need not stay open.
struct DirectoryListing {
    struct Entry {
        fileprivate var nameStart: Int
        fileprivate var nameLength: Int
        fileprivate(set) var status = FileStatus.unknown
        var linkTarget: [UInt8]?
        /// The kind of anything that is no file, directory or link.
        var specialKind = ""
        /// Whether the entry vanished before its status was read. Its kind is unknown, so it is not simply left out.
        var hasVanished = false
    }

    private(set) var entries: [Entry] = []
    private var names: [UInt8] = []

    var count: Int { entries.count }

    /// Reads a directory and closes it.
    init(_ directory: consuming Descriptor, path: String) throws(PublishError) {
        let raw = directory.raw
        let code = try forEachName(in: directory) { name, length, _ throws(PublishError) in
            try add(name, length, in: raw, path: path)
        }
        if let code { throw .reading(path, "list the directory", code: code) }
        let names = names
        names.withUnsafeBufferPointer { bytes in
            // Names contain no `/`, the only byte that has another rank in this order.
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
        func failure(_ attempt: String, _ code: Errno) -> PublishError {
            .reading("\(path)/\(String(cString: name))", attempt, code: code)
        }
        var entry = Entry(nameStart: names.count, nameLength: length)
        switch SyncSystem.status(descriptor, name) {
        case .success(let found?): entry.status = found
        case .success(nil): entry.hasVanished = true
        case .failure(let code): throw failure("look at", code)
        }
        if entry.status.kind == .link {
            entry.linkTarget = readLink(descriptor, name)
            if entry.linkTarget == nil {
                guard Errno.last == .noSuchFileOrDirectory else { throw failure("read the link", .last) }
                (entry.status, entry.hasVanished) = (.unknown, true)
            }
        } else if entry.status.kind == .other, !entry.hasVanished {
            entry.specialKind = specialKind(name, in: descriptor).map { "a \($0)" } ?? "not a file, directory or link"
        }
        names.append(contentsOf: UnsafeRawBufferPointer(start: name, count: length))
        entries.append(entry)
    }
}

/// Names of one directory that some file systems consider equal.
extension DirectoryListing {
    /// Reports each name that clashes with an earlier one, in name order, with the first name that it equals: as the
    /// same text after Unicode normalisation, which is refused everywhere, or if case is ignored, which is legal on
    /// Linux.
    func forEachClash(_ report: (_ name: String, _ first: String, _ isSameText: Bool) -> Void) {
        guard count > 1 else { return }
        let isASCII = (0..<count).allSatisfy { withName($0) { $0.allSatisfy { $0 < 0x80 } } }
        // String equality is canonical equivalence, which is what NFC decides. The bytes differ, since all names are of
        // one directory.
        let sameText = isASCII ? [:] : repeats(isASCII: false) { $0 }
        let sameLetters = repeats(isASCII: isASCII, form: caseFolded)
        guard !sameText.isEmpty || !sameLetters.isEmpty else { return }
        for index in 0..<count {
            guard let first = sameText[index] ?? sameLetters[index] else { continue }
            report(withName(index, shown), withName(first, shown), sameText[index] != nil)
        }
    }

    /// The names that equal an earlier one in some form, each with the first such name, by index.
    private func repeats(isASCII: Bool, form: (String) -> String) -> [Int: Int] {
        func formed(_ index: Int) -> String { form(withName(index) { String(decoding: $0, as: UTF8.self) }) }
        var hashed = (0..<count).map { index in
            (hash: isASCII ? withName(index, Self.asciiHash) : formed(index).hashValue, index: index)
        }
        hashed.sort { ($0.hash, $0.index) < ($1.hash, $1.index) }
        var repeats: [Int: Int] = [:]
        var start = 0
        for (position, (hash, index)) in hashed.enumerated() {
            if hash != hashed[start].hash { start = position }
            guard start < position else { continue }
            let name = formed(index)
            repeats[index] = hashed[start..<position].first { formed($0.index) == name }?.index
        }
        return repeats
    }

    /// The same hash for names that are equal if case is ignored. FNV-1a, 64 bits.
    private static func asciiHash(_ name: UnsafeBufferPointer<UInt8>) -> Int {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in name {
            let lower = byte &- 0x41 < 26 ? byte | 0x20 : byte
            hash = (hash ^ UInt64(lower)) &* 0x100_0000_01B3
        }
        return Int(truncatingIfNeeded: hash)
    }
}
