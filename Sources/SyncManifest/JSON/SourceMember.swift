package import SyncModel

extension SourceOrigin {
    /// Puts the member `source` into the text of a manifest that somebody else made, in the place of what stands there.
    ///
    /// - Parameter make: Makes it of `at` of the one that stands there; `nil` where there is none.
    /// - Throws: ``ManifestError`` for what is no JSON object, or has two.
    package static func put(into text: [UInt8], _ make: (_ at: String?) -> SourceOrigin) throws(ManifestError)
        -> [UInt8]
    {
        let found = try text.withUnsafeBufferPointer { bytes throws(ManifestError) in
            var reader = JSONReader(bytes, limits: .standard)
            return try member(&reader)
        }
        let origin = make(found.at)
        let line = JSONLine.object { line in line.field(origin) }
        // `{"source":{…}}`, of which what stands between the outer braces is wanted.
        let made = line.bytes.dropFirst().dropLast()
        if let value = found.value {
            let key = Array("\"source\":".utf8)
            return Array(text[..<value.lowerBound]) + made.dropFirst(key.count) + text[value.upperBound...]
        }
        return Array(text[..<found.first]) + made + (found.isEmpty ? [] : [0x2C]) + text[found.first...]
    }

    /// Where the member is in the text, and what it says.
    private static func member(_ reader: inout JSONReader) throws(ManifestError) -> (
        first: Int, isEmpty: Bool, value: Range<Int>?, at: String?
    ) {
        try reader.beginObject()
        let first = reader.position
        var isEmpty = true
        var value: Range<Int>?
        var at: String?
        while let key = try reader.nextKey() {
            isEmpty = false
            let isSource = key.elementsEqual("source".utf8)
            if isSource, value != nil { throw reader.duplicateKey(key) }
            let start = reader.position
            if isSource, reader.isAtObject() { at = try state(&reader) } else { try reader.skipValue() }
            if isSource { value = start..<reader.position }
        }
        try reader.end()
        return (first, isEmpty, value, at)
    }

    /// `at` of what may lack the rest.
    private static func state(_ reader: inout JSONReader) throws(ManifestError) -> String? {
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
