import SyncFiles
import SyncManifest
package import SyncModel
import SyncPlugins
import SyncSystem
import SyncUnpack

/// The result of hashing every file again.
package struct VerifyReport: Sendable {
    package struct Problem: Sendable {
        package var path: String
        /// `missing`, `differs`, or why it cannot be read.
        package var reason: String
    }

    /// Files and links checked.
    package var files = 0
    /// Directories named by the manifest and checked.
    package var directories = 0
    /// **Bytes** hashed.
    package var bytes: UInt64 = 0
    package var problems: [Problem] = []
    /// Files with the right bytes and mode, but another time than the manifest's.
    package var notes: [Problem] = []
    /// Who has signed the manifest; `nil` if no root is pinned for its project.
    package var release: TrustedRelease?
    /// The destination, if it does not exist.
    package var missingPlace: String?

    /// Whether everything is in place and right.
    package var isWhole: Bool { problems.isEmpty }

    mutating func add(_ finding: PlaceReader.Finding, _ path: String) {
        let problem = Problem(path: path, reason: finding.reason)
        if finding.isNote { notes.append(problem) } else { problems.append(problem) }
    }

    /// The fields of `verify.finished`.
    package func write(to line: inout JSONLine) {
        line.field("result", isWhole ? "ok" : "partial")
        line.field("files", files)
        if directories > 0 { line.field("directories", directories) }
        line.field("bytes", bytes)
        line.field("differing", problems.count)
        if let release {
            line.object("signed") { release.write(to: &$0) }
        }
        for (key, list) in [("problems", problems), ("notes", notes)] where key == "problems" || !list.isEmpty
        {
            line.list(key, list) { problem, line in
                line.field("path", problem.path)
                line.field("reason", problem.reason)
            }
        }
    }
}

extension PullEngine {
    /// Hashes every file in the manifest, whatever the index says, on every core. Changes nothing.
    package func verify(_ recipe: RunRecipe) throws(EngineError) -> VerifyReport {
        let found = try find(recipe)
        let manifest = try found.decode()
        try recipe.requirePaths(of: manifest, environment.stop)
        let rows = try recipe.selectedRows(of: manifest, environment.stop)
        let directories = recipe.selectedDirectories(of: manifest, with: rows)
        let path = try Self.destinationPath(recipe, project: found.project)
        var report = VerifyReport()
        report.files = rows.count
        report.directories = directories.count
        report.release = found.release
        guard let destination = try Self.openIfPresent(path, usesState: false) else {
            report.missingPlace = path
            let paths = rows.map(manifest.files.path) + directories.map(manifest.directories.path)
            report.problems = paths.map { VerifyReport.Problem(path: $0, reason: "missing") }
            return report
        }
        let next = SharedCounter()
        let stop = environment.stop
        let results = concurrently(environment.workers, name: "verify") { _ -> Findings in
            var findings = Findings()
            // Reported below as unread.
            guard var reader = try? PlaceReader(destination, isStopped: { stop.isStopped }) else {
                return findings
            }
            while !stop.isStopped {
                let position = next.take()
                guard position < rows.count else { break }
                findings.add(rows[position], reader.inspect(rows[position], of: manifest), manifest)
            }
            return findings
        }
        for findings in results {
            report.bytes = report.bytes &+ findings.bytes
            for (row, finding) in findings.problems { report.add(finding, manifest.files.path(row)) }
        }
        let seen = results.reduce(0) { $0 + $1.seen }
        if stop.isStopped { throw EngineError(.interrupted, "stopped after \(seen) of \(rows.count) files") }
        guard seen == rows.count else {
            throw EngineError(
                .internalError,
                "OpenSSL has no SHA-256; \(rows.count - seen) files were not read"
            )
        }
        let named = NamedDirectories(
            manifest: manifest,
            destination: destination,
            index: .empty,
            rows: directories
        )
        let places = Directories(destination)
        for row in directories {
            let finding: PlaceReader.Finding? =
                switch named.look(at: row, places) {
                case .missing: .init(reason: "missing")
                case .here(let found): .init(manifest.directories.traits(row), found)
                case .taken: .init(reason: "is not a directory")
                }
            if let finding { report.add(finding, manifest.directories.path(row)) }
        }
        report.problems.sort { $0.path < $1.path }
        report.notes.sort { $0.path < $1.path }
        return report
    }

    private struct Findings: Sendable {
        var seen = 0
        var bytes: UInt64 = 0
        var problems: [(row: Int, finding: PlaceReader.Finding)] = []

        mutating func add(_ row: Int, _ problem: PlaceReader.Finding?, _ manifest: Manifest) {
            seen += 1
            if let problem { problems.append((row, problem)) }
            if problem?.isNote ?? true { bytes = bytes &+ manifest.files.size(row) }
        }
    }
}
