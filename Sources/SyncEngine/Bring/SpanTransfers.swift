import SyncPlanner
import SyncPlugins
import SyncSystem
import SyncUnpack

/// Runs all spans of one plan through a transport, which queues them.
struct SpanTransfers: Sendable {
    /// How one span's transfer ended.
    struct End: Sendable {
        /// The URL that delivered; after a failure the first one. Absolute.
        var url: String
        var error: TransferError?
    }

    let plan: Plan
    let urls: @Sendable (_ span: Int) -> [String]
    let installer: Installer
    let workers: WorkerPool
    let pool: BufferPool
    let environment: EngineEnvironment
    let disk: DiskState
    let objectSize: @Sendable (_ span: Int) -> UInt64
    /// What a span is for.
    let subject: @Sendable (_ span: Int) -> TransferSubject
    let reload: Bool
    let referrer: TransferRequest.Referrer?

    private struct State: Sendable {
        var open: Int
        var ends: [End]
    }

    /// Blocks until every span has ended.
    func run() -> [End] {
        guard !plan.spans.isEmpty else { return [] }
        let state = Monitor(
            State(open: plan.spans.count, ends: plan.spans.indices.map { End(url: urls($0).first ?? "") })
        )
        let tasks = environment.live.tasks
        let numbers = environment.events.subjects.begin(plan.spans.count, subject) { [plan] in
            tasks?.note($1, plan.rows(of: $0))
        }
        defer { environment.events.subjects.forget(numbers) }
        var identifiers: [(TransferID, any Transport)] = []
        for (span, number) in zip(plan.spans.indices, numbers) {
            let identifier = TransferID(rawValue: number)
            tasks?.give(plan.rows(of: span), to: number)
            let transport = transport(for: span)
            identifiers.append((identifier, transport))
            start(span, identifier, transport, state)
        }
        let cancel = { @Sendable [identifiers] in
            for (identifier, transport) in identifiers { transport.cancel(identifier) }
        }
        environment.stop.onStop(cancel)
        disk.onFailure(cancel)
        return state.wait { $0.open == 0 ? $0.ends : nil }
    }

    private func transport(for span: Int) -> any Transport {
        urls(span).first?.hasPrefix("file:") == true ? environment.localTransport : environment.transport
    }

    private func start(
        _ span: Int,
        _ identifier: TransferID,
        _ transport: any Transport,
        _ state: Monitor<State>
    ) {
        let planned = plan.spans[span]
        let unpacker = SpanUnpacker(plan: plan, span: span, consumer: installer, pool: pool, workers: workers)
        let sink = SpanSink(unpacker: unpacker, range: planned.range, pool: pool) {
            transport.resume(identifier)
        }
        let size = objectSize(span)
        let isAll = planned.range == 0..<size
        let urls = urls(span)
        // Only one kind of place per transfer: remote mirrors of a local pack are asked once it is gone.
        let kind = urls.filter { $0.hasPrefix("file:") == (urls.first?.hasPrefix("file:") == true) }
        let request = TransferRequest(
            id: identifier,
            urls: kind,
            range: isAll ? nil : planned.range,
            objectSize: size,
            limit: planned.range.length,
            priority: plan.spans.count - span,
            reload: reload,
            referrer: referrer
        )
        transport.start(request, sink: sink) { result in
            sink.finish()
            let isLast = state.withLock { state in
                state.open -= 1
                if case .failure(let error) = result { state.ends[span].error = error }
                if case .success(let report) = result, kind.indices.contains(report.sourceIndex) {
                    state.ends[span].url = kind[report.sourceIndex]
                }
                return state.open == 0
            }
            // If eight thousand end at once, signal once.
            if isLast { state.signal(0) }
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
        for slot in spans[span].slots {
            for target in targets[slots[slot].targets] { rows.append(target.row) }
        }
        rows.sort()
        var last: Int?
        return rows.filter { row in
            defer { last = row }
            return row != last
        }
    }
}
