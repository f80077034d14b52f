import SyncModel
import SyncTransfer

/// One object of a configuration file: every key in it must be known, every value of the kind that the key needs.
package struct StrictObject {
    /// The path of the object, such as `proxy`; empty for the root of the file.
    let path: String
    private let members: [String: ConfigurationNode]
    /// The name of the file, for messages.
    let shown: String

    /// Reads the text of a file: JSON5, one object.
    ///
    /// - Parameter shown: The file's name for messages.
    /// - Throws: ``SettingsError`` for anything but an object, and for a key that is not in `keys`.
    package init(text: [UInt8], keys: [String], shown: String) throws(SettingsError) {
        let node = try rethrowing(ConfigurationNode.read(text)) { (error: SettingsError) in
            SettingsError("\(shown):\(error.description)")
        }
        try self.init(node, path: "", keys: keys, shown: shown)
    }

    init(_ node: ConfigurationNode, path: String, keys: [String], shown: String) throws(SettingsError) {
        (self.path, self.shown) = (path, shown)
        guard case .object(let members) = node.value else {
            throw Self.fault(shown, node.line, path, "\(node.kind) was found; an object { … } is expected")
        }
        var known: [String: ConfigurationNode] = [:]
        for member in members {
            guard keys.contains(member.key) else {
                let hint = nearest(member.key, in: keys).map { "did you mean “\($0)”?" }
                throw Self.fault(
                    shown, member.line, Self.join(path, member.key),
                    "no such key; " + (hint ?? "the keys are \(keys.joined(separator: ", "))"))
            }
            known[member.key] = member.node
        }
        self.members = known
    }

    private static func join(_ path: String, _ key: String) -> String {
        let shown = key.unicodeScalars.count > 64 ? escaped(String(key.prefix(64))) + "…" : escaped(key)
        return path.isEmpty ? shown : "\(path).\(shown)"
    }

    private static func fault(_ shown: String, _ line: Int, _ path: String, _ detail: String) -> SettingsError {
        SettingsError("\(shown):\(line): \(path.isEmpty ? "" : path + ": ")\(detail)")
    }

    /// The error for a value.
    package func fault(_ node: ConfigurationNode, _ key: String, _ detail: String) -> SettingsError {
        Self.fault(shown, node.line, Self.join(path, key), detail)
    }

    /// Reads a value by a rule that is used elsewhere, too; errors get the place of the value.
    func reading<R>(_ node: ConfigurationNode, _ key: String, _ read: @autoclosure () throws(SettingsError) -> R)
        throws(SettingsError) -> R
    { try rethrowing(read()) { (error: SettingsError) in fault(node, key, error.description) } }

    private func wants(_ wish: String, _ node: ConfigurationNode, _ key: String) -> SettingsError {
        fault(node, key, "\(node.kind) was found; \(wish) is expected")
    }

    /// The value of a key; `null` is a value, and refused like any wrong kind.
    package func node(_ key: String) -> ConfigurationNode? { members[key] }

    func object(_ key: String, keys: [String]) throws(SettingsError) -> StrictObject? {
        guard let node = members[key] else { return nil }
        return try StrictObject(node, path: Self.join(path, key), keys: keys, shown: shown)
    }

    /// The elements of a list; none when the key is not there.
    func list(_ key: String) throws(SettingsError) -> [ConfigurationNode] {
        guard let node = members[key] else { return [] }
        guard case .list(let list) = node.value else { throw wants("a list of objects { … }", node, key) }
        return list
    }

    /// One element of a list, which must be an object.
    package func element(_ node: ConfigurationNode, _ key: String, keys: [String]) throws(SettingsError) -> StrictObject
    {
        try StrictObject(node, path: Self.join(path, key), keys: keys, shown: shown)
    }

    /// An object whose keys are names that the user chooses.
    package func named(_ key: String) throws(SettingsError) -> [(name: String, line: Int, node: ConfigurationNode)] {
        guard let node = members[key] else { return [] }
        guard case .object(let members) = node.value else { throw wants("an object { … }", node, key) }
        return members.map { ($0.key, $0.line, $0.node) }
    }

    /// The object under a key whose members have names that the user chooses; this object if there is no such key.
    package func inner(_ key: String) throws(SettingsError) -> StrictObject {
        guard let node = members[key] else { return self }
        let names = try named(key).map(\.name)
        return try StrictObject(node, path: Self.join(path, key), keys: names, shown: shown)
    }

    /// `true` or `false`.
    package func flag(_ key: String) throws(SettingsError) -> Bool? {
        guard let node = members[key] else { return nil }
        guard case .boolean(let value) = node.value else { throw wants("true or false", node, key) }
        return value
    }

    package func integer(_ key: String, in range: ClosedRange<Int>) throws(SettingsError) -> Int? {
        guard let node = members[key] else { return nil }
        guard case .integer(let value) = node.value, let number = Int(exactly: value), range.contains(number) else {
            throw wants("a whole number from \(range.lowerBound) to \(range.upperBound)", node, key)
        }
        return number
    }

    /// - Parameter wish: The kind of text that is expected, for messages.
    package func text(_ key: String, _ wish: String) throws(SettingsError) -> String? {
        guard let node = members[key] else { return nil }
        guard case .text(let text) = node.value, !text.isEmpty else { throw wants(wish, node, key) }
        return text
    }

    package func texts(_ key: String, _ wish: String) throws(SettingsError) -> [(text: String, place: Element)]? {
        guard let node = members[key] else { return nil }
        guard case .list(let list) = node.value else { throw wants("a list of \(wish)", node, key) }
        var texts: [(text: String, place: Element)] = []
        for (index, element) in list.enumerated() {
            let place = Element(node: element, key: "\(key)[\(index)]", object: self)
            guard case .text(let text) = element.value, !text.isEmpty else {
                throw wants("one of \(wish)", element, place.key)
            }
            texts.append((text, place))
        }
        return texts
    }

    /// A list of strings, which may be empty; an empty list when the key is not there.
    func anyTexts(_ key: String) throws(SettingsError) -> [String] {
        guard let node = members[key] else { return [] }
        guard case .list(let list) = node.value else { throw wants("a list of strings", node, key) }
        var texts: [String] = []
        for (index, element) in list.enumerated() {
            guard case .text(let text) = element.value, !text.contains("\0") else {
                throw wants("a string", element, "\(key)[\(index)]")
            }
            texts.append(text)
        }
        return texts
    }

    /// One element of a list, for errors.
    package struct Element {
        let node: ConfigurationNode
        let key: String
        let object: StrictObject

        package func fault(_ detail: String) -> SettingsError { object.fault(node, key, detail) }

        package func reading<R>(_ read: @autoclosure () throws(SettingsError) -> R) throws(SettingsError) -> R {
            try object.reading(node, key, read())
        }
    }

    /// One of the words of an enumeration; a number such as `1.3` counts as its text.
    package func word<Words: RawRepresentable & CaseIterable>(_ key: String, _: Words.Type = Words.self)
        throws(SettingsError)
        -> Words? where Words.RawValue == String
    {
        guard let node = members[key] else { return nil }
        let text: String? =
            switch node.value {
            case .text(let text): text
            case .number(let number): "\(number)"
            default: nil
            }
        guard let text, let word = Words(rawValue: text) else {
            let words = Words.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: " or ")
            throw wants(words, node, key)
        }
        return word
    }

    /// A number of seconds, or a text such as `15m`.
    func duration(_ key: String) throws(SettingsError) -> Duration? {
        guard let node = members[key] else { return nil }
        switch node.value {
        case .integer(let seconds) where SettingValue.seconds.contains(seconds): return .seconds(seconds)
        case .text(let text): return try reading(node, key, SettingValue.duration(text))
        default: throw wants("a time such as \"90s\", \"15m\" or \"6h\"", node, key)
        }
    }

    /// A number of **bytes**, or a text such as `10MB`.
    package func byteCount(_ key: String, mayBeZero: Bool = false) throws(SettingsError) -> UInt64? {
        guard let node = members[key] else { return nil }
        switch node.value {
        case .integer(let bytes) where bytes > 0 || mayBeZero && bytes == 0: return UInt64(bytes)
        case .text(let text):
            if let count = ByteCount(parsing: text), count.bytes > 0 || mayBeZero { return count.bytes }
            throw fault(node, key, "'\(escaped(text))' is not a number of bytes such as \"500K\" or \"10MB\"")
        default: throw wants("a number of bytes such as \"500K\" or \"10MB\"", node, key)
        }
    }

    func path(_ key: String, _ base: PathBase) throws(SettingsError) -> String? {
        guard let text = try text(key, "the path of a file"), let node = members[key] else { return nil }
        return try reading(node, key, base.absolute(text))
    }

    /// `"all"`, or a list of hosts.
    func exemption(_ key: String) throws(SettingsError) -> HostExemption {
        guard let node = members[key] else { return .none }
        switch node.value {
        case .text("all"): return .all
        case .list: break
        default: throw wants("a list of host names, or \"all\"", node, key)
        }
        var hosts: Set<String> = []
        for (text, place) in try texts(key, "host names") ?? [] {
            hosts.insert(try place.reading(SettingValue.host(text)))
        }
        return .hosts(hosts)
    }
}
