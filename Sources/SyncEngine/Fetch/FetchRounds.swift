import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

/// Fetches missing rows: runs the spans of a plan, and fetches wrong bytes again from elsewhere.
struct FetchRounds: Sendable {
    let context: RunContext
    let found: FoundManifest
    let connections: Int
    let onBytes: @Sendable (UInt64) -> Void
    /// The dictionary of the manifest, once a blob has needed it.
    private let dictionary = Monitor<DecodingDictionary?>(nil)
    /// The copies of local chunks that run at the same time; these chunks are not fetched.
    var copies: ChunkCopies?

    /// The bases of the first plan's deltas; if one fails, the full blob is fetched.
    var bases: DeltaBases?
    /// Why rows are missing, once they have been fetched and placed.
    var failures: [RowFailure] = []
    /// **Bytes** taken from local files.
    var reusedBytes: UInt64 = 0

    /// - Parameter onBytes: Receives the counts of raw **bytes** that have arrived.
    init(
        _ context: RunContext, from found: FoundManifest, connections: Int,
        onBytes: @escaping @Sendable (UInt64) -> Void = { _ in }
    ) {
        (self.context, self.found, self.connections, self.onBytes) = (context, found, connections, onBytes)
    }

    /// The most fetches of a row: the first, one more from the same place, one from the file's own URLs.
    static let rounds = 3
    var manifest: Manifest { context.manifest }
    var environment: EngineEnvironment { context.environment }
    /// Buffers of 256 KiB between the network and the workers: the bound on data received and not written.
    private static let buffers = 40
    /// **Bytes** for the windows of all blobs decoded at a time: room for the largest possible one, less if the
    /// manifest itself takes much memory.
    private var windowBytes: Int { min(130 << 20, max(24 << 20, 220 << 20 - manifest.files.memoryBytes)) }

    /// Spans are long enough to be few, and short enough that every connection has several.
    static func rule(
        for manifest: Manifest, wanted: [Int], connections: Int,
        skipping: (_ row: Int, _ blob: Int) -> Bool = { _, _ in false }
    ) -> CoalescingRule {
        var stored: UInt64 = 0
        for row in wanted {
            for (position, blob) in manifest.files.blobs(row).enumerated() where !skipping(row, position) {
                stored = stored &+ blob.storedLength
            }
        }
        let share = stored / UInt64(max(1, connections) * 4)
        // 32 MiB is a pack of the usual size, fetched whole: with shorter spans its rest would cost a request as well.
        return CoalescingRule(spanLength: share > 4 << 20 ? 32 << 20 : max(share, 2 << 20))
    }

    /// - Parameters:
    ///   - plan: The first round's plan.
    ///   - isAll: Whether the plan has all that is wanted: then partial blobs are of no use after it.
    /// - Returns: The rows that failed; every other row of the plan has been given to the committer.
    func run(_ plan: Plan, isAll: Bool = true) -> [RowFailure] {
        let workers: WorkerPool
        do { workers = try WorkerPool(count: min(environment.workers, plan.slots.count)) } catch {
            return Set(plan.targets.map(\.row)).sorted().map { RowFailure(row: $0, reason: "\(error)", cause: .other) }
        }
        let pool = BufferPool(count: Self.buffers, bufferSize: 256 << 10)
        let windows = WindowBudget(capacity: windowBytes)
        defer { workers.close() }
        var failures: [RowFailure] = []
        /// Rows whose blobs found no room for their windows, with the size that each wants.
        var crowded: [Int: Int] = [:]
        var round = plan
        rounds: for attempt in 0..<Self.rounds {
            let decoding: DecodingDictionary?
            do throws(EngineError) { decoding = try self.dictionary(for: round) } catch {
                // Do not fetch what could not be decoded.
                failures += Set(round.targets.map(\.row)).sorted().map { RowFailure(row: $0, dictionary: error) }
                break rounds
            }
            let installer = Installer(
                context, round, dictionary: decoding, bases: attempt == 0 ? bases : nil, copies: copies,
                windows: windows, onBytes: onBytes)
            let result = fetch(round, attempt: attempt, installer, workers: workers, pool: pool)
            context.partialBlobs.endPlan()
            let last = attempt + 1 == Self.rounds || isStopped
            // The transport has already tried all of a file's own URLs, as often as that helps.
            let asked = (result.isEmpty ? [] : round.looseRows).filter { context.gaps(row: $0) == nil }
            var again: [Int] = []
            for failure in result {
                if let window = failure.window, window <= windows.capacity {
                    crowded[failure.row] = window
                    continue
                }
                let hasURLs = !manifest.files.urls(failure.row).isEmpty
                // Each source that gives wrong bytes is blamed, and the next is asked.
                let mayBeRight = attempt == 0 || hasURLs || attempt + 1 < sources(of: failure.row)
                let retries =
                    !failure.cause.isOfDisk && failure.cause != .cancelled
                    && (failure.isWrongBytes ? mayBeRight : hasURLs && !asked.contains(failure.row))
                if last || !retries { failures.append(failure) } else { again.append(failure.row) }
            }
            guard !again.isEmpty else { break }
            environment.live.tasks?.released(again)
            // The same place may have the right bytes by now.
            let reloads = attempt > 0 ? [] : Set(result.filter(\.isWrongBytes).map(\.row))
            let loose = again.filter { !manifest.files.urls($0).isEmpty && !reloads.contains($0) }
            round = makePlan(
                manifest, wanted: again, rule: CoalescingRule(), looseOnly: Set(loose), gaps: context.gaps,
                skipping: { context.isHere(row: $0, blob: $1) || copies?.sources.has(row: $0, blob: $1) == true })
        }
        failures += fetch(crowded, windows: windows, workers: workers, pool: pool)
        if isAll, failures.isEmpty, !isStopped { context.partialBlobs.remove() }
        return failures
    }

    /// The most places that a file's packs can be fetched from.
    private func sources(of row: Int) -> Int {
        let urls = manifest.files.blobs(row).map { manifest.packs[Int($0.pack)].urls.count }
        return (urls.max() ?? 0) * found.bases.count
    }

    private var isStopped: Bool { context.isStopped || context.disk.hasFailed }

    /// Fetches rows that found no room for their windows, as many at a time as have room together.
    private func fetch(_ crowded: [Int: Int], windows: WindowBudget, workers: WorkerPool, pool: BufferPool)
        -> [RowFailure]
    {
        var failures: [RowFailure] = []
        var waiting = crowded.sorted { $0.key < $1.key }
        /// The number of blobs that a row lacked when it was last fetched alone.
        var alone: [Int: Int] = [:]
        while !waiting.isEmpty, !isStopped {
            var room = windows.capacity
            let some = waiting.prefix { _, window in
                room -= window
                return room >= 0
            }
            waiting.removeFirst(some.count)
            let rows = some.map(\.key)
            do throws(EngineError) {
                let plan = makePlan(
                    manifest, wanted: rows, rule: CoalescingRule(), gaps: context.gaps, skipping: context.isHere)
                let installer = Installer(
                    context, plan, dictionary: try dictionary(for: plan), windows: windows, onBytes: onBytes)
                for failure in fetch(plan, attempt: 0, installer, workers: workers, pool: pool) {
                    // Some blobs of such a file have arrived by now, so it continues alone.
                    let isFewer = rows.count > 1 || plan.slots.count < alone[failure.row] ?? .max
                    if failure.window != nil, isFewer {
                        waiting.insert((failure.row, windows.capacity), at: 0)
                        alone[failure.row] = rows.count > 1 ? nil : plan.slots.count
                    } else {
                        failures.append(failure)
                    }
                }
                context.partialBlobs.endPlan()
            } catch { failures += rows.map { RowFailure(row: $0, dictionary: error) } }
        }
        return failures
    }

    /// The dictionary, if a plan needs it. Waits for the network the first time.
    private func dictionary(for plan: Plan) throws(EngineError) -> DecodingDictionary? {
        guard plan.slots.contains(where: \.codec.needsDictionary) else { return nil }
        if let known = dictionary.withLock({ $0 }) { return known }
        let fetched = try found.dictionary(of: manifest)
        dictionary.withLock { $0 = fetched }
        return fetched
    }

    /// Runs one plan's spans to their ends.
    private func fetch(_ plan: Plan, attempt: Int, _ installer: Installer, workers: WorkerPool, pool: BufferPool)
        -> [RowFailure]
    {
        let ends = transfer(plan, installer, workers: workers, pool: pool, reload: attempt > 0)
        workers.drain()
        var failures: [Int: RowFailure] = [:]
        var blamed: Set<String> = []
        for trouble in installer.troubles {
            let known = failures[trouble.row]
            if trouble.error != nil {
                failures[trouble.row] = trouble
            } else if let window = trouble.window {
                if known.map({ $0.window.map { $0 < window } ?? false }) ?? true { failures[trouble.row] = trouble }
            } else {
                // `nil` if the sender is not known, as when several have sent parts of one blob.
                let urls = trouble.span.map { ends[$0].urls } ?? []
                let sender = trouble.span == nil ? nil : trouble.source ?? (urls.count == 1 ? urls.first : nil)
                let words = Self.words(
                    trouble.reason, found: trouble.found, wanted: manifest.files.digest(trouble.row))
                if let sender {
                    environment.emitWrongBytes(manifest.files, trouble.row, from: sender, words, found: trouble.found)
                }
                if let known, known.cause.isOfDisk || trouble.span == nil { continue }
                failures[trouble.row] =
                    sender.map { RowFailure(row: trouble.row, wrongBytes: "\(redacted(url: $0)): \(words)") } ?? trouble
                if let sender, blamed.insert(sender).inserted {
                    environment.transport.reportFault(url: sender, reason: "wrong bytes")
                }
            }
        }
        let missing = installer.missing
        for span in ends.indices {
            for slot in (missing[span] ?? [plan.spans[span].slots]).joined() {
                for target in plan.targets[plan.slots[slot].targets] where failures[target.row] == nil {
                    failures[target.row] = RowFailure(row: target.row, transfer: ends[span].error)
                }
            }
        }
        return failures.values.sorted { $0.row < $1.row }
    }

    /// The wrong bytes of a source, described for people.
    private static func words(_ reason: String, found: SHA256Digest?, wanted: SHA256Digest) -> String {
        "gave wrong bytes: " + (found.map { "SHA-256 \($0) instead of \(wanted)" } ?? reason)
    }
}

extension EngineEnvironment {
    /// Reports a source that delivered wrong bytes, whether or not another one helps.
    ///
    /// - Parameter words: The fault of the source, for people.
    func emitWrongBytes(_ files: FileTable, _ row: Int, from url: String, _ words: String, found: SHA256Digest?) {
        let (path, source, wanted) = (files.path(row), redacted(url: url), files.digest(row))
        let note = "\(escaped(path)): \(source) \(words)"
        events.emitTransfer {
            SyncEvent(.sourceWrongBytes, time: now(), note: note, session: $0, run: $1) {
                $0.field("path", path)
                $0.field("source", source)
                $0.field("sha256", wanted.hex)
                $0.field("got_sha256", optional: found?.hex)
                $0.field("reason", words)
            }
        }
    }
}

// Runs all spans of one plan through a transport, which queues them.
extension FetchRounds {
    /// The absolute URLs that were asked for a span, and why its transfer failed.
    typealias SpanEnd = (urls: [String], error: TransferError?)

    /// Blocks until every span has ended.
    func transfer(_ plan: Plan, _ installer: Installer, workers: WorkerPool, pool: BufferPool, reload: Bool)
        -> [SpanEnd]
    {
        guard !plan.spans.isEmpty else { return [] }
        let urls = plan.spans.map { ofOneKind(self.urls(of: $0, in: plan)) }
        let ends: [SpanEnd] = urls.map { ($0, nil) }
        let state = Monitor<(open: Int, ends: [SpanEnd])>((plan.spans.count, ends))
        let tasks = environment.live.tasks
        let numbers = environment.events.beginTransfers(
            plan.spans.count, { subject(of: $0, in: plan) }, tasks: { tasks?.note($1, plan.rows(of: $0)) })
        defer { environment.events.forgetTransfers(numbers) }
        var identifiers: [(TransferID, any Transport)] = []
        for (span, number) in zip(plan.spans.indices, numbers) {
            let identifier = TransferID(rawValue: number)
            tasks?.give(plan.rows(of: span), to: number)
            let transport = isLocal(urls[span]) ? environment.localTransport : environment.transport
            identifiers.append((identifier, transport))
            let (range, size) = (plan.spans[span].range, objectSize(of: plan.spans[span].source))
            let request = TransferRequest(
                urls[span], range, of: size, id: identifier, priority: plan.spans.count - span, reload: reload,
                referrer: found.referrer)
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
        case .pack(let pack): return resolve(manifest.packs[pack].urls, against: found.bases)
        case .loose(let row):
            var urls = resolve(manifest.files.urls(row), against: found.bases)
            // The URLs of files with the same content have it, too.
            for target in plan.targets[plan.slots[span.slots.lowerBound].targets] where target.row != row {
                for url in resolve(manifest.files.urls(target.row), against: found.bases)
                where urls.count < Self.mostURLs && !urls.contains(url) { urls.append(url) }
            }
            return urls
        }
    }

    /// A thousand files with the same content must not make a thousand attempts.
    static let mostURLs = 8

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

/// A row that could not be fetched or placed, and why.
struct RowFailure: Sendable, Error {
    private(set) var row: Int
    /// For people.
    private(set) var reason: String
    private(set) var cause: FailureCause
    /// Whether no server could be reached, or none answered.
    private(set) var isUnreachable = false
    /// Whether bytes came and were wrong: another source may have the right ones.
    private(set) var isWrongBytes = false
    /// Whether something else is there than what the manifest names, by its bytes or already by its length.
    private(set) var isOtherContent = false
    /// The window that found no room, in **bytes**: the row can be fetched when others are done.
    private(set) var window: Int?
    /// The error of the disk.
    private(set) var error: FileError?
    /// The span that delivered wrong bytes, if one did, and the URL that sent them; `nil` for several.
    var span: Int?
    var source: String?
    /// The SHA-256 of the wrong bytes.
    var found: SHA256Digest?

    init(row: Int, reason: String, cause: FailureCause) {
        self.row = row
        self.reason = reason
        self.cause = cause
    }

    /// The same failure for another row.
    func of(_ row: Int) -> RowFailure {
        var failure = self
        failure.row = row
        return failure
    }

    /// A row whose bytes were wrong.
    init(row: Int, wrongBytes reason: String) {
        self.init(row: row, reason: reason, cause: .wrongBytes)
        isWrongBytes = true
        isOtherContent = true
    }

    /// A row that could not be written to the disk.
    init(row: Int, disk error: FileError) {
        self.init(row: row, reason: error.reasonForFile, cause: error.cause)
        self.error = error
    }

    /// A row with a blob whose window of so many **bytes** found no room beside others.
    init(row: Int, window: Int, of capacity: Int) {
        let text =
            "decoding it takes \(ByteCount(UInt64(window))) of memory, and the limit for all files is "
            + "\(ByteCount(UInt64(capacity))); publish it with a smaller zstd window"
        self.init(row: row, reason: text, cause: .badManifest)
        self.window = window
    }

    /// A row that cannot be decoded for want of the dictionary.
    init(row: Int, dictionary error: EngineError) {
        self.init(row: row, reason: error.message, cause: error.cause)
        isUnreachable = error.cause == .unreachable
    }

    /// A row that a transfer failed to deliver.
    init(row: Int, transfer error: TransferError?) {
        self.init(row: row, reason: "the transfer ended early", cause: .unreachable)
        guard let error else { return }
        reason = "\(error)"
        cause = error.cause
        isOtherContent = error.isOtherSize
        isUnreachable = error.code == .unreachable || error.code == .timedOut
    }
}
