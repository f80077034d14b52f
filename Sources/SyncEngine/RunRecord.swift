import SyncFiles
import SyncManifest
import SyncModel
import SyncStore

/// One run in the store: begun, or taken up where another process left it; in the end finished, or given back.
struct RunRecord {
    let environment: EngineEnvironment
    let session: String
    let run: String

    private var store: SyncStore { environment.store }

    /// Takes a session for this process.
    ///
    /// - Throws: ``EngineError`` with status 75, which names the holder.
    static func lease(_ session: String, _ environment: EngineEnvironment) throws(EngineError) -> SessionLease
    {
        do throws(StoreError) {
            return try environment.store.lease(
                of: session,
                process: environment.process,
                now: environment.now()
            )
        } catch {
            throw EngineError(error)
        }
    }

    /// Records the run of `options`, or finds the open one that asks for the same. The caller has the lease.
    ///
    /// - Parameter isHeld: Whether this process works on it from here on.
    static func begin(
        _ options: PullOptions,
        _ found: FoundManifest,
        groups: [String],
        in destination: Destination,
        isHeld: Bool,
        _ environment: EngineEnvironment
    ) throws(EngineError) -> BegunRun {
        let now = environment.now()
        var request = SessionRequest(
            identifier: options.session ?? found.project,
            project: found.project,
            destination: destination.path,
            device: destination.device,
            inode: destination.inode
        )
        request.label = options.terms.label
        var start = RunStart(
            session: request,
            run: identifier(environment),
            manifest: found.digest,
            location: found.location
        )
        start.selection = options.groups
        start.options = StoredOptions.text(options)
        start.groups = groups
        start.hooks = options.hooks.filter { groups.contains($0.group) }.map {
            PlannedHook(group: $0.group, arguments: $0.arguments, timeout: $0.timeout, results: $0.results)
        }
        start.notBefore = options.terms.notBefore
        let wait = Int64(clamping: UInt64(max(0, options.terms.deadline / .milliseconds(1))))
        start.deadline = max(now, options.terms.notBefore ?? now).addingReportingOverflow(wait).partialValue
        start.origin = options.terms.origin
        start.settings = options.terms.settings
        start.isPaused = options.terms.isPaused && !isHeld
        do throws(StoreError) {
            // A command that is repeated after a power cut loses nothing; one that was acknowledged must not be lost.
            let durability: SyncStore.Durability = isHeld && options.hooks.isEmpty ? .eventual : .synced
            return try environment.store.begin(
                start,
                now: now,
                isHeld: isHeld,
                continuing: true,
                durability: durability
            )
        } catch {
            throw EngineError(error)
        }
    }

    /// Sorts by time: `20261120T020000Z-` and 8 hexadecimal digits.
    private static func identifier(_ environment: EngineEnvironment) -> String {
        let digits = timestamp(milliseconds: environment.now()).prefix(19).filter { $0 != "-" && $0 != ":" }
        let random = String(environment.random() & 0xFFFF_FFFF, radix: 16)
        return digits + "Z-" + String(repeating: "0", count: 8 - random.count) + random
    }

    /// Events go to the store from here on.
    func open() {
        environment.events.open(EventLog(store: store, session: session), session: session, run: run)
    }

    /// The run has come to its end.
    func finish(_ report: PullReport, error: String? = nil) throws(EngineError) {
        do throws(StoreError) {
            try environment.events.close()
            try store.finish(
                run: run,
                result: report.result.rawValue,
                counts: report.counts,
                error: error,
                now: environment.now()
            )
        } catch {
            throw EngineError(error)
        }
    }

    /// The run is stopped before its end; the reason decides how it rests.
    func rest(_ reason: StopReason, _ report: PullReport) throws(EngineError) {
        do throws(StoreError) {
            try environment.events.close()
            try store.keep(report.counts, of: run)
            let input: RunInput =
                switch reason {
                case .user: .paused
                case .policy, .released: .released
                case .cancelled: .cancelled
                }
            try store.apply(input, to: run, reason: reason.rawValue, now: environment.now())
        } catch {
            throw EngineError(error)
        }
    }
}

extension EngineError {
    /// What the store could not do.
    init(_ error: StoreError) { self.init(error.status, error.message) }
}

/// Asks the store, in the engine's words for what goes wrong.
func recording<R>(_ body: () throws(StoreError) -> R) throws(EngineError) -> R {
    do throws(StoreError) {
        return try body()
    } catch {
        throw EngineError(error)
    }
}
