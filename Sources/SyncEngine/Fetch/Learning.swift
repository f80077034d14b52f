import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem

/// Learns sizes and digests that a listing does not state: files of unknown SHA-256 or size are fetched once, compared
/// with what the listing states, and wait in staging under their own digest.
///
/// If the size is unknown, the first request asks for as much as a small file has, so that a small file comes whole. A
/// large one whose SHA-256 is known is then left to ``FetchRounds``, with the bytes that have come; any other continues
/// where an interrupted run has left it, in `.syncagent/learning/`.
struct Learning {
    let environment: EngineEnvironment
    let found: FoundManifest
    /// The destination where files are staged; `nil` if only their digests are wanted.
    let destination: Destination?
    let progress: ProgressCount?
    /// The place that is searched for files before they are fetched; `nil` for the destination.
    var place: Destination?
    /// The index of these files.
    var index = StatIndex.empty

    /// The result.
    struct Outcome {
        /// The manifest, with what was learnt.
        var manifest: Manifest
        /// The digests of files that were fetched and wait in staging.
        var fetched: Set<SHA256Digest> = []
        /// The rows that are still not known, and why.
        var failures: [RowFailure] = []
    }

    /// The most files fetched at a time; each takes a descriptor.
    private static let mostOpen = 64

    /// - Parameter rows: The wanted rows.
    func run(_ manifest: Manifest, rows: [Int]) throws(EngineError) -> Outcome {
        let files = manifest.files
        var learned = known(files)
        var outcome = Outcome(manifest: manifest)
        let open = rows.filter { files.checks[$0] != nil && learned[$0] == nil }
        if !open.isEmpty {
            let here = findLocally(open, files)
            learned.merge(here) { $1 }
            if let destination {
                LearnedDigests.append(here.map { line($0.key, $0.value, files) ?? "" }.joined(), in: destination)
            }
            for (row, result) in try fetch(open.filter { here[$0] == nil }, files) {
                switch result {
                case .success(let received):
                    learned[row] = received.content
                    if received.isWhole { outcome.fetched.insert(received.content.digest) }
                case .failure(let failure): outcome.failures.append(failure)
                }
            }
            if environment.stop.isStopped {
                throw EngineError(.interrupted, "stopped while fetching files of unknown digest")
            }
        }
        outcome.manifest = try self.manifest(manifest, with: learned)
        return outcome
    }

    /// The manifest, completed with facts learnt before and with those of local files. The destination is not changed.
    func completed(_ manifest: Manifest, rows: [Int]) throws(EngineError) -> Manifest {
        let learned = known(manifest.files)
        let open = rows.filter { manifest.files.checks[$0] != nil && learned[$0] == nil }
        return try self.manifest(manifest, with: learned.merging(findLocally(open, manifest.files)) { $1 })
    }

    private func manifest(_ manifest: Manifest, with learned: [Int: LearnedContent]) throws(EngineError) -> Manifest {
        guard !learned.isEmpty else { return manifest }
        let text = manifest.files.text(of: manifest, learned: learned)
        return try found.source.keep(text, at: found.place, found.derivation).decode()
    }

    /// The content that earlier runs in the destination have learnt, by row.
    private func known(_ files: FileTable) -> [Int: LearnedContent] {
        guard let known = destination.map(LearnedDigests.init) else { return [:] }
        var learned: [Int: LearnedContent] = [:]
        for (row, check) in files.checks {
            let content = known.content(check, size: files.size(row), url: url(row, files))
            if let content, content.size > 0 || content.digest == .ofNothing {
                learned[row] = content
            }
        }
        return learned
    }

    /// Keeps in the destination what the cache has of files without any digest, learnt for another destination: what
    /// came first holds here, too, once the cache has lost it or the listing has changed elsewhere. Nothing that is
    /// known here is replaced, and nothing is kept for which there is no room: every pull would begin the file again.
    func keepFirst(_ files: FileTable, rows: [Int]) {
        let rows = rows.filter { files.learned[$0].map { $0.digest == nil } ?? false }
        guard let destination, !rows.isEmpty else { return }
        let known = LearnedDigests(destination)
        var lines = ""
        for row in rows where known.hasRoom(after: lines) {
            let (digest, size, first) = (files.digest(row), files.size(row), url(row, files))
            // Whether the listing has said the size is not known any more.
            for isSizeKnown in [true, false] {
                let check = ContentCheck(nil, stamp: files.learned[row]?.stamp, isSizeKnown: isSizeKnown)
                guard known.content(check, size: size, url: first) == nil else { continue }
                lines += LearnedDigests.line(digest, size: size, for: check, listedSize: size, url: first) ?? ""
            }
        }
        LearnedDigests.append(lines, in: destination)
    }

    /// Forgets the sizes of contents that turned out to be others: what a server told of one may have been true of an
    /// older file at its place. A size of 0 says so.
    static func forget(_ digests: Set<SHA256Digest>, in destination: Destination) {
        let lines = digests.compactMap { digest in
            let check = ContentCheck((.sha256, digest.hex), isSizeKnown: false)
            return LearnedDigests.line(digest, size: 0, for: check, listedSize: 0, url: "")
        }
        LearnedDigests.append(lines.joined(), in: destination)
    }

    /// The line that records what was learnt of a row.
    private func line(_ row: Int, _ content: LearnedContent, _ files: FileTable) -> String? {
        files.checks[row].flatMap {
            LearnedDigests.line(
                content.digest, size: content.size, for: $0, listedSize: files.size(row), url: url(row, files))
        }
    }

    private func url(_ row: Int, _ files: FileTable) -> String {
        files.urls(row).first.map { resolve($0, against: found.bases[0]) } ?? ""
    }

    /// The URLs of the content that some rows share: those of the first one, and some of the others'.
    private func urls(_ rows: [Int], _ files: FileTable) -> [String] {
        var urls: [String] = []
        for row in rows.prefix(Self.mostOpen) where urls.count < FetchRounds.mostURLs {
            for url in resolve(files.urls(row), against: found.bases) where !urls.contains(url) { urls.append(url) }
        }
        return ofOneKind(urls)
    }

    // MARK: What is here

    /// Local files that match the listing: at their own paths or, if only the size is unknown, anywhere in the index.
    private func findLocally(_ rows: [Int], _ files: FileTable) -> [Int: LearnedContent] {
        guard let place = place ?? destination, !rows.isEmpty else { return [:] }
        var here = sizesInIndex(rows, files)
        let candidates = rows.filter { files.checks[$0]?.digest != nil && here[$0] == nil }
        let (checks, index) = (files.checks, index)
        let isStopped = environment.isStopped
        let done = concurrently(
            over: candidates.count, threads: environment.workers, name: "learn", isStopped: isStopped,
            by: { _ in Directories(place) }
        ) { directories, number -> LearnedContent? in
            let row = candidates[number]
            guard let check = checks[row], let file = files.withPath(row, { directories.openFile($0) }),
                let found = status(file.raw), found.kind == .file, !check.isSizeKnown || found.size == files.size(row)
            else { return nil }
            if check.digest?.algorithm == .sha256 {
                // The file's digest is known, and is another one.
                let known = files.withPath(row, index.position(of:)).flatMap(index.record)
                if let known, known.matches(found), index.trusts(known) { return nil }
            }
            return Self.digest(of: file.raw, size: found.size, check, isStopped).map { ($0, found.size) }
        }
        for (number, content) in done { here[candidates[number]] = content }
        return here
    }

    /// The sizes of contents that were verified here, for rows of which only the size is unknown.
    private func sizesInIndex(_ rows: [Int], _ files: FileTable) -> [Int: LearnedContent] {
        let open = rows.filter { files.checks[$0]?.digest?.algorithm == .sha256 }
        let digests = Set(open.map { files.digest($0) })
        guard !open.isEmpty else { return [:] }
        var sizes: [SHA256Digest: UInt64] = [:]
        for position in 0..<index.count {
            guard let record = index.record(position), record.kind == .file || record.kind == .executable,
                digests.contains(record.digest), index.trusts(record)
            else { continue }
            sizes[record.digest] = record.status.size
        }
        var here: [Int: LearnedContent] = [:]
        for row in open { here[row] = sizes[files.digest(row)].map { (files.digest(row), $0) } }
        return here
    }

    /// The SHA-256 of a file that matches the listing; `nil` for others.
    private static func digest(
        of file: Int32, size: UInt64, _ check: ContentCheck, _ isStopped: @Sendable () -> Bool
    ) -> SHA256Digest? {
        guard var hasher = try? ContentHasher(check, size: size), hash(file, 0..<size, &hasher, isStopped),
            let result = try? hasher.finish(), result.wrong == nil
        else { return nil }
        return result.sha256
    }

    /// Hashes a range of a file; `false` if it could not be read.
    static func hash(
        _ file: Int32, _ range: Range<UInt64>, _ hasher: inout ContentHasher, _ isStopped: () -> Bool
    ) -> Bool {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 64)
        defer { buffer.deallocate() }
        return readPieces(of: file, range, through: buffer, isStopped: isStopped) { piece, _ in
            (try? hasher.update(piece)) != nil
        }
    }

    // MARK: Fetching

    /// Fetches each content once, for all rows that have it. Wrong bytes are fetched again, from elsewhere if there is
    /// more than one place.
    private func fetch(_ rows: [Int], _ files: FileTable) throws(EngineError)
        -> [(row: Int, result: Result<LearningSink.Outcome, RowFailure>)]
    {
        guard !rows.isEmpty else { return [] }
        progress?.begin(.fetching, files: rows.count, bytes: rows.reduce(UInt64(0)) { $0 &+ files.size($1) })
        let store = try destination.map { (place) throws(EngineError) in try usable(LearningStore(place)) }
        var same: [SHA256Digest: [Int]] = [:]
        for row in rows { same[files.digest(row), default: []].append(row) }
        var open = rows.filter { same[files.digest($0)]?.first == $0 }
        var results: [(row: Int, result: Result<LearningSink.Outcome, RowFailure>)] = []
        for attempt in 0..<FetchRounds.rounds where !open.isEmpty {
            let isLast = attempt + 1 == FetchRounds.rounds
            let groups = open.map { same[files.digest($0)] ?? [$0] }
            open = []
            for (rows, result) in transfer(groups, files, store, isAgain: attempt > 0) {
                if case .failure(let failure) = result, failure.isWrongBytes, !isLast, !environment.stop.isStopped {
                    open.append(rows[0])
                } else {
                    results += rows.map { row in (row, result.mapError { $0.of(row) }) }
                }
            }
            open.sort()
            environment.live.tasks?.released(open.flatMap { same[files.digest($0)] ?? [$0] })
        }
        if !environment.stop.isStopped { store?.clear() }
        return results
    }

    /// Fetches one file for each of some groups of rows with the same content.
    ///
    /// - Parameter isAgain: Whether to bypass caches, which may have had wrong bytes.
    private func transfer(_ groups: [[Int]], _ files: FileTable, _ store: LearningStore?, isAgain: Bool)
        -> [(rows: [Int], result: Result<LearningSink.Outcome, RowFailure>)]
    {
        let end = Monitor<(open: Int, cancelled: Bool, running: Set<TransferID>)>((0, false, []))
        let results = Monitor<[(rows: [Int], result: Result<LearningSink.Outcome, RowFailure>)]>([])
        let isLocal = isLocal([url(groups[0][0], files)])
        let transport = isLocal ? environment.localTransport : environment.transport
        environment.stop.onStop {
            let running = end.change { end in
                end.cancelled = true
                return end.running
            }
            for identifier in running { transport.cancel(identifier) }
        }
        let isStopped = environment.isStopped
        let tasks = environment.live.tasks
        let numbers = environment.events.beginTransfers(
            groups.count, { TransferSubject(path: files.path(groups[$0][0]), tasks: groups[$0].count) },
            tasks: { tasks?.note($1, groups[$0]) })
        defer { environment.events.forgetTransfers(numbers) }
        for (place, rows) in groups.enumerated() {
            let row = rows[0]
            guard let check = files.checks[row] else { continue }
            end.wait { end -> Void? in end.open < Self.mostOpen || end.cancelled ? () : nil }
            if environment.stop.isStopped { break }
            let identifier = TransferID(rawValue: numbers.lowerBound + UInt64(place))
            tasks?.give(rows, to: identifier.rawValue)
            let size = check.isSizeKnown ? files.size(row) : nil
            let sink = LearningSink(check, size: size, in: store, named: files.digest(row).hex, isStopped)
            let have = sink.prepare()
            let isCancelled = end.change { end -> Bool in
                // A stop while what is here was read has cancelled those that ran then, and not this one.
                guard !end.cancelled else { return true }
                end.open += 1
                end.running.insert(identifier)
                return false
            }
            if isCancelled { break }
            let completion = { @Sendable [self] (result: Result<TransferReport, TransferError>) in
                let outcome = sink.finish(result, rows)
                switch outcome {
                case .success(let received):
                    // Under the lock, and at once, so that it is not lost if this process ends.
                    results.withLock { _ in keep(received.content, of: rows, files) }
                    let bytes = received.content.size &* UInt64(rows.count)
                    if size == nil { progress?.expect(bytes: bytes) }
                    if received.isWhole { progress?.add(files: rows.count, bytes: bytes) }
                case .failure(let failure): reportFault(sink.source, for: failure, row, files)
                }
                results.withLock { $0.append((rows, outcome)) }
                end.change { end in
                    end.open -= 1
                    end.running.remove(identifier)
                }
            }
            if let size, have == size {
                // The file was complete already.
                let response = ResponseHead(status: 200)
                completion(
                    .success(
                        TransferReport(
                            response: response, sourceIndex: 0, currentURL: "", requests: 0, bytesReceived: 0)))
            } else {
                var request = TransferRequest(
                    id: identifier, urls: urls(rows, files), objectSize: size, limit: size ?? .max,
                    priority: groups.count - place, reload: isAgain, referrer: found.referrer)
                if let size, have > 0, have < size {
                    request.range = have..<size
                    request.limit = size - have
                } else if size == nil, check.digest != nil, !isLocal {
                    request.range = sink.firstRange
                    request.isFirstRange = true
                }
                transport.start(request, sink: sink, completion: completion)
            }
        }
        end.wait { end -> Void? in end.open == 0 ? () : nil }
        return results.withLock { $0 }
    }

    /// Records what was learnt of rows, for the next run.
    private func keep(_ content: LearnedContent, of rows: [Int], _ files: FileTable) {
        guard let destination else { return }
        LearnedDigests.append(rows.map { line($0, content, files) ?? "" }.joined(), in: destination)
    }

    /// Reports a source that gave wrong bytes.
    private func reportFault(_ source: String?, for failure: RowFailure, _ row: Int, _ files: FileTable) {
        guard failure.isWrongBytes, let source else { return }
        environment.transport.reportFault(url: source, reason: "wrong bytes")
        guard let found = failure.found else { return }
        let words = "gave wrong bytes: SHA-256 \(found) instead of \(files.digest(row))"
        environment.emitWrongBytes(files, row, from: source, words, found: found)
    }
}

/// The content of a file, as learnt from its bytes.
typealias LearnedContent = (digest: SHA256Digest, size: UInt64)

extension FileTable {
    /// The text of a derived manifest, with what was learnt.
    ///
    /// - Parameters:
    ///   - learned: The contents of files, by row.
    ///   - sizes: The sizes of other files, by row.
    func text(
        of manifest: Manifest, learned: [Int: LearnedContent], sizes: [Int: UInt64] = [:], isPinned: Bool = false
    ) -> [UInt8] {
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
                    var check = check
                    let known = sizes[row] ?? (check.isSizeKnown ? size(row) : nil)
                    check.isSizeKnown = known != nil
                    let isKnown = known != nil && check.digest?.algorithm == .sha256
                    writer.file(
                        path: path, size: known, digest: isKnown ? digest(row) : nil,
                        executable: kind(row) == .executable, urls: urls(row), group: group, traits: traits(row),
                        check: isKnown ? nil : check)
                } else {
                    let content = learned[row] ?? (digest(row), size(row))
                    // A SHA-256 that the listing has was not learnt.
                    let mark = (checks[row] ?? self.learned[row]).flatMap { $0.digest?.algorithm == .sha256 ? nil : $0 }
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
