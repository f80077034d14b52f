package import SyncFiles
package import SyncManifest
package import SyncModel
package import SyncPlugins
package import SyncStore
import SyncSystem

/// The engine's dependencies: transports, clock, store, listeners.
package struct EngineEnvironment: Sendable {
    /// The transport for http and https.
    package var transport: any Transport {
        get { ledger }
        set { ledger = OriginLedger(newValue) }
    }
    /// Counts what each server delivers through ``transport``.
    private(set) var ledger: OriginLedger
    /// The transport for `file:` URLs of packs beside a local manifest.
    package var localTransport: any Transport
    /// **Milliseconds** since 1970.
    package var now: @Sendable () -> Int64
    /// A new number at each call; for run identifiers.
    package var random: @Sendable () -> UInt64
    /// Threads that unpack, hash and write.
    package var workers: Int
    /// Whether files are synced to the disk before they are renamed (default) or not (`--no-fsync`).
    package var isDurable = true
    /// Makes everything written to a destination's file system durable.
    var synchronize: @Sendable (Destination) throws(FileError) -> Void = { try $0.synchronize() }
    /// Whether memory is returned to the kernel at the end of each phase. This walks every heap of the process and
    /// interrupts other threads, so it is not for many pulls at a time in one process.
    package var releasesMemory = true
    /// Which signers to trust.
    package var trust = TrustChoice()
    /// The hub that `hf://` names.
    package var hub = HubPlace()
    /// Access to the registries that `oci://` names.
    package var registries = RegistryAccess()
    /// Sources that make the manifests of other URLs; the first one that serves a URL is used.
    package var sources: [ConfiguredSource] = []
    /// Limits of a manifest.
    package var manifestLimits = ManifestLimits.standard
    /// The wait before a hook that asked for a retry is called again; attempts count from 1.
    package var hookRetryWait: @Sendable (_ attempt: Int) -> Duration = { .seconds($0 * $0 * 2) }
    /// The process ID, recorded as the holder of a session.
    package var process: Int32
    /// Sessions, runs, hooks and their events.
    package var store: SyncStore
    /// The directory of the cached manifests, absolute.
    package var stateDirectory: String
    /// The user's configuration directory, absolute; no manifest may place files in it.
    package var configurationDirectory: String?
    /// The local meaning of hook names in a manifest; their `group` is ignored.
    package var namedHooks: [String: RunHook] = [:]
    /// Receives every event.
    package var events: EventRecorder
    /// Records the current state of the run on disk.
    let live = LiveRun()
    /// Receives the progress, a few times a second at most.
    package var progress: @Sendable (PullProgress) -> Void
    /// Receives the transfers on the wire, twice a second at most: the object that `status --requests` reads, as JSON.
    package var requests: @Sendable ([UInt8]) -> Void = { _ in }
    /// Called twice a second during a run, on a thread of its own, to save what must not be lost with the process.
    package var keep: @Sendable () -> Void = {}
    /// Runs hooks.
    package var hooks: (any GroupHook)?
    /// Verifiers of files before they are installed, in this order.
    package var verifications: [FileVerification] = []
    /// Whether a destination ignores case in names.
    package var foldsCase: @Sendable (Destination) -> Bool = { $0.foldsCase }
    /// Whether a directory in a destination ignores case, if the destination as a whole does not.
    package var directoryFoldsCase: @Sendable (_ directory: Int32) -> Bool = { SyncSystem.foldsCase($0) }
    /// The stop request to obey.
    package var stop: StopRequest

    package init(
        transport: any Transport, localTransport: any Transport, now: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> UInt64, workers: Int, process: Int32, store: SyncStore,
        stateDirectory: String, events: EventRecorder, progress: @escaping @Sendable (PullProgress) -> Void = { _ in },
        hooks: (any GroupHook)? = nil, stop: StopRequest = StopRequest()
    ) {
        ledger = OriginLedger(transport)
        self.localTransport = localTransport
        (self.now, self.random) = (now, random)
        (self.workers, self.process) = (workers, process)
        (self.store, self.stateDirectory) = (store, stateDirectory)
        (self.events, self.progress) = (events, progress)
        (self.hooks, self.stop) = (hooks, stop)
    }
}

/// The progress of a pull. Totals are those of the phase, and grow only as sizes are learnt.
package struct PullProgress: Sendable, Equatable {
    package var phase = PullPhase.finding
    /// Files in place, or hashed so far while local files are checked.
    package var filesDone = 0
    package var filesTotal = 0
    /// Raw **bytes** present, including received ones not yet verified. Never decreases within a phase.
    package var bytesDone: UInt64 = 0
    package var bytesTotal: UInt64 = 0
    /// Body **bytes** received over the network, the manifest's included.
    package var received: UInt64 = 0
    /// The wait for the next attempt; `nil` while bytes arrive.
    package var wait: TransferWait?

    package init() {}

    /// Whether the counts mean something: not before a manifest is found, nor while no file has to be hashed.
    package var isCounting: Bool { [.fetching, .waiting].contains(phase) || phase == .looking && filesTotal > 0 }
}

/// The wait of a transfer after a failed attempt.
package struct TransferWait: Sendable, Equatable {
    /// The host, without path and user.
    package var host: String
    /// The next attempt and the number of attempts, if attempts are counted.
    package var attempt, attempts: Int?
    /// The time of the next attempt, **milliseconds** since 1970.
    package var until: Int64

    package init(host: String, attempt: Int? = nil, attempts: Int? = nil, until: Int64) {
        self.host = host
        self.attempt = attempt
        self.attempts = attempts
        self.until = until
    }
}

/// Why a run is stopped. This decides the state that the run is left in.
package enum StopReason: String, Sendable, Equatable {
    /// Stopped by a person: the run stays paused.
    case user = "user_stop"
    /// The command's terminal has closed: the run stays paused, though nobody asked for that.
    case hangUp = "terminal_closed"
    /// Stopped by a condition or a window: the run continues when that clears.
    case policy
    /// The process is ending: the run continues in the next one.
    case released = "agent_restart"
    /// The deadline has passed: the run ends with what it has.
    case late = "deadline"
    /// Cancelled by a person.
    case cancelled = "user_cancel"

    /// The reason as the store and the control API spell it; ``late`` counts as an agent restart.
    package var rest: RestReason { self == .late ? .agentRestart : RestReason(rawValue: rawValue) }

    /// The input for the tasks that are unfinished then.
    var input: TaskInput {
        switch self {
        case .late: .failed
        case .user, .hangUp: .paused
        case .policy, .released: .released
        case .cancelled: .cancelled
        }
    }
}

/// A stop request that many may watch.
package final class StopRequest: Sendable {
    /// The first reason given, and the actions to run on a stop.
    private let state = Monitor<(reason: StopReason?, actions: [@Sendable () -> Void])>((nil, []))

    package init() {}

    /// Whether a stop was requested.
    package var isStopped: Bool { reason != nil }

    /// The first reason given; `nil` if none.
    package var reason: StopReason? { state.withLock { $0.reason } }

    /// Requests a stop. Runs what ``onStop(_:)`` has registered, once.
    package func stop(_ reason: StopReason = .user) {
        let actions = state.change { state in
            state.reason = state.reason ?? reason
            defer { state.actions = [] }
            return state.actions
        }
        for action in actions { action() }
    }

    /// Runs `action` when stopped, or at once if already stopped.
    func onStop(_ action: @escaping @Sendable () -> Void) {
        let now = state.change { state in
            if state.reason == nil { state.actions.append(action) }
            return state.reason != nil
        }
        if now { action() }
    }
}

/// Keeps the C heap small: one heap per processor, at most 8, and large blocks are returned when freed.
///
/// Call it once, before any other thread starts. mallopt(3); no effect where the C library has no such function.
package func boundHeaps(processors: Int) { CurrentProcess.boundHeaps(min(max(processors, 1), 8), large: 1 << 20) }

/// Returns memory of the last phase: free pages of the heaps, and code that has run. malloc_trim(3), madvise(2). Takes
/// a millisecond, and another one for the pages that are needed again.
package func releaseMemory() {
    CurrentProcess.trimHeaps()
    CurrentProcess.releaseCode()
}

extension EngineEnvironment {
    /// Whether a stop was requested; polled often.
    var isStopped: @Sendable () -> Bool { { [stop] in stop.isStopped } }

    /// Returns memory at the end of a phase, if more than 6 MiB are in use: a program that has done nothing has 4 MiB.
    func releaseMemory() {
        if releasesMemory, CurrentProcess.anonymousMemory > 6 << 20 { SyncEngine.releaseMemory() }
    }
}
