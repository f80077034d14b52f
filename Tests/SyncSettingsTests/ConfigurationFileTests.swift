import Foundation
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTransfer
import Testing

@testable import SyncAssembly

/// Reads text as if it were the file `c.json` in `/etc/x`.
func parse(_ text: String) throws(SettingsError) -> ConfigurationFile {
    let base = PathBase(directory: "/etc/x", home: "/home/u")
    return try ConfigurationFile.parse(Array(text.utf8), base: base, shown: "c.json")
}

@Suite("What a configuration file may say", .timeLimit(.minutes(10)))
struct ConfigurationFileTests {
    @Test("Every key reaches the settings")
    func everyKey() throws {
        let file = try parse(
            """
            // JSON5: comments, trailing commas, keys without quotes, single quotes.
            {
              connections: 8, "connections_per_host": 4, limit_rate: "1.5MB", max_manifest: 200000000, deadline: "6h",
              patience: "45s",
              connect_timeout: 10, idle_timeout: '90s', speed_limit: "2K", speed_time: 30,
              rewrite: ["https://a.example/ https://b.example/", "~^http://(.*)$ https://$1",],
              credentials_file: "credentials",
              headers: ["X-Key: value", "@headers.txt"],
              proxy: { url: "proxy.example:3128", user: "u", password_file: "~/p", exceptions: ["*.x", "10.0.0.0/8"] },
              tls: { ca_file: "/ca.pem", certificate: "c.pem", key: "k.pem", minimum_version: "1.3" },
              http2: "whole", /* of one object */
              max_delete: 0, backup_dir: "kept files",
              redirects: { limit: 3, allow_downgrade: ["CDN.example"], allow_private: "all" },
              hooks: {
                reindex: { program: "/opt/reindex", arguments: ["--fast", ""], timeout: "1h" },
                "in-place": { program: "/opt/other", batch: 100 },
              },
            }
            """)
        let settings = file.transfer
        #expect(settings.connections == 8)
        #expect(settings.connectionsPerHost == 4)
        #expect(settings.manifestLimit == 200_000_000)
        #expect(settings.limitRate == 1_500_000)
        #expect(settings.deadline == .seconds(21_600))
        #expect(settings.patience == .seconds(45))
        #expect(settings.connectTimeout == .seconds(10))
        #expect(settings.idleTimeout == .seconds(90))
        #expect(settings.speedLimit == 2048 && settings.speedTime == .seconds(30))
        #expect(settings.rewrite == ["https://a.example/ https://b.example/", "~^http://(.*)$ https://$1"])
        #expect(settings.credentialsFile == "/etc/x/credentials")
        #expect(settings.headers == [.line("X-Key: value"), .file("/etc/x/headers.txt")])
        let proxy = ProxySettings(url: "http://proxy.example:3128", user: "u", passwordFile: "/home/u/p")
        #expect(settings.plainProxy == proxy && settings.secureProxy == proxy)
        #expect(settings.proxyExceptions == ["*.x", "10.0.0.0/8"])
        #expect(settings.authorities == "/ca.pem")
        #expect(settings.certificate == "/etc/x/c.pem" && settings.certificateKey == "/etc/x/k.pem")
        #expect(settings.tlsMinimum == .tls13)
        #expect(settings.http2 == .wholeObjects)
        #expect(file.maxDelete == 0 && file.backupDir == "/etc/x/kept files")
        #expect(settings.redirectLimit == 3)
        #expect(settings.downgrade == .hosts(["cdn.example"]) && settings.privateTargets == .all)
        #expect(
            file.hooks == [
                "reindex": RunHook(group: "", arguments: ["/opt/reindex", "--fast", ""], timeout: 3600),
                "in-place": RunHook(group: "", arguments: ["/opt/other"], batch: 100),
            ])
    }

    @Test(
        "Accepted",
        arguments: [
            "{}", " { } // nothing", "/* a\n b */{}", "\u{FEFF}{}", "{connections:0x10}", "{connections:+8,}",
            "{connections:4.0}", "{limit_rate:65536}", "{speed_limit:0}", "{speed_limit:'0'}",
            "{tls:{minimum_version:1.3}}", "{proxy:{url:''}}", "{proxy:{exceptions:['*']}}",
            "{proxy:{url:'socks5h://h:1'}}", "{rewrite:[]}", "{hooks:{}}",
            "{redirects:{allow_private:['::1','[::2]','10.0.0.1']}}", "{headers:['Accept: */*']}",
            "{idle_timeout:'\\x39\\u0030s'}", "{deadline:'9\\\n0s'}",
        ])
    func accepted(text: String) throws { #expect(throws: Never.self) { try parse(text) } }

    static let refusals: [(text: String, message: String)] = [
        ("", "c.json:1:1: the file is empty; write {} for no settings"),
        ("[]", "c.json:1: an empty list was found; an object { … } is expected"),
        ("{", "c.json:1:2: a key or } is missing here"), ("{} {}", "c.json:1:4: text after the end of the value"),
        ("{\n connections 4}", "c.json:2:14: a colon is missing after the key"),
        ("{connections: 4\n limit_rate: 1}", "c.json:2:2: a comma or } is missing before this"),
        ("{connections: 4, connections: 5}", "c.json:1:18: this key appears twice in one object; keep one of them"),
        ("{deadline: \"6h\n}", "c.json:1:12: a string that never ends"),
        ("{deadline: 'a\\q1'}\u{0}", "c.json:1:19: text after the end of the value"),
        ("{deadline: '\\u12'}", "c.json:1:14: JSON5 has no such escape"),
        ("/* {}", "c.json:1:1: a comment that never ends; close it with */"),
        ("{connections: 01}", "c.json:1:15: a value is missing here"),
        ("{connections: nope}", "c.json:1:15: a value is missing here"),
        (String(repeating: "{a:", count: 17), "c.json:1:50: nested deeper than 16 levels"),
        ("{conections: 4}", "c.json:1: conections: no such key; did you mean “connections”?"),
        ("{\n\nlimitRate: 4}", "c.json:3: limitRate: no such key; did you mean “limit_rate”?"),
        ("{proxy: {urll: ''}}", "c.json:1: proxy.urll: no such key; did you mean “url”?"),
        (
            "{tls: {pinned: ''}}",
            "c.json:1: tls.pinned: no such key; the keys are ca_file, certificate, key, minimum_version"
        ),
        (
            "{connections: 'many'}",
            "c.json:1: connections: a string was found; a whole number from 1 to 256 is expected"
        ), ("{connections: 0}", "c.json:1: connections: 0 was found; a whole number from 1 to 256 is expected"),
        ("{connections: 4.5}", "c.json:1: connections: 4.5 was found; a whole number from 1 to 256 is expected"),
        ("{connections: null}", "c.json:1: connections: null was found; a whole number from 1 to 256 is expected"),
        (
            "{connections_per_host: 65}",
            "c.json:1: connections_per_host: 65 was found; a whole number from 1 to 64 is expected"
        ),
        (
            "{limit_rate: 0}",
            "c.json:1: limit_rate: 0 was found; a number of bytes such as \"500K\" or \"10MB\" is expected"
        ),
        ("{limit_rate: 'fast'}", "c.json:1: limit_rate: 'fast' is not a number of bytes such as \"500K\" or \"10MB\""),
        ("{deadline: 'soon'}", "c.json:1: deadline: 'soon' is not a time such as 90s, 15m, 6h or 2d"),
        (
            "{deadline: '99999999999999999999'}",
            "c.json:1: deadline: '99999999999999999999' is not a time such as 90s, 15m, 6h or 2d, from 1s to 366d"
        ),
        ("{deadline: '400d'}", "c.json:1: deadline: '400d' is not a time such as 90s, 15m, 6h or 2d, from 1s to 366d"),
        ("{deadline: -1}", "c.json:1: deadline: -1 was found; a time such as \"90s\", \"15m\" or \"6h\" is expected"),
        (
            "{rewrite: 'a b'}",
            "c.json:1: rewrite: a string was found; a list of rules \"PREFIX REPLACEMENT\" is expected"
        ),
        (
            "{rewrite: ['~a b',\n 'a']}",
            "c.json:2: rewrite[1]: a rule is PREFIX REPLACEMENT or ~EXPRESSION REPLACEMENT, with one space"
        ), ("{rewrite: ['~( b']}", "c.json:1: rewrite[0]: not a regular expression: ("),
        (
            "{rewrite: ['ftp://a/ http://b/']}",
            "c.json:1: rewrite[0]: not the beginning of a URL: it has to begin with http:// or https://"
        ),
        ("{headers: [1]}", "c.json:1: headers[0]: 1 was found; one of lines \"Name: value\" is expected"),
        ("{headers: ['secret']}", "c.json:1: headers[0]: write it as Name: value"),
        ("{headers: ['X: secret\\n']}", "c.json:1: headers[0]: it has control characters"),
        ("{headers: ['Range: secret']}", "c.json:1: headers[0]: Range is set by syncagent itself; leave it out"),
        ("{headers: ['X:']}", "c.json:1: headers[0]: X has no value"),
        (
            "{proxy: {url: 'http://u:secret@p:1'}}",
            "c.json:1: proxy.url: a proxy's user and password do not go into its URL; write them into the credentials"
                + " file under [http://p:1], or set proxy.user and proxy.password_file"
        ),
        (
            "{proxy: {url: 'ftp://p'}}",
            "c.json:1: proxy.url: the scheme of a proxy is http, https, socks5h, socks5, socks4a or socks4"
        ),
        (
            "{proxy: {url: 'http://p/x'}}",
            "c.json:1: proxy.url: this is not a proxy's URL; write it as http://host:port"
        ), ("{proxy: {user: 'u'}}", "c.json:1: proxy.user: it needs proxy.url"),
        (
            "{proxy: {password: 'secret'}}",
            "c.json:1: proxy.password: no such key; the keys are url, user, password_file, exceptions"
        ), ("{proxy: {url: 'p', password_file: 'f'}}", "c.json:1: proxy.password_file: it needs proxy.user"),
        ("{tls: {key: 'f'}}", "c.json:1: tls.key: it needs tls.certificate"),
        (
            "{tls: {minimum_version: '1.1'}}",
            "c.json:1: tls.minimum_version: a string was found; \"1.2\" or \"1.3\" is expected"
        ), ("{http2: true}", "c.json:1: http2: true was found; \"never\" or \"whole\" or \"always\" is expected"),
        (
            "{redirects: {allow_private: 'any'}}",
            "c.json:1: redirects.allow_private: a string was found; a list of host names, or \"all\" is expected"
        ),
        (
            "{redirects: {allow_downgrade: ['http://h']}}",
            "c.json:1: redirects.allow_downgrade[0]: 'http://h' is not a host; write its name alone, such as"
                + " cdn.example.com"
        ), ("{hooks: {reindex: '/bin/x'}}", "c.json:1: hooks.reindex: a string was found; an object { … } is expected"),
        (
            "{hooks: {reindex: {}}}",
            "c.json:1: hooks.reindex.program: missing; write the absolute path of the program to run"
        ),
        (
            "{hooks: {reindex: {program: 'x'}}}",
            "c.json:1: hooks.reindex.program: 'x' is neither an absolute path nor a URL nor plugin:NAME"
        ),
        (
            "{hooks: {reindex: {program: 'https://u:secret@chat.example/x'}}}",
            "c.json:1: hooks.reindex.program: the URL of a webhook cannot be used: a user name in a URL"
        ),
        (
            "{hooks: {reindex: {program: 'https://chat.example/x', arguments: ['y']}}}",
            "c.json:1: hooks.reindex.program: a webhook takes no arguments, only a URL"
        ),
        (
            "{hooks: {reindex: {program: '/x', argument: []}}}",
            "c.json:1: hooks.reindex.argument: no such key; did you mean “arguments”?"
        ),
        (
            "{hooks: {thumbs: {program: '/x', batch: 0}}}",
            "c.json:1: hooks.thumbs.batch: 0 was found; a whole number from 1 to 10000 is expected"
        ),
        (
            "{hooks: {'a\\nb': {program: '/x'}}}",
            "c.json:1: hooks: a hook's name has 1 to 255 bytes and no control characters"
        ),
    ]

    @Test(
        "Refused, with the line, the key and what to do; no value that may be a secret is shown [S83 F114]",
        arguments: refusals)
    func refused(text: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try parse(text) }
        #expect(error?.description == message)
        #expect(error?.description.contains("secret") != true)
    }

    @Test("Without a working directory a relative path is refused, and no other")
    func goneDirectory() throws {
        let base = PathBase(directory: nil, home: "/home/u")
        #expect(throws: SettingsError.noWorkingDirectory) { try base.absolute("a") }
        #expect(try base.absolute("/a") == "/a" && base.absolute("~/a") == "/home/u/a")
    }

    @Test(
        "Numbers are read in every form of JSON5, with a sign or without",
        arguments: [
            ("+1", .integer(1)), ("-1", .integer(-1)), ("+0x1F", .integer(31)), ("-0x1F", .integer(-31)),
            ("+1e3", .integer(1_000)), ("+1.50", .number(1.5)), ("-.5", .number(-0.5)), ("+5.", .integer(5)),
            ("0.25", .number(0.25)), ("+0", .integer(0)), ("+Infinity", .number(.infinity)),
            ("-9223372036854775808", .integer(.min)), ("9223372036854775808", .number(9_223_372_036_854_775_808)),
        ] as [(String, ConfigurationNode.Value)])
    func numbers(text: String, value: ConfigurationNode.Value) throws {
        #expect(try ConfigurationNode.read(Array(text.utf8)).value == value)
        let list = try ConfigurationNode.read(Array("[\(text),/**/\(text)]".utf8)).value
        guard case .list(let nodes) = list else { return #expect(Bool(false), "no list") }
        #expect(nodes.map(\.value) == [value, value])
    }

    @Test(
        "What only looks like a number is refused",
        arguments: [
            "+", "-", "+-1", "--1", "+ 1", "0x", "0x+5", "0x-5", ".", "-.", ".e5", "01", "+01.5", "1e", "1_000", "1-2",
            "0b1", "infinity", "1.2.3",
        ])
    func noNumber(text: String) { #expect(throws: SettingsError.self) { try ConfigurationNode.read(Array(text.utf8)) } }

    @Test("No cut, no flipped byte makes the reader do anything but refuse or accept")
    func mutations() throws {
        let text = Array("{a:[1,'\\u0041',{\"b\":null}],/*c*/d:-0x1F,e:'x'}".utf8)
        let base = PathBase(directory: "/", home: nil)
        var outcomes = 0
        for index in text.indices {
            for byte in [UInt8(0), 0x22, 0x27, 0x5C, 0x7B, 0x7D, 0x80, 0xFF] {
                var changed = text
                changed[index] = byte
                for bytes in [changed, Array(changed[..<index])] {
                    let error = #expect(throws: SettingsError.self) {
                        try ConfigurationFile.parse(bytes, base: base, shown: "c")
                    }
                    outcomes += error == nil ? 0 : 1
                }
            }
        }
        #expect(outcomes == text.count * 16)
    }
}

@Suite("The example", .timeLimit(.minutes(10)))
struct ExampleTests {
    static let url = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Examples/config.json")

    @Test("Examples/config.json has every key, and each is read")
    func example() throws {
        let text = try String(contentsOf: Self.url, encoding: .utf8)
        let settings = try parse(text).transfer
        #expect(settings.connections == 64 && settings.connectionsPerHost == 16)
        #expect(settings.limitRate == 10_000_000 && settings.deadline == .seconds(21_600))
        #expect(settings.connectTimeout == .seconds(30) && settings.idleTimeout == .seconds(60))
        #expect(settings.speedLimit == 1024 && settings.speedTime == .seconds(60))
        #expect(settings.rewrite.count == 2 && settings.headers.count == 2)
        #expect(settings.inlineSecrets.isEmpty, "anyone may read the example")
        #expect(settings.credentialsFile != nil && settings.secureProxy?.passwordFile != nil)
        #expect(settings.proxyExceptions?.count == 3 && settings.authorities != nil)
        #expect(settings.certificate != nil && settings.certificateKey != nil)
        #expect(settings.tlsMinimum == .tls12 && settings.http2 == .never && settings.redirectLimit == 10)
        #expect(settings.downgrade != .none && settings.privateTargets != .none)
        #expect(try parse(text).hooks["reindex"]?.timeout == 3600)
        #expect(try parse(text).plugins.uses.map(\.point) == [.resolver, .verifier, .observer, .source])
        #expect(try parse(text).metricsFile == "/var/lib/prometheus/node-exporter/syncagent.prom")
        #expect(throws: SettingsError.self) { try parse("{metrics: {textfile: \"/tmp/metrics.txt\"}}") }
        for key in ConfigurationFile.keys { #expect(text.contains("\"\(key)\":"), "\(key)") }
        #expect(ConfigurationFile.keys.count > 25)
    }

    @Test("What is an option of a run and a key is documented as both")
    func documented() throws {
        let url = Self.url.deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent(
            "Documentation/reference/Configuration.md")
        let rows = try String(contentsOf: url, encoding: .utf8).split(separator: "\n").filter { $0.hasPrefix("|") }
        for name in ["max_delete", "backup_dir", "umask"] {
            let option = "--" + name.replacingOccurrences(of: "_", with: "-")
            #expect(rows.contains { $0.contains("`\(name)`") && $0.contains("`\(option)`") }, "\(name)")
        }
    }

    @Test("What the example says about defaults is so")
    func defaults() throws {
        var configuration = TransportConfiguration(
            clock: TransportClock(now: { .zero }, unixTime: { 0 }), random: { 0 })
        try TransferSettings().apply(to: &configuration)
        #expect(configuration.connections == 64 && configuration.connectionsPerHost == 32)
        #expect(configuration.initialConnections == 8 && configuration.adaptive)
        #expect(configuration.resourceDeadline == .seconds(7 * 86_400))
        #expect(configuration.connectTimeout == .seconds(30) && configuration.idleTimeout == .seconds(60))
        #expect(configuration.tls.minimumVersion == .tls12 && configuration.http2 == .never)
        #expect(configuration.redirects.limit == 10)
    }
}
