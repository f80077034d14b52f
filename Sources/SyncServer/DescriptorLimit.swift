#if canImport(Glibc)
    import Glibc
    private let openFiles = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
#else
    import Darwin
    private let openFiles = RLIMIT_NOFILE
#endif

/// How many connections the limit on open files allows. getrlimit(2).
package enum DescriptorLimit {
    /// Raises the soft limit towards the hard one and says how many connections fit: each needs a socket and a
    /// file, and some descriptors are for the rest.
    package static func raisedForConnections() -> Int {
        var limit = rlimit()
        guard getrlimit(openFiles, &limit) == 0 else { return fallback }
        // More connections than this are no trial and no LAN.
        limit.rlim_cur = min(limit.rlim_max, 8_192)
        _ = setrlimit(openFiles, &limit)
        guard getrlimit(openFiles, &limit) == 0, let most = Int(exactly: limit.rlim_cur) else {
            return fallback
        }
        return max(16, (most - 64) / 2)
    }

    private static let fallback = 256
}
