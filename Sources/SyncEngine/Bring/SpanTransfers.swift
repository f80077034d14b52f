import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

// Runs all spans of one plan through a transport, which queues them.
extension FetchRounds {
    /// How one span's transfer ended.
    struct SpanEnd: Sendable {
        /// The URLs that were asked for it, absolute.
        var urls: [String]
        var error: TransferError?

        /// Who sent bytes of it that are wrong; `nil` if it cannot be told, as when several have sent some of one blob.
        ///
        /// - Parameter source: What the transport says of them.
        func sender(_ source: String?) -> String? { source ?? (urls.count == 1 ? urls.first : nil) }
    }

    private struct State: Sendable {
        var open: Int
        var ends: [SpanEnd]
    }

    /// Blocks until every span has ended.
    func transfer(_ plan: Plan, _ installer: Installer, workers: WorkerPool, pool: BufferPool, reload: Bool)
        -> [SpanEnd]
    {
        guard !plan.spans.isEmpty else { return [] }
        let urls = plan.spans.map { self.urls(of: $0, in: plan) }.map { urls in
            // Only one kind of place per transfer: remote mirrors of a local pack are asked once it is gone.
            let isLocal = urls.first?.hasPrefix("file:") == true
            return urls.filter { $0.hasPrefix("file:") == isLocal }
        }
        let state = Monitor(State(open: plan.spans.count, ends: urls.map { SpanEnd(urls: $0) }))
        let tasks = environment.live.tasks
        let numbers = environment.events.subjects.begin(
            plan.spans.count, { subject(of: $0, in: plan) }, tasks: { tasks?.note($1, plan.rows(of: $0)) })
        defer { environment.events.subjects.forget(numbers) }
        var identifiers: [(TransferID, any Transport)] = []
        for (span, number) in zip(plan.spans.indices, numbers) {
            let identifier = TransferID(rawValue: number)
            tasks?.give(plan.rows(of: span), to: number)
            let isLocal = urls[span].first?.hasPrefix("file:") == true
            let transport = isLocal ? environment.localTransport : environment.transport
            identifiers.append((identifier, transport))
            let (range, size) = (plan.spans[span].range, objectSize(of: plan.spans[span].source))
            let request = TransferRequest(
                id: identifier, urls: urls[span], range: range == 0..<size ? nil : range, objectSize: size,
                limit: range.length, priority: plan.spans.count - span, reload: reload, referrer: referrer)
            let unpacker = SpanUnpacker(plan: plan, span: span, consumer: installer, pool: pool, workers: workers)
            let sink = SpanSink(unpacker: unpacker, range: range, pool: pool) { transport.resume(identifier) }
            transport.start(request, sink: sink) { result in
                sink.finish()
                let isLast = state.withLock { state in
                    state.open -= 1
                    if case .failure(let error) = result { state.ends[span].error = error }
                    return state.open == 0
                }
                // If eight thousand end at once, signal once.
                if isLast { state.signal(0) }
            }
        }
        let cancel = { @Sendable [identifiers] in
            for (identifier, transport) in identifiers { transport.cancel(identifier) }
        }
        environment.stop.onStop(cancel)
        context.disk.onFailure(cancel)
        return state.wait { $0.open == 0 ? $0.ends : nil }
    }

    private func subject(of span: Int, in plan: Plan) -> TransferSubject {
        switch plan.spans[span].source {
        case .pack(let pack): TransferSubject(object: manifest.packs[pack].sha256.hex, tasks: plan.rows(of: span).count)
        case .loose(let row): TransferSubject(path: manifest.files.path(row), tasks: plan.rows(of: span).count)
        }
    }

    private func urls(of span: Plan.Span, in plan: Plan) -> [String] {
        switch span.source {
        case .pack(let pack): return resolve(manifest.packs[pack].urls, against: places)
        case .loose(let row):
            var urls = resolve(manifest.files.urls(row), against: places)
            // Files with the same content have it at their URLs, too.
            for target in plan.targets[plan.slots[span.slots.lowerBound].targets] where target.row != row {
                for url in resolve(manifest.files.urls(target.row), against: places)
                where urls.count < Self.mostURLs && !urls.contains(url) { urls.append(url) }
            }
            return urls
        }
    }

    /// A thousand files with the same content must not make a thousand attempts.
    private static let mostURLs = 8

    private func objectSize(of source: Plan.Source) -> UInt64 {
        switch source {
        case .pack(let pack): manifest.packs[pack].size
        case .loose(let row): manifest.files.size(row)
        }
    }
}

extension Plan {
    /// The rows fetched by URLs of their own.
    var looseRows: Set<Int> {
        var rows: Set<Int> = []
        for (span, planned) in spans.enumerated() {
            if case .loose = planned.source { rows.formUnion(self.rows(of: span)) }
        }
        return rows
    }

    /// The rows that need a span, each once, in order.
    func rows(of span: Int) -> [Int] {
        var rows: [Int] = []
        for slot in spans[span].slots { for target in targets[slots[slot].targets] { rows.append(target.row) } }
        rows.sort()
        var last: Int?
        return rows.filter { row in
            defer { last = row }
            return row != last
        }
    }
}
