import SyncModel

/// Directories that are named themselves, and what is kept of entries besides their content: version 4 of the format.
extension ManifestDecoder {
    static let directoriesKey = Array("x-directories".utf8)

    /// `[{"path": "logs", "group": "…", "mode": "755", "mtime": "…"}, …]`
    mutating func readDirectories() throws(ManifestFault) {
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "x-directories", entry: directories.count)
            try check(files.count + directories.count, below: limits.entries, "entries")
            try readDirectory()
        }
        place = Place()
    }

    private mutating func readDirectory() throws(ManifestFault) {
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
            throw ManifestFault("the manifest is too large for this program", "split the set")
        }
        try checkMemory()
    }

    mutating func readMode() throws(ManifestFault) -> UInt16 {
        keepsTraits = keepsTraits ?? place
        let text = try reader.string()
        if let mode = FileTraits.mode(text) { return mode }
        throw ManifestFault(
            "the mode is \(quoted(text))",
            "write three octal digits, such as 644; set-id bits are never carried"
        )
    }

    mutating func readTime() throws(ManifestFault) -> Int64 {
        keepsTraits = keepsTraits ?? place
        let text = try reader.string()
        if let time = FileTraits.time(text) { return time }
        throw ManifestFault(
            "\(quoted(text)) is not a time that can be kept",
            "write UTC from 1678 to 2261, such as 2026-11-20T02:00:00Z, with at most nine digits of a fraction"
        )
    }

    /// An older reader refuses the number instead of giving files other modes than their publisher wished.
    mutating func checkTraits() throws(ManifestFault) {
        guard version < 4, let keepsTraits else { return }
        place = keepsTraits
        throw ManifestFault(
            "version \(version) has no “mode” and no “mtime”",
            "write “\(Self.formatName)4” in “format”"
        )
    }
}
