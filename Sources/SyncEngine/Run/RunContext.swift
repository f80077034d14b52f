import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem

/// What all steps that bring and place files of one run share.
struct RunContext: Sendable {
    let environment: EngineEnvironment
    let manifest: Manifest
    let destination: Destination
    /// What earlier runs have put there.
    let index: StatIndex
    let staging: Staging
    let committer: Committer
    /// Directories being assembled in staging.
    let wholes: WholeDirectories
    /// Large files in progress.
    let parts: PartFiles
    /// Blobs in transit, kept for the next process.
    let partialBlobs: PartialBlobs
    let disk: DiskState
    /// Rows whose bytes were on this machine.
    let reused = Monitor<Set<Int>>([])
    /// What has come by network in this run already, and waits in staging.
    var fetched: Set<SHA256Digest> = []

    /// Whether a stop was requested; polled often.
    var isStopped: Bool { environment.stop.isStopped }

    /// The staging lane for links and empty files, besides the workers' and the one for ``parts`` and ``partialBlobs``.
    var laneOfSmallEntries: Int { environment.workers + 1 }

    /// A name in staging for a row's file, on the file system that it goes to.
    func newFile(_ row: Int, lane: Int, digest: SHA256Digest) -> Staging.File {
        staging.newFile(lane: manifest.files.withPath(row) { staging.lane(lane, for: $0) }, digest: digest)
    }

    /// Prepares staging and starts the committer.
    ///
    /// - Parameter onCommitted: Called on the committer's thread with the rows of each batch, once they are durable, and with
    ///   those whose bytes were here.
    /// - Throws: ``EngineError``: 73 without staging, 74 without a thread.
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
        parts = PartFiles(manifest: manifest, staging: staging, lane: lane, isStopped: environment.isStopped)
    }
}
