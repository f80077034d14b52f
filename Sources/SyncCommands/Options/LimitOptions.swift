import ArgumentParser
import SyncModel
import SyncSettings

/// How much a pull may take of the network, and for how long.
struct LimitOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Most connections at a time, 1 to 64.  (default: 8, and up to 32 a server where that is faster)",
            valueName: "n"
        )
    )
    var connections: Int?

    @Option(
        name: [.customLong("limit-rate"), .customLong("max-rate")],
        help: ArgumentHelp("Most bytes a second, such as 500K or 10MB.", valueName: "rate"),
        transform: positiveByteCount
    )
    var limitRate: ByteCount?

    @Option(
        help: ArgumentHelp(
            "Give up after this time, waiting included: 90s, 15m, 6h.  (default: 7d)",
            valueName: "time"
        ),
        transform: duration
    )
    var deadline: Duration?

    @Option(
        help: ArgumentHelp(
            """
            Give up when servers have given nothing for this time.  (default: 10s until something answers, then \
            60s; with --background no end but --deadline)
            """,
            valueName: "time"
        ),
        transform: duration
    )
    var patience: Duration?

    func validate() throws {
        if let connections, !(1...64).contains(connections) {
            throw ValidationError("--connections takes 1 to 64, not \(connections).")
        }
    }

    /// As settings. A number of connections caps each server, too.
    var settings: TransferSettings {
        var settings = TransferSettings()
        settings.connections = connections
        settings.connectionsPerHost = connections
        settings.rateLimit = limitRate?.bytes
        settings.deadline = deadline
        settings.patience = patience
        return settings
    }
}
