import SyncTransfer

/// The keys of a configuration file about transfers.
enum TransferKeys {
    static let all = [
        "connections", "connections_per_host", "limit_rate", "max_manifest", "deadline", "patience",
        "connect_timeout",
        "idle_timeout", "speed_limit", "speed_time", "rewrite", "credentials_file", "headers", "proxy", "tls",
        "http2", "redirects",
    ]
    static let proxy = ["url", "user", "password_file", "exceptions"]
    static let tls = ["ca_file", "certificate", "key", "minimum_version"]
    static let redirects = ["limit", "allow_downgrade", "allow_private"]

    static func read(_ root: StrictObject, _ base: PathBase) throws(SettingsError) -> TransferSettings {
        var settings = TransferSettings()
        settings.connections = try root.integer("connections", in: 1...256)
        settings.connectionsPerHost = try root.integer("connections_per_host", in: 1...64)
        settings.rateLimit = try root.byteCount("limit_rate")
        settings.manifestLimit = try root.byteCount("max_manifest")
        settings.deadline = try root.duration("deadline")
        settings.patience = try root.duration("patience")
        settings.connectTimeout = try root.duration("connect_timeout")
        settings.idleTimeout = try root.duration("idle_timeout")
        settings.speedLimit = try root.byteCount("speed_limit", mayBeZero: true)
        settings.speedTime = try root.duration("speed_time")
        settings.credentialsFile = try root.path("credentials_file", base)
        settings.http2 = try root.word("http2")
        for (text, place) in try root.texts("rewrite", "rules \"PREFIX REPLACEMENT\"") ?? [] {
            do throws(SettingsError) {
                settings.rewrite.append(try SettingValue.rule(text))
            } catch {
                throw place.fault(error.description)
            }
        }
        for (text, place) in try root.texts("headers", "lines \"Name: value\"") ?? [] {
            do throws(SettingsError) {
                settings.headers.append(try SettingValue.header(text, base))
            } catch {
                throw place.fault(error.description)
            }
        }
        try readProxy(root, base, into: &settings)
        try readTLS(root, base, into: &settings)
        if let object = try root.object("redirects", keys: redirects) {
            settings.redirectLimit = try object.integer("limit", in: 0...50)
            settings.downgrade = try object.exemption("allow_downgrade")
            settings.privateTargets = try object.exemption("allow_private")
        }
        return settings
    }

    private static func readProxy(
        _ root: StrictObject,
        _ base: PathBase,
        into settings: inout TransferSettings
    ) throws(SettingsError) {
        guard let object = try root.object("proxy", keys: proxy) else { return }
        let user = try object.text("user", "the user's name")
        let passwordFile = try object.path("password_file", base)
        if let list = try object.texts("exceptions", "hosts, domains or networks") {
            settings.proxyExceptions = list.map(\.text)
        }
        guard let node = object.node("url") else {
            for key in ["user", "password_file"] {
                guard let node = object.node(key) else { continue }
                throw object.fault(node, key, "there is no proxy.url it could be for")
            }
            return
        }
        // An empty text is a value here: no proxy, whatever the environment says.
        guard case .text(let url) = node.value else {
            throw object.fault(
                node,
                "url",
                "\(node.kind) was found; a URL such as \"http://proxy:3128\" is wanted"
            )
        }
        var proxy: ProxySettings
        do throws(SettingsError) {
            proxy = try SettingValue.proxy(url)
        } catch {
            throw object.fault(node, "url", error.description)
        }
        if let node = object.node("password_file"), user == nil {
            throw object.fault(node, "password_file", "there is no proxy.user it could be for")
        }
        proxy.user = user
        proxy.passwordFile = passwordFile
        settings.setProxy(proxy)
    }

    private static func readTLS(
        _ root: StrictObject,
        _ base: PathBase,
        into settings: inout TransferSettings
    ) throws(SettingsError) {
        guard let object = try root.object("tls", keys: tls) else { return }
        settings.authorities = try object.path("ca_file", base)
        settings.certificate = try object.path("certificate", base)
        settings.certificateKey = try object.path("key", base)
        settings.minimumTLS = try object.word("minimum_version")
        if let node = object.node("key"), settings.certificate == nil {
            throw object.fault(node, "key", "there is no tls.certificate it could be for")
        }
    }
}
