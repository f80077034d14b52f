package import SyncModel

/// Turns JSON text into a checked ``Manifest``: first the manifest's own text, then the text of each part, in order.
///
/// 1. One pass over the bytes reads every value, checks what one value can show, and fills the table.
/// 2. Rows are put in ``PathOrder``, unless they are in it already.
/// 3. Rules that need the whole are checked: duplicates, directories that are files, blobs against packs.
///
/// A manifest without parts is complete at once. Parts are read one text at a time, and nothing of a text is kept but
/// its rows. Either every rule holds, or the first broken one is thrown. The normative text is `Manifests/FORMAT.md`.
package struct ManifestAssembly {
    var reader: JSONReader
    let limits: ManifestLimits
    var place = JSONPosition()
    let digest: SHA256Digest

    /// The project's name.
    package private(set) var project = ""
    package private(set) var revision: UInt64 = 0
    package private(set) var created: String?
    package internal(set) var packs: [Manifest.Pack] = []
    var groups: [Manifest.Group] = []
    var files = FileTable()
    var directories = FileTable()
    var chunking: ChunkParameters?
    /// `x-user-data` of the top level.
    var userData: String?
    /// The source that the manifest was derived from.
    var source: SourceOrigin?
    /// Whether some path has characters outside ASCII, so that normalisation matters.
    var hasWidePaths = false
    /// Directories that must be real ones, by the entry of the link that leads through them.
    var linkedDirectories: [(entry: Int, directory: [UInt8])] = []

    /// **Bytes** of the manifest's own text.
    let ownBytes: Int
    /// The parts to add, in this order; none when the manifest is one text.
    package internal(set) var parts: [Manifest.Part] = []
    /// Whether some parts were left out, so that rules about the whole cannot be checked.
    var isNarrowed = false
    /// The first row of each part read so far.
    var partStarts: [Int] = []
    /// The entry of each row; `nil` when they stand in the order of the document.
    var order: [UInt32]?
    /// The numbers of the packs that parts name by their digests.
    private var packNumbers: [SHA256Digest: UInt32] = [:]
    /// The dictionary for blobs whose codec needs one.
    package internal(set) var dictionary: Manifest.OwnBlob?
    /// The place and the codec of the first blob that needs a dictionary.
    var needsDictionary: (place: JSONPosition, codec: Codec)?
    /// Approximate **bytes** of memory outside ``files`` and ``directories``.
    var otherBytes = 0

    private static let format: StaticString = "syncagent-manifest/1"

    /// Reads the manifest's own text, uncompressed; `digest` is its SHA-256.
    package init(_ bytes: UnsafeRawBufferPointer, digest: SHA256Digest, limits: ManifestLimits = .standard)
        throws(ManifestError)
    {
        (self.digest, self.limits, ownBytes) = (digest, limits, bytes.count)
        reader = JSONReader(bytes.assumingMemoryBound(to: UInt8.self), limits: limits)
        do throws(ManifestError) { try readDocument() } catch { throw placed(error) }
        if !parts.isEmpty {
            do throws(ManifestError) { try checkParts() } catch { throw error.placed(place.text) }
            try Self.checkPacks(packs)
            packNumbers.reserveCapacity(packs.count)
            for (index, pack) in packs.enumerated() { packNumbers[pack.sha256] = UInt32(truncatingIfNeeded: index) }
        }
        forgetText()
    }

    /// Reads the manifest's own text from an array.
    package init(_ text: [UInt8], digest: SHA256Digest, limits: ManifestLimits = .standard) throws(ManifestError) {
        self = try text.withUnsafeBufferPointer { bytes throws(ManifestError) in
            try ManifestAssembly(UnsafeRawBufferPointer(bytes), digest: digest, limits: limits)
        }
    }

    /// Whether files are fetched one by one, and no pack is named.
    package var isLoose: Bool { packs.isEmpty && files.indices.contains { !files.urls($0).isEmpty } }

    /// The pack with a part's text, with one of its former texts, or with the dictionary.
    package func pack(of own: Manifest.OwnBlob) -> Manifest.Pack { packs[Int(own.blob.pack)] }

    /// Reads the text of the next part, uncompressed; the caller has checked its SHA-256. The JSON path of an error
    /// begins with the part, its line and column count in the part's text.
    package mutating func add(_ bytes: UnsafeRawBufferPointer) throws(ManifestError) {
        guard partStarts.count < parts.count else {
            throw ManifestError(at: "$.parts", "one part too many", "report this as a bug")
        }
        if partStarts.isEmpty { try prepareParts() }
        let first = (blob: files.blobs.count, delta: files.deltaColumn.all.count)
        let numbers: [UInt32]
        do throws(ManifestError) {
            numbers = try readPart(bytes.assumingMemoryBound(to: UInt8.self), packNumbers)
        } catch { throw placed(error) }
        do throws(ManifestError) { try renumberPacks(numbers, from: first) } catch { throw error.placed(place.text) }
        forgetText()
    }

    /// Drops the text that was read.
    private mutating func forgetText() {
        reader = JSONReader(UnsafeBufferPointer(start: nil, count: 0), limits: limits)
    }

    /// Reads the manifest's own text.
    private mutating func readDocument() throws(ManifestError) {
        try checkStart()
        var seen: Set<String> = []
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            guard let member = Self.keys.first(where: { equals(key, $0) }) else {
                place = JSONPosition()
                try readTopExtension(key, seen: &foreign)
                continue
            }
            place.enter(section: member)
            guard seen.insert("\(member)").inserted else { throw reader.duplicateKey(key) }
            try readMember("\(member)")
        }
        place = JSONPosition()
        try reader.end()
        let required: [StaticString] = ["format", "project", seen.contains("parts") ? "parts" : "files"]
        if let key = required.first(where: { !seen.contains("\($0)") }) { throw missing(key) }
        if seen.contains("parts"), seen.contains("files") {
            place.enter(section: "files")
            throw ManifestError("the entries are in “parts” as well", "put the entries into one of them")
        }
        try checkDictionary()
    }

    /// The keys of the top level.
    private static let keys: [StaticString] = [
        "format", "project", "revision", "created", "packs", "files", "groups", "parts", "dictionary", "source",
    ]

    /// A fault with its place in the text.
    private func placed(_ fault: ManifestError) -> ManifestError {
        let before = reader.bytes.prefix(reader.position)
        let lineStart = before.lastIndex(of: 0x0A).map { $0 + 1 } ?? 0
        var line = 1
        for byte in before where byte == 0x0A { line += 1 }
        return fault.placed(
            place.text, offset: reader.position, line: line, column: reader.position - lineStart + 1)
    }

    /// Refuses bytes that are clearly no manifest, and names their format if the first bytes show it.
    private mutating func checkStart() throws(ManifestError) {
        let bytes = reader.bytes
        let most = min(limits.manifestBytes, limits.ownTextBytes)
        guard bytes.count <= most else {
            throw ManifestError(
                "the manifest has \(bytes.count) bytes, above the limit of \(most)", limits.remedy)
        }
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) {
            throw ManifestError("the text starts with a byte order mark", "save it as UTF-8 without one")
        }
        if bytes.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) || bytes.starts(with: [0x1F, 0x8B]) {
            throw ManifestError("this is compressed data, not JSON", "name it with its ending, such as .zst")
        }
        switch reader.peek() {
        case nil: throw ManifestError("the manifest is empty", "fetch or write it again")
        case 0x3C: throw ManifestError("this is a web page, not JSON", "check the URL, and whether it requires a login")
        default: break
        }
    }

    private mutating func readMember(_ key: String) throws(ManifestError) {
        switch key {
        case "format": try readFormat()
        case "project": project = try ManifestRules.check(identifier: try reader.string(), what: "project")
        case "revision": revision = try reader.integer()
        case "created": created = try ManifestRules.check(time: try reader.string())
        case "packs": try readPacks()
        case "files": try readFiles()
        case "parts": try readParts()
        case "dictionary": try readDictionary()
        case "source": try readSource()
        default: try readGroups()
        }
    }

    /// `{"kind": "hf", "url": "hf://…", "at": "…"}`
    private mutating func readSource() throws(ManifestError) {
        var texts: [String: String] = [:]
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            let name = String(decoding: key, as: UTF8.self)
            guard ["kind", "url", "at"].contains(name) else {
                try skipForeign(key, seen: &foreign)
                continue
            }
            place.foreign = nil
            guard texts[name] == nil else { throw reader.duplicateKey(key) }
            let text = String(decoding: try reader.string(), as: UTF8.self)
            guard !text.isEmpty, text.utf8.count <= limits.urlBytes,
                !text.unicodeScalars.contains(where: isUnsafeOnTerminal)
            else {
                throw ManifestError(
                    "“\(name)” of the source is empty, too long, or has control characters", "correct it")
            }
            texts[name] = text
        }
        guard let kind = texts["kind"], let url = texts["url"], let at = texts["at"] else {
            throw ManifestError("the source lacks “kind”, “url” or “at”", "write all three, or leave out “source”")
        }
        source = SourceOrigin(kind: kind, url: url, at: at)
    }

    private mutating func readFormat() throws(ManifestError) {
        let name = try reader.string()
        guard !equals(name, Self.format) else { return }
        throw ManifestError(
            "the format is \(quoted(name)), and this program reads “\(Self.format)”",
            name.starts(with: "syncagent-manifest/".utf8) ? "use a newer syncagent" : "give it a syncagent manifest")
    }

    /// Skips a key that starts with `x-`; refuses any other that is not known.
    mutating func skipForeign(_ key: UnsafeBufferPointer<UInt8>, seen: inout Set<[UInt8]>) throws(ManifestError) {
        place.enter("")
        place.foreign = Array(key.prefix(400))
        guard key.starts(with: [0x78, 0x2D]) else {
            throw ManifestError("unknown key \(quoted(key))", "remove it, or start it with “x-”")
        }
        try reader.insert(key, into: &seen)
        try reader.skipValue()
        place.foreign = nil
    }

    /// Reads a SHA-256.
    mutating func readDigest() throws(ManifestError) -> SHA256Digest {
        let text = try reader.string()
        guard let digest = SHA256Digest(hex: text) else {
            let what = text.count == 64 ? "has a character that is not a hexadecimal digit" : "has \(text.count) bytes"
            throw ManifestError("the SHA-256 \(what)", "write 64 hexadecimal digits")
        }
        return digest
    }

    /// Checks the memory that the manifest takes so far, with the text that is read, against
    /// ``ManifestLimits/memoryBytes``.
    ///
    /// - Parameter more: **Bytes** that are in neither table yet.
    func checkMemory(adding more: Int = 0) throws(ManifestError) {
        let used = reader.bytes.count + files.memoryBytes + directories.memoryBytes + otherBytes + more
        guard used <= limits.memoryBytes else {
            throw ManifestError(
                "the manifest takes more than \(limits.memoryBytes >> 20) MiB of memory", limits.remedy)
        }
    }

    /// Checks one thing more against a limit.
    func check(_ count: Int, below limit: Int, _ what: String) throws(ManifestError) {
        guard count < limit else {
            throw ManifestError("more than \(limit) \(what)", "split the set, or raise the limit")
        }
    }
}

extension ManifestAssembly {
    private static let userDataKey = Array("x-user-data".utf8)
    /// Most **bytes** of user data at the top level and at a group, without white space.
    private static let longest = 64 << 10
    /// Most **bytes** of user data at a file.
    private static let longestOfFile = 4 << 10

    /// Reads `x-user-data` as JSON text on one line, or skips any other key that starts with `x-` and returns `nil`.
    mutating func readUserData(_ key: UnsafeBufferPointer<UInt8>, isOfFile: Bool = false, seen: inout Set<[UInt8]>)
        throws(ManifestError) -> String?
    {
        let isOurs = key.elementsEqual(Self.userDataKey)
        let start = reader.position
        try skipForeign(key, seen: &seen)
        guard isOurs else { return nil }
        let text = Self.compact(reader.bytes[start..<reader.position])
        let limit = isOfFile ? Self.longestOfFile : Self.longest
        guard text.count <= limit else {
            throw ManifestError(
                "“x-user-data” has \(text.count) bytes, above the limit of \(limit)",
                "shorten it, or put it elsewhere and give its URL here")
        }
        otherBytes += 80 + text.count
        try checkMemory()
        return String(decoding: text, as: UTF8.self)
    }

    /// A JSON value, which was checked already, without the white space between its tokens.
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

extension ManifestAssembly {
    mutating func readGroups() throws(ManifestError) {
        var names: Set<String> = []
        try reader.beginArray()
        while try reader.nextElement() {
            place.enter(section: "groups", entry: groups.count)
            try check(groups.count, below: limits.groups, "groups")
            let group = try readGroupEntry()
            guard names.insert(group.name).inserted else {
                place.enter("name")
                throw ManifestError("the group \(quoted(group.name)) is declared twice", "declare it once")
            }
            groups.append(group)
        }
    }

    private mutating func readGroupEntry() throws(ManifestError) -> Manifest.Group {
        var name: String?
        var include: [String]?
        var hooks: [String]?
        var userData: String?
        var foreign: Set<[UInt8]> = []
        try reader.beginObject()
        while let key = try reader.nextKey() {
            if equals(key, "name") {
                try enter("name", isFirst: name == nil)
                name = try readGroupName()
            } else if equals(key, "include") {
                try enter("include", isFirst: include == nil)
                include = try readPatterns()
            } else if equals(key, "hooks") {
                try enter("hooks", isFirst: hooks == nil)
                hooks = try readHooks()
            } else if let text = try readUserData(key, seen: &foreign) {
                userData = text
            }
        }
        place.leaveMember()
        guard let name else { throw missing("name") }
        return Manifest.Group(name: name, include: include ?? [], hooks: hooks ?? [], userData: userData)
    }

    /// Reads a group's name. `all` is taken, as the group that every run has.
    mutating func readGroupName() throws(ManifestError) -> String {
        let name = try ManifestRules.check(identifier: try reader.string(), what: "group name")
        guard name != RunRecipe.groupOfAll else {
            throw ManifestError("the group name “all” is taken: every run has it", "choose another name")
        }
        return name
    }

    private mutating func readPatterns() throws(ManifestError) -> [String] {
        try readTexts(most: limits.patternsPerGroup, "patterns in one group") {
            (decoder: inout Self) throws(ManifestError) in
            let pattern = try decoder.reader.string()
            decoder.otherBytes += 32 + pattern.count
            try decoder.checkMemory()
            _ = try ManifestRules.check(path: pattern)
            return String(decoding: pattern, as: UTF8.self)
        }
    }

    /// Reads names of hooks, which the local configuration resolves: never paths, never commands.
    private mutating func readHooks() throws(ManifestError) -> [String] {
        try readTexts(most: limits.patternsPerGroup, "hooks of one group") {
            (decoder: inout Self) throws(ManifestError) in
            decoder.otherBytes += 64
            try decoder.checkMemory()
            return try ManifestRules.check(identifier: try decoder.reader.string(), what: "hook name")
        }
    }

    /// Reads a member that is a list of texts.
    mutating func readTexts(
        most: Int, _ what: String, _ read: (inout Self) throws(ManifestError) -> String
    ) throws(ManifestError) -> [String] {
        var texts: [String] = []
        try reader.beginArray()
        while try reader.nextElement() {
            place.element += 1
            try check(texts.count, below: most, what)
            texts.append(try read(&self))
        }
        return texts
    }
}
