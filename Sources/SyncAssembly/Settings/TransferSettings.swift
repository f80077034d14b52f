package import SyncModel
import SyncSystem
package import SyncTransfer

extension TransferSettings {
    /// These settings, with those of `lower` where nothing is set. Lists are joined, these first.
    package func over(_ lower: TransferSettings) -> TransferSettings {
        var result = self
        for row in TransferKey.all { row.merge(&result, lower) }
        return result
    }

    /// Applies these settings to a transport's configuration, and reads the files that they name.
    ///
    /// - Throws: ``SettingsError`` that names the file that cannot be used.
    package func apply(to configuration: inout TransportConfiguration) throws(SettingsError) {
        for row in TransferKey.all { try row.put(self, &configuration) }
    }

    /// Keeps to the limits of other settings, too: the tightest one holds.
    mutating func limit(to other: TransferSettings) {
        limitRate = [limitRate, other.limitRate].compactMap(\.self).min()
        guard let count = connections else { return }
        if let most = other.plannedConnections, most < count {
            (connections, connectionsPerHost) = (other.connections, other.connectionsPerHost)
        } else {
            connectionsPerHost = min(connectionsPerHost ?? count, count)
        }
    }

    /// The connections that a plan assumes, 1 to 64; `nil` when no number is set and the number adapts.
    package var plannedConnections: Int? {
        guard connections != nil || connectionsPerHost != nil else { return nil }
        return min(max(1, min(connections ?? 64, connectionsPerHost ?? 64)), 64)
    }

    /// The connections that a run starts with when no number is set.
    package static let usualConnections = 8

    /// The names of settings that hold a secret themselves instead of the path of a file that does.
    package var inlineSecrets: [String] {
        var names = headers.compactMap(\.secretName).map { "the header \($0)" }
        // Signatures and tokens are in queries.
        for (index, rule) in rewrite.enumerated() where Self.hasQuery(rule) {
            names.append("rewriting rule \(index + 1)")
        }
        if plainProxy?.password != nil || secureProxy?.password != nil { names.append("the proxy's password") }
        return names
    }

    /// Removes what ``inlineSecrets`` names. A proxy stays, without its password.
    package mutating func removeInlineSecrets() {
        headers.removeAll { $0.secretName != nil }
        rewrite.removeAll(where: Self.hasQuery)
        plainProxy?.password = nil
        secureProxy?.password = nil
    }

    private static func hasQuery(_ rule: String) -> Bool { rule.split(separator: " ").last?.contains("?") == true }
}

/// Every transfer setting, one row each: its key in a configuration file, how it is read there, how two values are
/// merged, and where it goes in a transport's configuration. With its property in ``TransferSettings``, a row is all
/// there is to a setting; an option of the command line sets the property.
struct TransferKey: Sendable {
    /// The object that has the keys; `nil` for the root of the file.
    let object: String?
    /// The keys in that object.
    let keys: [String]
    let read: @Sendable (StrictObject, PathBase, inout TransferSettings) throws(SettingsError) -> Void
    /// Takes the lower value where the upper one is not set.
    let merge: @Sendable (inout TransferSettings, TransferSettings) -> Void
    /// Applies the setting to a transport's configuration, after the rows before it.
    var put: Put = { _, _ in }

    typealias Put = @Sendable (TransferSettings, inout TransportConfiguration) throws(SettingsError) -> Void

    static let all: [TransferKey] = [
        one("connections", \.connections, integer(1...256)),
        one("connections_per_host", \.connectionsPerHost, integer(1...64)).putting { $0.putConnections(into: &$1) },
        one("limit_rate", \.limitRate, bytes()) { $0.rateLimit = $1 }, one("max_manifest", \.manifestLimit, bytes()),
        one("deadline", \.deadline, seconds) { $0.resourceDeadline = $1 },
        one("connect_timeout", \.connectTimeout, seconds) { $0.connectTimeout = $1 },
        one("idle_timeout", \.idleTimeout, seconds) { $0.idleTimeout = $1 },
        one("patience", \.patience, seconds).putting { $0.putPatience(into: &$1) },
        one("speed_limit", \.speedLimit, bytes(mayBeZero: true)) { $0.speedLimit = $1 },
        one("speed_time", \.speedTime, seconds).putting {
            // A server that may be silent for so long must not be cut off earlier for being slow.
            $1.speedTime = $0.speedTime ?? max($1.speedTime, $1.idleTimeout)
        },
        list("rewrite", \.rewrite, "rules \"PREFIX REPLACEMENT\"") { text, _ throws(SettingsError) in
            try SettingValue.rule(text)
        }.putting { said, configuration throws(SettingsError) in
            configuration.rewriteRules = []
            for text in said.rewrite {
                let rule = try rethrowing(RewriteRule(text)) { (error: URLError) in
                    SettingsError("a rewriting rule: " + escaped("\(error)"))
                }
                configuration.rewriteRules.append(rule)
            }
        },
        one("credentials_file", \.credentialsFile, path).putting { said, configuration throws(SettingsError) in
            guard let path = said.credentialsFile else { return }
            configuration.credentials = try rethrowing(Credentials.read(path: path)) {
                (refusal: Credentials.Refusal) in SettingsError(escaped("\(refusal)"))
            }
        },
        list("headers", \.headers, "lines \"Name: value\"") { text, base throws(SettingsError) in
            try SettingValue.header(text, base)
        }.putting { said, configuration throws(SettingsError) in configuration.headers = try said.headerLines() },
        proxy, one("ca_file", in: "tls", \.authorities, path) { $0.tls.authorities = $1 }, certificate,
        one("minimum_version", in: "tls", \.tlsMinimum, word()) { $0.tls.minimumVersion = $1 },
        one("http2", \.http2, word()) { $0.http2 = $1 },
        one("limit", in: "redirects", \.redirectLimit, integer(0...50)) { $0.redirects.limit = $1 },
        exemption("allow_downgrade", \.downgrade) { $0.redirects.downgrade = $1 },
        exemption("allow_private", \.privateTargets) { $0.redirects.privateTargets = $1 },
    ]

    /// The keys of the file's root.
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
    private typealias Read<Value> = @Sendable (StrictObject, String, PathBase) throws(SettingsError) -> Value?

    /// One value: the upper one, if it is set.
    private static func one<Value: Sendable>(
        _ key: String, in object: String? = nil, _ path: Path<Value?>, _ read: @escaping Read<Value>,
        put: @escaping @Sendable (inout TransportConfiguration, Value) -> Void = { _, _ in }
    ) -> TransferKey {
        TransferKey(
            object: object, keys: [key],
            read: { from, base, settings throws(SettingsError) in settings[keyPath: path] = try read(from, key, base) },
            merge: { upper, lower in upper[keyPath: path] = upper[keyPath: path] ?? lower[keyPath: path] },
            put: { said, configuration in if let value = said[keyPath: path] { put(&configuration, value) } })
    }

    /// A list: the upper one, then the lower one.
    private static func list<Value: Sendable>(
        _ key: String, _ path: Path<[Value]>, _ wish: String,
        _ read: @escaping @Sendable (String, PathBase) throws(SettingsError) -> Value
    ) -> TransferKey {
        TransferKey(
            object: nil, keys: [key],
            read: { from, base, settings throws(SettingsError) in
                for (text, place) in try from.texts(key, wish) ?? [] {
                    settings[keyPath: path].append(try place.reading(read(text, base)))
                }
            }, merge: { upper, lower in upper[keyPath: path] += lower[keyPath: path] })
    }

    /// Hosts for which something is allowed: those of both.
    private static func exemption(
        _ key: String, _ path: Path<HostExemption>,
        put: @escaping @Sendable (inout TransportConfiguration, HostExemption) -> Void
    ) -> TransferKey {
        TransferKey(
            object: "redirects", keys: [key],
            read: { from, _, settings throws(SettingsError) in settings[keyPath: path] = try from.exemption(key) },
            merge: { upper, lower in upper[keyPath: path] = upper[keyPath: path].union(lower[keyPath: path]) },
            put: { put(&$1, $0[keyPath: path]) })
    }

    /// The same row, which puts more than its own value into the configuration.
    private func putting(_ put: @escaping Put) -> TransferKey {
        var row = self
        row.put = put
        return row
    }

    /// A certificate and its key, which belong together.
    private static let certificate = TransferKey(
        object: "tls", keys: ["certificate", "key"],
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
        },
        put: {
            $1.tls.certificate = $0.certificate
            $1.tls.key = $0.certificateKey
        })

    // MARK: Kinds of values

    private static func integer(_ range: ClosedRange<Int>) -> Read<Int> {
        { from, key, _ throws(SettingsError) in try from.integer(key, in: range) }
    }

    private static func bytes(mayBeZero: Bool = false) -> Read<UInt64> {
        { from, key, _ throws(SettingsError) in try from.byteCount(key, mayBeZero: mayBeZero) }
    }

    private static func word<Words>() -> Read<Words>
    where Words: RawRepresentable & CaseIterable & SendableMetatype, Words.RawValue == String {
        { from, key, _ throws(SettingsError) in try from.word(key) }
    }

    private static let seconds: Read<Duration> = { from, key, _ throws(SettingsError) in try from.duration(key) }
    private static let path: Read<String> = { from, key, base throws(SettingsError) in try from.path(key, base) }
}

extension TransferSettings {
    /// If no number is set, there are few connections, and more where that helps; otherwise there are never more than
    /// that.
    fileprivate func putConnections(into configuration: inout TransportConfiguration) {
        let isSaid = connections != nil || connectionsPerHost != nil
        configuration.connections = connections ?? Self.mostConnections
        configuration.connectionsPerHost = min(
            connectionsPerHost ?? Self.mostConnectionsPerHost, min(configuration.connections, 64))
        if !isSaid { configuration.initialConnections = Self.usualConnections }
    }

    /// The most connections when no number is set.
    private static let mostConnections = 64
    /// The most connections to one origin when no number is set: beyond it servers begin to refuse.
    private static let mostConnectionsPerHost = 32

    fileprivate func putPatience(into configuration: inout TransportConfiguration) {
        if let patience {
            configuration.patience = Patience(patience)
        } else if let idleTimeout, let usual = configuration.patience {
            // Patience must not end before the silence that is allowed.
            configuration.patience = Patience(
                firstContact: max(usual.firstContact, idleTimeout), silence: max(usual.silence, idleTimeout))
        }
    }

    fileprivate func headerLines() throws(SettingsError) -> [String] {
        var lines: [String] = []
        for header in headers {
            switch header {
            case .line(let line): lines.append(line)
            case .file(let path):
                for (index, line) in try secretLines(path, "the headers file").enumerated() where !line.isEmpty {
                    if let problem = TransferHeader.problem(with: line) {
                        throw SettingsError("\(escaped(path)):\(index + 1): \(problem)")
                    }
                    lines.append(line)
                }
            }
        }
        return lines
    }
}

extension [String] {
    /// The elements without repetitions, in the order of their first places.
    fileprivate var uniqued: [String] { reduce(into: []) { if !$0.contains($1) { $0.append($1) } } }
}
