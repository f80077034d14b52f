import SyncSystem
import SyncTestKit
import Testing

@Suite("Changes of open files", .timeLimit(.minutes(10)))
struct FileChangesTests {
    private let root: TemporaryRoot

    init() throws {
        root = try TemporaryRoot()
        try root.write("some text", to: "a")
    }

    private func opened() throws -> SharedDescriptor {
        SharedDescriptor(try openFile(root.path("a"), .readWrite, trust: .ownState))
    }

    @Test(
        "A time is kept to the nanosecond, before 1970 and after, of a link, too",
        arguments: [0, 1_700_000_000_123_456_789, -1, -1_500_000_001] as [Int64])
    func times(time: Int64) throws {
        let file = try opened()
        #expect(setModified(file.raw, time) == nil)
        #expect(status(file.raw)?.modified == time)
        try root.link("l", to: "a")
        #expect(setModified(root.path("l"), in: currentDirectory, time / 2) == nil)
        #expect(try status(currentDirectory, root.path("l")).get()?.modified == time / 2)
        #expect(status(file.raw)?.modified == time)
        #expect(touch(file.raw) == nil)
        #expect(try #require(status(file.raw)).modified > 1_700_000_000_123_456_789)
    }

    @Test("An owner that cannot be handed over, since nothing can be looked at, is told")
    func owner() throws {
        let file = try opened()
        #expect(handOverOwner(of: file.raw, to: file.raw) == nil)
        #expect(handOverOwner(of: -1, to: file.raw) != nil && handOverOwner(of: file.raw, to: -1) != nil)
    }

    @Test("Modes and lengths are set, and a length that no file has is refused")
    func modes() throws {
        let file = try opened()
        #expect(setMode(file.raw, 0o640) == nil && setExecutable(file.raw, true) == nil)
        #expect(status(file.raw)?.permissions == 0o750)
        #expect(setMode(root.path("a"), 0o600) == nil && status(following: root.path("a"))?.permissions == 0o600)
        #expect(setLength(file.raw, 4) == nil && root.read("a") == Array("some".utf8))
        #expect(setLength(file.raw, .max) == .fileTooLarge)
        #expect(synchronize(file.raw) == nil && synchronizeData(file.raw) == nil)
        #expect(setLength(-1, 0) != nil && Errno.last != .ioError)
    }

    @Test("A file system says what it has left, and that of the kernel keeps no files")
    func space() throws {
        let space = try #require(FileSystemSpace(at: root.path))
        #expect(space.bytes > 0 && space.keepsFiles)
        let file = try opened()
        #expect(try #require(FileSystemSpace(of: file.raw)).keepsFiles)
        #expect(FileSystemSpace(at: "/proc")?.keepsFiles == false)
        #expect(FileSystemSpace(at: root.path("none")) == nil && Errno.last == .noSuchFileOrDirectory)
    }

    @Test("A descriptor that closes leaves the reason of a failed call as it is")
    func reasonStays() throws {
        func fail() -> Bool {
            // As if a call had failed beside a descriptor that cannot be closed.
            let broken = Descriptor(owning: -1)
            let isThere = exists(root.path("none"))
            _ = consume broken
            return isThere
        }
        #expect(!fail() && Errno.last == .noSuchFileOrDirectory)
    }

    @Test("A file of ours replaces whatever has its name, and is no link's target")
    func newFile() throws {
        try root.link("l", to: "a")
        let directory = SharedDescriptor(try openPrivateDirectory(root.path, create: false))
        let file = SharedDescriptor(makeFile("l", in: directory.raw, mode: 0o600))
        #expect(file != nil && root.read("a") == Array("some text".utf8) && root.read("l") == [])
        let none = SharedDescriptor(makeFile("none/l", in: directory.raw, mode: 0o600))
        #expect(none == nil && Errno.last == .noSuchFileOrDirectory)
    }
}
