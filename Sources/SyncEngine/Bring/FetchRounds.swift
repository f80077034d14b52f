import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// Fetches what is missing: plans, runs the spans, and fetches again from elsewhere what was wrong.
struct FetchRounds: Sendable {
    let context: RunContext
    /// The bases of relative URLs, in order.
    let places: [String]
    /// Where the manifest came from; `nil` for a local one.
    let referrer: TransferRequest.Referrer?
    let connections: Int
    let onBytes: @Sendable (UInt64) -> Void
    /// The dictionary that blobs need; `nil` if the manifest has none.
    let dictionary: ManifestDictionary?
    /// What is being copied at the same time, and must not be fetched.
    var copies: ChunkCopies?

    /// The bases of the first plan's deltas; if one fails, the full blob is fetched.
    var bases: DeltaBases?

    /// How often a row is fetched: once more from the same place, then from the file's own URLs.
    private static let rounds = 3
    var manifest: Manifest { context.manifest }
    var environment: EngineEnvironment { context.environment }
    private var parts: PartFiles { context.parts }
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
    ///   - isAll: Whether it is all that is wanted: then partial blobs are of no more use.
    /// - Returns: The rows that failed; every other row of the plan has been given to the committer.
    func run(_ plan: Plan, isAll: Bool = true) -> [RowFailure] {
        let workers: WorkerPool
        do { workers = try WorkerPool(count: environment.workers) } catch {
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
            switch self.dictionary(for: round) {
            case .success(let known): decoding = known
            case .failure(let failure):
                // Do not fetch what could not be decoded.
                failures += Set(round.targets.map(\.row)).sorted().map { RowFailure(row: $0, dictionary: failure) }
                break rounds
            }
            let installer = Installer(
                context, round, dictionary: decoding, bases: attempt == 0 ? bases : nil, copies: copies,
                windows: windows, onBytes: onBytes)
            let result = fetch(round, attempt: attempt, installer, workers: workers, pool: pool)
            context.partialBlobs.endPlan()
            let last = attempt + 1 == Self.rounds || isStopped
            // The transport has already tried all of a file's own URLs, as often as that helps.
            let asked = (result.isEmpty ? [] : round.looseRows).filter { parts.gaps(row: $0) == nil }
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
            do throws(PlanError) {
                round = try makePlan(
                    manifest, wanted: again, rule: CoalescingRule(), looseOnly: Set(loose),
                    gaps: { parts.gaps(row: $0) },
                    skipping: { parts.isHere(row: $0, blob: $1) || copies?.sources.has(row: $0, blob: $1) == true })
            } catch {
                failures += again.map { RowFailure(row: $0, reason: "\(error)", cause: .badManifest) }
                break
            }
        }
        failures += fetch(crowded, windows: windows, workers: workers, pool: pool)
        if isAll, failures.isEmpty, !isStopped { context.partialBlobs.remove() }
        return failures
    }

    /// How many places a file's packs can be fetched from, at most.
    private func sources(of row: Int) -> Int {
        let urls = manifest.files.blobs(row).map { manifest.packs[Int($0.pack)].urls.count }
        return (urls.max() ?? 0) * places.count
    }

    private var isStopped: Bool { context.isStopped || context.disk.hasFailed }

    /// Fetches rows that found no room for their windows, as many at a time as have room together.
    private func fetch(_ crowded: [Int: Int], windows: WindowBudget, workers: WorkerPool, pool: BufferPool)
        -> [RowFailure]
    {
        var failures: [RowFailure] = []
        var waiting = crowded.sorted { $0.key < $1.key }
        /// How many blobs a row wanted when it was last fetched alone.
        var alone: [Int: Int] = [:]
        while !waiting.isEmpty, !isStopped {
            var room = windows.capacity
            let some = waiting.prefix { _, window in
                room -= window
                return room >= 0
            }
            waiting.removeFirst(some.count)
            let rows = some.map(\.key)
            do {
                let plan = try makePlan(
                    manifest, wanted: rows, rule: CoalescingRule(), gaps: { parts.gaps(row: $0) },
                    skipping: { parts.isHere(row: $0, blob: $1) })
                let installer = Installer(
                    context, plan, dictionary: try dictionary(for: plan).get(), windows: windows, onBytes: onBytes)
                for failure in fetch(plan, attempt: 0, installer, workers: workers, pool: pool) {
                    // Some blobs of such a file are here by now, so it goes on alone.
                    let isFewer = rows.count > 1 || plan.slots.count < alone[failure.row] ?? .max
                    if failure.window != nil, isFewer {
                        waiting.insert((failure.row, windows.capacity), at: 0)
                        alone[failure.row] = rows.count > 1 ? nil : plan.slots.count
                    } else {
                        failures.append(failure)
                    }
                }
                context.partialBlobs.endPlan()
            } catch let failure as ManifestDictionary.Failure {
                failures += rows.map { RowFailure(row: $0, dictionary: failure) }
            } catch { failures += rows.map { RowFailure(row: $0, reason: "\(error)", cause: .badManifest) } }
        }
        return failures
    }

    /// The dictionary when a plan needs it.
    private func dictionary(for plan: Plan) -> Result<DecodingDictionary?, ManifestDictionary.Failure> {
        guard let dictionary, plan.slots.contains(where: \.codec.needsDictionary) else { return .success(nil) }
        return dictionary.get().map { $0 }
    }

    /// Runs one plan's spans to their ends.
    private func fetch(_ plan: Plan, attempt: Int, _ installer: Installer, workers: WorkerPool, pool: BufferPool)
        -> [RowFailure]
    {
        let ends = transfer(plan, installer, workers: workers, pool: pool, reload: attempt > 0)
        workers.drain()
        return judge(plan, installer, ends)
    }

    private func judge(_ plan: Plan, _ installer: Installer, _ ends: [SpanEnd]) -> [RowFailure] {
        var failures: [Int: RowFailure] = [:]
        var blamed: Set<String> = []
        for trouble in installer.troubles {
            switch trouble.cause {
            case .disk(let error): failures[trouble.row] = RowFailure(row: trouble.row, disk: error)
            case .wrongBase(let reason):
                guard failures[trouble.row]?.cause.isOfDisk != true else { continue }
                failures[trouble.row] = RowFailure(row: trouble.row, wrongBytes: reason)
            case .crowded(let window):
                let known = failures[trouble.row]
                guard known == nil || known?.window != nil else { continue }
                var failure = RowFailure(
                    row: trouble.row,
                    reason: "decoding it takes \(ByteCount(UInt64(window))) of memory, and the limit "
                        + "for all files is \(ByteCount(UInt64(windowBytes))); "
                        + "publish it with a smaller zstd window", cause: .badManifest)
                failure.window = max(window, known?.window ?? 0)
                failures[trouble.row] = failure
            case .wrongBytes(let reason, let found):
                let words = Self.words(reason, found: found, wanted: manifest.files.digest(trouble.row))
                let sender = trouble.span.flatMap { ends[$0].sender(trouble.source) }
                if let sender { tell(trouble.row, sender, words, found: found) }
                if let known = failures[trouble.row], known.cause.isOfDisk || trouble.span == nil { continue }
                failures[trouble.row] = RowFailure(
                    row: trouble.row, wrongBytes: sender.map { "\(redacted(url: $0)): \(words)" } ?? reason)
                if let sender, blamed.insert(sender).inserted {
                    environment.transport.blame(url: sender, reason: "wrong bytes")
                }
            }
        }
        let missing = installer.missing
        for span in ends.indices {
            let error: TransferError? = ends[span].error
            for slot in (missing[span] ?? [plan.spans[span].slots]).joined() {
                for target in plan.targets[plan.slots[slot].targets] where failures[target.row] == nil {
                    failures[target.row] = RowFailure(row: target.row, transfer: error)
                }
            }
        }
        return failures.values.sorted { $0.row < $1.row }
    }

    /// What a source delivered, for people.
    private static func words(_ reason: String, found: SHA256Digest?, wanted: SHA256Digest) -> String {
        "gave wrong bytes: " + (found.map { "SHA-256 \($0) instead of \(wanted)" } ?? reason)
    }

    /// Reports a source that delivered wrong bytes, whether or not another one helps.
    private func tell(_ row: Int, _ url: String, _ words: String, found: SHA256Digest?) {
        let (path, source, wanted) = (manifest.files.path(row), redacted(url: url), manifest.files.digest(row))
        let failure = FileFailure(path: path, reason: "\(source): \(words)", cause: .wrongBytes, isFinal: false)
        let note = "\(escaped(path)): \(source) \(words)"
        environment.events.tell(
            transfer: SyncEvent(.sourceWrongBytes, time: environment.now(), note: note, failure: failure) {
                $0.field("path", path)
                $0.field("source", source)
                $0.field("sha256", wanted.hex)
                $0.field("got_sha256", optional: found?.hex)
                $0.field("reason", words)
            })
    }
}
