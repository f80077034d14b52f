import SyncContent
import SyncFiles
import SyncManifest
package import SyncModel
import SyncPlugins
import SyncSystem

/// The result of hashing every file again.
package struct VerifyReport: Sendable {
    /// A problem at one place.
    package struct Problem: Sendable {
        package var path: String
        /// `missing`, `differs`, or why it cannot be read.
        package var reason: String
        /// Whether this is no fault: only the time differs, which happens easily, or a mode that cannot be set.
        private(set) var isNote = false
        private var isOfMode = false

        package init(path: String, reason: String) { (self.path, self.reason) = (path, reason) }

        /// A mode or time of a row that differs from the manifest's, or the executable bit of a file where it keeps no
        /// mode; `nil` if all are right.
        init?(_ table: FileTable, _ row: Int, _ found: FileStatus) {
            let (kind, traits) = (table.kind(row), table.traits(row))
            path = table.path(row)
            if kind == .file || kind == .executable, traits.mode == nil, found.isExecutable != (kind == .executable) {
                reason = kind == .executable ? "is not executable" : "is executable, but should not be"
                isOfMode = true
            } else if traits.hold(of: found) {
                return nil
            } else if let mode = traits.mode, !FileTraits(mode: mode).hold(of: found) {
                reason = "has mode \(String(found.permissions, radix: 8)), not \(FileTraits.text(mode: mode))"
                isOfMode = true
            } else {
                let (has, wants) = (FileTraits.text(time: found.modified), traits.modified ?? 0)
                reason = "was modified \(has), not \(FileTraits.text(time: wants))"
                isNote = true
            }
        }

        /// Makes a note of a wrong mode that a pull could not set, or that a file of a first tree still has.
        ///
        /// - Parameter isShared: Whether trees share files there, whose modes are changed when they do.
        mutating func acceptMode(isShared: Bool = false) {
            guard isOfMode else { return }
            let why =
                isShared
                ? "it is changed when another revision shares the file" : "this file system keeps no other mode"
            (isNote, reason) = (true, "\(reason); \(why)")
        }
    }

    /// Files and links checked.
    package var files = 0
    /// Directories named by the manifest and checked.
    package var directories = 0
    /// **Bytes** hashed.
    package var bytes: UInt64 = 0
    package var problems: [Problem] = []
    /// Problems that are no fault: a time other than the manifest's, or a mode that the file system does not keep.
    package var notes: [Problem] = []
    /// Files and links that the manifest does not name. They are no fault.
    package var extra = 0
    /// The first ``mostExtraPaths`` of them, in the order of their paths.
    package var extraPaths: [String] = []
    package static let mostExtraPaths = 1_000
    /// Who has signed the manifest; `nil` if no root is pinned for its project.
    package var release: TrustedRelease?
    /// The listing that the manifest was derived from; `nil` for one that was published.
    package var source: SourceOrigin?
    /// The destination, if it does not exist.
    package var missingPlace: String?

    /// Whether everything is in place and right.
    package var isWhole: Bool { problems.isEmpty }

    fileprivate mutating func add(_ problem: Problem) {
        if problem.isNote { notes.append(problem) } else { problems.append(problem) }
    }

    /// Counts what is in a destination besides the manifest's files, our own directories excepted. What cannot be
    /// entered is not counted.
    fileprivate mutating func addExtra(of manifest: Manifest, in destination: Destination, _ isStopped: () -> Bool) {
        let directories = Directories(destination)
        var paths: [String] = []
        var open: [[UInt8]] = [[]]
        while let above = open.popLast(), !isStopped() {
            let raw = above.withUnsafeBufferPointer { try? directories.descriptor($0, create: false) }
            guard let raw = raw ?? nil, let copy = openDirectory(".", in: raw) else { continue }
            let prefix = above.isEmpty ? [] : above + [0x2F]
            // Names in whatever encoding.
            _ = forEachName(in: copy) { name, length, _ in
                let bytes = UnsafeRawBufferPointer(start: name, count: length)
                guard !bytes.elementsEqual(Destination.stateName.utf8), case .success(let found?) = status(raw, name)
                else { return }
                let path = prefix + bytes
                if found.kind == .directory {
                    open.append(path)
                } else if path.withUnsafeBufferPointer({ manifest.files.row(of: $0) }) == nil {
                    extra += 1
                    paths.append(String(decoding: path, as: UTF8.self))
                }
            }
        }
        extraPaths = Array(paths.sorted().prefix(Self.mostExtraPaths))
    }

    /// The fields of `verify.finished`.
    package func write(to line: inout JSONLine) {
        line.field("result", isWhole ? "ok" : "partial")
        line.field(source)
        line.field("files", files)
        if directories > 0 { line.field("directories", directories) }
        line.field("bytes", bytes)
        line.field("differing", problems.count)
        line.field("extra", extra)
        if let release { line.object("signed") { release.write(to: &$0) } }
        for (key, list) in [("problems", problems), ("notes", notes)] where key == "problems" || !list.isEmpty {
            line.list(key, list) { problem, line in
                line.field("path", problem.path)
                line.field("reason", problem.reason)
            }
        }
    }
}

extension PullEngine {
    /// Hashes every selected file of the manifest, whatever the index says, on every core. Changes nothing.
    package func verify(_ recipe: RunRecipe) throws(EngineError) -> VerifyReport {
        let source = try find(recipe)
        let listed = try known(source, recipe, asksSizes: false)
        try recipe.requirePaths(of: listed, environment.stop)
        let rows = try recipe.selectedRows(of: listed, environment.stop)
        let directories = recipe.selectedDirectories(of: listed, with: rows)
        let path = try Self.destinationPath(recipe, project: source.project)
        // A session that syncs into another place is refused, as by a pull and its plan.
        if recipe.session != nil { _ = try sessionName(recipe, project: source.project) }
        var report = VerifyReport()
        report.files = rows.count
        report.directories = directories.count
        report.release = source.release
        report.source = listed.source
        // The index matters only for modes that cannot be set; another user cannot read it.
        let own: Destination? = (try? Self.openIfPresent(path)) ?? nil
        let destination = own == nil ? try Self.openIfPresent(path, usesState: false) : own
        guard let destination else {
            // Something that no pull makes a directory of.
            try usable(refuseDangling(path))
            if let there = status(following: path), there.kind != .directory {
                throw EngineError(
                    cannotUse: FileError(step: "open the destination", path: path, code: .notDirectory))
            }
            report.missingPlace = path
            let paths = rows.map(listed.files.path) + directories.map(listed.directories.path)
            report.problems = paths.map { VerifyReport.Problem(path: $0, reason: "missing") }
            return report
        }
        let manifest = listed.sharingFiles(destination.sharesFiles)
        let found = StatIndex.read(from: destination)
        let index = found.revision?.manifest == manifest.digest.firstWord ? found : .empty
        try verify(rows, of: manifest, in: destination, index, &report)
        verify(directories: directories, of: manifest, in: destination, index, &report)
        try verifyLinks(to: rows, of: manifest, at: path, &report)
        report.addExtra(of: manifest, in: destination, environment.isStopped)
        if environment.stop.isStopped {
            throw EngineError(.interrupted, "stopped while looking for other files")
        }
        report.problems.sort { $0.path < $1.path }
        report.notes.sort { $0.path < $1.path }
        return report
    }

    /// Hashes files on every core.
    private func verify(
        _ rows: [Int], of manifest: Manifest, in destination: Destination, _ index: StatIndex,
        _ report: inout VerifyReport
    ) throws(EngineError) {
        let findings = Monitor<(bytes: UInt64, problems: [VerifyReport.Problem])>((0, []))
        let isStopped = environment.isStopped
        let mayShare = destination.sharesFiles && destination.state < 0
        let seen = concurrently(
            over: rows.count, threads: environment.workers, name: "verify", isStopped: isStopped,
            by: { _ in try PlaceReader(destination, isStopped: isStopped) }
        ) { reader, place in
            let finding = reader.inspect(rows[place], of: manifest, index, mayShare: mayShare)
            findings.withLock { findings in
                if finding?.isNote ?? true { findings.bytes &+= manifest.files.size(rows[place]) }
                if let finding { findings.problems.append(finding) }
            }
        }.count
        findings.withLock { findings in
            report.bytes = findings.bytes
            for problem in findings.problems { report.add(problem) }
        }
        if isStopped() { throw EngineError(.interrupted, "stopped after \(seen) of \(rows.count) files") }
        guard seen == rows.count else {
            throw EngineError(.internalError, "OpenSSL has no SHA-256; \(rows.count - seen) files were not read")
        }
    }

    /// Checks that readers come to right files, too, if the destination consists of links.
    private func verifyLinks(
        to rows: [Int], of manifest: Manifest, at path: String, _ report: inout VerifyReport
    ) throws(EngineError) {
        let found: TreeHome?
        do throws(FileError) { found = try TreeHome.find(path) } catch {
            // Another user's trees have been opened, if no links lead to them.
            guard error.isRefusal || error.code == .permissionDenied else { throw EngineError(cannotUse: error) }
            found = nil
        }
        guard let home = found else { return }
        var reasons: [String: String] = [:]
        for top in manifest.tops(of: rows) { reasons[top] = try usable(home.obstacle(at: top)) }
        guard !reasons.isEmpty else { return }
        let known = Set(report.problems.map(\.path))
        for path in rows.lazy.map(manifest.files.path) where !known.contains(path) {
            let top = String(decoding: path.utf8.prefix { $0 != 0x2F }, as: UTF8.self)
            if let reason = reasons[top] { report.add(VerifyReport.Problem(path: path, reason: reason)) }
        }
    }

    /// Checks the directories that the manifest names.
    private func verify(
        directories: [Int], of manifest: Manifest, in destination: Destination, _ index: StatIndex,
        _ report: inout VerifyReport
    ) {
        let named = NamedDirectories(manifest: manifest, destination: destination, index: .empty, rows: directories)
        let places = Directories(destination)
        for row in directories {
            let path = manifest.directories.path(row)
            var problem: VerifyReport.Problem? =
                switch named.state(at: row, places) {
                case .success(nil): .init(path: path, reason: "missing")
                case .success(let found?): .init(manifest.directories, row, found)
                case .failure: .init(path: path, reason: "is not a directory")
                }
            let known = manifest.directories.withPath(row, index.position(of:)).flatMap(index.record)
            if known?.kind == .directory, known?.keepsMode == false { problem?.acceptMode() }
            if let problem { report.add(problem) }
        }
    }
}
