import SyncModel

/// The keys of a file entry that were seen.
struct FileKeys: OptionSet {
    let rawValue: UInt16

    static let path = FileKeys(rawValue: 1)
    static let size = FileKeys(rawValue: 2)
    static let sha256 = FileKeys(rawValue: 4)
    static let executable = FileKeys(rawValue: 8)
    static let blobs = FileKeys(rawValue: 16)
    static let urls = FileKeys(rawValue: 32)
    static let group = FileKeys(rawValue: 64)
    static let link = FileKeys(rawValue: 128)
    static let mode = FileKeys(rawValue: 256)
    static let mtime = FileKeys(rawValue: 512)

    init(rawValue: UInt16) { self.rawValue = rawValue }

    /// The key with this spelling; the length tells most of them apart.
    @inline(__always) init?(_ key: UnsafeBufferPointer<UInt8>) {
        switch key.count {
        case 4 where equals(key, "path"): self = .path
        case 4 where equals(key, "size"): self = .size
        case 4 where equals(key, "urls"): self = .urls
        case 4 where equals(key, "link"): self = .link
        case 4 where equals(key, "mode"): self = .mode
        case 5 where equals(key, "blobs"): self = .blobs
        case 5 where equals(key, "group"): self = .group
        case 5 where equals(key, "mtime"): self = .mtime
        case 6 where equals(key, "sha256"): self = .sha256
        case 10 where equals(key, "executable"): self = .executable
        default: return nil
        }
    }

    /// The spelling of one key.
    var name: StaticString { Self.names[rawValue.trailingZeroBitCount] }
    private static let names: [StaticString] = [
        "path", "size", "sha256", "executable", "blobs", "urls", "group", "link", "mode", "mtime",
    ]
}

extension ManifestAssembly {
    mutating func readFiles() throws(ManifestError) {
        let part = partStarts.last
        if part == nil {
            // Entries are longer than this, so the columns grow at most once.
            let expected = min(reader.bytes.count / 128 + 1, limits.entries)
            files.reserve(count: expected, pathBytes: expected * 32)
        }
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "files", entry: files.count - (part ?? 0))
            try check(files.count, below: limits.entries, "entries in “files”")
            if part != nil { try checkPartHasRoom() }
            try readFile()
        }
    }

    private mutating func readFile() throws(ManifestError) {
        var row = FileTable.Pending(firstBlob: files.blobs.count, firstText: files.texts.count)
        var seen = FileKeys()
        var foreign: Set<[UInt8]> = []
        var deltas: [Delta] = []
        var check: ContentCheck?
        try reader.beginObject()
        while let key = try reader.nextKey() {
            guard let member = FileKeys(key) else {
                if limits.learns, key.elementsEqual(Self.learnKey) {
                    place.enter("x-learn")
                    guard check == nil else { throw reader.duplicateKey(key) }
                    check = try readCheck()
                } else {
                    deltas += try readExtension(key, seen: &foreign)
                }
                continue
            }
            place.enter(member.name)
            guard !seen.contains(member) else { throw reader.duplicateKey(key) }
            seen.formUnion(member)
            switch member {
            case .path: row.path = try readPath()
            case .size: row.size = try reader.integer()
            case .sha256: row.digest = try readDigest()
            case .executable: row.kind = try reader.bool() ? .executable : row.kind
            case .blobs: try readBlobs()
            case .urls: try readURLs()
            case .group: row.group = try readGroup(in: \.files)
            case .mode: row.traits.mode = try readMode()
            case .mtime: row.traits.modified = try readTime()
            default: try readLink()
            }
        }
        try require(.path, in: seen)
        if seen.contains(.link) {
            row.kind = .link
            try finishLink(row, seen)
        } else if let check, !seen.contains(.sha256) {
            try finish(&row, seen, check)
        } else {
            if let check {
                files.learned[files.count] = check
                otherBytes += 200 + (check.stamp?.utf8.count ?? 0)
            }
            try finishFile(&row, seen)
        }
        if !partStarts.isEmpty { try checkOrder(row) }
        place.leaveMember()
        if row.kind != .link { files.deltaColumn.append(deltas, row: files.count) }
        guard files.append(row) else {
            throw ManifestError("the manifest is too large for this program", "split the set")
        }
        try checkMemory()
    }

    /// Finishes a file whose SHA-256, and perhaps size, is not known yet.
    private mutating func finish(_ row: inout FileTable.Pending, _ seen: FileKeys, _ check: ContentCheck)
        throws(ManifestError)
    {
        place.enter("x-learn")
        guard !seen.contains(.blobs) else {
            throw ManifestError("the file has “x-learn” and “blobs”", "leave out one of them")
        }
        place.leaveMember()
        guard let first = files.texts.dropFirst(row.firstText).first else {
            throw ManifestError("the file has no URLs", "add “urls”")
        }
        if seen.contains(.mode) {
            place.enter("mode")
            throw ManifestError("the file has “x-learn” and “mode”", "leave out one of them")
        }
        var check = check
        check.isSizeKnown = seen.contains(.size)
        row.digest = files.arena.withUnsafeBufferPointer { arena in
            check.standIn(size: row.size, url: first.bytes(in: arena))
        }
        files.checks[files.count] = check
        otherBytes += 200 + (check.stamp?.utf8.count ?? 0)
    }

    /// Checks the rules that need several keys of one file.
    private mutating func finishFile(_ row: inout FileTable.Pending, _ seen: FileKeys) throws(ManifestError) {
        try require(.size, in: seen)
        try require(.sha256, in: seen)
        if let mode = row.traits.mode {
            place.enter("executable")
            guard !seen.contains(.executable) else {
                throw ManifestError("“mode” says it already", "leave out one of them")
            }
            row.kind = mode & 0o100 != 0 ? .executable : .file
        }
        let blobs = files.blobs.count - row.firstBlob
        if row.size == 0 {
            place.enter("sha256")
            guard row.digest == .ofNothing else {
                throw ManifestError("the file is empty, but this is not the SHA-256 of nothing", "publish it again")
            }
            place.enter("blobs")
            guard blobs == 0 else { throw ManifestError("an empty file has blobs", "leave “blobs” out") }
            return
        }
        guard blobs > 0 else {
            place.leaveMember()
            guard files.texts.count > row.firstText else {
                throw ManifestError("the file has neither blobs nor URLs", "add “blobs” or “urls”")
            }
            return
        }
        try checkBlobs(of: row)
    }

    private mutating func finishLink(_ row: FileTable.Pending, _ seen: FileKeys) throws(ManifestError) {
        for member in [FileKeys.size, .sha256, .executable, .blobs, .urls, .mode] where seen.contains(member) {
            place.enter(member.name)
            throw ManifestError("a link has “\(member.name)”", "leave it out, or leave out “link”")
        }
        place.enter("link")
        guard let target = files.texts.last else { return }
        let directories = try files.arena.withUnsafeBufferPointer { arena throws(ManifestError) in
            try ManifestRules.check(link: target.bytes(in: arena), at: row.path.bytes(in: arena))
        }
        for directory in directories {
            otherBytes += 80 + directory.count
            linkedDirectories.append((files.count, directory))
        }
        try checkMemory()
    }

    mutating func require(_ member: FileKeys, in seen: FileKeys) throws(ManifestError) {
        guard seen.contains(member) else { throw missing(member.name) }
    }

    private mutating func readPath() throws(ManifestError) -> FileTable.Text { try store(try readCheckedPath()) }

    mutating func readCheckedPath() throws(ManifestError) -> UnsafeBufferPointer<UInt8> {
        let path = try reader.string()
        if try !ManifestRules.check(path: path) { hasWidePaths = true }
        return path
    }

    private mutating func readLink() throws(ManifestError) { files.texts.append(try store(try reader.string())) }

    private mutating func readURLs() throws(ManifestError) {
        try reader.beginArray()
        while try reader.nextElement() {
            place.element += 1
            try check(place.element, below: limits.urlsPerFile, "URLs")
            let url = try reader.string()
            try ManifestRules.check(url: url, limit: limits.urlBytes, schemes: limits.schemes)
            files.texts.append(try store(url))
        }
    }

    mutating func readGroup(in table: WritableKeyPath<Self, FileTable>) throws(ManifestError) -> UInt16 {
        let name = try readGroupName()
        guard let number = self[keyPath: table].groupNumber(name), Int(number) < limits.groups else {
            throw ManifestError("more than \(limits.groups) groups", "use fewer")
        }
        return number
    }

    mutating func store(_ text: UnsafeBufferPointer<UInt8>, in table: WritableKeyPath<Self, FileTable> = \.files)
        throws(ManifestError) -> FileTable.Text
    {
        let length = files.arena.count + directories.arena.count + text.count
        guard length < limits.textBytes, let stored = self[keyPath: table].store(text) else {
            throw ManifestError(
                "paths and URLs together have more than \(limits.textBytes) bytes", "split the set, or raise the limit")
        }
        return stored
    }
}

extension FileTable.Text {
    func bytes(in arena: UnsafeBufferPointer<UInt8>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: arena[Int(offset)..<(Int(offset) + Int(length))])
    }
}

/// Named directories, and the traits of entries that are kept besides their content.
extension ManifestAssembly {
    static let directoriesKey = Array("x-directories".utf8)

    /// `[{"path": "logs", "group": "…", "mode": "755", "mtime": "…"}, …]`
    mutating func readDirectories() throws(ManifestError) {
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "x-directories", entry: directories.count)
            try check(files.count + directories.count, below: limits.entries, "entries")
            try readDirectory()
        }
        place = JSONPosition()
    }

    private mutating func readDirectory() throws(ManifestError) {
        var row = FileTable.Pending(firstBlob: 0, firstText: 0)
        row.kind = .directory
        var seen = FileKeys()
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            guard let member = FileKeys(key), [.path, .group, .mode, .mtime].contains(member) else {
                try skipForeign(key, seen: &foreign)
                continue
            }
            place.enter(member.name)
            guard !seen.contains(member) else { throw reader.duplicateKey(key) }
            seen.formUnion(member)
            switch member {
            case .path: row.path = try store(try readCheckedPath(), in: \.directories)
            case .group: row.group = try readGroup(in: \.directories)
            case .mode: row.traits.mode = try readMode()
            default: row.traits.modified = try readTime()
            }
        }
        try require(.path, in: seen)
        place.leaveMember()
        guard directories.append(row) else {
            throw ManifestError("the manifest is too large for this program", "split the set")
        }
        try checkMemory()
    }

    mutating func readMode() throws(ManifestError) -> UInt16 {
        let text = try reader.string()
        if let mode = FileTraits.mode(text) { return mode }
        throw ManifestError(
            "the mode is \(quoted(text))", "write three octal digits, such as 644; set-id bits are never carried")
    }

    mutating func readTime() throws(ManifestError) -> Int64 {
        let text = try reader.string()
        if let time = FileTraits.time(text) { return time }
        throw ManifestError(
            "\(quoted(text)) is not a time that can be kept",
            "write UTC from 1678 to 2261, such as 2026-11-20T02:00:00Z, with at most nine digits of a fraction")
    }
}
