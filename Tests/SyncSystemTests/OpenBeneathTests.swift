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
        #expect(try isInside(deep.raw, topStatus) && isInside(deep.raw, deepStatus))
        #expect(try !isInside(top.raw, deepStatus))
        #expect(throws: Errno.self) { try isInside(-1, topStatus) }
    }

    @Test("What a directory hands down is not taken for nothing where it cannot be looked at")
    func inheritance() throws {
        #expect(throws: Errno.self) { try Inheritance(of: -1) }
        // A temporary directory may hand something down itself.
        let plain = try opened(root.path + "/a")
        let handed = try Inheritance(of: plain.raw)
        #expect((handed != nil) == handsDownTraits(plain.raw))
    }

    @Test("So it is however deep, however long the way to it would be")
    func deepInside() throws {
        let top = try opened(root.path)
        var last = try opened(root.path + "/a")
        for _ in 0..<1_200 {
            #expect(makeDirectory("d", in: last.raw) == nil)
            let next = SharedDescriptor(openDirectory("d", in: last.raw))
            last = try #require(next)
        }
        let (topStatus, deepStatus) = (try #require(status(top.raw)), try #require(status(last.raw)))
        #expect(try isInside(last.raw, topStatus))
        #expect(try !isInside(top.raw, deepStatus))
    }
}
