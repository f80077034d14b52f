import SyncSystem
import Testing

@Suite("Which hosts no proxy is asked for", .timeLimit(.minutes(10)))
struct ProxyExceptionTests {
    @Test(
        "As curl(1) --noproxy",
        arguments: [
            ("example.com", "example.com", true), ("example.com", "www.example.com", true),
            (".example.com", "example.com", true), ("example.com", "badexample.com", false),
            ("EXAMPLE.com", "example.com", true), ("*", "anything", true), ("*", "10.0.0.1", true),
            ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "name10.0.0.0", false), ("10.1.2.3", "10.1.2.3", true), ("2.3", "10.1.2.3", false),
            ("192.168.1.128/25", "192.168.1.127", false), ("0.0.0.0/0", "8.8.8.8", true),
            ("10.0.0.0/33", "10.0.0.1", false), ("fe80::/10", "[fe80::1]", true), ("fe80::/10", "[fc00::1]", false),
            ("[::1]", "[::1]", true), ("::1", "[0:0::1]", true), ("::/0", "10.0.0.1", false),
            ("example.com", "www.example.com.", true), ("example.com.", "www.example.com", true),
            ("example.com.", "example.com.", true), ("example.com", "badexample.com.", false), (".", "a.", false),
            (".", "", false), ("", "a", false),
        ])
    func exceptions(exception: String, host: String, isDirect: Bool) {
        let proxy = ProxyConfiguration(url: "http://p:1", exceptions: [exception])
        #expect(proxy.isException(host) == isDirect)
    }
}
