/// A manifest's own text under another revision and time; everything else stays as it is written, byte for byte.
///
/// - Parameters:
///   - text: A manifest's own text, uncompressed.
///   - created: When it is published, RFC 3339.
/// - Throws: ``ManifestError`` for a text that is no JSON object.
package func manifestText(_ text: [UInt8], revision: UInt64, created: String) throws(ManifestError) -> [UInt8] {
    let members = [("revision", "\(revision)"), ("created", "\"\(created)\"")]
    var places: [(range: Range<Int>, text: String)] = []
    var missing = members
    let start = try text.withUnsafeBufferPointer { bytes throws(ManifestError) -> Int in
        var reader = JSONReader(bytes, limits: .standard)
        try reader.beginObject()
        let start = reader.position
        while let key = try reader.nextKey() {
            let name = String(decoding: key, as: UTF8.self)
            _ = reader.peek()
            let first = reader.position
            try reader.skipValue()
            guard let member = missing.firstIndex(where: { $0.0 == name }) else { continue }
            places.append((first..<reader.position, missing.remove(at: member).1))
        }
        try reader.end()
        return start
    }
    // No manifest is an empty object.
    let added = missing.map { "\"\($0.0)\":\($0.1)," }.joined()
    var made = Array(text[..<start]) + Array(added.utf8)
    var end = start
    for place in places {
        made += text[end..<place.range.lowerBound]
        made += Array(place.text.utf8)
        end = place.range.upperBound
    }
    return made + text[end...]
}
