import SyncSystem

/// How many connections the limit on open files allows. getrlimit(2).
package enum DescriptorLimit {
    /// Raises the soft limit towards the hard one and says how many connections fit: each needs a socket and a
    /// file, and some descriptors are for the rest.
    package static func raisedForConnections() -> Int {
        // More connections than these are no trial and no LAN.
        guard let most = CurrentProcess.raiseOpenFileLimit(8_192) else { return 256 }
        return max(16, (most - 64) / 2)
    }
}
