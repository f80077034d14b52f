import SyncPlugins
import SyncSystem

/// The counters of a cache since its start, as OpenMetrics 1.0 text.
extension CacheContext {
    static let metricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    var metrics: String {
        let (totals, counts) = (origin.transport.totals, counts.withLock(\.self))
        var text = ""
        func family(_ name: String, _ kind: String, _ help: String, _ value: UInt64, unit: String? = nil) {
            text += "# TYPE syncagent_cache_\(name) \(kind)\n"
            if let unit { text += "# UNIT syncagent_cache_\(name) \(unit)\n" }
            text += "# HELP syncagent_cache_\(name) \(help)\n"
            text += "syncagent_cache_\(name)\(kind == "counter" ? "_total" : "") \(value)\n"
        }
        family("origin_bytes", "counter", "Body bytes received from the origin.", totals.bytesReceived, unit: "bytes")
        family("sent_bytes", "counter", "Body bytes sent to clients.", counts.sentBytes, unit: "bytes")
        family("stored_bytes", "gauge", "Bytes that the store holds.", store.keptBytes, unit: "bytes")
        family(
            "evicted_bytes", "counter", "Bytes removed from the store to make room.", store.evictedBytes, unit: "bytes")
        family("origin_requests", "counter", "Requests sent to the origin.", totals.requests)
        family("requests", "counter", "Requests of clients.", counts.requests)
        family("hits", "counter", "Answers that began with bytes that were held.", counts.hits)
        family("misses", "counter", "Answers that waited for the origin.", counts.misses)
        family(
            "refused_slices", "counter", "Slices from the origin that did not match their names.",
            counts.refused)
        family("damaged_slices", "counter", "Slices of the store that were damaged, and dropped.", counts.damaged)
        family("passed", "counter", "Answers that were passed through, and not kept.", counts.passed)
        family(
            "stale", "counter", "Answers with stored bytes because the origin could not be asked.", counts.stale)
        return text + "# EOF\n"
    }
}
