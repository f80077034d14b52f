/// How long to wait for servers that give nothing of what they are asked for: dead, silent, out of order, or with a
/// log-in page before them. A wait that a server asks for itself does not count.
package struct Patience: Sendable, Equatable {
    /// While nothing has answered yet.
    package var firstContact: Duration
    /// Once something has.
    package var silence: Duration

    /// For somebody who waits for it.
    package static let ofPerson = Patience(firstContact: .seconds(10), silence: .seconds(60))

    /// Both the same.
    package init(_ both: Duration) { (firstContact, silence) = (both, both) }

    /// See the properties.
    package init(firstContact: Duration, silence: Duration) {
        self.firstContact = firstContact
        self.silence = silence
    }
}
