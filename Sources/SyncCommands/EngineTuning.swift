import SyncTransfer

/// What a command asks of the engine and the transport beyond what the engine's own options carry.
struct EngineTuning: Sendable {
    /// Whether files are synced to the disk before they become visible.
    var isDurable = true
    /// Longest time a transfer may take, waiting included.
    var deadline: Duration?
    /// Longest time to wait for a server that cannot be reached; `nil` for as long as the deadline.
    var patience: Duration? = .seconds(60)

    func apply(to configuration: inout TransportConfiguration) {
        if let deadline { configuration.resourceDeadline = deadline }
    }
}
