import SyncManifest
import SyncModel

/// Reads the JSON of a statement, as strictly as that of a manifest: every key once, and no unknown key unless it
/// begins with `x-`.
struct StatementReader {
    private var reader: JSONReader
    private var seen: Set<String> = []

    /// Reads an object from end to end.
    ///
    /// - Parameters:
    ///   - format: The required value of the member `format`.
    ///   - required: Other keys that are required.
    ///   - member: Reads the value of a key; `false` for an unknown key.
    static func read(
        _ json: [UInt8], format: String, required: [String],
        _ member: (String, inout StatementReader) throws(TrustFault) -> Bool
    ) throws(TrustFault) {
        try json.withUnsafeBufferPointer { bytes throws(TrustFault) in
            var limits = ManifestLimits.standard
            limits.depth = 8
            var reader = StatementReader(reader: JSONReader(bytes, limits: limits))
            try reader.object(required: ["format"] + required) { key, reader throws(TrustFault) in
                guard key == "format" else { return try member(key, &reader) }
                let found = try reader.string()
                guard found == format else { throw TrustFault("it is a \(quoted(found)), not a \(format)") }
                return true
            }
            try reader.call { reader throws(ManifestError) in try reader.end() }
        }
    }

    mutating func object(required: [String], _ member: (String, inout StatementReader) throws(TrustFault) -> Bool)
        throws(TrustFault)
    {
        let outer = seen
        seen = []
        try call { reader throws(ManifestError) in try reader.beginObject() }
        while let key = try key() {
            guard seen.insert(key).inserted else { throw TrustFault("the key \(quoted(key)) appears twice") }
            if try member(key, &self) { continue }
            guard key.hasPrefix("x-") else {
                throw TrustFault("the key \(quoted(key)) is not known; a newer syncagent may know it")
            }
            try call { reader throws(ManifestError) in try reader.skipValue() }
        }
        if let missing = required.first(where: { !seen.contains($0) }) {
            throw TrustFault("the key \(quoted(missing)) is missing")
        }
        seen = outer
    }

    private mutating func key() throws(TrustFault) -> String? {
        try call { reader throws(ManifestError) in try reader.nextKey().map { String(decoding: $0, as: UTF8.self) } }
    }

    mutating func string() throws(TrustFault) -> String {
        try call { reader throws(ManifestError) in String(decoding: try reader.string(), as: UTF8.self) }
    }

    mutating func integer() throws(TrustFault) -> UInt64 {
        try call { reader throws(ManifestError) in try reader.integer() }
    }

    mutating func bool() throws(TrustFault) -> Bool { try call { reader throws(ManifestError) in try reader.bool() } }

    /// A number from 1 to 2⁶³ − 1.
    mutating func number(_ key: String) throws(TrustFault) -> UInt64 {
        let value = try integer()
        guard value > 0 else { throw TrustFault("\(quoted(key)) is 0; it counts from 1") }
        return value
    }

    mutating func array<E>(most: Int, _ element: (inout StatementReader) throws(TrustFault) -> E) throws(TrustFault)
        -> [E]
    {
        try call { reader throws(ManifestError) in try reader.beginArray() }
        var elements: [E] = []
        while try call({ reader throws(ManifestError) in try reader.nextElement() }) {
            guard elements.count < most else { throw TrustFault("a list with more than \(most) elements") }
            elements.append(try element(&self))
        }
        return elements
    }

    /// **Milliseconds** since 1970.
    mutating func time() throws(TrustFault) -> Int64 {
        let text = try string()
        guard let time = parseTimestamp(utc: text) else {
            throw TrustFault("\(quoted(text)) is not a time such as 2026-11-20T02:00:00Z")
        }
        return time
    }

    mutating func project() throws(TrustFault) -> String {
        let text = try string()
        if let reason = ManifestRules.objection(identifier: text, what: "project") { throw TrustFault(reason) }
        return text
    }

    mutating func channel() throws(TrustFault) -> String {
        let text = try string()
        if let reason = ChannelName.objection(text) { throw TrustFault(reason) }
        return text
    }

    mutating func digest() throws(TrustFault) -> SHA256Digest {
        let text = try string()
        guard let digest = SHA256Digest(hex: text) else {
            throw TrustFault("\(quoted(text)) is not a SHA-256 of 64 hexadecimal digits")
        }
        return digest
    }

    private mutating func call<R>(_ read: (inout JSONReader) throws(ManifestError) -> R) throws(TrustFault) -> R {
        do throws(ManifestError) { return try read(&reader) } catch { throw TrustFault(error.reason) }
    }
}

/// The JSON text of a statement, with a newline at its end.
func statementText(_ format: String, of project: String, _ members: (inout JSONLine) -> Void) -> [UInt8] {
    JSONLine.object { line in
        line.field("format", format)
        line.field("project", project)
        members(&line)
    }.bytes + [0x0A]
}
