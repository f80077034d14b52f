import SyncModel
import SyncStore

/// What the golden store holds: every table, every state, every column.
enum GoldenStore {
    static let time: Int64 = 1_795_140_000_000

    /// Fills an empty store.
    static func fill(_ store: SyncStore) throws {
        try tower(store)
        try states(store)
        try hooks(store)
        try causes(store)
    }

    /// Some of the things that can go wrong.
    static let causes: [FailureCause] = [.notThere, .signature, .diskFull, .other]

    /// One run for each of them, and one that waits and is tried again.
    private static func causes(_ store: SyncStore) throws {
        for cause in causes {
            var start = run("run-cause-\(cause.rawValue)", session("s-cause-\(cause.rawValue)"))
            start.recipe.origin = .schedule
            try store.begin(start, now: time)
            try store.finish(
                run: start.run, result: .failed, counts: RunCounts(), error: "pack 407: no words", cause: cause,
                exitStatus: 69, now: time + 7)
        }
        let start = run("run-held", session("s-held"))
        try store.begin(start, now: time, isHeld: false)
        try store.hold(run: start.run, reason: .resources, error: "no room", cause: .diskFull, due: time + 9)
    }

    private static let digest = SHA256Digest(hex: String(repeating: "9a", count: 32)) ?? .zero

    private static func run(_ identifier: String, _ session: StoredSession) -> RunStart {
        var start = RunStart(
            session: session, run: identifier, manifest: digest,
            recipe: RunRecipe(manifest: "https://cdn.example.com/tower/manifest.json"))
        (start.recipe.settings.connections, start.recipe.prune) = (4, true)
        start.deadline = time + 604_800_000
        return start
    }

    private static func session(_ name: String, label: String? = nil) -> StoredSession {
        var session = StoredSession(
            identifier: name, project: "com.example.\(name)", destination: "/srv/\(name)", device: .max, inode: 7)
        session.label = label
        return session
    }

    /// One finished run, one that a person has paused with a hook still owed; events.
    private static func tower(_ store: SyncStore) throws {
        let session = session("tower", label: "the tower, floor 3")
        var first = run("20261120T020000Z-0000000a", session)
        first.recipe.groups = ["sheets"]
        first.groups = ["all", "sheets"]
        first.recipe.hooks = [
            RunHook(group: "all", arguments: ["/usr/bin/reindex", "a b"], timeout: 30),
            RunHook(group: "sheets", arguments: ["/bin/true"], results: [.ok]),
        ]
        try store.begin(first, now: time)
        for part in 0..<3 {
            try store.append(lines(part * 4 + 1...min(part * 4 + 4, 10)), to: "tower", time: time + 100)
        }
        let owed = try store.complete(
            [
                CompletedGroup(name: "all", result: .ok, changed: 3),
                CompletedGroup(name: "sheets", result: .partial, changed: 1),
            ], of: first.run, events: [Array("{\"event\":\"group.completed\"}".utf8)], now: time + 1_000)
        for hook in owed {
            _ = try store.started(hook: hook.identifier, now: time + 1_001)
            try store.finished(hook: hook.identifier, .succeeded, ended: "exit 0", output: "done\n", now: time + 1_002)
        }
        var counts = RunCounts()
        (counts.files.total, counts.files.installed, counts.files.unchanged) = (20_000, 3, 19_997)
        (counts.bytes.total, counts.bytes.received, counts.bytes.reused, counts.requests) = (1 << 40, 4_096, 5, 6)
        var work = SessionTotals()
        (work.received, work.requests, work.files, work.elapsed) = (70_000, 12, 9, 61_000)
        try store.finish(run: first.run, result: .ok, counts: counts, work: work, now: time + 1_003)

        var second = first
        second.run = "20261121T020000Z-0000000b"
        try store.begin(second, now: time + 86_400_000)
        let group = CompletedGroup(name: "sheets", result: .ok, changed: 0)
        _ = try store.complete([group], of: second.run, now: time + 86_401_000)
        try store.apply(.paused, to: second.run, reason: .userStop, counts: RunCounts(), now: time + 86_402_000)
        try store.prioritize(run: second.run, paths: ["sheets/12.pdf", "größe"])
        try store.keep(LaunchLimiter(delay: 120_000, raised: time + 86_402_500), of: "tower")
        let task = TaskStatus(path: "sheets/7.pdf", sha256: digest.hex, size: 1, state: .failed, reason: "no answer")
        try store.record([task], of: second.run)
    }

    /// One session for each state of a run.
    private static func states(_ store: SyncStore) throws {
        for state in RunState.allCases {
            var start = run("run-\(state.rawValue)", session("s-\(state.rawValue)"))
            start.recipe.origin = state == .waiting ? .schedule : .interactive
            start.recipe.settings.limitRate = state == .waiting ? 1_000 : nil
            start.recipe.conditions.power = state == .waiting
            start.recipe.notBefore = state == .waiting ? WallTime(milliseconds: time + 60_000) : nil
            start.recipe.paused = state == .paused
            try store.begin(start, now: time, isHeld: state != .waiting)
            switch state {
            case .waiting:
                try store.hold(run: start.run, reason: .connectivity, error: "no route", due: time + 9, since: time + 4)
            case .running:
                _ = try store.recover(session: start.session.identifier, now: time + 5)
                _ = try store.take(run: start.run, now: time + 6)
            case .paused: break
            case .finished:
                try store.finish(
                    run: start.run, result: .failed, counts: RunCounts(), error: "404", exitStatus: 69, now: time + 7)
            case .cancelled:
                try store.apply(.cancelled, to: start.run, reason: .userCancel, counts: RunCounts(), now: time + 8)
            case .superseded:
                var next = start
                next.run = "run-next"
                try store.begin(next, now: time + 9)
            }
        }
    }

    /// A run with a hook in each state.
    private static func hooks(_ store: SyncStore) throws {
        var start = run("run-hooks", session("s-hooks"))
        start.groups = ["all", "later"]
        start.recipe.hooks = (1...4).map { RunHook(group: "all", arguments: ["/bin/h\($0)"]) }
        start.recipe.hooks.append(RunHook(group: "all", arguments: ["/bin/never"], results: [.failed]))
        start.recipe.hooks.append(RunHook(group: "later", arguments: ["/bin/later"]))
        start.recipe.hooks.append(RunHook(group: "later", arguments: ["/bin/files"], batch: 7))
        try store.begin(start, now: time)
        let owed = try store.complete([CompletedGroup(name: "all", result: .ok, changed: 2)], of: start.run, now: time)
        for (index, hook) in owed.enumerated() where index > 0 {
            _ = try store.started(hook: hook.identifier, now: time + 1)
            guard index > 1 else { continue }
            try store.finished(
                hook: hook.identifier, index == 2 ? .succeeded : .failed, ended: index == 2 ? "exit 0" : "signal 9",
                output: "ü", now: time + 2)
        }
    }
}
