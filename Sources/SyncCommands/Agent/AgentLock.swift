import CPosix
import Foundation
import SyncModel
import SyncSystem

/// The right to be a user's agent: one process at a time has it, the kernel takes it back when that one ends.
/// An open file description lock, fcntl(2), on `agent.lock` in the state directory.
final class AgentLock: Sendable {
    private let file: Descriptor

    private init(file: consuming Descriptor) { self.file = file }

    private static let name = "agent.lock"

    /// Takes the lock; `nil` when another process has it.
    ///
    /// - Throws: ``CommandFailure`` with status 73.
    static func take(in directory: String) throws(CommandFailure) -> AgentLock? {
        let file: Descriptor
        do throws(FileError) {
            let place = try openStateDirectory(directory, create: true)
            file = try openFile(name, in: place.raw, O_RDWR | O_CREAT, trust: .ownState)
        } catch {
            throw CommandFailure(.cannotCreate, error.ofState)
        }
        guard sa_try_lock(file.raw) == 0 else { return nil }
        // Only for people.
        let text = Array("\(getpid())\n".utf8)
        if ftruncate(file.raw, 0) == 0 { _ = pwrite(file.raw, text, text.count, 0) }
        return AgentLock(file: file)
    }

    /// Whether some process has it; takes nothing.
    static func isHeld(in directory: String) -> Bool {
        // Without the file, or where it is not ours, none has.
        guard let file = try? openFile("\(directory)/\(name)", O_RDWR, trust: .state) else { return false }
        return sa_is_locked(file.raw) != 0
    }
}
