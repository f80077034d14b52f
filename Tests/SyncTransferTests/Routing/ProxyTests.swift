import SyncSystem
import SyncTransfer
import Testing

@Suite("Which proxy is asked", .timeLimit(.minutes(10)))
struct ProxyTests {
    @Test("http and https may have proxies of their own")
    func schemes() {
        var configuration = TransportConfiguration(
            clock: TransportClock(now: { .zero }, unixTime: { 0 }), random: { 0 })
        configuration.plainProxy = ProxyConfiguration(url: "http://p:1")
        #expect(configuration.proxy(for: Origin(scheme: "http", host: "h", port: 80))?.url == "http://p:1")
        #expect(configuration.proxy(for: Origin(scheme: "https", host: "h", port: 443)) == nil)
    }
}
