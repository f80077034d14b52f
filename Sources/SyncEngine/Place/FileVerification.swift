import SyncFiles
package import SyncManifest
import SyncModel
package import SyncPlugins
import SyncSystem

/// A verifier, and the files that it checks before they are installed.
package struct FileVerification: Sendable {
    /// Its name in events.
    package var name: String
    package var verifier: any FileVerifier
    /// Patterns of paths as in groups; empty for every file.
    package var include: [Glob]

    package init(name: String, verifier: any FileVerifier, include: [Glob] = []) {
        self.name = name
        self.verifier = verifier
        self.include = include
    }

    private func covers(_ row: Int, of manifest: Manifest) -> Bool {
        manifest.files.kind(row) != .link
            && (include.isEmpty || manifest.files.withPath(row) { path in include.contains { $0.matches(path) } })
    }

    /// Why a file is not installed.
    struct Refusal {
        var reason: String
        /// Whether the check did not happen, which is not to have passed it.
        var isUnchecked = false

        init(_ reason: String) { self.reason = reason }

        init(unchecked reason: String) {
            self.reason = "could not be checked before it is installed: \(reason)"
            isUnchecked = true
        }
    }

    /// Checks a batch.
    ///
    /// - Returns: The files that are not installed, by row.
    func refusals(_ staged: [Committer.Staged], of manifest: Manifest, in staging: Staging) -> [Int: Refusal] {
        var refusals: [Int: Refusal] = [:]
        let mine = staged.compactMap { entry -> (row: Int, file: Staging.File, status: FileStatus?)? in
            guard covers(entry.row, of: manifest) else { return nil }
            if case .file(let file, let status) = entry.source { return (entry.row, file, status) }
            refusals[entry.row] = Refusal(unchecked: "its directory comes as a whole")
            return nil
        }
        guard !mine.isEmpty else { return refusals }
        let files = mine.map { entry in
            StagedFile(
                path: manifest.files.path(entry.row), stagedPath: staging.shown(entry.file),
                size: manifest.files.size(entry.row), sha256: "\(manifest.files.digest(entry.row))")
        }
        do throws(PluginError) {
            let verdicts = try verifier.verify(files)
            guard verdicts.count == files.count else {
                let text = "\(verdicts.count) verdicts on \(files.count) files"
                throw PluginError(plugin: name, code: .badAnswer, message: text)
            }
            for (entry, verdict) in zip(mine, verdicts) {
                switch verdict {
                case .accepted: break
                case .refused(let reason):
                    refusals[entry.row] = Refusal("refused by verifier \(name): \(escaped(reason))")
                case .unchecked(let reason): refusals[entry.row] = Refusal(unchecked: escaped(reason))
                }
            }
        } catch { for entry in mine { refusals[entry.row] = Refusal(unchecked: "\(error)") } }
        // A verifier must not write: what was hashed is what is installed.
        for entry in mine where refusals[entry.row] == nil {
            guard let status = entry.status, staging.fileStatus(of: entry.file) != status else { continue }
            refusals[entry.row] = Refusal(
                "changed while verifier \(name) checked it: a verifier must not change the files it checks")
        }
        return refusals
    }
}
