import SyncSystem
import SyncTestKit
import Testing

@Suite("Names in directories", .timeLimit(.minutes(10)))
struct EntriesTests {
    private let root: TemporaryRoot
    private let directory: SharedDescriptor

    init() throws {
        root = try TemporaryRoot()
        guard let opened = openDirectory(root.path) else { throw FileError.last("open", root.path) }
        directory = SharedDescriptor(opened)
    }

    @Test("What cannot be looked at is not taken for what is not there")
    func there() throws {
        try root.write("one", to: "a")
        try root.link("loop", to: "loop")
        func isThere(_ name: String) throws -> Bool { try SyncSystem.isThere(name, in: directory.raw, shown: name) }
        #expect(try isThere("a") && isThere("loop"))
        for name in ["none", "none/a", "a/a", String(repeating: "n", count: 300)] {
            #expect(try !isThere(name), "\(name)")
        }
        let error = #expect(throws: FileError.self) { _ = try isThere("loop/a") }
        #expect(error?.code == .tooManySymbolicLinkLevels && error?.path == "loop/a")
    }

    @Test("A name is changed, replaces another or is refused one that is taken, and goes")
    func names() throws {
        try root.write("one", to: "a")
        try root.write("two", to: "b")
        #expect(renameEntry("a", in: directory.raw, toFree: "b", in: directory.raw) == .fileExists)
        #expect(renameEntry("a", in: directory.raw, toFree: "c", in: directory.raw) == nil)
        #expect(renameEntry("c", in: directory.raw, to: "b", in: directory.raw) == nil)
        #expect(root.read("b") == Array("one".utf8))
        #expect(addName("d", in: directory.raw, to: "b", in: directory.raw) == nil)
        #expect(addName("d", in: directory.raw, to: "b", in: directory.raw) == .fileExists)
        #expect(removeFile("b", in: directory.raw) == nil)
        #expect(removeFile("b", in: directory.raw) == .noSuchFileOrDirectory)
        #expect(try directoryEntries(directory.raw) == ["d"])
    }

    @Test("A directory that cannot be listed is told apart from one that is missing or empty")
    func listing() throws {
        try root.write("", to: "file")
        try makeDirectories(root.path("empty"))
        try root.link("loop", to: "loop")
        #expect(try directoryEntries(root.path("empty")) == [])
        #expect(try directoryEntries(root.path("missing")) == nil)
        #expect(try directoryEntries(root.path("file")) == nil)
        #expect(throws: Errno.tooManySymbolicLinkLevels) { try directoryEntries(root.path("loop")) }
    }

    @Test("Directories are made and removed, and a file that is in the way is named")
    func directories() throws {
        #expect(makeDirectory("a", in: directory.raw) == nil)
        #expect(makeDirectory("a", in: directory.raw) == .fileExists)
        #expect(removeDirectory("a", in: directory.raw) == nil)
        try makeDirectories(root.path("b/c"))
        #expect(removeDirectory("b", in: directory.raw) == .directoryNotEmpty)
        try root.write("", to: "file")
        #expect(throws: FileError(step: "create", path: root.path("file/a"), code: .notDirectory)) {
            try makeDirectories(root.path("file/a"))
        }
        // What is in it need not have a name in UTF-8.
        let odd = "b/c/odd".utf8CString.dropLast() + [CChar(bitPattern: 0xFF), 0]
        #expect(makeDirectory(Array(odd), in: directory.raw) == nil)
        #expect(removeTree("b", in: directory.raw) && !exists("b", in: directory.raw))
    }

    @Test("A link is one itself, and its path is that of its target")
    func links() throws {
        try root.write("one", to: "a")
        #expect(makeSymbolicLink("l", in: directory.raw, to: "a") == nil)
        #expect(makeSymbolicLink("none", in: directory.raw, to: "gone") == nil)
        #expect(addName("m", in: directory.raw, to: "l", in: directory.raw) == nil)
        #expect(readLink(directory.raw, "m") == Array("a".utf8))
        let file = try openFile(root.path("a"), trust: .input)
        try root.write("two", to: "b")
        #expect(renameEntry("b", in: directory.raw, to: "a", in: directory.raw) == nil)
        // The name leads to another file by now.
        #expect(makeSymbolicLink("k", in: directory.raw, to: "a") == nil)
        #expect(addName("n", in: directory.raw, toOpen: file.raw) == .noSuchFileOrDirectory)
        let other = try openFile(root.path("l"), trust: .input)
        #expect(addName("n", in: directory.raw, toOpen: other.raw) == nil)
        #expect(addName("k", in: directory.raw, toOpen: other.raw) == .fileExists)
        #expect(readLink(directory.raw, "n") == nil && root.read("n") == Array("two".utf8))
        #expect(realPath(root.path("l")) == root.path("a") && realPath(root.path("none")) == nil)
        #expect(!exists("none", in: directory.raw) && exists("l", in: directory.raw))
    }

    @Test("What is neither file, directory nor link is called by its kind")
    func special() throws {
        try root.write("", to: "a")
        #expect(makeFIFO(root.path("fifo"), mode: 0o600) == nil)
        #expect(specialKind("fifo", in: directory.raw) == "fifo")
        #expect(specialKind("/dev/null") == "character device")
        #expect(specialKind("a", in: directory.raw) == nil && specialKind("none", in: directory.raw) == nil)
    }

    @Test("Rights are those of this process")
    func rights() throws {
        try root.write([], to: "run", executable: true)
        try root.write("", to: "read")
        #expect(isPermitted(.execute, root.path("run")) && !isPermitted(.execute, root.path("read")))
        #expect(isPermitted(.read, root.path("read")) && isPermitted(.change, root.path))
        #expect(!isPermitted(.read, root.path("none")) && Errno.last == .noSuchFileOrDirectory)
    }
}
