import SyncFiles
import SyncManifest
package import SyncModel
package import SyncStore
import SyncSystem

extension PullEngine {
    /// The session of a pull; a session is one project in one destination.
    ///
    /// The requested session, or one with the project's name. If that name belongs to another destination, the name is
    /// `PROJECT:NAME` with the last component of this one, and a number if that is taken, too.
    ///
    /// - Throws: ``EngineError`` with status 64 when the requested session has another destination.
    func sessionName(_ recipe: RunRecipe, project: String) throws(EngineError) -> String {
        let path = try Self.destinationPath(recipe, project: project)
        // Errors are reported later, when something has to be written there.
        let place = try? Self.openIfPresent(path, usesState: false)
        func isElsewhere(_ name: String) throws(EngineError) -> StoredSession? {
            let found = try stored(environment.store.session(name))
            // A name of another project is refused when the run is recorded.
            guard let found, found.project == project, found.destination != path else { return nil }
            if let place, found.destination == place.path { return nil }
            // A renamed directory is still the same one.
            if let place, found.isAt(device: place.device, inode: place.inode) { return nil }
            return found
        }
        let suffix = recipe.sessionSuffix
        if let name = recipe.askedSession {
            guard let found = try isElsewhere(name) else { return name }
            throw EngineError(
                .usage,
                "session '\(escaped(name))' syncs into \(escaped(found.destination)), not into \(escaped(path)); leave "
                    + "--session out, choose another name, or remove it first: syncagent rm \(escaped(name))")
        }
        let last = path.split(separator: "/").last.map(String.init) ?? "root"
        for number in 0...999 {
            let name =
                switch number {
                case 0: project + suffix
                case 1: "\(project):\(last)" + suffix
                default: "\(project):\(last)\(number)" + suffix
                }
            if try isElsewhere(name) == nil { return name }
        }
        throw EngineError(
            .usage,
            "\(escaped(project)) has a thousand destinations called \(escaped(last)); name a session with --session")
    }

    /// Takes the lease of a pull's session, and enters the session's name into the recipe. The name is determined again
    /// under the lease: another pull may have come first.
    func lease(_ recipe: inout RunRecipe, project: String) throws(EngineError) -> FileLock? {
        var name = try sessionName(recipe, project: project)
        while true {
            let lease = try environment.lease(name)
            let again = try sessionName(recipe, project: project)
            if again == name {
                recipe.session = name
                return lease
            }
            name = again
        }
    }

    /// The name of a run's session at this moment; another run may have been recorded since it was prepared.
    package func sessionName(of start: RunStart, asked recipe: RunRecipe) throws(EngineError) -> String {
        try sessionName(recipe, project: start.session.project)
    }
}

extension RunRecipe {
    /// The end of the name of a piece's session; empty for the whole.
    fileprivate var sessionSuffix: String { piece.map { ".shard-\($0.name)" } ?? "" }

    /// The name of the requested session; a piece has a session of its own.
    fileprivate var askedSession: String? {
        session.map { $0.hasSuffix(sessionSuffix) ? $0 : $0 + sessionSuffix }
    }
}

extension SyncStore {
    /// The session of a pull whose manifest is not known: one with the same destination, which is `./<project>` by
    /// default, and with the same piece. Of several, the named one; else one whose last run had this manifest's
    /// location; else, with a given destination, the one that ran last. A named session with another destination does
    /// not count: a failure here is not recorded for it, nor retried there.
    func knownSession(_ recipe: RunRecipe) throws(StoreError) -> StoredSession? {
        let here = recipe.destination.flatMap(absolute)
        let place = here.flatMap { status(following: $0) }
        func isThere(_ session: StoredSession) -> Bool {
            guard let here else { return session.destination == absolute(session.project) }
            return session.destination == here
                || place.map { session.isAt(device: $0.device, inode: $0.inode) } ?? false
        }
        if let name = recipe.askedSession {
            guard let named = try session(name), isThere(named) else { return nil }
            return named
        }
        let location = ManifestPlace(recipe.manifest).location
        var latest: (session: StoredSession, run: StoredRun)?
        for session in try sessions() {
            guard isThere(session), let run = try runs(session: session.identifier, limit: 1).first,
                run.recipe.shard == recipe.shard
            else { continue }
            if run.location == location { return session }
            if here != nil, latest.map({ $0.run.created < run.created }) ?? true { latest = (session, run) }
        }
        return latest?.session
    }
}

/// A path made absolute against the working directory, with `.` components removed and `..` left alone; `nil` for a
/// relative one when the working directory was removed.
func absolute(_ path: String) -> String? {
    guard let directory = path.hasPrefix("/") ? "" : CurrentProcess.workingDirectory else { return nil }
    return "/" + "\(directory)/\(path)".split(separator: "/").filter { $0 != "." }.joined(separator: "/")
}
