import ArgumentParser
import Foundation
import SyncAgent
import SyncEngine
import SyncFiles
import SyncModel
import SyncRemotes
import SyncReport
import SyncStore
import SyncSystem

struct GCCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "gc",
        abstract: "Remove old history, cached manifests and unfinished files that are no longer needed.",
        discussion: """
            Keeps open runs and what they need, the latest 50 runs, the last successful one and 16 MiB of events of \
            each session, and the manifest of each session's latest run. Removes copies of git repositories that no \
            session pulls from, unfinished files where no run is open, and hook receipts after 90 days. Never touches \
            installed files. Needs no agent, and is safe while one is running.
            """)

    @Flag(help: "Show what would be removed; remove nothing.") var dryRun = false

    func run() async throws {
        let output = Output()
        let state = try StateAccess(output: output)
        guard let store = try state.existingStore() else { return output.message("There is no state yet.") }
        let collection = GarbageCollection(store: store, state: state, isDryRun: dryRun)
        try collection.history()
        try collection.manifests()
        try collection.copies()
        try collection.staging()
        try collection.receipts()
    }
}

/// Removes old data, one kind after the other.
private struct GarbageCollection {
    let store: SyncStore
    let state: StateAccess
    let isDryRun: Bool

    private var verb: String { isDryRun ? "would be removed" : "removed" }

    /// A manifest exists shortly before its run is recorded, so newer files stay. In **seconds**.
    private static let grace: Int64 = 3_600
    /// The age of receipts to remove, in **milliseconds**: 90 days.
    private static let receiptAge: Int64 = 90 * 86_400_000

    func history() throws {
        let found = try store.prunable()
        if !isDryRun { try store.prune() }
        write("history", found.runs, "run", UInt64(clamping: found.eventBytes))
    }

    func manifests() throws {
        let directory = state.place.stateDirectory + "/manifests"
        var needed = try store.neededManifests().map(\.hex)
        do { needed += try store.manifestsInTrees().map(\.hex) } catch {
            // That destination may need any of them.
            return state.output.warning(
                "no cached manifest is removed: \(error). Mount or repair that destination, or move it away if it is given up, "
                    + "and run gc again")
        }
        let parts: Set<String>
        do { parts = try neededParts(of: needed, in: directory) } catch {
            // Any manifest may be needed.
            return state.output.warning("no cached manifest is removed: \(error)")
        }
        let now = SystemTime.milliseconds() / 1_000
        var (count, bytes) = (0, UInt64(0))
        // Without the directory there are none.
        for name in (try? directoryEntries(directory)) ?? [] {
            let path = directory + "/" + name
            guard case .success(let found?) = status(currentDirectory, path), found.kind == .file,
                found.modified / 1_000_000_000 < now - Self.grace, !isNeeded(name, at: path, needed),
                !parts.contains(name)
            else { continue }
            if !isDryRun, let code = removeFile(path) {
                // Another process may be cleaning up as well.
                if code == .noSuchFileOrDirectory { continue }
                state.output.warning("cannot remove \(escaped(path)): \(code)")
                continue
            }
            count += 1
            bytes += found.size
        }
        write("cached manifests", count, "file", bytes)
    }

    /// Removes copies of repositories that no session pulls from.
    func copies() throws {
        let locations = try store.runs(limit: 100_000).map(\.location)
        let found = GitStore.collect(
            in: state.place.stateDirectory, keeping: locations, now: SystemTime.milliseconds(), isDryRun: isDryRun)
        write("git", found.copies, "copy of a repository", found.bytes, many: "copies of repositories")
    }

    /// The files of the parts of needed manifests: `<digest>.parts` lists them, `<digest>.part` is one.
    ///
    /// - Throws: ``FileError`` for a list that cannot be read.
    private func neededParts(of needed: [String], in directory: String) throws(FileError) -> Set<String> {
        var parts: Set<String> = []
        for root in needed {
            let list: String
            do throws(FileError) { list = try Self.text("\(directory)/\(root).parts") } catch {
                // Most manifests have no parts.
                guard error.isMissing || error.isRefusal else { throw error }
                continue
            }
            for part in list.split(separator: "\n") { parts.insert(part + ".part") }
        }
        return parts
    }

    /// `<digest>.json[.zst]` is a manifest, `<digest>.parts` the list of its parts, `<digest of the URL>.head` names a
    /// manifest.
    private func isNeeded(_ name: String, at path: String, _ needed: [String]) -> Bool {
        if name.hasSuffix(".head") {
            // Without it, the manifest is fetched once more.
            let text = (try? Self.text(path)) ?? ""
            return needed.contains { text.contains("digest \($0)") }
        }
        return needed.contains { name.hasPrefix($0) }
    }

    /// The text of a file of the cache.
    private static func text(_ path: String) throws(FileError) -> String {
        String(decoding: try readFile(path, trust: .state, limit: 64 << 20), as: UTF8.self)
    }

    func staging() throws {
        let sessions = try store.sessions()
        let open = Set(try store.runs(onlyOpen: true, limit: 10_000).map(\.session))
        // Two sessions may share a destination.
        let busy = Set(sessions.filter { open.contains($0.identifier) }.map(\.destination))
        for session in sessions where !busy.contains(session.destination) {
            do throws(FileError) { try clear(session) } catch {
                state.output.warning("\(escaped(session.identifier)): \(error)")
            }
        }
    }

    private func clear(_ session: StoredSession) throws(FileError) {
        let path = session.destination
        guard exists("\(path)/\(Destination.stateName)/staging") else { return }
        let destination = try Destination.open(path: path, create: false)
        guard let lock = try destination.lock() else { return }
        destination.findMounts(on: StatIndex.read(from: destination))
        let staging = try Staging(destination, lanes: 1)
        func unfinished() -> [UInt64] {
            staging.leftovers(removing: false).map(\.size) + staging.members().map(\.size)
        }
        let found = unfinished()
        var left: [UInt64] = []
        var failure: FileError?
        if !isDryRun {
            do throws(FileError) { try staging.clear() } catch {
                failure = error
                left = unfinished()
            }
        }
        _ = consume lock
        func bytes(_ sizes: [UInt64]) -> UInt64 { sizes.reduce(0) { $0.saturatingAdd($1) } }
        write(
            "unfinished files in \(escaped(path))", max(0, found.count - left.count), "file",
            bytes(found).saturatingSubtract(bytes(left)))
        if let failure { throw failure }
    }

    /// Removes old receipts. A receipt keeps a hook from being called again after a crash, so those of runs with owed
    /// hooks stay.
    func receipts() throws {
        let open = try store.runs(onlyOpen: true, limit: 10_000).map(\.identifier)
        let needed = Set(open + (try store.owedHooks().map(\.run)))
        let oldest = (SystemTime.milliseconds() - Self.receiptAge) * 1_000_000
        for path in Set(try store.sessions().map(\.destination)).sorted() {
            do throws(FileError) {
                let destination = try Destination.open(path: path, create: false)
                let count = HookReceipt.collect(in: destination, before: oldest, keeping: needed, isDryRun: isDryRun)
                write("receipts of hooks in \(escaped(path))", count, "file", 0)
            } catch {
                // A missing destination has no receipts; one that cannot be read is for the doctor.
                guard !error.isMissing else { continue }
                state.output.warning("\(error)")
            }
        }
    }

    private func write(_ what: String, _ count: Int, _ one: String, _ bytes: UInt64, many: String? = nil) {
        guard count > 0 || bytes > 0 else { return }
        state.output.line("\(what): \(Figures.count(count, one, many)), \(ByteCount(bytes)) \(verb)")
    }
}
