import CPosix
package import SyncFiles
package import SyncManifest
package import SyncModel
package import SyncPlugins
package import SyncStore
import SyncSystem

/// What the engine is given from outside: how to move bytes, what time it is, who listens.
package struct EngineEnvironment: Sendable {
    /// For http and https.
    package var transport: any Transport {
        get { ledger }
        set { ledger = OriginLedger(newValue) }
    }
    /// Counts what each server delivers through ``transport``.
    private(set) var ledger: OriginLedger
    /// For `file:` URLs of packs beside a local manifest.
    package var localTransport: any Transport
    /// **Milliseconds** since 1970.
    package var now: @Sendable () -> Int64
    /// A new number at each call; for run identifiers.
    package var random: @Sendable () -> UInt64
    /// Threads that unpack, hash and write.
    package var workers: Int
    /// Whether files are synced to the disk before they are renamed (default) or not (`--no-fsync`).
    package var isDurable = true
    /// Whether what a phase needed goes back to the kernel at its end. Every heap of the process is looked through
    /// and other threads are interrupted: not for many pulls at a time in one process.
    package var releasesMemory = true
    /// Whom to believe.
    package var trust = TrustChoice()
    /// The most a manifest may hold.
    package var manifestLimits = ManifestLimits.standard
    /// From an attempt of a hook that asks to be called again to the next one; attempts count from 1 (F093).
    package var hookRetryWait: @Sendable (_ attempt: Int) -> Duration = { .seconds($0 * $0 * 2) }
    /// This process, as others will see who holds a session.
    package var process: Int32
    /// Sessions, runs, hooks and their events.
    package var store: SyncStore
    /// Where cached manifests are kept, absolute.
    package var stateDirectory: String
    /// What the names of hooks in a manifest stand for here; their `group` is ignored.
    package var namedHooks: [String: RunHook] = [:]
    /// Told of every event.
    package var events: EventRecorder
    /// Keeps on disk what the run is at.
    let live = LiveRun()
    /// Told how far things are, a few times a second at most.
    package var progress: @Sendable (PullProgress) -> Void
    /// Told what is on the wire, twice a second at most: the object that `status --requests` reads, as JSON.
    package var requests: @Sendable ([UInt8]) -> Void = { _ in }
    /// Called twice a second while a run is worked on, on a thread of its own: keeps what must not go with the process.
    package var keep: @Sendable () -> Void = {}
    /// Runs hooks.
    package var hooks: (any GroupHook)?
    /// Who looks at files before they are installed, in this order.
    package var verifications: [FileVerification] = []
    /// Whether a destination takes names for one that differ only in case.
    package var foldsCase: @Sendable (Destination) -> Bool = { $0.foldsCase }
    /// Whether a directory below it does, where the destination as a whole does not.
    package var directoryFoldsCase: @Sendable (_ directory: Int32) -> Bool = { SyncSystem.foldsCase($0) }
    /// Asked to stop.
    package var stop: StopRequest

    package init(
        transport: any Transport,
        localTransport: any Transport,
        now: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> UInt64,
        workers: Int,
        process: Int32,
        store: SyncStore,
        stateDirectory: String,
        events: EventRecorder,
        progress: @escaping @Sendable (PullProgress) -> Void = { _ in },
        hooks: (any GroupHook)? = nil,
        stop: StopRequest = StopRequest()
    ) {
        ledger = OriginLedger(transport)
        self.localTransport = localTransport
        self.now = now
        self.random = random
        self.workers = workers
        self.process = process
        self.store = store
        self.stateDirectory = stateDirectory
        self.events = events
        self.progress = progress
        self.hooks = hooks
        self.stop = stop
    }
}

/// How far a pull is. Totals come from the plan and never change during a run (S117).
package struct PullProgress: Sendable, Equatable {
    package var phase = PullPhase.finding
    /// Files that are in place, or hashed while it looks what is here.
    package var filesDone = 0
    package var filesTotal = 0
    /// Raw **bytes** that are here, with those that have come and are not yet verified. It never falls within a phase.
    package var bytesDone: UInt64 = 0
    package var bytesTotal: UInt64 = 0
    /// Body **bytes** that have come over the network so far, the manifest's included.
    package var received: UInt64 = 0
    /// What keeps it; `nil` while bytes come.
    package var wait: TransferWait?

    package init() {}
}

/// What a transfer that was tried waits for.
package struct TransferWait: Sendable, Equatable {
    /// The host that is asked, without path and user.
    package var host: String
    /// The attempt to come, where attempts are counted, and how many there are.
    package var attempt, attempts: Int?
    /// When it is tried again, **milliseconds** since 1970.
    package var until: Int64

    package init(host: String, attempt: Int? = nil, attempts: Int? = nil, until: Int64) {
        self.host = host
        self.attempt = attempt
        self.attempts = attempts
        self.until = until
    }
}

/// Why a run is stopped, which decides how it rests (S24, S27).
package enum StopReason: String, Sendable, Equatable {
    /// A person stops it: it stays paused.
    case user = "user_stop"
    /// A condition or a window does: it goes on when that clears.
    case policy
    /// The process that works on it ends: it goes on with the next one.
    case released = "agent_restart"
    /// The time that a person gave it is up: it ends with what has come.
    case late = "deadline"
    /// A person gives it up.
    case cancelled = "user_cancel"

    /// As the store and the control API have it.
    package var rest: RestReason { self == .late ? .agentRestart : RestReason(rawValue: rawValue) }
}

/// A request to stop that many may watch.
package final class StopRequest: Sendable {
    private struct State: Sendable {
        var reason: StopReason?
        var isStopped: Bool { reason != nil }
        var actions: [@Sendable () -> Void] = []
    }
    private let state = Monitor(State())

    package init() {}

    /// Whether somebody asked.
    package var isStopped: Bool { state.withLock(\.isStopped) }

    /// Why somebody asked, the first time; `nil` when nobody has.
    package var reason: StopReason? { state.withLock(\.reason) }

    /// Asks. Runs what ``onStop(_:)`` has registered, once.
    package func stop(_ reason: StopReason = .user) {
        let actions = state.change { state in
            state.reason = state.reason ?? reason
            defer { state.actions = [] }
            return state.actions
        }
        for action in actions { action() }
    }

    /// Runs `action` when stopped; at once when that has happened already.
    func onStop(_ action: @escaping @Sendable () -> Void) {
        let now = state.change { state in
            if !state.isStopped { state.actions.append(action) }
            return state.isStopped
        }
        if now { action() }
    }
}

/// Keeps the C heap small: one heap a processor, at most 8, and large pieces of memory go back when they are freed.
///
/// To be called once, before there are threads. mallopt(3); without effect where the C library has no such thing.
package func boundHeaps(processors: Int) {
    sa_bound_heaps(Int32(min(max(processors, 1), 8)), 1 << 20)
}

/// Gives memory back that the phase before needed: free pages of the heaps, and code that has run. malloc_trim(3),
/// madvise(2). Costs well below a millisecond.
package func releaseMemory() {
    sa_trim_heaps()
    sa_release_code()
}

extension EngineEnvironment {
    /// At the end of a phase.
    func releaseMemory() {
        if releasesMemory { SyncEngine.releaseMemory() }
    }
}
