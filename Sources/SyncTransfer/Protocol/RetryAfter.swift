import SyncModel

/// Reads `Retry-After`: a number of seconds or a date. RFC 9110 §10.2.3.
///
/// - Returns: **Seconds** from now, not below zero; `nil` for anything else, so that garbage is ignored (F029).
package func retryAfter(_ text: String, now: Int64) -> Int64? {
    if text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), !text.isEmpty {
        return Int64(text) ?? Int64.max  // More digits than fit: as long as can be; the policy caps it.
    }
    return HTTPDate(text).map { max(0, $0.seconds - now) }
}
