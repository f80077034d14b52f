import SyncModel

/// The reader's place in the document, as a JSON path (RFC 9535) that costs nothing until it is printed.
struct JSONPosition {
    /// The part whose text is read, or -1 for the manifest's own.
    var document = -1
    /// A key of the top level.
    var section: StaticString = ""
    /// The index in that section, or -1.
    var entry = -1
    /// A key of that entry.
    var member: StaticString = ""
    /// The index in that member, or -1.
    var element = -1
    /// The index in that element, or -1.
    var part = -1
    /// A key that the format does not define.
    var foreign: [UInt8]?

    /// `$.files[17].blobs[0][2]`, in a part `$.parts[3].files[17].blobs[0][2]`
    var text: String {
        var result = document >= 0 ? "$.parts[\(document)]" : "$"
        if section.utf8CodeUnitCount > 0 { result += ".\(section)" }
        if entry >= 0 { result += "[\(entry)]" }
        if member.utf8CodeUnitCount > 0 { result += ".\(member)" }
        if element >= 0 { result += "[\(element)]" }
        if part >= 0 { result += "[\(part)]" }
        if let foreign { result += "[\(Self.quotedKey(foreign))]" }
        return result
    }

    /// A key as RFC 9535 writes it in brackets, fit for a message: escaped, cut after 60 characters.
    private static func quotedKey(_ key: [UInt8]) -> String {
        var json = JSONLine()
        let head = String(decoding: key, as: UTF8.self).unicodeScalars.prefix(60)
        json.value(escaped(String(String.UnicodeScalarView(head))))
        return json.text
    }

    /// Goes to the top of the same text.
    mutating func leaveSection() { enter(section: "") }

    /// Goes to a key of the same entry.
    @inline(__always) mutating func enter(_ member: StaticString) {
        self.member = member
        element = -1
        part = -1
        foreign = nil
    }

    /// Goes back to the entry itself.
    mutating func leaveMember() { enter("") }

    /// Goes to a key of the top level, or to one of its entries.
    mutating func enter(section: StaticString, entry: Int = -1) {
        (self.section, self.entry) = (section, entry)
        enter("")
    }
}
