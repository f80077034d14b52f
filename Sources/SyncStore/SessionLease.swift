import SyncModel
package import SyncSystem

extension SyncStore {
    /// Takes the right to work on a session: one process at a time has it, and the kernel takes it back when the process ends,
    /// however it ends. A lock on a file of the session's own.
    ///
    /// Taken before ``SyncStore/begin``, ``SyncStore/take(run:now:)`` or ``SyncStore/recover(session:now:)``, and kept until the
    /// work is over.
    ///
    /// - Parameters:
    ///   - session: The session; it need not exist yet.
    ///   - process: This process's id, to be named to whoever comes second.
    /// - Returns: The lease; the session is free again when the last reference goes. `nil` for a store in memory, which has no
    ///   second process.
    /// - Throws: ``StoreError`` with code `busy`, which names the holder; `refused` for a name that is too long.
    package func lease(of session: String, process: Int32, now: Int64) throws(StoreError) -> FileLock? {
        guard let directory = leaseDirectory else { return nil }
        let name = Self.fileName(session)
        let path = "\(directory)/\(name).lock"
        guard name.utf8.count <= 250 else {
            throw StoreError(.refused, "The session name '\(escaped(session))' is too long. Use a shorter --session.")
        }
        do throws(FileError) {
            let place = try openPrivateDirectory(directory, create: true)
            let file = try openFile(
                "\(name).lock", in: place.raw, [.readWrite, .create], trust: .ownState, shown: path)
            // A run of this very process that has just ended lets go with its last reference, a moment later.
            let isOwn = Self.signature(in: file)?.process == "\(process)"
            if let lock = try FileLock.take(file, path: path, wait: isOwn ? 200 : 0) {
                lock.sign("\(process) \(timestamp(milliseconds: now))")
                return lock
            }
        } catch { throw StoreError(.cannotCreate, error.ofState) }
        let holder = signature(of: session).map { " (process \(escaped($0.process)), since \(escaped($0.since)))" }
        throw StoreError(.busy, "Session '\(escaped(session))' is busy\(holder ?? ""). Wait for it, or stop it.")
    }

    /// The process that works on a session at present; `nil` when none does.
    package func holder(of session: String) -> Int32? { signature(of: session).flatMap { Int32($0.process) } }

    /// Whether a run is recorded as running although no process works on it: its worker was killed.
    package func isInterrupted(_ run: StoredRun) throws(StoreError) -> Bool {
        // The runs of a store in memory are this process's.
        guard run.state == .running, leaseDirectory != nil, !isHeld(run.session) else { return false }
        // A worker records the end of a run before it lets go, and one that takes a run up begins an epoch.
        let now = try runs(session: run.session, onlyOpen: true).first { $0.identifier == run.identifier }
        return now?.state == .running && now?.epoch == run.epoch && !isHeld(run.session)
    }

    /// Whether a process has a session; where that cannot be found out, one may.
    func isHeld(_ session: String) -> Bool {
        // A store in memory has no second process.
        guard leaseDirectory != nil else { return false }
        do throws(FileError) { return FileLock.isTaken(try lockFile(of: session)) } catch { return !error.isMissing }
    }

    private func lockFile(of session: String) throws(FileError) -> Descriptor {
        let path = "\(leaseDirectory ?? "")/\(Self.fileName(session)).lock"
        return try openFile(path, .readWrite, trust: .state)
    }

    /// What a holder writes into the file.
    private typealias Signature = (process: String, since: String)

    /// Who has a session at present, as its holder has signed; `nil` when nobody has it.
    private func signature(of session: String) -> Signature? {
        // Without the file, or where it is not ours, nobody has.
        guard leaseDirectory != nil, let file = try? lockFile(of: session) else { return nil }
        return Self.signature(in: file)
    }

    private static func signature(in file: borrowing Descriptor) -> Signature? {
        guard FileLock.isTaken(file) else { return nil }
        var text = [UInt8](repeating: 0, count: 64)
        let count = text.withUnsafeMutableBytes { readFully(file.raw, into: $0, at: 0) }
        let words = String(decoding: text.prefix(max(0, count)), as: UTF8.self).split(whereSeparator: \.isWhitespace)
            .map(String.init)
        return words.count == 2 ? (words[0], words[1]) : nil
    }

    /// A session's name as that of a file; dots stay, unless one leads.
    static func fileName(_ session: String) -> String { SyncSystem.fileName(of: session.utf8, keepsDots: true) }
}
