import SyncSystem
import SyncTestKit
import Testing

@Suite("What is below a directory is opened without links", .timeLimit(.minutes(10)))
struct OpenBeneathTests {
    private let root: TemporaryRoot

    init() throws {
        root = try TemporaryRoot()
        try root.write("x", to: "a/b/c")
        try root.link("a/l", to: "b")
    }

    private func opened(_ path: String) throws -> SharedDescriptor {
        guard let directory = openDirectory(path) else { throw FileError.last("open", path) }
        return SharedDescriptor(directory)
    }

    @Test("A link anywhere on the way is refused, the rest is opened")
    func links() throws {
        let top = try opened(root.path)
        #expect(SharedDescriptor(openBeneath(top.raw, "a/b/c", .readOnly)) != nil)
        for path in ["a/l/c", "a/l"] {
            let opened = SharedDescriptor(openBeneath(top.raw, path, .readOnly))
            let code = Errno.last
            #expect(opened == nil && [.tooManySymbolicLinkLevels, .notDirectory].contains(code))
        }
        let none = SharedDescriptor(openBeneath(top.raw, "a/none/c", .readOnly))
        #expect(none == nil && Errno.last == .noSuchFileOrDirectory)
    }

    @Test("A link tells where it leads, another file does not")
    func targets() throws {
        let directory = try opened(root.path + "/a")
        #expect(readLink(directory.raw, "l") == Array("b".utf8))
        #expect(readLink(directory.raw, "b") == nil)
    }

    @Test("A directory is in itself and in those above it, in no other")
    func inside() throws {
        let top = try opened(root.path)
        let deep = try opened(root.path + "/a/b")
        let (topStatus, deepStatus) = (try #require(status(top.raw)), try #require(status(deep.raw)))
        #expect(isInside(deep.raw, topStatus) && isInside(deep.raw, deepStatus))
        #expect(!isInside(top.raw, deepStatus))
    }
}
