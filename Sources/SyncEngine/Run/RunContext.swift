import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// The state that the fetching and placing steps of a run share.
struct RunContext: Sendable {
    let environment: EngineEnvironment
    let manifest: Manifest
    let destination: Destination
    /// The destination's index, from earlier runs.
    let index: StatIndex
    let staging: Staging
    let committer: Committer
    /// Directories being assembled in staging.
    let wholes: WholeDirectories
    /// The large files being assembled, by row.
    let parts = Monitor<[Int: PartFile]>([:])
    /// Partly received blobs, kept for the next process.
    let partialBlobs: PartialBlobs
    let disk: DiskState
    /// Rows whose bytes were on this machine.
    let reused = Monitor<Set<Int>>([])
    /// Files fetched in this run already, waiting in staging.
    var fetched: Set<SHA256Digest> = []

    /// Whether a stop was requested; polled often.
    var isStopped: Bool { environment.stop.isStopped }

    /// The staging lane for parts, where the next run looks for them, besides the workers'.
    var laneOfParts: Int { environment.workers }

    /// The staging lane for links and empty files, besides the workers' and the one for ``parts`` and ``partialBlobs``.
    var laneOfSmallEntries: Int { environment.workers + 1 }

    /// A staging file for a row, on the file system that the row's file goes to.
    func newFile(_ row: Int, lane: Int, digest: SHA256Digest) -> Staging.File {
        staging.newFile(lane: manifest.files.withPath(row) { staging.lane(lane, for: $0) }, digest: digest)
    }

    /// Prepares staging and starts the committer.
    ///
    /// - Parameter onCommitted: Called on the committer's thread with the rows of each batch, once they are durable,
    ///   and with the rows whose bytes were local.
    /// - Throws: ``EngineError``: 73 if staging cannot be created, 74 if no thread can be started.
    init(
        _ manifest: Manifest, wanted: [Int], _ destination: Destination, _ index: StatIndex,
        _ environment: EngineEnvironment, backup: BackupDirectory?,
        onCommitted: @escaping @Sendable (_ rows: [Int], _ reused: Set<Int>) -> Void
    ) throws(EngineError) {
        (self.environment, self.manifest) = (environment, manifest)
        (self.destination, self.index) = (destination, index)
        let lane = environment.workers
        staging = try usable(Staging(destination, lanes: lane + 2))
        staging.takeApart(for: manifest, wanted: wanted)
        (wholes, disk) = (WholeDirectories(), DiskState())
        do throws(ThreadError) {
            committer = try Committer(
                manifest: manifest, destination: destination, staging: staging, isDurable: environment.isDurable,
                verifications: environment.verifications, wholes: wholes, backup: backup, disk: disk,
                isStopped: environment.isStopped, synchronize: environment.synchronize
            ) { [reused] rows in onCommitted(rows, reused.withLock { $0 }) }
        } catch { throw EngineError(.ioError, "\(error)") }
        partialBlobs = PartialBlobs(manifest: manifest, staging: staging, lane: lane)
    }
}
