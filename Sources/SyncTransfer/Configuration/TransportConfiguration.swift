package import SyncModel
package import SyncPlugins
package import SyncSystem

/// All settings of a ``CurlTransport``.
///
/// Nothing is read from the environment or from `~/.netrc`, and the time comes only from ``clock``.
package struct TransportConfiguration: Sendable {
    /// Most HTTP requests at a time, 1 to 256.
    package var connections = 16
    /// Most HTTP requests at a time to one origin, counted after redirects, 1 to 64.
    package var connectionsPerHost = 16
    /// Whether the limit for one origin follows its goodput, up to ``connectionsPerHost``.
    package var adaptive = true
    /// Initial requests at a time to an unknown origin, if ``adaptive``: slightly more than the 6 of browsers, which
    /// servers expect.
    package var initialConnections = 8
    /// Most **bytes** a second over all transfers; `nil` for no limit.
    package var rateLimit: UInt64?

    /// Longest time for name, TCP and TLS together. `CURLOPT_CONNECTTIMEOUT_MS`.
    package var connectTimeout: Duration = .seconds(30)
    /// Longest time without a byte. A paused transfer is not idle.
    package var idleTimeout: Duration = .seconds(60)
    /// Least **bytes** a second of an answer, on average over ``speedTime``; 0 for none. Paused transfers, and those
    /// that share a slow link, are not too slow. As `CURLOPT_LOW_SPEED_LIMIT`.
    package var speedLimit: UInt64 = 1024
    /// The time over which ``speedLimit`` is measured. As `CURLOPT_LOW_SPEED_TIME`.
    package var speedTime: Duration = .seconds(60)
    /// Longest time from the start of a transfer to its end, waiting included.
    package var resourceDeadline: Duration = .seconds(7 * 86_400)
    /// How long to wait for silent servers; `nil` for as long as ``resourceDeadline``.
    package var patience: Patience?
    /// How long to wait for silent servers once another source of the same object has answered without giving it.
    package var patienceBesideAnswer: Duration = .seconds(10)
    /// Attempts and the waits between them.
    package var retry = RetryPolicy()
    /// How long a source that failed or sent wrong bytes comes after all others.
    package var penalty: Duration = .seconds(600)

    /// The policy for redirects.
    package var redirects = RedirectPolicy()
    /// Rules for original URLs and redirect targets, first match wins.
    package var rewriteRules: [RewriteRule] = []
    /// The credentials for each origin; none is sent to any other origin.
    package var credentials = Credentials()
    /// Resolvers, asked in this order about every request before it is sent, after ``rewriteRules``.
    package var resolvers: [ConfiguredResolver] = []
    /// Credential providers, asked in this order for origins without ``credentials``.
    package var credentialProviders: [ConfiguredCredentialProvider] = []
    /// Answers the challenge of a 401 for which none of ``credentialProviders`` has a credential.
    package var challenges: (any ChallengeAnswer)?
    /// Longest time for an answer of ``resolvers`` or ``credentialProviders``. After it, requests are sent as they are.
    package var pluginDeadline: Duration = .seconds(30)
    /// Headers as `Name: value`, sent only to a transfer's original origin, and only if ``homes`` contains that origin.
    package var headers: [String] = []
    /// Origins that get ``headers`` and the client's certificate; `nil` for every transfer's original origin. A
    /// manifest from elsewhere can name any host as a source.
    package var homes: Set<Origin>?
    /// The proxies for http and https URLs; none unless set here, whatever the environment says.
    package var plainProxy, secureProxy: ProxyConfiguration?
    /// One proxy for every request.
    package var proxy: ProxyConfiguration? {
        get { secureProxy }
        set {
            plainProxy = newValue
            secureProxy = newValue
        }
    }
    /// Trust, identity and protocol version.
    package var tls = TLSConfiguration()
    /// Which requests may use HTTP/2.
    package var http2 = HTTP2Use.never
    /// The `User-Agent` header.
    package var userAgent = "syncagent"

    /// **Bytes** libcurl reads at a time. `CURLOPT_BUFFERSIZE`, at most 10 MiB. Each connection has one buffer of this
    /// size, and a second one while it is paused.
    package var bufferSize = 128 * 1024
    /// Most header **bytes** of one answer, 1xx answers and trailers included.
    package var maximumHeaderBytes = 128 * 1024
    /// Most header lines of one answer, 1xx answers and trailers included.
    package var maximumHeaderCount = 256
    /// Transfers of up to this many **bytes** have their own lane beside the large ones.
    package var smallSize: UInt64 = 1 << 20
    /// Objects of more than this many **bytes** are fetched over HTTP/1.1 with ``HTTP2Use/wholeObjects``.
    package var largeSize: UInt64 = 16 << 20
    /// Least **bytes** of a part when a running transfer is split.
    package var minimumSplit: UInt64 = 512 << 10

    /// What an earlier process knew about sources; see ``CurlTransport/takeSources()``.
    package var sources = SourceRecords()
    /// Redirects that an earlier process remembered; see ``CurlTransport/takeLinks()``.
    package var links = RedirectMemory()

    /// The advice on a fault, added to its message; `nil` for none.
    package var advise: @Sendable (TransferAdvice) -> String? = { _ in nil }

    /// The clock for deadlines and for dates in answers.
    package var clock: TransportClock
    /// A uniformly distributed number, for jitter.
    package var random: @Sendable () -> UInt64
    /// Called on the transport's thread before the announced action; must not block for long.
    package var events: @Sendable (TransferEvent) -> Void
    /// Called before the first request after a hop; returns whether that request has to wait. If so, `done` is called,
    /// from any thread, once ``events`` has recorded the hop or has failed to.
    package var awaitRecord: @Sendable (_ done: @escaping @Sendable () -> Void) -> Bool = { _ in false }

    /// Starts from the defaults beside each property.
    package init(
        clock: TransportClock, random: @escaping @Sendable () -> UInt64,
        events: @escaping @Sendable (TransferEvent) -> Void = { _ in }
    ) {
        (self.clock, self.random, self.events) = (clock, random, events)
    }
}

/// The two clocks that a transport needs.
package struct TransportClock: Sendable {
    /// Since any fixed point; never goes back.
    package var now: @Sendable () -> Duration
    /// **Seconds** since 1970-01-01 UTC, for dates in answers.
    package var unixTime: @Sendable () -> Int64

    package init(now: @escaping @Sendable () -> Duration, unixTime: @escaping @Sendable () -> Int64) {
        (self.now, self.unixTime) = (now, unixTime)
    }
}

extension TransportConfiguration {
    /// The proxy that requests to an origin go through; `nil` when they go there directly.
    package func proxy(for origin: Origin) -> ProxyConfiguration? {
        guard let proxy = origin.scheme == "https" ? secureProxy : plainProxy, !proxy.url.isEmpty,
            !proxy.isException(origin.host)
        else { return nil }
        return proxy
    }

    /// Refuses settings that would be ignored or would fail later, and files that others could change.
    func validate() throws(TransferError) {
        try check((1...256).contains(connections), "connections must be 1 to 256, not \(connections)")
        try check(
            (1...64).contains(connectionsPerHost), "connections per host must be 1 to 64, not \(connectionsPerHost)")
        try check(initialConnections >= 1, "at least one connection is needed to begin with")
        try check(rateLimit != 0, "a rate limit of 0 bytes a second would never end; leave it out for none")
        try check(connectTimeout > .zero && idleTimeout > .zero, "timeouts must be above zero")
        try check(speedTime > .zero, "the time over which the speed is measured must be above zero")
        try check(retry.attempts >= 1, "at least one attempt is needed")
        try check((1...50).contains(redirects.limit) || redirects.limit == 0, "redirects must be 0 to 50")
        try check((1024...(10 << 20)).contains(bufferSize), "the buffer must have 1 KiB to 10 MiB")
        try checkTLSFile(tls.authorities, "the file of certificate authorities")
        try checkTLSFile(tls.certificate, "the client certificate")
        try checkTLSFile(tls.key, "the client key")
        for line in headers { try check(isHeaderLine(line), "not a header line: Name: value is needed") }
    }

    private func check(_ condition: Bool, _ detail: String) throws(TransferError) {
        guard condition else { throw TransferError(code: .misuse, url: "", detail: detail) }
    }

    /// Anyone who can change these files decides which servers are trusted, or which identity is shown.
    private func checkTLSFile(_ path: String?, _ what: String) throws(TransferError) {
        guard let path else { return }
        func refused(_ reason: String) -> TransferError {
            TransferError(code: .misuse, url: "", detail: "\(what), \(path): \(reason)")
        }
        try rethrowing(checkUnchangeable(path)) { (error: FileError) in refused(error.reason) }
        guard isPermitted(.read, path) else { throw refused(errnoText) }
    }

    private func isHeaderLine(_ line: String) -> Bool {
        guard let colon = line.firstIndex(of: ":"), colon != line.startIndex else { return false }
        return line.isOneLine
    }
}
