import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSources
import SyncSystem

/// Finds out what a listing does not say of its files: those whose SHA-256 or size nobody knows are fetched once, compared with
/// what the listing does say, and wait in staging under the digest that they turn out to have.
///
/// Small files are whole in a moment; a large one goes on where an interrupted run has left it, in `.syncagent/learning/`.
struct Learning {
    let environment: EngineEnvironment
    let found: FoundManifest
    /// Where files are put; `nil` where only their digests are wanted.
    let destination: Destination?
    let progress: ProgressCount?

    /// What came of it.
    struct Outcome {
        /// The manifest, with what is known now.
        var manifest: Manifest
        /// The contents that were fetched and wait in staging.
        var fetched: Set<SHA256Digest> = []
        /// Why rows are still not known.
        var failures: [RowFailure] = []
    }

    /// Files that are fetched at a time: as many descriptors.
    private static let mostOpen = 64

    /// - Parameter rows: Those that are wanted.
    func run(_ manifest: Manifest, rows: [Int]) throws(EngineError) -> Outcome {
        let files = manifest.files
        var known = destination.map(LearnedDigests.init) ?? LearnedDigests()
        var learned: [Int: (digest: SHA256Digest, size: UInt64)] = [:]
        func url(_ row: Int) -> String { files.urls(row).first.map { resolve($0, against: found.bases[0]) } ?? "" }
        for (row, check) in files.checks {
            learned[row] = known.content(check, size: files.size(row), url: url(row))
        }
        var outcome = Outcome(manifest: manifest)
        let open = rows.filter { files.checks[$0] != nil && learned[$0] == nil }
        if !open.isEmpty {
            let here = try lookHere(open, files)
            for (row, digest) in here { learned[row] = (digest, files.size(row)) }
            let results = try fetch(open.filter { here[$0] == nil }, files)
            for (row, result) in results {
                switch result {
                case .success(let content):
                    learned[row] = content
                    outcome.fetched.insert(content.digest)
                case .failure(let failure): outcome.failures.append(failure)
                }
            }
            var lines = ""
            for row in open {
                guard let content = learned[row], let check = files.checks[row] else { continue }
                lines +=
                    known.add(
                        content.digest, size: content.size, for: check, listedSize: files.size(row), url: url(row))
                    ?? ""
            }
            if let destination {
                if environment.isDurable, !outcome.fetched.isEmpty { try? environment.synchronize(destination) }
                LearnedDigests.append(lines, in: destination)
            }
            if environment.stop.isStopped {
                throw EngineError(.interrupted, "stopped while fetching files of unknown digest")
            }
        }
        guard !learned.isEmpty else { return outcome }
        let text = files.text(of: manifest, learned: learned)
        outcome.manifest = try found.source.keep(text, at: found.place, found.derivation).decode()
        return outcome
    }

    // MARK: What is here

    /// Files at their places that are what the listing says, with their SHA-256.
    private func lookHere(_ rows: [Int], _ files: FileTable) throws(EngineError) -> [Int: SHA256Digest] {
        guard let destination else { return [:] }
        let candidates = rows.filter { files.checks[$0]?.digest != nil && files.checks[$0]?.isSizeKnown == true }
        let checks = files.checks
        let isStopped = environment.isStopped
        let done = concurrently(
            over: candidates.count, threads: environment.workers, name: "learn", isStopped: isStopped,
            by: { _ in Directories(destination) }
        ) { directories, place -> SHA256Digest? in
            let row = candidates[place]
            guard let check = checks[row], let file = files.withPath(row, { directories.openFile($0) }),
                let found = status(file.raw), found.kind == .file, found.size == files.size(row)
            else { return nil }
            return Self.digest(of: file.raw, size: found.size, check, isStopped)
        }
        var here: [Int: SHA256Digest] = [:]
        for (place, digest) in done { here[candidates[place]] = digest }
        return here
    }

    /// The SHA-256 of a file that is what a listing says; `nil` for others.
    private static func digest(
        of file: Int32, size: UInt64, _ check: ContentCheck, _ isStopped: @Sendable () -> Bool
    ) -> SHA256Digest? {
        guard var hasher = try? ContentHasher(check, size: size), hash(file, 0..<size, &hasher, isStopped),
            let result = try? hasher.finish(), result.wrong == nil
        else { return nil }
        return result.sha256
    }

    /// Hashes a part of a file; `false` when it could not be read.
    fileprivate static func hash(
        _ file: Int32, _ range: Range<UInt64>, _ hasher: inout ContentHasher, _ isStopped: () -> Bool
    ) -> Bool {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 64)
        defer { buffer.deallocate() }
        var offset = range.lowerBound
        while offset < range.upperBound, !isStopped() {
            let count = Int(min(UInt64(buffer.count), range.upperBound - offset))
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
            guard readFully(file, into: piece, at: offset) == count,
                (try? hasher.update(UnsafeRawBufferPointer(piece))) != nil
            else { return false }
            offset += UInt64(count)
        }
        return offset == range.upperBound
    }

    // MARK: Fetching

    private func fetch(_ rows: [Int], _ files: FileTable) throws(EngineError)
        -> [(row: Int, result: Result<(digest: SHA256Digest, size: UInt64), RowFailure>)]
    {
        guard !rows.isEmpty else { return [] }
        progress?.begin(.fetching, files: rows.count, bytes: rows.reduce(UInt64(0)) { $0 &+ files.size($1) })
        let store = try destination.map { (place) throws(EngineError) in try usable(LearningStore(place)) }
        let end = Monitor<(open: Int, cancelled: Bool, running: Set<TransferID>)>((0, false, []))
        let results = Monitor<[(Int, Result<(digest: SHA256Digest, size: UInt64), RowFailure>)]>([])
        let isLocal = isLocal([files.urls(rows[0]).first.map { resolve($0, against: found.bases[0]) } ?? ""])
        let transport = isLocal ? environment.localTransport : environment.transport
        environment.stop.onStop {
            let running = end.change { end in
                end.cancelled = true
                return end.running
            }
            for identifier in running { transport.cancel(identifier) }
        }
        let isStopped = environment.isStopped
        // The same content is fetched once, for all who have it.
        var others: [SHA256Digest: [Int]] = [:]
        for row in rows { others[files.digest(row), default: []].append(row) }
        let firsts = rows.filter { others[files.digest($0)]?.first == $0 }
        for (place, row) in firsts.enumerated() {
            guard let check = files.checks[row] else { continue }
            end.wait { end -> Void? in end.open < Self.mostOpen || end.cancelled ? () : nil }
            if environment.stop.isStopped { break }
            let size = check.isSizeKnown ? files.size(row) : nil
            let sink = LearningSink(check, size: size, in: store, named: files.digest(row).hex, isStopped)
            let urls = ofOneKind(resolve(files.urls(row), against: found.bases))
            let have = sink.prepare()
            let identifier = TransferNumbers.next()
            var request = TransferRequest(
                id: identifier, urls: urls, objectSize: size, limit: size ?? .max, priority: firsts.count - place,
                referrer: found.referrer)
            if let size, have > 0, have < size {
                request.range = have..<size
                request.limit = size - have
            }
            end.change { end in
                end.open += 1
                end.running.insert(identifier)
            }
            let same = others[files.digest(row)] ?? [row]
            let completion = { @Sendable [progress] (result: Result<TransferReport, TransferError>) in
                for (row, outcome) in sink.finish(result, same) {
                    if case .success(let content) = outcome { progress?.add(files: 1, bytes: content.size) }
                    results.withLock { $0.append((row, outcome)) }
                }
                end.change { end in
                    end.open -= 1
                    end.running.remove(identifier)
                }
            }
            if let size, have == size {
                // It was whole already.
                let response = ResponseHead(status: 200)
                completion(
                    .success(
                        TransferReport(
                            response: response, sourceIndex: 0, currentURL: "", requests: 0, bytesReceived: 0)))
            } else {
                transport.start(request, sink: sink, completion: completion)
            }
        }
        end.wait { end -> Void? in end.open == 0 ? () : nil }
        if !environment.stop.isStopped { store?.clear() }
        return results.withLock { $0 }
    }
}

/// Where files are while it is not known what they are: `.syncagent/learning/`.
private final class LearningStore: Sendable {
    let directory: Descriptor
    let staging: Staging

    init(_ destination: Destination) throws(FileError) {
        let shown = "\(destination.path)/.syncagent/learning"
        directory = try openPrivateDirectory("learning", in: destination.state, create: true, shown: shown)
        dropInheritance(directory.raw)
        staging = try Staging(destination, lanes: 1)
    }

    /// Takes a whole file over into staging, as often as it is wanted.
    func place(_ name: String, _ digest: SHA256Digest, size: UInt64, from file: Int32, copies: Int) -> Bool {
        for _ in 1..<max(1, copies) {
            let copy = staging.newFile(lane: 0, digest: digest)
            guard let made = staging.create(copy, executable: false) else { return false }
            if cloneFile(file, to: made.raw) == nil { continue }
            var offset: UInt64 = 0
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 64)
            defer { buffer.deallocate() }
            while offset < size {
                let count = Int(min(UInt64(buffer.count), size - offset))
                let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
                guard readFully(file, into: piece, at: offset) == count,
                    writeAll(UnsafeRawBufferPointer(piece), to: made.raw, at: offset) == nil
                else { return false }
                offset += UInt64(count)
            }
        }
        let file = staging.newFile(lane: 0, digest: digest)
        return file.withName {
            renameEntry(name, in: directory.raw, to: $0, in: staging.descriptor(lane: file.lane)) == nil
        }
    }

    /// Removes what nobody will go on with.
    func clear() { for name in (try? directoryEntries(directory.raw)) ?? [] { removeFile(name, in: directory.raw) } }
}

/// Writes and hashes one file whose SHA-256 nobody knows.
///
/// A transport calls its sink from one thread at a time, in order, and its completion after that; ``prepare()`` comes before.
private final class LearningSink: TransferSink, @unchecked Sendable {  // Safe: calls never overlap.
    private let check: ContentCheck
    private let size: UInt64?
    private let store: LearningStore?
    private let name: String
    private let isStopped: @Sendable () -> Bool
    private var hasher: ContentHasher?
    private var file: SharedDescriptor?
    private var length: UInt64 = 0
    private var trouble: FileError?

    init(
        _ check: ContentCheck, size: UInt64?, in store: LearningStore?, named name: String,
        _ isStopped: @escaping @Sendable () -> Bool
    ) { (self.check, self.size, self.store, self.name, self.isStopped) = (check, size, store, name, isStopped) }

    /// Takes up what an interrupted run has left.
    ///
    /// - Returns: How many **bytes** are here. Without a digest nobody could say whether two halves belong together.
    func prepare() -> UInt64 {
        guard let store, let size, check.digest != nil, size > 0,
            let opened = try? openFile(name, in: store.directory.raw, .readWrite, trust: .staged),
            let found = status(opened.raw), found.size > 0, found.size <= size,
            var hasher = try? ContentHasher(check, size: size)
        else { return 0 }
        guard Learning.hash(opened.raw, 0..<found.size, &hasher, isStopped) else { return 0 }
        self.hasher = consume hasher
        file = SharedDescriptor(opened)
        length = found.size
        return length
    }

    func begin(_ response: ResponseHead) -> UInt64 {
        if length > 0, response.bodyOffset <= length { return length }
        return start(over: response.objectSize) ? 0 : length
    }

    /// Begins from the first byte.
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
        if let size, UInt64(bytes.count) > size - min(length, size) { return .stop }
        if let file, let code = writeAll(bytes, to: file.raw, at: offset) {
            trouble = FileError(step: "write", path: ".syncagent/learning/\(name)", code: code)
            return .stop
        }
        guard (try? hasher?.update(bytes)) != nil else { return .stop }
        length += UInt64(bytes.count)
        return .taken
    }

    /// What the file turned out to be, for every row that has it.
    func finish(_ result: Result<TransferReport, TransferError>, _ rows: [Int]) -> [(
        row: Int, Result<(digest: SHA256Digest, size: UInt64), RowFailure>
    )] {
        let first = finish(result, rows[0], copies: rows.count)
        return rows.map { row in
            switch first {
            case .success(let content): (row, .success(content))
            case .failure(let failure): (row, .failure(failure.of(row)))
            }
        }
    }

    private func finish(_ result: Result<TransferReport, TransferError>, _ row: Int, copies: Int) -> Result<
        (digest: SHA256Digest, size: UInt64), RowFailure
    > {
        if let trouble { return .failure(RowFailure(row: row, disk: trouble)) }
        if case .failure(let error) = result {
            // A part is kept where somebody can tell later that it is one.
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
            let name = listed.algorithm.rawValue
            return .failure(
                RowFailure(row: row, wrongBytes: "\(url): gave wrong bytes: \(name) \(wrong) instead of \(listed.hex)"))
        }
        if let store, let file, length > 0, !store.place(name, digest, size: length, from: file.raw, copies: copies) {
            return .failure(
                RowFailure(row: row, disk: FileError(step: "move", path: ".syncagent/learning/\(name)", code: .last)))
        }
        file = nil
        return .success((digest, length))
    }

    private func drop() { if let store { removeFile(name, in: store.directory.raw) } }
}

extension FileTable {
    /// The text of a derived manifest, with what is known now.
    func text(of manifest: Manifest, learned: [Int: (digest: SHA256Digest, size: UInt64)], isPinned: Bool = false)
        -> [UInt8]
    {
        var writer = ManifestWriter(
            project: manifest.project, revision: manifest.revision, created: manifest.created,
            userData: manifest.userData, source: manifest.source)
        var text: [UInt8] = []
        let directories = manifest.directories
        for row in directories.indices {
            directories.withPath(row) {
                writer.directory(path: $0, traits: directories.traits(row), group: directories.groupName(row))
            }
        }
        for row in indices {
            let group = groupName(row)
            withPath(row) { path in
                if kind(row) == .link {
                    _ = withLinkTarget(row) { writer.link(path: path, target: $0, group: group, traits: traits(row)) }
                } else if let check = checks[row], learned[row] == nil {
                    writer.file(
                        path: path, size: check.isSizeKnown ? size(row) : nil, digest: nil,
                        executable: kind(row) == .executable, urls: urls(row), group: group, traits: traits(row),
                        check: check)
                } else {
                    let content = learned[row] ?? (digest(row), size(row))
                    let mark = checks[row] ?? self.learned[row]
                    writer.file(
                        path: path, size: content.size, digest: content.digest, executable: kind(row) == .executable,
                        urls: urls(row), group: group, traits: traits(row), check: isPinned ? nil : mark)
                }
            }
            if writer.pending > 1 << 18 { writer.drain { text.append(contentsOf: $0) } }
        }
        writer.finish(groups: manifest.groups.filter { !$0.include.isEmpty || !$0.hooks.isEmpty })
        writer.drain { text.append(contentsOf: $0) }
        return text
    }
}
