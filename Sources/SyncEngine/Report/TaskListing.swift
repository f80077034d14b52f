import SyncManifest
package import SyncModel
import SyncPlugins
package import SyncStore
import SyncSystem

/// The tasks of a run, one by one, whichever process works on it: from the cached manifest and the run's records.
package final class TaskListing: Sendable {
    /// The state of a transfer, and the reason for it.
    package typealias Request = (state: RequestState, reason: String?)

    private let run: StoredRun
    private let manifest: Manifest
    private let marks: [TaskTracker.Mark]
    private let transfers: [UInt32]
    private let reasons: [String: String]
    private let requests: [UInt64: Request]
    private let wanted: TaskState?
    private let glob: Glob?
    /// The next row to examine.
    private let row = Mutex(0)

    /// - Parameters:
    ///   - requests: The states of the run's transfers, by number.
    ///   - state: Only tasks in this state.
    ///   - glob: Only tasks whose path matches, as in a group of a manifest.
    /// - Throws: ``EngineError`` with status 66 when the manifest is no longer kept, with 73 when the directory where it
    ///   would be, or the manifest itself, cannot be opened.
    package init(
        _ run: StoredRun, store: SyncStore, stateDirectory: String, requests: [UInt64: Request],
        state: TaskState? = nil, glob: String? = nil
    ) throws(EngineError) {
        self.run = run
        self.requests = requests
        wanted = state
        self.glob = glob.map(Glob.init)
        manifest = try Self.manifest(of: run, stateDirectory)
        reasons = try recording { () throws(StoreError) in
            Dictionary(try store.reasons(of: run.identifier)) { first, _ in first }
        }
        let recorded = store.liveFiles(of: run.session)?.tasks()
        if let recorded, recorded.run == run.identifier, recorded.marks.count == manifest.files.count {
            (marks, transfers) = (recorded.marks, recorded.transfers)
            return
        }
        // No file was examined: the run has not started, or found that nothing had changed.
        transfers = []
        var all = [TaskTracker.Mark](repeating: .unselected, count: manifest.files.count)
        let rest: TaskTracker.Mark = run.state == .finished && run.result == .ok ? .unchanged : .waiting
        for row in try run.recipe.selectedRows(of: manifest, StopRequest()) { all[row] = rest }
        marks = all
    }

    private static func manifest(of run: StoredRun, _ stateDirectory: String) throws(EngineError) -> Manifest {
        var limits = ManifestLimits(ownText: 1 << 30)
        // The run has accepted its URLs; nothing is fetched here.
        limits.schemes = nil
        let nobody = NoTransport()
        let cache = ManifestCache(reading: stateDirectory, limit: limits.ownTextBytes)
        let source = ManifestSource(
            transport: nobody, localTransport: nobody, cache: cache, stop: StopRequest(), limits: limits)
        do throws(EngineError) {
            return try source.recorded(run.manifest, location: run.location, isPublic: nil).decode()
        } catch {
            let directory = stateDirectory + "/manifests"
            do throws(FileError) {
                _ = try ifPresent(openPrivateDirectory(directory, create: false))
                _ = try cache.hasBody(run.manifest)
            } catch {
                // What cannot be opened may well be kept.
                let remedy = "; this user has to be able to read everything in \(escaped(directory))"
                let what = "the names of the files of run \(run.identifier) are unknown: "
                var failure = EngineError(cannotUse: error, what)
                failure.message += remedy
                throw failure
            }
            throw EngineError(
                .noInput,
                "the manifest of run \(run.identifier) is no longer kept, so the names of its files are unknown; "
                    + "'syncagent events' shows what happened to them")
        }
    }

    /// The next task; `nil` after the last.
    package func next() -> TaskStatus? {
        row.withLock { row in
            while row < marks.count {
                defer { row += 1 }
                if let task = task(row) { return task }
            }
            return nil
        }
    }

    private func task(_ row: Int) -> TaskStatus? {
        guard let recorded = marks[row].state else { return nil }
        let number = transfers.indices.contains(row) && transfers[row] != 0 ? UInt64(transfers[row]) : nil
        let request = number.flatMap { requests[$0] }
        let state = recorded.now(in: run.state, request: request?.state)
        guard wanted == nil || wanted == state else { return nil }
        if let glob, !manifest.files.withPath(row, { glob.matches($0) }) { return nil }
        let reason: String? =
            switch state {
            case .failed, .cancelled: reasons[manifest.files.path(row)] ?? run.error ?? run.reason?.rawValue
            case .paused: run.reason?.rawValue
            case .waiting: request?.reason ?? (run.state == .waiting ? run.reason?.rawValue : nil)
            case .installed where marks[row] == .reused: "from what was here"
            case .running, .installed, .unchanged: nil
            }
        return manifest.files.task(row, state, reason, transfer: number)
    }
}

extension FileTable {
    /// The task of a row.
    func task(_ row: Int, _ state: TaskState, _ reason: String?, transfer: UInt64? = nil) -> TaskStatus {
        TaskStatus(
            path: path(row), sha256: kind(row) == .link ? nil : digest(row).hex, size: size(row), state: state,
            reason: reason, transfer: transfer)
    }
}

/// Fetches nothing: a listing sends no requests.
private struct NoTransport: Transport {
    func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        completion(.failure(TransferError(code: .unreachable, url: request.urls.first ?? "", detail: "not asked")))
    }

    func resume(_ id: TransferID) {}
    func cancel(_ id: TransferID) {}
    func reportFault(url: String, reason: String) {}
    var totals: TransferTotals { TransferTotals() }
    func shutdown() {}
}
