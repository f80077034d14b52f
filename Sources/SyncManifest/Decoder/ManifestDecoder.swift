import SyncModel

/// Step 1 of ``ManifestAssembly``: reads the document once and checks what each value shows by itself.
struct ManifestDecoder {
    var reader: JSONReader
    let limits: ManifestLimits
    var place = JSONPosition()

    var project: String?
    var revision: UInt64 = 0
    var created: String?
    var packs: [Manifest.Pack] = []
    var groups: [Manifest.Group] = []
    var files = FileTable()
    var directories = FileTable()
    /// Where “mode” or “mtime” was read first.
    var keepsTraits: JSONPosition?
    var chunking: ChunkParameters?
    /// `x-user-data` of the top level.
    var userData: String?
    /// Whether some path has characters outside ASCII, so that normalisation matters.
    var hasWidePaths = false
    /// Directories that must be real ones, by the entry of the link that leads through them.
    var linkedDirectories: [(entry: Int, directory: [UInt8])] = []

    /// The number in `format`.
    var version = 1
    var parts: [Manifest.Part] = []
    /// The first row of each part read so far.
    var partStarts: [Int] = []
    var dictionary: Manifest.SharedDictionary?
    /// Where a blob that needs a dictionary was read first.
    var needsDictionary: (place: JSONPosition, codec: Codec)?
    /// **Bytes** of memory of what is not in ``files``, about.
    var otherBytes = 0

    static let formatName = "syncagent-manifest/"

    init(_ bytes: UnsafeBufferPointer<UInt8>, limits: ManifestLimits) {
        reader = JSONReader(bytes, limits: limits)
        self.limits = limits
    }

    /// Lets go of the text that was read.
    mutating func forgetText() { reader = JSONReader(UnsafeBufferPointer(start: nil, count: 0), limits: limits) }

    /// Reads everything.
    mutating func readDocument() throws(ManifestFault) {
        try checkStart()
        var seen = TopLevelKeys()
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            guard let member = TopLevelKeys(key) else {
                place = JSONPosition()
                try readTopExtension(key, seen: &foreign)
                continue
            }
            place.enter(section: member.name)
            guard seen.insert(member).inserted else { throw reader.duplicateKey(key) }
            try readMember(member)
        }
        place = JSONPosition()
        try reader.end()
        try checkKeys(seen)
        try checkDictionary()
        try checkTraits()
    }

    /// Each version has its own keys; from version 3 on the entries stand in either form.
    private mutating func checkKeys(_ seen: TopLevelKeys) throws(ManifestFault) {
        let isInParts = version == 2 || version >= 3 && seen.contains(.parts)
        let (entries, other) = isInParts ? (TopLevelKeys.parts, TopLevelKeys.files) : (.files, .parts)
        var required: [TopLevelKeys] = [.format, .project, entries]
        if version == 3 { required.append(.dictionary) }
        for member in required where !seen.contains(member) {
            place.enter(section: member.name)
            throw ManifestFault("the key is missing", "add “\(member.name)”")
        }
        guard seen.contains(other) else { return }
        place.enter(section: other.name)
        throw ManifestFault(
            version >= 3 ? "the entries are in “\(entries.name)” as well" : "version \(version) has no “\(other.name)”",
            "put the entries into “\(entries.name)”, or write the other version in “format”")
    }

    /// Gives a fault its JSON path alone: it was found when the text had been read.
    func lateError(_ fault: ManifestFault) -> ManifestError {
        ManifestError(path: place.text, reason: fault.reason, remedy: fault.remedy)
    }

    /// Gives a fault its place.
    func error(_ fault: ManifestFault) -> ManifestError {
        let before = reader.bytes.prefix(reader.position)
        let lineStart = before.lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
        var line = 1
        for byte in before where byte == 0x0A { line += 1 }
        return ManifestError(
            path: place.text, reason: fault.reason, remedy: fault.remedy, offset: reader.position, line: line,
            column: reader.position - lineStart + 1)
    }

    /// Says plainly what was given in place of a manifest, where its first bytes show it.
    private mutating func checkStart() throws(ManifestFault) {
        let bytes = reader.bytes
        let most = min(limits.manifestBytes, limits.ownTextBytes)
        guard bytes.count <= most else {
            throw ManifestFault(
                "the manifest has \(bytes.count) bytes, above the limit of \(most)", ManifestLimits.remedy)
        }
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) {
            throw ManifestFault("the text starts with a byte order mark", "save it as UTF-8 without one")
        }
        if bytes.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) || bytes.starts(with: [0x1F, 0x8B]) {
            throw ManifestFault("this is compressed data, not JSON", "name it with its ending, such as .zst")
        }
        switch reader.peek() {
        case nil: throw ManifestFault("the manifest is empty", "fetch or write it again")
        case 0x3C: throw ManifestFault("this is a web page, not JSON", "check the URL, and whether it requires a login")
        default: break
        }
    }

    private mutating func readMember(_ member: TopLevelKeys) throws(ManifestFault) {
        switch member {
        case .format: try readFormat()
        case .project: project = try NameRules.check(try reader.string(), what: "project")
        case .revision: revision = try reader.integer()
        case .created: created = try NameRules.checkTime(try reader.string())
        case .packs: try readPacks()
        case .files: try readFiles()
        case .parts: try readParts()
        case .dictionary: try readDictionary()
        default: try readGroups()
        }
    }

    private mutating func readFormat() throws(ManifestFault) {
        let name = try reader.string()
        let isOurs = name.starts(with: Self.formatName.utf8)
        if isOurs, let digit = name.last, name.count == Self.formatName.utf8.count + 1, (0x31...0x34).contains(digit) {
            version = Int(digit - 0x30)
            return
        }
        throw ManifestFault(
            "the format is \(quoted(name)), and this program reads “\(Self.formatName)1” to “\(Self.formatName)4”",
            isOurs ? "use a newer syncagent" : "give it a syncagent manifest")
    }

    /// Skips a key that starts with `x-`; refuses any other that is not known.
    mutating func skipForeign(_ key: UnsafeBufferPointer<UInt8>, seen: inout Set<[UInt8]>) throws(ManifestFault) {
        place.enter("")
        place.foreign = Array(key.prefix(400))
        guard key.starts(with: [0x78, 0x2D]) else {
            throw ManifestFault("unknown key \(quoted(key))", "remove it, or start it with “x-”")
        }
        try reader.insert(key, into: &seen)
        try reader.skipValue()
        place.foreign = nil
    }

    /// Reads a SHA-256.
    mutating func readDigest() throws(ManifestFault) -> SHA256Digest {
        let text = try reader.string()
        guard let digest = SHA256Digest(hex: text) else {
            let what = text.count == 64 ? "has a character that is not a hexadecimal digit" : "has \(text.count) bytes"
            throw ManifestFault("the SHA-256 \(what)", "write 64 hexadecimal digits")
        }
        return digest
    }

    /// Counts what the manifest takes so far, and the text that is read, against ``ManifestLimits/memoryBytes``.
    ///
    /// - Parameter more: **Bytes** that are in neither table yet.
    func checkMemory(adding more: Int = 0) throws(ManifestFault) {
        let used = reader.bytes.count + files.memoryBytes + directories.memoryBytes + otherBytes + more
        guard used <= limits.memoryBytes else {
            throw ManifestFault(
                "the manifest takes more than \(limits.memoryBytes >> 20) MiB of memory", ManifestLimits.remedy)
        }
    }

    /// Counts one thing more against a limit.
    func check(_ count: Int, below limit: Int, _ what: String) throws(ManifestFault) {
        guard count < limit else {
            throw ManifestFault("more than \(limit) \(what)", "split the set, or raise the limit")
        }
    }
}

/// The keys of the top level that were seen.
struct TopLevelKeys: OptionSet {
    let rawValue: UInt16

    static let format = TopLevelKeys(rawValue: 1)
    static let project = TopLevelKeys(rawValue: 2)
    static let revision = TopLevelKeys(rawValue: 4)
    static let created = TopLevelKeys(rawValue: 8)
    static let packs = TopLevelKeys(rawValue: 16)
    static let files = TopLevelKeys(rawValue: 32)
    static let groups = TopLevelKeys(rawValue: 64)
    static let parts = TopLevelKeys(rawValue: 128)
    static let dictionary = TopLevelKeys(rawValue: 256)

    private static let spellings: [(key: TopLevelKeys, name: StaticString)] = [
        (.format, "format"), (.project, "project"), (.revision, "revision"), (.created, "created"), (.packs, "packs"),
        (.files, "files"), (.groups, "groups"), (.parts, "parts"), (.dictionary, "dictionary"),
    ]

    init(rawValue: UInt16) { self.rawValue = rawValue }

    init?(_ key: UnsafeBufferPointer<UInt8>) {
        guard let found = Self.spellings.first(where: { equals(key, $0.name) }) else { return nil }
        self = found.key
    }

    /// The spelling of a single key.
    var name: StaticString { Self.spellings.first { $0.key == self }?.name ?? "" }
}

extension ManifestDecoder {
    private static let userDataKey = Array("x-user-data".utf8)
    /// Most **bytes** at the top level and at a group, without white space.
    private static let longest = 64 << 10
    /// Most **bytes** at a file.
    private static let longestOfFile = 4 << 10

    /// Takes `x-user-data` as JSON text on one line, or skips any other key that starts with `x-` and gives `nil`.
    mutating func readUserData(_ key: UnsafeBufferPointer<UInt8>, isOfFile: Bool = false, seen: inout Set<[UInt8]>)
        throws(ManifestFault) -> String?
    {
        let isOurs = key.elementsEqual(Self.userDataKey)
        let start = reader.position
        try skipForeign(key, seen: &seen)
        guard isOurs else { return nil }
        let text = Self.compact(reader.bytes[start..<reader.position])
        let limit = isOfFile ? Self.longestOfFile : Self.longest
        guard text.count <= limit else {
            throw ManifestFault(
                "“x-user-data” has \(text.count) bytes, above the limit of \(limit)",
                "shorten it, or put it elsewhere and give its URL here")
        }
        otherBytes += 80 + text.count
        try checkMemory()
        return String(decoding: text, as: UTF8.self)
    }

    /// A JSON value, which was checked, without the white space between its tokens.
    private static func compact(_ json: Slice<UnsafeBufferPointer<UInt8>>) -> [UInt8] {
        var result: [UInt8] = []
        var (isInString, isEscaped) = (false, false)
        for byte in json {
            if isInString {
                if !isEscaped, byte == 0x22 { isInString = false }
                isEscaped = !isEscaped && byte == 0x5C
            } else if [0x20, 0x09, 0x0A, 0x0D].contains(byte) {
                continue
            } else if byte == 0x22 {
                isInString = true
            }
            result.append(byte)
        }
        return result
    }
}

extension ManifestDecoder {
    mutating func readGroups() throws(ManifestFault) {
        var names: Set<String> = []
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "groups", entry: groups.count)
            try check(groups.count, below: limits.groups, "groups")
            let group = try readGroupEntry()
            guard names.insert(group.name).inserted else {
                place.enter("name")
                throw ManifestFault("the group \(quoted(group.name)) is declared twice", "declare it once")
            }
            groups.append(group)
        }
    }

    private mutating func readGroupEntry() throws(ManifestFault) -> Manifest.Group {
        var name: String?
        var include: [String]?
        var hooks: [String]?
        var userData: String?
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            if equals(key, "name") {
                place.enter("name")
                guard name == nil else { throw reader.duplicateKey(key) }
                name = try readGroupName()
            } else if equals(key, "include") {
                place.enter("include")
                guard include == nil else { throw reader.duplicateKey(key) }
                include = try readPatterns()
            } else if equals(key, "hooks") {
                place.enter("hooks")
                guard hooks == nil else { throw reader.duplicateKey(key) }
                hooks = try readHooks()
            } else {
                if let text = try readUserData(key, seen: &foreign) { userData = text }
            }
        }
        place.leaveMember()
        guard let name else { throw missing("name") }
        return Manifest.Group(name: name, include: include ?? [], hooks: hooks ?? [], userData: userData)
    }

    /// A group's name. `all` is every run's own group.
    mutating func readGroupName() throws(ManifestFault) -> String {
        let name = try NameRules.check(try reader.string(), what: "group name")
        guard name != RunRecipe.groupOfAll else {
            throw ManifestFault("the group name “all” is taken: every run has it", "choose another name")
        }
        return name
    }

    private mutating func readPatterns() throws(ManifestFault) -> [String] {
        var patterns: [String] = []
        try reader.beginArray()
        while try reader.nextElement() {
            place.element += 1
            try check(patterns.count, below: limits.patternsPerGroup, "patterns in one group")
            let pattern = try reader.string()
            otherBytes += 32 + pattern.count
            try checkMemory()
            _ = try PathRules.check(pattern)
            patterns.append(String(decoding: pattern, as: UTF8.self))
        }
        return patterns
    }

    /// Names that the local configuration resolves: never paths, never commands.
    private mutating func readHooks() throws(ManifestFault) -> [String] {
        var hooks: [String] = []
        try reader.beginArray()
        while try reader.nextElement() {
            place.element += 1
            try check(hooks.count, below: limits.patternsPerGroup, "hooks of one group")
            otherBytes += 64
            try checkMemory()
            hooks.append(try NameRules.check(try reader.string(), what: "hook name"))
        }
        return hooks
    }
}
