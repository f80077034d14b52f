import SyncPlugins

/// The counters of a cache since its start, as OpenMetrics 1.0 text.
extension CacheContext {
    static let metricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

    var metrics: String {
        let totals = origin.transport.totals
        var text = ""
        func family(_ name: String, _ kind: String, _ help: String, _ value: UInt64, unit: String? = nil) {
            text += "# TYPE syncagent_cache_\(name) \(kind)\n"
            if let unit { text += "# UNIT syncagent_cache_\(name) \(unit)\n" }
            text += "# HELP syncagent_cache_\(name) \(help)\n"
            text += "syncagent_cache_\(name)\(kind == "counter" ? "_total" : "") \(value)\n"
        }
        family("origin_bytes", "counter", "Body bytes received from the origin.", totals.bytesReceived, unit: "bytes")
        family("sent_bytes", "counter", "Body bytes sent to clients.", counts.sentBytes.value, unit: "bytes")
        family("stored_bytes", "gauge", "Bytes that the store holds.", store.keptBytes, unit: "bytes")
        family(
            "evicted_bytes", "counter", "Bytes removed from the store to make room.", store.evictedBytes, unit: "bytes")
        family("origin_requests", "counter", "Requests sent to the origin.", totals.requests)
        family("requests", "counter", "Requests of clients.", counts.requests.value)
        family("hits", "counter", "Answers that began with bytes that were held.", counts.hits.value)
        family("misses", "counter", "Answers that waited for the origin.", counts.misses.value)
        family(
            "refused_slices", "counter", "Slices from the origin that did not match their names.",
            counts.refused.value)
        family("damaged_slices", "counter", "Slices of the store that were damaged, and dropped.", counts.damaged.value)
        family("passed", "counter", "Answers that were passed through, and not kept.", counts.passed.value)
        family(
            "stale", "counter", "Answers with stored bytes because the origin could not be asked.", counts.stale.value)
        return text + "# EOF\n"
    }
}
