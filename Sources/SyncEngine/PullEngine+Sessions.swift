import SyncFiles
import SyncManifest
import SyncModel
package import SyncStore

extension PullEngine {
    /// Records a run for somebody else to work on: checks the manifest, the selection, the hooks and the destination
    /// first. When it returns, the run is on the disk, and so is its manifest.
    ///
    /// - Returns: The run, or the open one that asks for the same.
    /// - Throws: ``EngineError``; 75 when somebody works on the session.
    package func enqueue(_ options: PullOptions) throws(EngineError) -> BegunRun {
        let source = try manifestSource(options, caching: true)
        let found = try source.find(options.manifest)
        if withoutSecrets(options.manifest) != options.manifest.prefix(while: { $0 != "?" && $0 != "#" }) {
            throw EngineError(
                .usage,
                "\(found.shown): a user name in the URL cannot be kept; put it into the credentials file"
            )
        }
        let manifest = try found.decode()
        _ = try PullRun.selectedRows(manifest, options.groups)
        let groups = GroupCompletion.names(manifest.groups.map(\.name), options)
        if let hook = options.hooks.first(where: { !groups.contains($0.group) }) {
            throw EngineError(
                .usage,
                "a hook names the group '\(escaped(hook.group))', which does not take part"
            )
        }
        let destination = try Self.open(Self.destinationPath(options, project: found.project), create: true)
        let lease = try RunRecord.lease(options.session ?? found.project, environment)
        source.keep(options.manifest, found.digest)
        let begun = try RunRecord.begin(
            options,
            found,
            groups: groups,
            in: destination,
            isHeld: false,
            environment
        )
        _ = consume lease
        return begun
    }

    /// Works on a run that waits in the store; the caller has its session's lease.
    ///
    /// - Returns: The report.
    /// - Throws: ``EngineError``; the run is finished by then, unless it could not even be taken up.
    package func work(on run: StoredRun, stateDirectory: String) throws(EngineError) -> PullReport {
        let started = environment.now()
        let session = try recording { () throws(StoreError) in try environment.store.session(run.session) }
        guard let session else {
            throw EngineError(.internalError, "run \(run.identifier) has no session")
        }
        var options = PullOptions(manifest: run.location, stateDirectory: stateDirectory)
        StoredOptions.read(run.options, into: &options)
        options.destination = session.destination
        options.session = run.session
        options.groups = run.selection
        options.hooks = try hooks(of: run)
        options.firstPaths = run.firstPaths
        let found = try manifestSource(options, caching: true).recorded(
            run.manifest,
            project: session.project,
            location: run.location
        )
        return try work(on: found, options, recorded: run, started: started)
    }

    private func hooks(of run: StoredRun) throws(EngineError) -> [HookSpecification] {
        let hooks = try recording { () throws(StoreError) in
            try environment.store.hooks(run: run.identifier, limit: .max)
        }
        return hooks.reversed().map {
            HookSpecification(
                group: $0.group,
                arguments: $0.arguments,
                timeout: $0.timeout,
                results: $0.results
            )
        }
    }

    /// Runs the hooks that earlier runs of a session owe, and finishes runs whose groups are all complete. The caller
    /// has the session; whoever worked on those runs is gone.
    ///
    /// - Returns: Whether there was anything to do.
    @discardableResult
    package func settle(_ session: String) throws(EngineError) -> Bool {
        let found = try recording { () throws(StoreError) in
            let owed = try environment.store.owedHooks(session: session)
            let complete = try completeRuns(of: session)
            return owed.isEmpty && complete.isEmpty ? nil : try environment.store.session(session)
        }
        guard let found else { return false }
        guard let destination = try Self.openIfPresent(found.destination) else {
            throw EngineError(
                .cannotCreate,
                "\(escaped(found.destination)) is gone; its hooks are kept until it is back"
            )
        }
        let lock = try Self.lock(destination)
        try settle(session, in: destination)
        _ = consume lock
        return true
    }

    /// Open runs whose groups are all complete.
    private func completeRuns(of session: String) throws(StoreError) -> [StoredRun] {
        var complete: [StoredRun] = []
        for run in try environment.store.runs(session: session, onlyOpen: true) where try isComplete(run) {
            complete.append(run)
        }
        return complete
    }

    private func isComplete(_ run: StoredRun) throws(StoreError) -> Bool {
        let groups = try environment.store.groups(of: run.identifier)
        return groups.allSatisfy { $0.state == .completed } && run.state != .paused
    }

    func settle(_ session: String, in destination: Destination) throws(EngineError) {
        try recording { () throws(StoreError) in
            let store = environment.store
            guard try store.session(session) != nil else { return }
            let complete = try completeRuns(of: session)
            let owed = try store.owedHooks(session: session)
            guard !complete.isEmpty || !owed.isEmpty else { return }
            _ = try store.recover(session: session, now: environment.now())
            let hooks = OwedHooks(environment: environment, destination: destination)
            for hook in try store.owedHooks(session: session) {
                let run = try store.run(hook.run)
                let log = EventLog(store: store, session: session)
                environment.events.open(log, session: session, run: run.identifier)
                _ = try hooks.run(hook, report: HookReport.late(hook, run))
                try environment.events.close()
                if environment.stop.isStopped { return }
            }
            for run in complete { try finish(run) }
        }
    }

    /// Every group is complete and every hook has ended: only the end itself was not recorded.
    private func finish(_ run: StoredRun) throws(StoreError) {
        let store = environment.store
        if try store.run(run.identifier).state == .waiting {
            _ = try store.take(run: run.identifier, now: environment.now())
        }
        let all = try store.groups(of: run.identifier).first { $0.name == "all" }
        let record = RunRecord(environment: environment, session: run.session, run: run.identifier)
        var report = PullReport(run.counts)
        report.session = run.session
        report.run = run.identifier
        report.result = PullReport.Result(rawValue: all?.result ?? "") ?? .partial
        report.elapsedMilliseconds = environment.now() - run.created
        record.open()
        RunJournal(environment: environment, session: run.session, run: run.identifier).finished(report)
        do throws(EngineError) {
            try record.finish(report)
        } catch {
            // The next one finishes it.
        }
    }
}
