package import SyncModel

/// The text of a JSON object with some members replaced; those that it does not have come first. Everything else stays
/// as it is written, byte for byte.
///
/// - Parameter members: Keys, each with a function that makes its value from the former one.
/// - Throws: ``ManifestError`` if the text is no JSON object, or has one of the keys twice; errors of the functions.
private func replacing(
    _ members: [(key: String, value: (_ former: ArraySlice<UInt8>?) throws(ManifestError) -> [UInt8])], in text: [UInt8]
) throws(ManifestError) -> [UInt8] {
    var (start, isEmpty) = (0, true)
    var found: [(member: Int, range: Range<Int>)] = []
    try text.withUnsafeBufferPointer { bytes throws(ManifestError) in
        var reader = JSONReader(bytes, limits: .standard)
        try reader.beginObject()
        start = reader.position
        while let key = try reader.nextKey() {
            isEmpty = false
            let member = members.firstIndex { key.elementsEqual($0.key.utf8) }
            if let member, found.contains(where: { $0.member == member }) { throw reader.duplicateKey(key) }
            _ = reader.peek()
            let first = reader.position
            try reader.skipValue()
            if let member { found.append((member, first..<reader.position)) }
        }
        try reader.end()
    }
    let missing = members.indices.filter { index in !found.contains { $0.member == index } }
    var made = Array(text[..<start])
    for index in missing {
        made += Array("\"\(members[index].key)\":".utf8) + (try members[index].value(nil))
        if !isEmpty || index != missing.last { made.append(0x2C) }
    }
    var end = start
    for (member, range) in found {
        made += text[end..<range.lowerBound] + (try members[member].value(text[range]))
        end = range.upperBound
    }
    return made + text[end...]
}

/// A manifest's own text with another revision and time, and perhaps another name; everything else stays as it is
/// written, byte for byte.
///
/// - Parameters:
///   - text: A manifest's own text, uncompressed.
///   - project: The project's name; `nil` keeps it.
///   - created: When it is published, RFC 3339.
/// - Throws: ``ManifestError`` if the text is no JSON object.
package func manifestText(_ text: [UInt8], project: String? = nil, revision: UInt64, created: String)
    throws(ManifestError) -> [UInt8]
{
    var members: [(key: String, value: (_ former: ArraySlice<UInt8>?) throws(ManifestError) -> [UInt8])] = [
        ("revision", { _ in Array("\(revision)".utf8) }), ("created", { _ in Array("\"\(created)\"".utf8) }),
    ]
    // No character of a name needs an escape.
    if let project { members.append(("project", { _ in Array("\"\(project)\"".utf8) })) }
    return try replacing(members, in: text)
}

extension SourceOrigin {
    /// Puts the member `source` into the text of a manifest that somebody else made, in place of a former one.
    ///
    /// - Parameter make: Makes the source from the `at` of the former one; `nil` where there is none.
    /// - Throws: ``ManifestError`` if the text is no JSON object, or has two sources.
    package static func put(into text: [UInt8], _ make: (_ at: String?) -> SourceOrigin) throws(ManifestError)
        -> [UInt8]
    {
        try withoutActuallyEscaping(make) { make throws(ManifestError) in
            let value = { (former: ArraySlice<UInt8>?) throws(ManifestError) -> [UInt8] in
                let origin = make(try former.flatMap { former throws(ManifestError) in try state(former) })
                // Only the value of `{"source":{…}}` is needed.
                let made = JSONLine.object { line in line.field(origin) }.bytes
                return Array(made.dropFirst("{\"source\":".utf8.count).dropLast())
            }
            return try replacing([("source", value)], in: text)
        }
    }

    /// The `at` of a JSON value; `nil` if the value is no object, or has none.
    private static func state(_ json: ArraySlice<UInt8>) throws(ManifestError) -> String? {
        try json.withUnsafeBufferPointer { bytes throws(ManifestError) in
            var reader = JSONReader(bytes, limits: .standard)
            guard reader.isAtObject() else { return nil }
            var at: String?
            try reader.beginObject()
            while let key = try reader.nextKey() {
                guard key.elementsEqual("at".utf8) else {
                    try reader.skipValue()
                    continue
                }
                if at != nil { throw reader.duplicateKey(key) }
                at = String(decoding: try reader.string(), as: UTF8.self)
            }
            return at
        }
    }
}
