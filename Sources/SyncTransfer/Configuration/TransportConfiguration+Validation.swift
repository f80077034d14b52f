import Glibc
import SyncPlugins
import SyncSystem

extension TransportConfiguration {
    /// Refuses what would be ignored or would fail later (S83, F057).
    func validate() throws(TransferError) {
        try check((1...256).contains(connections), "connections must be 1 to 256, not \(connections)")
        try check(
            (1...64).contains(connectionsPerHost),
            "connections per host must be 1 to 64, not \(connectionsPerHost)"
        )
        try check(initialConnections >= 1, "at least one connection is needed to begin with")
        try check(rateLimit != 0, "a rate limit of 0 bytes a second would never end; leave it out for none")
        try check(connectTimeout > .zero && idleTimeout > .zero, "timeouts must be above zero")
        try check(speedTime > .zero, "the time over which the speed is measured must be above zero")
        try check(retry.attempts >= 1, "at least one attempt is needed")
        try check((1...50).contains(redirects.limit) || redirects.limit == 0, "redirects must be 0 to 50")
        try check((1024...(10 << 20)).contains(bufferSize), "the buffer must have 1 KiB to 10 MiB")
        try checkReadable(tls.authorities, "the file of certificate authorities")
        try checkReadable(tls.certificate, "the client certificate")
        try checkReadable(tls.key, "the client key")
        for line in headers { try check(isHeaderLine(line), "not a header line: Name: value is needed") }
    }

    private func check(_ condition: Bool, _ detail: String) throws(TransferError) {
        guard condition else { throw TransferError(code: .misuse, url: "", detail: detail) }
    }

    private func checkReadable(_ path: String?, _ what: String) throws(TransferError) {
        guard let path else { return }
        guard access(path, R_OK) == 0 else {
            let reason = errnoText
            throw TransferError(code: .misuse, url: "", detail: "\(what), \(path): \(reason)")
        }
    }

    private func isHeaderLine(_ line: String) -> Bool {
        guard let colon = line.firstIndex(of: ":"), colon != line.startIndex else { return false }
        return !line.utf8.contains { $0 < 0x20 || $0 == 0x7F }
    }
}
