import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem

/// The directory of files that are still being learnt: `.syncagent/learning/`.
final class LearningStore: Sendable {
    let directory: Descriptor
    let staging: Staging

    init(_ destination: Destination) throws(FileError) {
        let shown = "\(destination.path)/.syncagent/learning"
        directory = try openPrivateDirectory("learning", in: destination.state, create: true, shown: shown)
        dropInheritance(directory.raw)
        staging = try Staging(destination, lanes: 1)
    }

    /// Moves a whole file to staging, and makes the further copies that are wanted.
    func place(_ name: String, _ digest: SHA256Digest, size: UInt64, from file: Int32, copies: Int) -> Bool {
        for _ in 1..<max(1, copies) {
            let copy = staging.newFile(lane: 0, digest: digest)
            guard let made = staging.create(copy, executable: false) else { return false }
            guard cloneFile(file, to: made.raw) == nil || copyBytes(of: file, size, to: made.raw) == nil else {
                return false
            }
        }
        let file = staging.newFile(lane: 0, digest: digest)
        return file.withName {
            renameEntry(name, in: directory.raw, to: $0, in: staging.descriptor(lane: file.lane)) == nil
        }
    }

    /// Moves the first bytes of a large file to staging, where the fetch of the rest finds them.
    func leave(_ name: String, _ digest: SHA256Digest) {
        let file = staging.newFile(lane: 0, digest: digest, isPart: true)
        // A file that cannot be moved is fetched again.
        _ = file.withName { renameEntry(name, in: directory.raw, to: $0, in: staging.descriptor(lane: file.lane)) }
    }

    /// Removes files that no run will continue.
    func clear() { for name in (try? directoryEntries(directory.raw)) ?? [] { removeFile(name, in: directory.raw) } }
}

/// Writes and hashes one file of unknown SHA-256 or size.
///
/// A transport calls its sink from one thread at a time, in order, and its completion after that; ``prepare()`` comes
/// before.
final class LearningSink: TransferSink, @unchecked Sendable {  // Safe: calls never overlap.
    /// The result of a transfer.
    struct Outcome {
        var content: LearnedContent
        /// Whether the whole file is here, and right; otherwise only its size is known.
        var isWhole: Bool
    }

    private let check: ContentCheck
    private let size: UInt64?
    private let store: LearningStore?
    private let name: String
    private let isStopped: @Sendable () -> Bool
    private var hasher: ContentHasher?
    private var file: SharedDescriptor?
    private var length: UInt64 = 0
    private var trouble: FileError?
    /// The length of the file, as the response gives it.
    private var told: UInt64?
    /// The length at which the rest of a large file is left to ``FetchRounds``; `nil` for a file that is taken whole.
    private var leaving: UInt64?
    /// The sender of the last bytes, as the request names it.
    private(set) var source: String?
    /// The version of the file that it sends.
    private var validator = Validator()
    /// The range that is requested first if the size is unknown.
    private(set) var firstRange: Range<UInt64> = 0..<LearningSink.most

    /// **Bytes** of a small file, which comes whole with the request that learns its size: as many as a transport takes
    /// for small.
    private static let most: UInt64 = 1 << 20
    /// **Bytes** of the longest file that is taken whole from a server without ranges.
    private static let mostWithoutRanges: UInt64 = 16 << 20

    init(
        _ check: ContentCheck, size: UInt64?, in store: LearningStore?, named name: String,
        _ isStopped: @escaping @Sendable () -> Bool
    ) { (self.check, self.size, self.store, self.name, self.isStopped) = (check, size, store, name, isStopped) }

    /// Takes over what an interrupted run has left.
    ///
    /// - Returns: The **bytes** that are here; 0 without a listed digest, since nothing could tell whether two halves
    ///   belong together.
    func prepare() -> UInt64 {
        // git's digest covers the size first, so it is no use without the size.
        guard let store, let digest = check.digest, size.map({ $0 > 0 }) ?? (digest.algorithm != .gitSHA1),
            let opened = try? openFile(name, in: store.directory.raw, .readWrite, trust: .staged),
            let found = status(opened.raw), found.size > 0, found.size <= size ?? UInt64(Int64.max) - Self.most,
            var hasher = try? ContentHasher(check, size: size ?? 0)
        else { return 0 }
        guard Learning.hash(opened.raw, 0..<found.size, &hasher, isStopped) else { return 0 }
        self.hasher = consume hasher
        file = SharedDescriptor(opened)
        length = found.size
        firstRange = length..<(length + Self.most)
        return length
    }

    func begin(_ response: ResponseHead) -> UInt64 {
        // Without a digest, nothing would tell that two halves do not belong together.
        let isSame =
            check.digest != nil || response.source == source && validator.isSameVersion(as: response.validator)
        (source, told, validator) = (response.source, response.objectSize, response.validator)
        leaving = leaving(response)
        if length > 0, response.bodyOffset <= length, isSame { return length }
        return start(over: response.objectSize) ? 0 : length
    }

    /// The length at which a file is left to ``FetchRounds``, if only its size was unknown and the response says that
    /// it is large: several connections are faster. A server without ranges would send the first bytes again, so there
    /// a file is left at once or not at all.
    private func leaving(_ response: ResponseHead) -> UInt64? {
        guard size == nil, check.digest?.algorithm == .sha256, let told = response.objectSize else { return nil }
        if response.status == 206 { return told > firstRange.upperBound ? firstRange.upperBound : nil }
        return told > Self.mostWithoutRanges ? 0 : nil
    }

    /// Starts over from the first byte.
    private func start(over told: UInt64?) -> Bool {
        length = 0
        do {
            hasher = try ContentHasher(check, size: size ?? told ?? 0)
            guard let store else { return true }
            removeFile(name, in: store.directory.raw)
            let made = try createFile(name, in: store.directory.raw, shown: ".syncagent/learning/\(name)")
            file = SharedDescriptor(made)
        } catch {
            trouble = error as? FileError
            return false
        }
        return true
    }

    func receive(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) -> SinkOutcome {
        guard trouble == nil, hasher != nil, offset == length else { return .stop }
        if let leaving, length >= leaving { return .stop }
        if let size, UInt64(bytes.count) > size - min(length, size) { return .stop }
        if let file, let code = writeAll(bytes, to: file.raw, at: offset) {
            trouble = FileError(step: "write", path: ".syncagent/learning/\(name)", code: code)
            return .stop
        }
        guard (try? hasher?.update(bytes)) != nil else { return .stop }
        length += UInt64(bytes.count)
        return leaving.map { length >= $0 } == true ? .stop : .taken
    }

    /// The content of the file, for all rows that have it.
    func finish(_ result: Result<TransferReport, TransferError>, _ rows: [Int]) -> Result<Outcome, RowFailure> {
        let row = rows[0]
        if let trouble { return .failure(RowFailure(row: row, disk: trouble)) }
        if leaving != nil, case .failure(let error) = result, error.code == .stoppedBySink, let told,
            let digest = check.digest.flatMap({ SHA256Digest(hex: $0.hex) })
        {
            file = nil
            if length > 0 { store?.leave(name, digest) } else { drop() }
            return .success(Outcome(content: (digest, told), isWhole: false))
        }
        if case .failure(let error) = result {
            // The part stays: with a digest, the next run can continue it.
            return .failure(RowFailure(row: row, transfer: error))
        }
        if hasher == nil, !start(over: 0) {
            return .failure(RowFailure(row: row, reason: "OpenSSL fails", cause: .other))
        }
        let url = (try? result.get().currentURL).map { redacted(url: $0) } ?? ""
        guard size == nil || length == size else {
            drop()
            return .failure(RowFailure(row: row, wrongBytes: "\(url): \(length) bytes, where \(size ?? 0) are listed"))
        }
        guard let (digest, wrong) = try? hasher?.finish() else {
            return .failure(RowFailure(row: row, reason: "OpenSSL fails", cause: .other))
        }
        if let wrong, let listed = check.digest {
            drop()
            let name = listed.algorithm == .sha256 ? "SHA-256" : listed.algorithm.rawValue
            // Digests of BLAKE2 look the same.
            let hint = listed.algorithm == .sha512 ? " (if the list is of b2sum, make one with sha256sum)" : ""
            var failure = RowFailure(
                row: row, wrongBytes: "\(url): gave wrong bytes: \(name) \(wrong) instead of \(listed.hex)\(hint)")
            if listed.algorithm == .sha256 { failure.found = SHA256Digest(hex: wrong) }
            return .failure(failure)
        }
        if let store, let file, length > 0,
            !store.place(name, digest, size: length, from: file.raw, copies: rows.count)
        {
            return .failure(
                RowFailure(row: row, disk: FileError(step: "move", path: ".syncagent/learning/\(name)", code: .last)))
        }
        file = nil
        return .success(Outcome(content: (digest, length), isWhole: true))
    }

    private func drop() { if let store { removeFile(name, in: store.directory.raw) } }
}
