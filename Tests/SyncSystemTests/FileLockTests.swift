import Glibc
import SyncSystem
import SyncTestKit
import Testing

@Suite("Locks on files", .timeLimit(.minutes(10)))
struct FileLockTests {
    /// A lock that somebody holds.
    private final class Held {
        let lock: FileLock

        init(_ lock: consuming FileLock) { self.lock = lock }
    }

    private let root: TemporaryRoot

    init() throws { root = try TemporaryRoot() }

    private func file() throws -> Descriptor {
        try openFile(root.path("lock"), [.readWrite, .create], trust: .ownState)
    }

    private func take() throws -> Held? {
        guard let lock = try FileLock.take(try file(), path: "lock") else { return nil }
        return Held(lock)
    }

    private func isTaken() throws -> Bool { FileLock.isTaken(try file()) }

    @Test("One has it at a time, it says who, and the next has it once it is given back [S3]")
    func oneAtATime() throws {
        var first = try take()
        first?.lock.sign("number one")
        #expect(try first != nil && isTaken() && take() == nil)
        #expect(root.read("lock") == Array("number one\n".utf8))
        first = nil
        #expect(try !isTaken() && take() != nil)
    }

    @Test("Where it cannot be found out whether somebody has it, somebody may")
    func unknown() {
        // The system is asked about no descriptor at all: EBADF.
        let isTaken = FileLock.isTaken(Descriptor(owning: -1))
        #expect(isTaken)
    }

    @Test("It is free at once though a program that is being started still has the descriptor")
    func sharedDescriptor() throws {
        let own = try file()
        // What fork(2) does until execve(2): another descriptor of the same open file.
        let childs = dup(own.raw)
        defer { close(childs) }
        do {
            let lock = try FileLock.take(own, path: "lock")
            _ = consume lock
        }
        #expect(try childs >= 0 && take() != nil)
    }
}
