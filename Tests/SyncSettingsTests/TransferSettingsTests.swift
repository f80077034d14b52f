import Foundation
import SyncModel
import SyncSystem
import SyncTransfer
import Testing

@testable import SyncAssembly

@Suite("Settings put together", .timeLimit(.minutes(10)))
struct TransferSettingsTests {
    func configuration(_ settings: TransferSettings) throws -> TransportConfiguration {
        var configuration = TransportConfiguration(
            clock: TransportClock(now: { .zero }, unixTime: { 0 }), random: { 0 })
        try settings.apply(to: &configuration)
        return configuration
    }

    @Test("The command line goes before the file, and lists are put together in that order")
    func precedence() {
        var upper = TransferSettings()
        upper.connectTimeout = .seconds(1)
        upper.rewrite = ["a b"]
        upper.headers = [.line("X: 1")]
        upper.downgrade = .hosts(["a"])
        upper.privateTargets = .all
        upper.certificate = "/upper"
        var lower = TransferSettings()
        lower.connectTimeout = .seconds(2)
        lower.idleTimeout = .seconds(3)
        (upper.speedLimit, lower.speedLimit, lower.speedTime) = (1, 2, .seconds(4))
        lower.rewrite = ["c d"]
        lower.headers = [.line("Y: 2")]
        lower.downgrade = .hosts(["b"])
        lower.certificate = "/lower"
        lower.certificateKey = "/lower-key"
        lower.setProxy(ProxySettings(url: "http://p:1"))
        let both = upper.over(lower)
        #expect(both.connectTimeout == .seconds(1) && both.idleTimeout == .seconds(3))
        #expect(both.speedLimit == 1 && both.speedTime == .seconds(4))
        #expect(both.rewrite == ["a b", "c d"] && both.headers == [.line("X: 1"), .line("Y: 2")])
        #expect(both.downgrade == .hosts(["a", "b"]) && both.privateTargets == .all)
        #expect(both.certificate == "/upper" && both.certificateKey == nil, "a key belongs to its certificate")
        #expect(both.plainProxy?.url == "http://p:1")
        upper.setProxy(ProxySettings(url: ""))
        #expect(upper.over(lower).plainProxy?.url == "")
    }

    @Test(
        "Nobody says a number: few connections that may become more. A number is a cap",
        arguments: [
            (nil, nil, 64, 32, 8, nil), (8, nil, 8, 8, 8, 8), (2, nil, 2, 2, 8, 2), (200, nil, 200, 32, 8, 64),
            (nil, 6, 64, 6, 8, 6), (32, 32, 32, 32, 8, 32), (4, 64, 4, 4, 8, 4),
        ] as [(Int?, Int?, Int, Int, Int, Int?)])
    func connections(
        all: Int?, host: Int?, cap: Int, hostCap: Int, start: Int, planned: Int?
    ) throws {
        var settings = TransferSettings()
        settings.connections = all
        settings.connectionsPerHost = host
        let result = try configuration(settings)
        #expect(result.connections == cap)
        #expect(result.connectionsPerHost == hostCap)
        #expect(result.initialConnections == start)
        #expect(settings.plannedConnections == planned)
    }

    @Test("The environment is read as curl reads it, and a configured proxy goes before it")
    func environment() throws {
        let base = PathBase(directory: "/srv/set", home: nil)
        func read(_ variables: [String: String]) throws -> TransferSettings {
            try TransferSettings(environment: { variables[$0] }, base)
        }
        var settings = try read([
            "http_proxy": "p:1", "HTTP_PROXY": "evil:1", "HTTPS_PROXY": "http://u%40:pa%3Ass@q:2/", "ALL_PROXY": "r:3",
            "NO_PROXY": "a.example, .b.example 10.0.0.0/8", "SSL_CERT_FILE": "ca.pem",
        ])
        #expect(settings.plainProxy == ProxySettings(url: "http://p:1"))
        var proxy = ProxySettings(url: "http://q:2", user: "u@")
        proxy.password = "pa:ss"
        #expect(settings.secureProxy == proxy)
        #expect(settings.proxyExceptions == ["a.example", ".b.example", "10.0.0.0/8"])
        #expect(settings.authorities == "/srv/set/ca.pem")
        #expect(try read(["HTTP_PROXY": "evil:1"]) == TransferSettings(), "a CGI program's header")
        settings = try read(["all_proxy": "socks5h://r:3", "https_proxy": "", "no_proxy": "*"])
        #expect(settings.plainProxy?.url == "socks5h://r:3" && settings.secureProxy?.url == "socks5h://r:3")
        #expect(try configuration(settings).proxy(for: Origin(scheme: "https", host: "h", port: 1)) == nil)
        let error = #expect(throws: SettingsError.self) { try read(["https_proxy": "ftp://u:canary@h"]) }
        #expect(
            error?.description
                == "the environment variable https_proxy: the scheme of a proxy is http, https, socks5h, socks5, socks4a or"
                + " socks4")
        var upper = TransferSettings()
        upper.setProxy(ProxySettings(url: "http://mine:1"))
        let both = upper.over(try read(["https_proxy": "q:2", "no_proxy": "x"]))
        #expect(both.secureProxy?.url == "http://mine:1" && both.proxyExceptions == ["x"])
    }

    @Test("What is kept for later has paths and no secret")
    func coding() throws {
        var settings = TransferSettings()
        settings.connections = 4
        settings.deadline = .seconds(60)
        settings.rewrite = ["~^http: https:"]
        settings.credentialsFile = "/c"
        settings.headers = [.line("Accept: x"), .file("/h")]
        settings.setProxy(ProxySettings(url: "http://p:1", user: "u", passwordFile: "/p"))
        settings.tlsMinimum = .tls13
        settings.http2 = .wholeObjects
        settings.downgrade = .hosts(["a"])
        settings.privateTargets = .all
        let data = try JSONEncoder().encode(settings)
        #expect(try JSONDecoder().decode(TransferSettings.self, from: data) == settings)

        for change in [
            { $0.headers = [.line("X-Key: canary")] }, { $0.secureProxy?.password = "canary" },
            { $0.rewrite = ["http://a/ http://b/?token=canary"] },
        ] as [(inout TransferSettings) -> Void] {
            var secret = settings
            change(&secret)
            #expect(secret.inlineSecrets.count == 1)
            var recipe = RunRecipe(manifest: "")
            let error = #expect(throws: SettingsError.self) { try RunSettings(secret).keep(in: &recipe) }
            #expect(error.map { "\($0)".contains("canary") } == false)
        }
    }

    @Test("Every property has a row: it is taken from a lower value where an upper one says nothing")
    func rows() throws {
        var settings = TransferSettings()
        (settings.connections, settings.connectionsPerHost, settings.redirectLimit) = (1, 2, 3)
        (settings.limitRate, settings.manifestLimit, settings.speedLimit) = (1, 2, 3)
        (settings.deadline, settings.patience) = (.seconds(1), .seconds(2))
        (settings.connectTimeout, settings.idleTimeout, settings.speedTime) = (.zero, .zero, .zero)
        (settings.rewrite, settings.headers) = (["a b"], [.file("/h")])
        (settings.credentialsFile, settings.authorities) = ("/c", "/a")
        (settings.certificate, settings.certificateKey) = ("/c", "/k")
        settings.setProxy(ProxySettings(url: "http://p:1"))
        settings.proxyExceptions = ["h"]
        (settings.tlsMinimum, settings.http2) = (.tls13, .always)
        (settings.downgrade, settings.privateTargets) = (.all, .hosts(["h"]))
        let untouched = Mirror(reflecting: TransferSettings()).children
        for (one, other) in zip(Mirror(reflecting: settings).children, untouched) {
            #expect("\(one.value)" != "\(other.value)", "say something of \(one.label ?? "") above")
        }
        #expect(TransferSettings().over(settings) == settings)
        #expect(settings.over(TransferSettings()) == settings)
    }

    @Test("A limit, a version, a policy reach the transport")
    func transport() throws {
        var settings = TransferSettings()
        settings.limitRate = 1000
        settings.deadline = .seconds(5)
        settings.connectTimeout = .seconds(6)
        settings.idleTimeout = .seconds(7)
        settings.speedLimit = 0
        settings.speedTime = .seconds(8)
        settings.rewrite = ["~a b", "~c d"]
        settings.authorities = "/ca"
        settings.certificate = "/c"
        settings.certificateKey = "/k"
        settings.tlsMinimum = .tls13
        settings.http2 = .always
        settings.redirectLimit = 0
        settings.downgrade = .all
        settings.privateTargets = .hosts(["h"])
        let result = try configuration(settings)
        #expect(result.rateLimit == 1000)
        #expect(result.resourceDeadline == .seconds(5))
        #expect(result.connectTimeout == .seconds(6) && result.idleTimeout == .seconds(7))
        #expect(result.speedLimit == 0 && result.speedTime == .seconds(8))
        #expect(result.rewriteRules.map(\.description) == ["~a b", "~c d"])
        #expect(result.tls.authorities == "/ca" && result.tls.certificate == "/c" && result.tls.key == "/k")
        #expect(result.tls.minimumVersion == .tls13 && result.http2 == .always)
        #expect(result.redirects.limit == 0)
        #expect(result.redirects.downgrade == .all && result.redirects.privateTargets == .hosts(["h"]))
        let untouched = try configuration(TransferSettings())
        #expect(untouched.idleTimeout == .seconds(60) && untouched.redirects == RedirectPolicy())
        #expect(untouched.speedLimit == 1024 && untouched.speedTime == .seconds(60))
        var patient = TransferSettings()
        patient.idleTimeout = .seconds(600)
        #expect(try configuration(patient).speedTime == .seconds(600))
    }
}
