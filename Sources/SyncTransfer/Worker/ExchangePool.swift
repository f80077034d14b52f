import CCurl
import SyncSystem

/// libcurl's multi handle: the requests in it, and idle handles for the next ones.
final class ExchangePool {
    private let multi: MultiHandle
    private let configuration: TransportConfiguration
    private let network = NetworkChanges()
    /// The rate limit over all transfers.
    let throttle: Throttle
    private(set) var running: [ExchangeID: Exchange] = [:]
    private var lastID: ExchangeID = 0
    /// Idle handles of all hosts.
    private var idleHandles = 0

    init(multi: MultiHandle, configuration: TransportConfiguration, now: Duration) {
        self.multi = multi
        self.configuration = configuration
        throttle = Throttle(rate: configuration.rateLimit, now: now)
        _ = sa_curl_multi_set_long(multi.raw, CURLMOPT_MAXCONNECTS, configuration.connections + 8)
        _ = sa_curl_multi_set_long(multi.raw, CURLMOPT_MAX_CONCURRENT_STREAMS, configuration.connections)
    }

    /// How many more requests may be started.
    var room: Int { configuration.connections - running.count }

    func isRunning(_ exchange: Exchange) -> Bool { running[exchange.id] != nil }

    func nextID() -> ExchangeID {
        lastID += 1
        return lastID
    }

    /// A handle with the settings that all requests of a kind to a host share.
    func takeHandle(_ kind: HandleKind, of host: HostState) throws(CurlError) -> EasyHandle {
        if let easy = host.handles[kind]?.popLast() {
            idleHandles -= 1
            return easy
        }
        let easy = try EasyHandle()
        try easy.applyDefaults(configuration, kind: kind, origin: host.origin, credential: host.credential.kind)
        return easy
    }

    /// Drops a host's idle handles, whose settings are outdated.
    func dropHandles(of host: HostState) {
        idleHandles -= host.handles.values.reduce(0) { $0 + $1.count }
        host.handles = [:]
    }

    /// Sends a request whose handle is set up.
    func send(_ exchange: Exchange) throws(CurlError) {
        let code = curl_multi_add_handle(multi.raw, exchange.easy.raw)
        guard code == CURLM_OK else { throw CurlError(detail: String(cString: curl_multi_strerror(code))) }
        running[exchange.id] = exchange
        exchange.host.running += 1
        exchange.host.unanswered += 1
        exchange.host.allowance?.ask()
        if exchange.plan.isSmall { exchange.host.runningSmall += 1 }
    }

    /// Frees the slot and keeps the handle. libcurl closes a connection that is in the middle of a body.
    func release(_ exchange: Exchange, now: Duration) {
        guard running.removeValue(forKey: exchange.id) != nil else { return }
        let host = exchange.host
        host.running -= 1
        if !exchange.isAnswered { host.unanswered -= 1 }
        host.silence.isIdle(from: now)
        if exchange.plan.isSmall { host.runningSmall -= 1 }
        _ = curl_multi_remove_handle(multi.raw, exchange.easy.raw)
        do {
            try exchange.easy.attach(nil)
            let kind = exchange.plan.kind
            // A handle with a former credential is never used again.
            let isCurrent = kind.credential == 0 || kind.credential == host.credential.version
            if isCurrent, idleHandles < 2 * configuration.connections {
                idleHandles += 1
                host.handles[kind, default: []].append(exchange.easy)
            }
        } catch {
            // A handle that refuses a pointer is not reused.
        }
    }

    /// Lets libcurl send, receive and call back. Returns what is wrong with the multi handle itself.
    func perform() -> String? {
        var active: Int32 = 0
        let code = curl_multi_perform(multi.raw, &active)
        return code == CURLM_OK ? nil : String(cString: curl_multi_strerror(code))
    }

    /// The next exchange that libcurl has ended, and its result.
    func takeEnded() -> (Exchange, CURLcode)? {
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi.raw, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let raw = message.pointee.easy_handle else { continue }
            let result = sa_curl_message_result(message)
            var pointer: UnsafeMutableRawPointer?
            guard sa_curl_get_pointer(raw, CURLINFO_PRIVATE, &pointer) == CURLE_OK, let exchange = exchange(pointer)
            else { continue }
            return (exchange, result)
        }
        return nil
    }

    /// Sleeps until something arrives, a command wakes it, or the time is over. Returns whether addresses or routes of
    /// this machine have changed.
    func sleep(atMost milliseconds: Int32) -> Bool {
        guard let descriptor = network.descriptor else {
            _ = curl_multi_poll(multi.raw, nil, 0, milliseconds, nil)
            return false
        }
        var extra = curl_waitfd(fd: descriptor, events: Int16(CURL_WAIT_POLLIN), revents: 0)
        _ = curl_multi_poll(multi.raw, &extra, 1, milliseconds, nil)
        return extra.revents != 0 && network.takeChange()
    }

    /// The longest sleep that the rate limit allows; `nil` if it throttles nothing.
    var throttleWait: Duration? {
        guard throttle.rate != nil, running.values.contains(where: { $0.isThrottled }) else { return nil }
        return max(throttle.wait, .milliseconds(1))
    }

    func setRate(_ rate: UInt64?, now: Duration) {
        throttle.setRate(rate, now: now)
        if rate == nil { releaseThrottled(now: now) }
    }

    /// Refills the bucket and resumes throttled exchanges.
    func fillThrottle(now: Duration) {
        guard throttle.rate != nil else { return }
        throttle.fill(now: now)
        if throttle.hasTokens { releaseThrottled(now: now) }
    }

    /// Resumes throttled exchanges. If the bucket is empty again, they are throttled again.
    private func releaseThrottled(now: Duration) {
        for exchange in Array(running.values) where exchange.isThrottled {
            exchange.isThrottled = false
            unpause(exchange, now: now)
        }
    }

    /// Resumes an exchange that a sink has paused.
    func resume(_ exchange: Exchange, now: Duration) {
        guard exchange.isPaused else { return }
        exchange.isPaused = false
        unpause(exchange, now: now)
    }

    /// Calls `curl_easy_pause(3)`, which may call the write callback before it returns.
    private func unpause(_ exchange: Exchange, now: Duration) {
        guard !exchange.isPaused, !exchange.isThrottled else { return }
        exchange.activeAt = now
        _ = curl_easy_pause(exchange.easy.raw, CURLPAUSE_CONT)
    }
}
