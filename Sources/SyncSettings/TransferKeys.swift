import SyncTransfer

/// Every setting of transfers, one row each: its key in a configuration file, how it is read there, and what counts when
/// it is said twice. With its property in ``TransferSettings`` a row is all there is to a setting; an option of the command
/// line sets the property.
struct TransferKey: Sendable {
    /// The object that it stands in; `nil` for the file's own.
    let object: String?
    /// As the file has it, in that object.
    let keys: [String]
    let read: @Sendable (StrictObject, PathBase, inout TransferSettings) throws(SettingsError) -> Void
    /// Puts what a lower value says where the upper one says nothing.
    let merge: @Sendable (inout TransferSettings, TransferSettings) -> Void

    static let all: [TransferKey] = [
        one("connections", \.connections) { o, key, _ throws(SettingsError) in try o.integer(key, in: 1...256)
        },
        one("connections_per_host", \.connectionsPerHost) { o, key, _ throws(SettingsError) in
            try o.integer(key, in: 1...64)
        },
        one("limit_rate", \.rateLimit) { o, key, _ throws(SettingsError) in try o.byteCount(key) },
        one("max_manifest", \.manifestLimit) { o, key, _ throws(SettingsError) in try o.byteCount(key) },
        one("deadline", \.deadline) { o, key, _ throws(SettingsError) in try o.duration(key) },
        one("patience", \.patience) { o, key, _ throws(SettingsError) in try o.duration(key) },
        one("connect_timeout", \.connectTimeout) { o, key, _ throws(SettingsError) in try o.duration(key) },
        one("idle_timeout", \.idleTimeout) { o, key, _ throws(SettingsError) in try o.duration(key) },
        one("speed_limit", \.speedLimit) { o, key, _ throws(SettingsError) in
            try o.byteCount(key, mayBeZero: true)
        },
        one("speed_time", \.speedTime) { o, key, _ throws(SettingsError) in try o.duration(key) },
        list("rewrite", \.rewrite, "rules \"PREFIX REPLACEMENT\"") { text, _ throws(SettingsError) in
            try SettingValue.rule(text)
        },
        one("credentials_file", \.credentialsFile) { o, key, base throws(SettingsError) in
            try o.path(key, base)
        },
        list("headers", \.headers, "lines \"Name: value\"") { text, base throws(SettingsError) in
            try SettingValue.header(text, base)
        },
        proxy,
        one("ca_file", in: "tls", \.authorities) { o, key, base throws(SettingsError) in try o.path(key, base)
        },
        certificate,
        one("minimum_version", in: "tls", \.minimumTLS) { o, key, _ throws(SettingsError) in try o.word(key)
        },
        one("http2", \.http2) { o, key, _ throws(SettingsError) in try o.word(key) },
        one("limit", in: "redirects", \.redirectLimit) { o, key, _ throws(SettingsError) in
            try o.integer(key, in: 0...50)
        },
        exemption("allow_downgrade", \.downgrade),
        exemption("allow_private", \.privateTargets),
    ]

    /// The keys of the file's own object.
    static let names = all.flatMap { row in row.object.map { [$0] } ?? row.keys }.uniqued
    /// The keys inside objects.
    static let innerNames = all.filter { $0.object != nil }.flatMap(\.keys)

    static func read(_ root: StrictObject, _ base: PathBase) throws(SettingsError) -> TransferSettings {
        var settings = TransferSettings()
        for row in all where row.object == nil { try row.read(root, base, &settings) }
        for name in all.compactMap(\.object).uniqued {
            let rows = all.filter { $0.object == name }
            guard let object = try root.object(name, keys: rows.flatMap(\.keys)) else { continue }
            for row in rows { try row.read(object, base, &settings) }
        }
        return settings
    }

    // MARK: Kinds of rows

    private typealias Path<Value> = any WritableKeyPath<TransferSettings, Value> & Sendable

    /// One value: the upper one counts.
    private static func one<Value: Sendable>(
        _ key: String,
        in object: String? = nil,
        _ path: Path<Value?>,
        _ read: @escaping @Sendable (StrictObject, String, PathBase) throws(SettingsError) -> Value?
    ) -> TransferKey {
        TransferKey(
            object: object,
            keys: [key],
            read: { from, base, settings throws(SettingsError) in
                settings[keyPath: path] = try read(from, key, base)
            },
            merge: { upper, lower in upper[keyPath: path] = upper[keyPath: path] ?? lower[keyPath: path] }
        )
    }

    /// A list: the upper one first, the lower one behind it.
    private static func list<Value: Sendable>(
        _ key: String,
        _ path: Path<[Value]>,
        _ wish: String,
        _ read: @escaping @Sendable (String, PathBase) throws(SettingsError) -> Value
    ) -> TransferKey {
        TransferKey(
            object: nil,
            keys: [key],
            read: { from, base, settings throws(SettingsError) in
                for (text, place) in try from.texts(key, wish) ?? [] {
                    do throws(SettingsError) {
                        settings[keyPath: path].append(try read(text, base))
                    } catch {
                        throw place.fault(error.description)
                    }
                }
            },
            merge: { upper, lower in upper[keyPath: path] += lower[keyPath: path] }
        )
    }

    /// Hosts that something is allowed for: whatever either says.
    private static func exemption(_ key: String, _ path: Path<RedirectPolicy.Exemption>) -> TransferKey {
        TransferKey(
            object: "redirects",
            keys: [key],
            read: { from, _, settings throws(SettingsError) in
                settings[keyPath: path] = try from.exemption(key)
            },
            merge: { upper, lower in upper[keyPath: path] = upper[keyPath: path].union(lower[keyPath: path]) }
        )
    }

    /// A proxy with who to be there, for all URLs or by the environment's kinds; and for whom there is none.
    private static let proxy = TransferKey(
        object: "proxy",
        keys: ["url", "user", "password_file", "exceptions"],
        read: { object, base, settings throws(SettingsError) in
            try readProxy(object, base, into: &settings)
        },
        merge: { upper, lower in
            if upper.plainProxy == nil, upper.secureProxy == nil {
                upper.plainProxy = lower.plainProxy
                upper.secureProxy = lower.secureProxy
            }
            upper.proxyExceptions = upper.proxyExceptions ?? lower.proxyExceptions
        }
    )

    /// A certificate and its key, which belong together.
    private static let certificate = TransferKey(
        object: "tls",
        keys: ["certificate", "key"],
        read: { object, base, settings throws(SettingsError) in
            settings.certificate = try object.path("certificate", base)
            settings.certificateKey = try object.path("key", base)
            if let node = object.node("key"), settings.certificate == nil {
                throw object.fault(node, "key", "it needs tls.certificate")
            }
        },
        merge: { upper, lower in
            guard upper.certificate == nil else { return }
            upper.certificate = lower.certificate
            upper.certificateKey = upper.certificateKey ?? lower.certificateKey
        }
    )

    private static func readProxy(
        _ object: StrictObject,
        _ base: PathBase,
        into settings: inout TransferSettings
    ) throws(SettingsError) {
        let user = try object.text("user", "the user's name")
        let passwordFile = try object.path("password_file", base)
        if let list = try object.texts("exceptions", "hosts, domains or networks") {
            settings.proxyExceptions = list.map(\.text)
        }
        guard let node = object.node("url") else {
            for key in ["user", "password_file"] {
                guard let node = object.node(key) else { continue }
                throw object.fault(node, key, "it needs proxy.url")
            }
            return
        }
        // An empty string is a value here: no proxy, whatever the environment says.
        guard case .text(let url) = node.value else {
            throw object.fault(
                node,
                "url",
                "\(node.kind) was found; a URL such as \"http://proxy:3128\" is expected"
            )
        }
        var proxy: ProxySettings
        do throws(SettingsError) {
            proxy = try SettingValue.proxy(url)
        } catch {
            throw object.fault(node, "url", error.description)
        }
        if let node = object.node("password_file"), user == nil {
            throw object.fault(node, "password_file", "it needs proxy.user")
        }
        proxy.user = user
        proxy.passwordFile = passwordFile
        settings.setProxy(proxy)
    }
}

extension [String] {
    /// Each once, in the order of their first places.
    fileprivate var uniqued: [String] {
        reduce(into: []) { if !$0.contains($1) { $0.append($1) } }
    }
}
