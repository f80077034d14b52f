import Glibc
import SyncPlugins
import SyncTestKit
import SyncTransfer

/// One fault in one situation, at the level of a transport: a sink that checks every byte, on real sockets.
struct TransportCase {
    let fault: MatrixFault
    let situation: Situation

    static let path = "/objects/one.pack"
    private static let limit = Duration.seconds(30)

    func run() async throws {
        let servers = try MatrixServers(fault, objects: [Self.path: Situation.object])
        let root = try TemporaryRoot()
        try root.write(servers.trusted, to: "ca.pem")
        let transport = try CurlTransport(configuration: configuration(servers, root))
        // Who has lost patience with a server asks it again in the next pull, with another transport.
        let next = try fault.isGivenUp ? CurlTransport(configuration: configuration(servers, root)) : transport
        do {
            try await run(transport, servers, next)
            transport.shutdown()
            next.shutdown()
        } catch {
            transport.shutdown()
            next.shutdown()
            throw MatrixFailure("\(situation): \(error)\nThe server saw:\n\(servers.stage.server.log.description)")
        }
    }

    private func run(_ transport: CurlTransport, _ servers: MatrixServers, _ next: CurlTransport) async throws {
        let stage = servers.stage
        try fault.before(stage)
        let here = situation.wanted.prefix(situation.here)
        let base = fault.host.map { "http://\($0)" } ?? stage.server.url("")
        let run = start(on: transport, servers, base, here: Array(Situation.object.bytes[here]))
        async let during: Void = fault.during(stage)
        let result = try await run.end(within: Self.limit)
        try await during
        try judge(result, run)
        try fault.check(stage, situation)

        // Whatever happened, a clean pull now succeeds, with what was kept.
        try servers.disarm()
        let again = start(on: next, servers, stage.server.url(""), here: run.sink.bytes)
        guard case .success = try await again.end(within: Self.limit) else {
            throw MatrixFailure("the clean transfer failed: \(String(describing: again.result))")
        }
        try checkBytes(again, isWhole: true)
        try require(run.completions == 1 && again.completions == 1, "a completion came twice")
    }

    private func start(on transport: CurlTransport, _ servers: MatrixServers, _ base: String, here: [UInt8])
        -> TransferRun
    {
        let wanted = situation.wanted
        let isWhole = situation.shape == .loose
        var behaviour = CollectingSink.Behaviour()
        behaviour.start = UInt64(wanted.lowerBound)
        behaviour.alreadyHere = here
        behaviour.object = Situation.object.bytes
        // A transfer that has everything is asked for all: an empty range cannot be asked for.
        let missing = here.count == wanted.count ? wanted : wanted.dropFirst(here.count)
        let isRanged = !isWhole || missing.count < wanted.count
        var urls = [base + Self.path]
        if fault.hasMirror { urls.append(servers.stage.mirror.url(Self.path)) }
        let request = TransferRequest(
            id: TransferID(rawValue: UInt64(clock_gettime_nsec())), urls: urls,
            range: isRanged ? UInt64(missing.lowerBound)..<UInt64(missing.upperBound) : nil,
            objectSize: UInt64(Situation.object.bytes.count), limit: UInt64(missing.count),
            validator: situation.resume == .fresh
                ? nil : Validator(etag: Situation.object.etag, lastModified: Situation.object.lastModified))
        return TransferRun(request, on: transport, sink: CollectingSink(behaviour))
    }

    private func judge(_ result: Result<TransferReport, TransferError>, _ run: TransferRun) throws {
        try checkBytes(run, isWhole: false)
        switch (result, fault.outcome(situation)) {
        case (.success, .delivered): try checkBytes(run, isWhole: true)
        case (.success, .fails) where situation.isDone: try checkBytes(run, isWhole: true)
        case (.success, .fails(let codes)): throw MatrixFailure("succeeded, expected \(codes.map(\.name))")
        case (.failure(let error), .delivered): throw MatrixFailure("failed with \(error.code.name): \(error)")
        case (.failure(let error), .fails(let codes)):
            try require(
                codes.contains(error.code), "failed with \(error.code.name), not \(codes.map(\.name)): \(error)")
            try require(!error.detail.isEmpty, "a failure without a reason")
        }
    }

    private func checkBytes(_ run: TransferRun, isWhole: Bool) throws {
        let right = Situation.object.bytes[situation.wanted]
        let got = run.sink.bytes
        try require(isPrefix(got, of: right), "wrong bytes were taken")
        try require(!isWhole || got.count == right.count, "ended well with \(got.count) of \(right.count) bytes")
        try require(run.sink.violations.isEmpty, run.sink.violations.joined(separator: "; "))
    }

    private func configuration(_ servers: MatrixServers, _ root: TemporaryRoot) -> TransportConfiguration {
        var configuration = TransportConfiguration.quick
        configuration.adopt(fault.setting, servers, authorities: root.path("ca.pem"))
        fault.configure(&configuration)
        return configuration
    }
}

extension TransportConfiguration {
    /// Waits and limits short enough for hundreds of cases, long enough for a busy machine.
    static var quick: TransportConfiguration {
        var configuration = TransportConfiguration(
            clock: TransportClock(now: { .nanoseconds(clock_gettime_nsec()) }, unixTime: { Int64(time(nil)) }),
            random: { UInt64(truncatingIfNeeded: clock_gettime_nsec()) &* 0x9E37_79B9_7F4A_7C15 })
        configuration.connectTimeout = .seconds(1)
        configuration.idleTimeout = .seconds(1)
        // What happens to a server in the middle may come late where every thread of the tests is at work.
        configuration.resourceDeadline = .seconds(90)
        configuration.retry.attempts = 4
        configuration.retry.base = .milliseconds(5)
        configuration.retry.cap = .milliseconds(20)
        configuration.retry.connectivityCap = .milliseconds(20)
        configuration.retry.retryAfterCap = .milliseconds(50)
        configuration.penalty = .milliseconds(50)
        return configuration
    }
}

/// **Nanoseconds** since the machine started. `clock_gettime(2)`
func clock_gettime_nsec() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}
