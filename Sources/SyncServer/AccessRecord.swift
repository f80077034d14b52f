/// One answered request, for a log.
package struct AccessRecord: Sendable, Equatable {
    /// The client's address.
    package var client: String
    package var method: String
    /// As it came; foreign text.
    package var target: String
    /// The `Range` header as it came; foreign text.
    package var range: String?
    package var status: Int
    /// Body **bytes** handed to the connection.
    package var bytes: UInt64
    /// Whether the whole answer could be handed over.
    package var isComplete: Bool
    package var duration: Duration
}
