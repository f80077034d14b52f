package import SyncModel
package import SyncPlugins
import SyncSystem
import SyncTransfer

/// Transfers files that ``LFSSource`` has listed: those in LFS through another transport, whose resolver ``LFSLinks``
/// finds their links; other files from git; and both kinds from a repository on this machine.
///
/// All other transfers go to that transport unchanged.
package final class LFSTransport: Transport {
    private let inner: any Transport
    private let local = FileTransport()
    private let environment: [String: String]
    private let stateDirectory: String
    private let now: @Sendable () -> Int64
    private let isStopped: @Sendable () -> Bool
    private let state = Monitor(State())

    private struct Job: Sendable {
        let request: TransferRequest
        let sink: any TransferSink
        let completion: TransferCompletion
        let repository: String
        let name: String
    }

    private struct State: Sendable {
        /// Files of git that are fetched next.
        var waiting: [Job] = []
        /// Transfers that ``LFSTransport/local`` does, or will do.
        var own: Set<TransferID> = []
        var cancelled: Set<TransferID> = []
        var thread: WorkerThread?
        var isShutDown = false
    }

    /// Most files that are taken from git at a time.
    private static let most = 256

    /// - Parameters:
    ///   - inner: The transport for http and https.
    ///   - environment: This process's variables, for git.
    ///   - isStopped: Called several times a second.
    package init(
        _ inner: any Transport, environment: [String: String], stateDirectory: String,
        now: @escaping @Sendable () -> Int64, isStopped: @escaping @Sendable () -> Bool
    ) {
        (self.inner, self.environment, self.stateDirectory) = (inner, environment, stateDirectory)
        (self.now, self.isStopped) = (now, isStopped)
    }

    package func start(_ request: TransferRequest, sink: any TransferSink, completion: @escaping TransferCompletion) {
        guard request.urls.contains(where: { $0.hasPrefix("lfs+") }) else {
            return inner.start(request, sink: sink, completion: completion)
        }
        func refuse(_ code: TransferError.Code, _ detail: String) {
            completion(.failure(TransferError(code: code, url: request.urls.first ?? "", detail: detail)))
        }
        var web = request
        web.urls = []
        for url in request.urls {
            guard url.hasPrefix("lfs+") else {
                web.urls.append(url)
                continue
            }
            guard let object = LFSObject(url) else { return refuse(.misuse, "not the URL of a file in LFS") }
            switch object {
            case .large(let endpoint, let digest, let size):
                guard endpoint.hasPrefix("file:") else {
                    web.urls.append(LFSLinks.url(endpoint: endpoint, sha256: digest, size: size))
                    continue
                }
                return startLocal(request, Self.files(endpoint, digest), sink: sink, completion: completion)
            case .plain(let repository, let name):
                let job = Job(
                    request: request, sink: sink, completion: completion, repository: repository, name: name)
                return take(job)
            }
        }
        inner.start(web, sink: sink, completion: completion)
    }

    /// The URLs of a large file of a repository on this machine: in a bare one, or in one with a work tree.
    private static func files(_ endpoint: String, _ digest: String) -> [String] {
        ["", "/.git"].map {
            "\(endpoint)\($0)/lfs/objects/\(digest.prefix(2))/\(digest.dropFirst(2).prefix(2))/\(digest)"
        }
    }

    private func startLocal(
        _ request: TransferRequest, _ urls: [String], sink: any TransferSink, completion: @escaping TransferCompletion
    ) {
        var part = request
        (part.urls, part.referrer) = (urls, nil)
        let id = request.id
        let isCancelled = state.withLock { state in
            state.own.insert(id)
            return state.cancelled.contains(id)
        }
        if isCancelled { local.cancel(id) }
        local.start(part, sink: sink) { [self] result in
            state.withLock { state in
                state.own.remove(id)
                state.cancelled.remove(id)
            }
            completion(
                result.map { report in
                    var report = report
                    (report.sourceIndex, report.currentURL) = (0, request.urls.first ?? "")
                    report.response.source = request.urls.first
                    return report
                })
        }
    }

    // MARK: Files of git

    private func take(_ job: Job) {
        let error = state.change { state -> TransferError? in
            func refused(_ code: TransferError.Code, _ detail: String) -> TransferError {
                TransferError(code: code, url: job.request.urls.first ?? "", detail: detail)
            }
            if state.isShutDown { return refused(.cancelled, "the transport has ended") }
            do throws(ThreadError) {
                if state.thread == nil { state.thread = try WorkerThread(name: "git") { [self] in run() } }
            } catch { return refused(.unreachable, "\(error)") }
            state.own.insert(job.request.id)
            state.waiting.append(job)
            return nil
        }
        if let error { job.completion(.failure(error)) }
    }

    private func run() {
        while true {
            // More requests arrive at about the same time, and one call of git serves many.
            pauseThread(milliseconds: 20)
            let jobs = state.withLock { state -> [Job] in
                let repository = state.waiting.first?.repository
                let mine = state.waiting.filter { $0.repository == repository }.prefix(Self.most)
                let taken = Set(mine.map(\.request.id))
                state.waiting.removeAll { taken.contains($0.request.id) }
                if mine.isEmpty { state.thread = nil }
                return Array(mine)
            }
            guard let repository = jobs.first?.repository else { return }
            fetch(jobs, of: repository)
        }
    }

    private func fetch(_ jobs: [Job], of repository: String) {
        func end(_ jobs: [Job], _ code: TransferError.Code, _ detail: String) {
            for job in jobs {
                state.withLock { state in
                    state.own.remove(job.request.id)
                    state.cancelled.remove(job.request.id)
                }
                job.completion(.failure(TransferError(code: code, url: job.request.urls.first ?? "", detail: detail)))
            }
        }
        let (cancelled, wanted) = state.withLock { state in
            (
                jobs.filter { state.cancelled.contains($0.request.id) },
                jobs.filter { !state.cancelled.contains($0.request.id) }
            )
        }
        end(cancelled, .cancelled, "cancelled")
        guard !wanted.isEmpty else { return }
        let left = Monitor(wanted.count)
        var directory = ""
        do throws(PluginError) {
            directory = try GitStore.makeDirectory(stateDirectory)
            let git = try Git(environment) { [self] in isStopped() || state.withLock(\.isShutDown) }
            let store = try GitStore(repository, git, stateDirectory: stateDirectory, now: now)
            try store.take(Set(wanted.map(\.name)), into: directory)
        } catch {
            if !directory.isEmpty { remove(directory) }
            let code: TransferError.Code =
                switch error.code {
                case .refused: .authentication
                case .notThere: .badStatus(404)
                case .badAnswer: .badAnswer
                case .cancelled: .cancelled
                default: .unreachable
                }
            return end(wanted, code, error.message)
        }
        for job in wanted {
            startLocal(job.request, [fileURL(path: "\(directory)/\(job.name)")], sink: job.sink) { result in
                job.completion(result)
                left.change { $0 -= 1 }
            }
        }
        // The files must exist for as long as they are read.
        left.wait { left -> Void? in left == 0 ? () : nil }
        remove(directory)
    }

    private func remove(_ directory: String) {
        guard let parent = openDirectory(SyncSystem.parent(of: directory)) else { return }
        removeTree(directory.split(separator: "/").last.map(String.init) ?? "", in: parent.raw)
    }

    // MARK: The rest

    package func resume(_ id: TransferID) {
        if state.withLock({ $0.own.contains(id) }) { local.resume(id) } else { inner.resume(id) }
    }

    package func cancel(_ id: TransferID) {
        let isOwn = state.withLock { state in
            guard state.own.contains(id) else { return false }
            state.cancelled.insert(id)
            return true
        }
        if isOwn { local.cancel(id) } else { inner.cancel(id) }
    }

    package func reportFault(url: String, reason: String) { inner.reportFault(url: url, reason: reason) }

    package var totals: TransferTotals {
        var sum = inner.totals
        sum.bytesReceived &+= local.totals.bytesReceived
        return sum
    }

    package func transferStatuses(limit: Int, at now: WallTime) -> (transfers: [RequestStatus], more: Int)? {
        guard let rest = inner.transferStatuses(limit: limit, at: now) else { return nil }
        guard let own = local.transferStatuses(limit: limit, at: now), !own.transfers.isEmpty else { return rest }
        let all = own.transfers + rest.transfers
        let told = Array(all.prefix(limit))
        return (told, rest.more + own.more + all.count - told.count)
    }

    package func shutdown() {
        let (thread, jobs) = state.change { state in
            state.isShutDown = true
            defer { state.waiting = [] }
            return (state.thread, state.waiting)
        }
        for job in jobs {
            job.completion(
                .failure(
                    TransferError(
                        code: .cancelled, url: job.request.urls.first ?? "", detail: "the transport has ended")))
        }
        local.shutdown()
        if let thread, !thread.isCurrent { thread.join() }
        inner.shutdown()
    }
}
