import ArgumentParser
import SyncAssembly
import SyncEngine
import SyncModel
import SyncPlugins
import SyncReport
import SyncSystem
import SyncTransfer

struct PlanCommand: AsyncParsableCommand, ReadingOptions {
    static let configuration = CommandConfiguration(
        commandName: "plan", abstract: "Show what a pull would fetch, with which requests, and why.",
        discussion: """
            Reads the manifest and inspects the destination; fetches no files and changes nothing. If it is known in \
            advance how the pull would end, the exit status is the same: 2 if something is in the way of a file, 73 if \
            the destination cannot be created, 74 if there is not enough space, 75 if another process is using the \
            session or the destination, 77 if the revision or the prune would be refused.

            --explain shows which rule, credentials, proxy and TLS settings apply to each source, and where the \
            servers redirect to. To find out, it requests the first byte of one object from each source.

            Examples:

              syncagent plan https://cdn.example.com/tower/ --into /srv/tower -v
            """)

    @OptionGroup var target: TargetOptions

    @OptionGroup(title: "Release and trust") var release: ReleaseOptions

    @OptionGroup var listing: ListingOptions

    @OptionGroup var bucket: BucketOptions

    @OptionGroup(title: "Release and trust") var downgrade: DowngradeOption

    @Flag(help: "Explain where the requests go; sends a one-byte request to each source.") var explain = false

    @OptionGroup(title: "Release and trust") var trust: TrustOptions

    @OptionGroup var verbose: VerboseOption

    @OptionGroup(title: "Transfer") var transfer: TransferOptions

    @OptionGroup(title: "Output") var reporting: ReportingOptions

    func run() async throws {
        let output = reporting.output()
        let request = try transfer.engine(trusting: trust) { settings in
            var recipe = try target.recipe(settings, self)
            downgrade.apply(to: &recipe)
            return recipe
        }
        try await EngineCall(reporting, on: output, request, detail: verbose.detail).plan(explains: explain)
    }
}

/// The route of requests to one place, according to the configuration and to its server.
struct PlannedRoute: Sendable {
    let source: PlanReport.Source
    /// `nil` for local files, for URLs of a transport plugin, and for what is no URL.
    let explanation: RouteExplanation?
    var hops: [Hop] = []
    /// `nil` if the server was not asked.
    var answer: Result<TransferReport, TransferError>?

    /// Most places to ask; a manifest may name thousands.
    fileprivate static let mostAsked = 64

    var lines: [String] {
        let counts = "\(Figures.count(source.objects, "object")), \(Figures.count(source.requests, "request"))"
        var lines = ["from       \(redacted(url: source.prefix)): \(counts)"]
        if source.requests == 0 { lines[0] += ", only if others fail" }
        func add(_ word: String, _ text: String) {
            lines.append("  " + "\(word) ".padded(to: 9) + text)
        }
        guard let explanation else {
            let texts = ["local": "files are read directly", "skipped": "this is not a URL that can be requested"]
            add(otherRoute, texts[otherRoute] ?? "handled by a transport plugin")
            return lines
        }
        if let rule = explanation.rule {
            add("rule \(rule.place)", "\(rule.pattern), so requests go to \(explanation.asked)")
        }
        let headers =
            explanation.headers == 0
            ? "" : ", with \(Figures.count(explanation.headers, "header")) from the configuration"
        add("as", (explanation.credentials.map { "\($0) credentials" } ?? "no credentials") + headers)
        add(
            "through",
            explanation.proxy.map { "the proxy \($0.url)" + ($0.hasUser ? ", with user and password" : "") }
                ?? "no proxy")
        if let tls = explanation.tls {
            add(
                "TLS",
                "\(tls.minimumVersion.rawValue) or later, trusting \(tls.authorities.map(escaped) ?? "the system's authorities")"
                    + (tls.certificate.map { ", presenting \(escaped($0))" } ?? ""))
        }
        // The rule for the place itself has been printed.
        for hop in hops.dropFirst(explanation.rule == nil ? 0 : 1) {
            let mark =
                switch hop.cause {
                case .redirect(let status): "\(status)"
                case .rule(let place): "rule \(place)"
                case .resolver, .mirror: hop.word
                }
            add(mark, "\(hop.from) -> \(hop.to)")
        }
        add("answer", answerText)
        return lines
    }

    /// What becomes of URLs without an ``explanation``, in a word.
    private var otherRoute: String {
        if urlScheme(of: source.prefix) == "file" { return "local" }
        return isWebURL(source.prefix) && (try? CurlURL(source.prefix)) == nil ? "skipped" : "plugin"
    }

    private var answerText: String {
        guard let answer else { return "not probed: there are more than \(Self.mostAsked) sources" }
        let (words, requests): (String, Int)
        switch answer {
        case .success(let report):
            let status = report.response.status
            (words, requests) = ("\(status), ranges " + (status == 206 ? "work" : "are ignored"), report.requests)
        case .failure(let error): (words, requests) = ("\(error)", error.requests)
        }
        return words + " (\(Figures.count(requests, "request")) sent to find out)"
    }

    func event(time: Int64) -> SyncEvent {
        SyncEvent(.planRoute, time: time) { line in
            line.field("prefix", redacted(url: source.prefix))
            line.field("objects", source.objects)
            line.field("requests", source.requests)
            guard let explanation else { return line.field(otherRoute, true) }
            line.field("asked", explanation.asked)
            if let rule = explanation.rule { line.field("rule", rule.place) }
            if let credentials = explanation.credentials { line.field("credentials", credentials) }
            line.field("headers", explanation.headers)
            if let proxy = explanation.proxy { line.field("proxy", proxy.url) }
            if let tls = explanation.tls { line.field("tls", tls.minimumVersion.rawValue) }
            line.list("hops", hops) { hop, line in
                line.field("reason", hop.word)
                switch hop.cause {
                case .rule(let place): line.field("rule", place)
                case .redirect(let status): line.field("status", status)
                case .resolver, .mirror: break
                }
                line.field("from", hop.from)
                line.field("to", hop.to)
            }
            switch answer {
            case nil: break
            case .success(let report):
                line.field("status", report.response.status)
                line.field("probes", report.requests)
            case .failure(let error):
                // 0 if nothing usable was received.
                line.field("status", error.code.status ?? 0)
                line.field("reason", "\(error)")
                line.field("probes", error.requests)
            }
        }
    }
}

extension Hop {
    /// The reason for the hop, in a word.
    fileprivate var word: String {
        switch cause {
        case .redirect: "redirect"
        case .rule: "rewrite"
        case .resolver: "resolver"
        case .mirror: "mirror"
        }
    }
}

extension EngineCall {
    /// Finds out where the requests of a plan go: requests the first byte of one object of each place. Blocks a thread of
    /// its own until every place has answered or failed.
    ///
    /// - Throws: ``CommandFailure`` with status 78; `CancellationError` if it is stopped.
    func routes(of report: PlanReport) async throws -> [PlannedRoute] {
        try await onThread("routes", cancellable: { flag in try probe(report) { flag.isSet } })
    }

    private func probe(_ report: PlanReport, _ isCancelled: () -> Bool) throws -> [PlannedRoute] {
        // The document that names the sources; `nil` for a manifest of this machine.
        let referrer = report.referrer
        let hops = Mutex<[TransferID: [Hop]]>([:])
        var configuration = try request.configuration(on: EnvironmentPaths.ofProcess.host)
        configuration.events = { event in
            guard case .moved(let id, let hop) = event else { return }
            hops.withLock { $0[id, default: []].append(hop) }
        }
        // One attempt each: a failure is reported, and soon.
        configuration.retry.attempts = 1
        configuration.patience = Patience(.seconds(5))
        let transport = try rethrowing(CurlTransport(configuration: configuration)) { (error: TransferError) in
            CommandFailure(.configuration, "\(error)")
        }
        defer { transport.shutdown() }

        var routes: [PlannedRoute] = []
        let ends = Monitor<[TransferID: Result<TransferReport, TransferError>]>([:])
        var asked: [TransferID] = []
        for (index, source) in report.sources(of: referrer?.url ?? recipe.manifest).enumerated() {
            let explanation = try? configuration.explain(source.example.url)  // `nil` for a local file.
            routes.append(PlannedRoute(source: source, explanation: explanation))
            guard explanation != nil, asked.count < PlannedRoute.mostAsked else { continue }
            let id = TransferID(rawValue: UInt64(index))
            asked.append(id)
            let request = TransferRequest(
                id: id, urls: [source.example.url], range: source.example.size > 0 ? 0..<1 : nil,
                objectSize: source.example.size, limit: 1, referrer: referrer)
            transport.start(request, sink: FirstByte()) { result in ends.change { $0[id] = result } }
        }
        let hasAll = ends.wait(every: 200) { ends -> Bool? in
            ends.count == asked.count ? true : isCancelled() ? false : nil
        }
        guard hasAll else { throw CancellationError() }
        for id in asked {
            let index = Int(id.rawValue)
            routes[index].hops = hops.withLock { $0[id] ?? [] }
            routes[index].answer = ends.withLock { $0[id] }
        }
        return routes
    }
}

/// Accepts bytes and discards them.
private final class FirstByte: TransferSink {
    func begin(_ response: ResponseHead) -> UInt64 { 0 }
    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome { .taken }
}
