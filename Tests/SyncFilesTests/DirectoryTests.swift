import Foundation
import SyncContent
import SyncFiles
import SyncSystem
import SyncTestKit
import Testing

import struct Synchronization.Atomic

@Suite("Directories below a destination", .timeLimit(.minutes(10)))
struct DirectoryTests {
    private let fixture: FilesFixture

    init() throws { fixture = try FilesFixture() }

    @Test("Missing directories are made once, and only when asked")
    func make() throws {
        let directories = Directories(fixture.destination)
        #expect(try fixture.directory("a/b/c", create: false, with: directories) == nil)
        #expect(fixture.status("a") == nil)
        let made = try #require(try fixture.directory("a/b/c", create: true, with: directories))
        #expect(fixture.status("a/b/c")?.kind == .directory)
        #expect(try fixture.directory("a/b/c", create: true, with: directories) == made)
        #expect(try fixture.directory("a/b/c", create: false, with: directories) == made)
        #expect(try fixture.directory("", create: false, with: directories) == fixture.destination.root)
    }

    @Test("Nearly two thousand directories, one in the other, are made on a worker's stack")
    func depth() throws {
        let path = Array(Array(repeating: "k", count: 1_900).joined(separator: "/").utf8)
        let isMade = StopFlag()
        let thread = try WorkerThread(name: "deep") { [destination = fixture.destination] in
            let found = path.withUnsafeBufferPointer { try? Directories(destination).descriptor($0, create: true) }
            if found != nil { isMade.set() }
        }
        thread.join()
        #expect(isMade.isSet)
    }

    @Test("What was missing is found once somebody has made it")
    func madeLater() throws {
        let directories = Directories(fixture.destination)
        #expect(try fixture.directory("a/b", create: false, with: directories) == nil)
        #expect(try fixture.directory("a/b/c", create: false, with: directories) == nil)
        #expect(try fixture.directory("a/bc", create: false, with: directories) == nil)
        #expect(try fixture.directory("a/b", create: true, with: directories) != nil)
        #expect(try fixture.directory("a/b", create: false, with: directories) != nil)
    }

    @Test("More directories than may be open are all reached", arguments: [1, 2, 7])
    func capacity(limit: Int) throws {
        let directories = Directories(fixture.destination, capacity: limit)
        for round in 0..<3 {
            for number in 0..<20 {
                let descriptor = try #require(try fixture.directory("d\(number)/sub", create: true, with: directories))
                let expected = try #require(fixture.status("d\(number)/sub"))
                let found = SyncSystem.status(descriptor)
                #expect(found?.inode == expected.inode, "round \(round)")
            }
        }
    }

    @Test("A link in place of any component is refused, and nothing is made behind it [V5]", arguments: 1...5)
    func links(depth: Int) throws {
        let components = (1...6).map { "d\($0)" }
        let above = components[..<(depth - 1)].joined(separator: "/")
        let link = (above.isEmpty ? "" : above + "/") + "d\(depth)"
        try fixture.root.write("untouched", to: "outside/file")
        try fixture.root.link("dest/\(link)", to: fixture.root.path("outside"))
        for create in [true, false] {
            let directories = Directories(fixture.destination)
            let error = #expect(throws: FileError.self) {
                try fixture.directory(components.joined(separator: "/"), create: create, with: directories)
            }
            #expect(error.map { [.tooManySymbolicLinkLevels, .notDirectory].contains($0.code) } == true)
        }
        #expect(AssetTree.read(fixture.root.path("outside")).paths == ["file"])
        #expect(try FileManager.default.contentsOfDirectory(atPath: fixture.root.path("outside")) == ["file"])
    }

    @Test("A link to a directory of the destination itself is refused as well [V5]")
    func inwardLink() throws {
        try fixture.root.write("x", to: "dest/real/file")
        try fixture.root.link("dest/alias", to: "real")
        #expect(throws: FileError.self) {
            try fixture.directory("alias/sub", create: true, with: Directories(fixture.destination))
        }
        #expect(fixture.status("real/sub") == nil)
    }

    @Test("A file where a directory must be is named, with what to do", arguments: 1...5)
    func fileInTheWay(depth: Int) throws {
        let path = (1...depth).map { "d\($0)" }.joined(separator: "/")
        try fixture.root.write("mine", to: "dest/\(path)")
        let error = #expect(throws: FileError.self) {
            try fixture.directory(path + "/e/f", create: true, with: Directories(fixture.destination))
        }
        #expect(error?.code == .notDirectory)
        #expect(error.map { "\($0)".contains("move it away") } == true)
        #expect(fixture.root.read("dest/\(path)") == Array("mine".utf8))
    }

    @Test("While a racer swaps a directory and a link, no file is made outside [V7]")
    func racer() throws {
        try fixture.root.write("untouched", to: "outside/file")
        try fixture.root.write("x", to: "dest/parent/real/keep")
        let parent = fixture.root.path("dest/parent")
        let outside = fixture.root.path("outside")
        let stop = Atomic(false)
        // `swap` is now a directory of the destination, now a link that leads out of it.
        let makers = concurrentlyRacing(stop: { stop.store(true, ordering: .sequentiallyConsistent) }) {
            var swaps = 0
            while !stop.load(ordering: .sequentiallyConsistent) {
                _ = rename("\(parent)/real", "\(parent)/swap")
                _ = rename("\(parent)/swap", "\(parent)/real")
                _ = symlink(outside, "\(parent)/swap")
                _ = unlink("\(parent)/swap")
                swaps += 1
            }
            return swaps
        } maker: { [fixture] in
            var made = 0
            for number in 0..<2_000 {
                let directories = Directories(fixture.destination)
                guard let into = try? fixture.directory("parent/swap/d\(number % 3)", create: true, with: directories)
                else { continue }
                let raw = openat(into, "f\(number)", O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600)
                if raw >= 0 {
                    close(raw)
                    made += 1
                }
            }
            return made
        }
        #expect(makers.swaps > 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: outside) == ["file"])
        #expect(fixture.root.read("outside/file") == Array("untouched".utf8))
    }

    /// Runs a racer beside a maker until the maker is done.
    private func concurrentlyRacing(
        stop: @escaping @Sendable () -> Void, racer: @escaping @Sendable () -> Int, maker: @escaping @Sendable () -> Int
    ) -> (swaps: Int, made: Int) {
        let results = concurrently(2, name: "race") { index in
            if index == 0 { return racer() }
            defer { stop() }
            return maker()
        }
        return (results[0], results[1])
    }
}
