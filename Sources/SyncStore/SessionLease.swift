import CPosix
import SyncModel
import SyncSystem

/// The right to work on a session: one process at a time has it, and the kernel takes it back when the process
/// ends, however it ends (S3). An open file description lock, fcntl(2), on a file of the session's own.
///
/// Taken before ``SyncStore/begin(_:now:isHeld:durability:)``, ``SyncStore/take(run:now:)`` or
/// ``SyncStore/recover(session:)``, and kept until the work is over.
package final class SessionLease: Sendable {
    /// `nil` for a store in memory, which has no second process.
    private let file: Descriptor?

    fileprivate init(file: consuming Descriptor?) { self.file = file }
}

extension SyncStore {
    /// Takes a session for this process.
    ///
    /// - Parameters:
    ///   - session: The session; it need not exist yet.
    ///   - process: This process's id, to be named to whoever comes second.
    ///   - now: **Milliseconds** since 1970, likewise.
    /// - Returns: The lease; the session is free again when the last reference goes.
    /// - Throws: ``StoreError`` with code `busy`, which names the holder; `refused` for a name that is too long.
    package func lease(of session: String, process: Int32, now: Int64) throws(StoreError) -> SessionLease {
        guard let directory = leaseDirectory else { return SessionLease(file: nil) }
        let name = Self.fileName(session)
        guard name.utf8.count <= 250 else {
            throw StoreError(
                .refused,
                "The session name '\(escaped(session))' is too long. Use a shorter --session."
            )
        }
        let file: Descriptor
        do throws(FileError) {
            let place = try openPrivateDirectory(directory, create: true)
            file = try openFile("\(name).lock", in: place.raw, O_RDWR | O_CREAT, trust: .ownState)
        } catch {
            throw StoreError(.cannotCreate, error.ofState)
        }
        guard Self.takeLock(file.raw, process) else {
            let holder = Self.holder(file.raw)
            throw StoreError(
                .busy,
                "Session '\(escaped(session))' is busy\(holder). Wait for it, or stop it."
            )
        }
        // Only for people; the lock is what counts.
        let text = Array("\(process) \(timestamp(milliseconds: now))\n".utf8)
        if ftruncate(file.raw, 0) == 0 { _ = pwrite(file.raw, text, text.count, 0) }
        return SessionLease(file: file)
    }

    /// Takes the lock of an open file, at once or not at all.
    ///
    /// A program that this process is starting shares its descriptors from fork(2) to execve(2), and with them a lock
    /// that is given back in between: then it is free a moment later.
    private static func takeLock(_ file: Int32, _ process: Int32) -> Bool {
        for _ in 0..<100 {
            if sa_try_lock(file) == 0 { return true }
            guard holderProcess(file) == process else { return false }
            usleep(2_000)
        }
        return false
    }

    /// The process that works on a session at present; `nil` when none does.
    package func holder(of session: String) -> Int32? {
        // Without the file, or where it is not ours, none does.
        guard let directory = leaseDirectory,
            let file = try? openFile(
                "\(directory)/\(Self.fileName(session)).lock",
                O_RDWR,
                trust: .state
            ),
            sa_is_locked(file.raw) != 0
        else { return nil }
        return Self.holderProcess(file.raw)
    }

    private static func holderProcess(_ file: Int32) -> Int32? {
        var text = [UInt8](repeating: 0, count: 64)
        let count = pread(file, &text, text.count, 0)
        return Int32(String(decoding: text.prefix(max(0, count)).prefix { $0 != 0x20 }, as: UTF8.self))
    }

    private static func holder(_ file: Int32) -> String {
        var text = [UInt8](repeating: 0, count: 64)
        let count = pread(file, &text, text.count, 0)
        let words = String(decoding: text.prefix(max(0, count)), as: UTF8.self).split(
            whereSeparator: \.isWhitespace
        )
        return words.count == 2
            ? " (process \(escaped(String(words[0]))), since \(escaped(String(words[1]))))" : ""
    }

    /// A session's name as that of a file; dots stay, unless one leads.
    static func fileName(_ session: String) -> String {
        SyncSystem.fileName(of: session.utf8, keepsDots: true)
    }
}
