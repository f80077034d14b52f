/// The name of a channel, which points at a release: `stable` or `beta`.
package enum ChannelName {
    /// Represents the channel without a name, `manifest.json` and `trust/fresh`.
    package static let ofDefault = "default"

    /// The channel that a text denotes; `nil` for the default one.
    package static func meant(_ text: String?) -> String? { text == ofDefault ? nil : text }

    /// Why a name is invalid; `nil` if it is valid. It is part of file names and URLs, and must not look like a
    /// revision number.
    package static func objection(_ text: String) -> String? {
        func isLetter(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) }
        func isOther(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) || byte == 0x2D || byte == 0x5F }
        guard let first = text.utf8.first, isLetter(first), text.utf8.count <= 64,
            text.utf8.allSatisfy({ isLetter($0) || isOther($0) })
        else {
            return
                "“\(escaped(text))” is not a channel name: 1 to 64 of a to z, 0 to 9, - and _, beginning with a letter"
        }
        return text == ofDefault ? "“\(ofDefault)” stands for the channel without a name" : nil
    }
}
