import SyncModel
package import SyncSystem

extension SyncStore {
    /// Takes the lease of a session, a lock on a file of its own: the right to work on it. One process at a time has
    /// it, and the kernel releases it when the process ends, however it ends.
    ///
    /// Taken before ``begin(_:now:isHeld:continuing:isBehind:durability:)``, ``SyncStore/take(run:now:)`` or
    /// ``SyncStore/recover(session:now:)``, and kept until the work is over.
    ///
    /// - Parameters:
    ///   - session: The session; it need not exist yet.
    ///   - process: This process's id, which is shown to others that try to take the lease.
    /// - Returns: The lease, which is released with its last reference. `nil` for a store in memory, which has no
    ///   second process.
    /// - Throws: ``StoreError`` with code `busy`, which names the holder; `refused` for too long a name.
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
            // A run of this same process that has just ended releases its last reference a moment later.
            let isOwn = Self.signature(in: file)?.process == "\(process)"
            if let lock = try FileLock.take(file, path: path, wait: isOwn ? 200 : 0) {
                lock.sign("\(process) \(timestamp(milliseconds: now))")
                return lock
            }
        } catch { throw StoreError(.cannotCreate, error.ofState) }
        let holder = signature(of: session).map { " (process \(escaped($0.process)), since \(escaped($0.since)))" }
        throw StoreError(.busy, "Session '\(escaped(session))' is busy\(holder ?? ""). Wait for it, or stop it.")
    }

    /// The process that works on a session at present; `nil` if there is none.
    package func holder(of session: String) -> Int32? { signature(of: session).flatMap { Int32($0.process) } }

    /// Whether a run is recorded as running although no process works on it: its worker was killed.
    package func isInterrupted(_ run: StoredRun) throws(StoreError) -> Bool {
        // Runs of a store in memory belong to this process.
        guard run.state == .running, leaseDirectory != nil, !isHeld(run.session) else { return false }
        // A worker records the end of a run before it releases the lease, and starting a run begins an epoch.
        let now = try runs(session: run.session, onlyOpen: true).first { $0.identifier == run.identifier }
        return now?.state == .running && now?.epoch == run.epoch && !isHeld(run.session)
    }

    /// Whether a process has a session's lease; `true` if that cannot be found out.
    func isHeld(_ session: String) -> Bool {
        // A store in memory has no second process.
        guard leaseDirectory != nil else { return false }
        do throws(FileError) { return FileLock.isTaken(try lockFile(of: session)) } catch { return !error.isMissing }
    }

    private func lockFile(of session: String) throws(FileError) -> Descriptor {
        let path = "\(leaseDirectory ?? "")/\(Self.fileName(session)).lock"
        return try openFile(path, .readWrite, trust: .state)
    }

    /// The text that a holder writes into the file.
    private typealias Signature = (process: String, since: String)

    /// The holder of a session at present, as it has signed; `nil` if there is none.
    private func signature(of session: String) -> Signature? {
        // Without the file, or if it is another user's, there is no holder.
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

    /// A session's name as a file name; dots stay, except a leading one.
    static func fileName(_ session: String) -> String { SyncSystem.fileName(of: session.utf8, keepsDots: true) }
}
