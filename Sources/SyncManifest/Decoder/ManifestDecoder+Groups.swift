import SyncModel

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
        guard name != Manifest.groupOfAll else {
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

    /// Names that the local configuration resolves: never paths, never commands (V55, V62).
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
