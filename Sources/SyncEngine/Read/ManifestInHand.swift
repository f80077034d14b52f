import SyncFiles
package import SyncManifest
package import SyncModel
import SyncPlugins
import SyncStore
import SyncSystem
import SyncTrust

/// A manifest for reading: `ls`, `diff`, `cat`. Nothing is stored.
package struct ManifestInHand: Sendable {
    package let manifest: Manifest
    let found: FoundManifest
    let environment: EngineEnvironment

    private var source: ManifestSource { found.source }

    /// The place of the manifest, for people.
    package var shown: String { found.shown }

    /// The channels that are listed beside the manifest, by name, with the revision of each. That list is not signed: a
    /// pull of a channel checks what the channel points at.
    package func channels() -> [(name: String, revision: UInt64)] { source.listedChannels(besides: found.location) }

    /// The rows of some groups, ascending; of all files if none is named.
    ///
    /// - Throws: ``EngineError``: 64 for a group that the manifest does not have.
    package func rows(of groups: [String]) throws(EngineError) -> [Int] {
        try manifest.selectedRows(of: groups, source.stop)
    }

    /// The rows of the directories that belong to these rows.
    package func directories(of groups: [String], with rows: [Int]) -> [Int] {
        manifest.directories(with: rows, groups: groups, filter: nil)
    }

    /// The rows that a path names: a file, a directory with all below it, or everything for `.`.
    ///
    /// - Throws: ``EngineError``: 66 for a path that names nothing.
    package func rows(below path: String) throws(EngineError) -> (files: Range<Int>, directories: Range<Int>) {
        let name = Array(path.split(separator: "/").filter { $0 != "." }.joined(separator: "/").utf8)
        let (files, directories) = (manifest.files.rows(below: name), manifest.directories.rows(below: name))
        guard !(files.isEmpty && directories.isEmpty) || name.isEmpty else { throw unknown(path) }
        return (files, directories)
    }

    /// The error for a path that no file has: 66, with the path that was probably meant.
    package func unknown(_ path: String) -> EngineError {
        let hint = nearest(path).map { "; did you mean \(escaped($0))?" }
        return EngineError(.noInput, "the manifest has no file \(escaped(path))\(hint ?? "")")
    }

    /// The most paths that are compared letter by letter.
    private static let mostCompared = 2_000

    /// The path that was probably meant: one with the same name, or a similar one below the nearest directory that
    /// exists.
    private func nearest(_ path: String) -> String? {
        let files = manifest.files
        func name(_ path: String) -> String { path.split(separator: "/").last?.lowercased() ?? path }
        let wanted = name(path)
        if let same = files.indices.first(where: { name(files.path($0)) == wanted }) { return files.path(same) }
        var directory = path.split(separator: "/").dropLast()
        while true {
            let rows = files.rows(below: Array(directory.joined(separator: "/").utf8))
            if !rows.isEmpty {
                return SyncModel.nearest(path, in: rows.prefix(Self.mostCompared).map { files.path($0) })
            }
            guard directory.popLast() != nil else { return nil }
        }
    }

    /// The row of the file that a path leads to, through the manifest's links to files and directories; `nil` if there
    /// is none.
    package func row(of path: String) -> Int? {
        var (here, rest) = ([Substring](), Array(path.split(separator: "/").reversed()))
        var links = 0
        while let name = rest.popLast() {
            if name == "." { continue }
            if name == ".." {
                guard here.popLast() != nil else { return nil }
                continue
            }
            here.append(name)
            // A directory has no row.
            guard let row = entry(here.joined(separator: "/")) else { continue }
            guard let target = manifest.files.linkTarget(row) else { return rest.isEmpty ? row : nil }
            links += 1
            guard links <= Self.mostLinks else { return nil }
            here.removeLast()
            rest += target.split(separator: "/").reversed()
        }
        return nil
    }

    /// As many links as Linux follows on the way to a file: path_resolution(7).
    private static let mostLinks = 40

    /// The text of the link at a path; `nil` for anything else.
    package func link(at path: String) -> String? { entry(path).flatMap(manifest.files.linkTarget) }

    private func entry(_ path: String) -> Int? {
        Array(path.utf8).withUnsafeBufferPointer { manifest.files.row(of: $0) }
    }
}

extension PullEngine {
    /// Finds a manifest as ``plan(_:emitting:)`` does, with the signatures that its project's pin asks for.
    ///
    /// - Parameters:
    ///   - looksBack: Whether it may be a release that was the newest at some time.
    ///   - asksSizes: Whether servers are asked for sizes that a listing does not state.
    package func read(_ recipe: RunRecipe, looksBack: Bool = false, asksSizes: Bool = true) throws(EngineError)
        -> ManifestInHand
    {
        var releases = releases(try manifestSource(caching: false, of: recipe), recipe)
        releases.looksBack = looksBack
        let found = try releases.find(recipe.manifest)
        let manifest = try known(found, in: destinations(of: found.project, recipe), asksSizes: asksSizes)
        return ManifestInHand(manifest: manifest, found: found, environment: environment)
    }

    /// The places that the project may have been pulled to: the one that a pull would use, and those of its sessions.
    private func destinations(of project: String, _ recipe: RunRecipe) -> [String] {
        let usual = try? Self.destinationPath(recipe, project: project)
        let sessions = ((try? environment.store.sessions()) ?? []).filter { $0.project == project }
        let paths = [usual].compactMap(\.self) + sessions.map(\.destination).filter { $0 != usual }
        return Array(paths.prefix(Self.mostDestinations))
    }

    /// The most destinations that are asked for what they have learnt.
    private static var mostDestinations: Int { 32 }
}

extension ManifestInHand {
    /// Fetches one file as a pull would, with no more of its packs than it needs, and passes its bytes on once all are
    /// here and their SHA-256 is right.
    ///
    /// - Parameters:
    ///   - row: The row of a file, not of a link.
    ///   - directory: Where a directory is made in which the file waits until it is whole. That is removed before a
    ///     byte is passed on.
    /// - Throws: ``EngineError``: 65 for bytes that are wrong from every source, 77 when a server refuses them, 69 when
    ///   they cannot be fetched otherwise.
    package func fetch(_ row: Int, in directory: String, to take: (UnsafeRawBufferPointer) throws(EngineError) -> Void)
        throws(EngineError)
    {
        let file = try brought(row, in: directory)
        guard let size = status(file.raw)?.size else {
            throw EngineError(.ioError, "cannot look at what was fetched in \(escaped(directory)): \(errnoText)")
        }
        let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(clamping: min(size, 1 << 20)), alignment: 16)
        defer { piece.deallocate() }
        let isWhole = try readPieces(of: file.raw, 0..<size, through: piece) { bytes, _ throws(EngineError) in
            try take(bytes)
            return true
        }
        guard isWhole else {
            throw EngineError(.ioError, "cannot read back from \(escaped(directory)): \(errnoText)")
        }
        withExtendedLifetime(file) {}
    }

    /// Fetches the file. It is open, and has no name any more.
    private func brought(_ row: Int, in directory: String) throws(EngineError) -> SharedDescriptor {
        let (path, remedy) = (escaped(manifest.files.path(row)), "set TMPDIR to another directory")
        guard let above = openDirectory(directory) else {
            throw EngineError(.ioError, "cannot open \(escaped(directory)): \(errnoText); \(remedy)")
        }
        let name = "syncagent-\(CurrentProcess.identifier)-\(UInt64.random(in: .min ... .max))"
        defer { removeTree(name, in: above.raw) }
        var environment = environment
        (environment.isDurable, environment.verifications) = (false, [])
        var manifest = manifest
        let destination: Destination
        do throws(FileError) {
            destination = try Destination.open(path: "\(directory)/\(name)", create: true, umask: Umask(bits: 0o077))
        } catch { throw EngineError(.ioError, "\(error); \(remedy)") }
        if manifest.files.checks[row] != nil {
            let learning = Learning(environment: environment, found: found, destination: destination, progress: nil)
            let outcome = try learning.run(manifest, rows: [row])
            if let failure = outcome.failures.first { throw Self.error(failure, path, remedy) }
            if !outcome.fetched.isEmpty {
                guard let file = Self.staged(in: destination) else {
                    throw EngineError(.ioError, "cannot read back from \(escaped(directory)): \(errnoText)")
                }
                return file
            }
            manifest = outcome.manifest
        }
        let context = try RunContext(manifest, wanted: [row], destination, .empty, environment, backup: nil) { _, _ in }
        let rounds = FetchRounds(context, from: found, connections: 1)
        var failures = context.stageSmallEntries([row])
        // Fetch not a byte more than the file needs.
        let rule = CoalescingRule(maximumGap: 0, spanLength: 32 << 20)
        failures += rounds.run(makePlan(manifest, wanted: [row], rule: rule))
        failures += context.committer.finish().failures.map { RowFailure(row: $0.row, disk: $0.error) }
        if environment.isStopped() { throw EngineError(.interrupted, "stopped while fetching \(path)") }
        if let failure = failures.first { throw Self.error(failure, path, remedy) }
        let file = manifest.files.withPath(row) { Directories(destination).openFile($0) }
        guard let file else { throw EngineError(.ioError, "cannot read back from \(escaped(directory)): \(errnoText)") }
        return file
    }

    /// The one file in a destination's staging; an empty file if there is none.
    private static func staged(in destination: Destination) -> SharedDescriptor? {
        guard let staging = try? Staging(destination, lanes: 1) else { return nil }
        guard let (file, _) = staging.leftovers(removing: false).first else {
            guard let nothing = try? unnamedFile("cat") else { return nil }
            return SharedDescriptor(nothing)
        }
        guard let opened = staging.open(file) else { return nil }
        return SharedDescriptor(opened)
    }

    private static func error(_ failure: RowFailure, _ path: String, _ remedy: String) -> EngineError {
        if failure.error != nil { return EngineError(.ioError, "\(path) \(failure.reason); \(remedy)") }
        if failure.cause == .wrongBytes || failure.cause == .badManifest {
            return EngineError(.dataInvalid, "\(path): \(failure.reason)", cause: failure.cause)
        }
        let status: ExitStatus = failure.cause.isRefusal ? .refused : .unavailable
        return EngineError(status, "cannot fetch \(path): \(failure.reason)", cause: failure.cause)
    }
}

/// The parts of a served set that a publisher reads besides its manifest.
extension ManifestInHand {
    /// Whether a stop was requested.
    package var isStopped: Bool { source.stop.isStopped }

    /// A range of a pack, not checked.
    ///
    /// - Throws: ``EngineError``: 65 when bytes are missing, 77 when the server refuses it, 69 when it cannot be
    ///   fetched otherwise.
    package func bytes(of pack: Manifest.Pack, _ range: Range<UInt64>) throws(EngineError) -> [UInt8] {
        let urls = resolve(pack.urls, against: found.bases)
        let request = TransferRequest(urls, range, of: pack.size, priority: 0, referrer: found.referrer)
        let what = "bytes of the pack \(pack.sha256.hex)"
        switch source.fetch(request) {
        case .success(let response) where UInt64(response.bytes.count) == range.length: return response.bytes
        case .success: throw EngineError(.dataInvalid, "fewer \(what) arrived than the manifest says")
        case .failure(let error):
            if source.stop.isStopped { throw EngineError(.interrupted, "stopped while fetching \(what)") }
            throw EngineError(error.exitStatus, "cannot fetch \(what): \(error)", cause: error.cause)
        }
    }

    /// The statement of which manifest this revision is, with signatures that are not checked; `nil` if none is served.
    ///
    /// - Throws: ``EngineError``: 65 for one that is too long, 77 when the server refuses it, 69 when it cannot be
    ///   fetched otherwise.
    package func releaseStatement() throws(EngineError) -> [UInt8]? {
        let url = resolve("trust/\(manifest.revision).release", against: found.bases[0])
        let request = TransferRequest(
            id: .next(), urls: [url], limit: UInt64(Role.release.limit), priority: .max,
            referrer: found.referrer)
        switch source.fetch(request) {
        case .success(let response): return response.bytes
        case .failure(let error):
            if source.stop.isStopped { throw EngineError(.interrupted, "stopped while looking at signatures") }
            if error.code == .tooLarge {
                throw EngineError(.dataInvalid, "\(error.url): it has more than \(Role.release.limit) bytes")
            }
            // Buckets answer 403 for what they do not have.
            if [403, 404, 410].contains(error.code.status) { return nil }
            throw EngineError(error.exitStatus, "cannot fetch a signature: \(error)", cause: error.cause)
        }
    }
}

extension PullEngine {
    /// The channels that are listed at a location without a manifest of its own: a set may have nothing but channels.
    package func channels(of recipe: RunRecipe) throws(EngineError) -> [(name: String, revision: UInt64)] {
        try manifestSource(caching: false).listedChannels(besides: recipe.manifest)
    }
}

extension ManifestSource {
    fileprivate func listedChannels(besides location: String) -> [(name: String, revision: UInt64)] {
        (channels(besides: location)?.channels ?? [:]).sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}
