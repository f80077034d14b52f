import Foundation
import SyncFiles
import SyncModel
import SyncSystem
import SyncTestKit
import Testing

@Suite("A destination and its staging directory", .timeLimit(.minutes(10)))
struct DestinationTests {
    private let root: TemporaryRoot

    init() throws { root = try TemporaryRoot() }

    @Test("A destination is made with every directory above it; its state is for the owner alone [V17]")
    func create() throws {
        let destination = try Destination.open(path: root.path("a/b/dest"), create: true)
        let attributes = try FileManager.default.attributesOfItem(atPath: root.path("a/b/dest/.syncagent"))
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o700)
        #expect(destination.state >= 0)
        let again = try Destination.open(path: root.path("a/b/dest"), create: true)
        #expect(again.inode == destination.inode && again.device == destination.device)
    }

    @Test("Looking at a destination makes nothing")
    func look() throws {
        #expect(throws: FileError.self) { _ = try Destination.open(path: root.path("none"), create: false) }
        try root.write("x", to: "plain/file")
        #expect(try Destination.open(path: root.path("plain"), create: false).state == -1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: root.path("plain")) == ["file"])
        #expect(!FileManager.default.fileExists(atPath: root.path("none")))
    }

    @Test("A file in the way of the destination or of its state is named", arguments: ["dest", "dest/.syncagent"])
    func inTheWay(path: String) throws {
        try root.write("mine", to: path)
        let error = #expect(throws: FileError.self) { _ = try Destination.open(path: root.path("dest"), create: true) }
        #expect(error.map { "\($0)".contains("dest") } == true)
        #expect(root.read(path) == Array("mine".utf8))
    }

    @Test("A link in place of the state directory is refused [V5]")
    func stateLink() throws {
        try root.write("x", to: "outside/file")
        try root.write("x", to: "dest/file")
        try root.link("dest/.syncagent", to: root.path("outside"))
        #expect(throws: FileError.self) { _ = try Destination.open(path: root.path("dest"), create: true) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: root.path("outside")) == ["file"])
    }

    @Test("Only one opener has the lock, and it goes with the opener [S3 F116 F118]")
    func lock() throws {
        let first = try Destination.open(path: root.path("dest"), create: true)
        let second = try Destination.open(path: root.path("dest"), create: true)
        #expect(try Self.holdingLock(of: first) { try Self.isBusy(second) && second.lockHolder() == getpid() })
        #expect(try Self.holdingLock(of: second) { try Self.isBusy(first) })
    }

    private static func isBusy(_ destination: Destination) throws -> Bool {
        let lock = try destination.lock()
        return lock == nil
    }

    private static func holdingLock(of destination: Destination, _ body: () throws -> Bool) throws -> Bool {
        guard let lock = try destination.lock() else { return false }
        let result = try body()
        _ = consume lock
        return result
    }

    @Test("Free space is told, and syncing works")
    func space() throws {
        let destination = try Destination.open(path: root.path("dest"), create: true)
        #expect(try destination.freeSpace().bytes > 0)
        try destination.synchronize()
    }

    @Test("Staged names are read back, and nothing else is taken for one")
    func names() throws {
        let digest = try FilesFixture.digest([1, 2, 3])
        for serial in [UInt32(0), 1, 77, .max >> 1] {
            for isPart in [false, true] {
                let file = Staging.File(lane: 1, digest: digest, serial: serial, isPart: isPart)
                #expect(Staging.File(lane: 1, parsing: file.name) == file)
                #expect(file.withName { String(cString: $0) } == file.name)
            }
        }
        let hex = digest.hex
        for bad in [
            "", "x", String(hex.dropLast()), hex + "0", hex + ".", hex + ".x", hex + ".1.2", hex + ".-1",
            hex + ".4294967296", hex + ".4294967295", hex + ".+1", hex + ".01", hex + ".0",
            hex + ".00000000000000000001", hex + ".1.begun.part", hex.uppercased(), ".part", "../" + hex,
            hex + ".part.part", hex + "/",
        ] { #expect(Staging.File(lane: 0, parsing: bad) == nil, "\(bad)") }
    }

    @Test("Files in staging never share a name, also with what an earlier run left")
    func newNames() throws {
        let destination = try Destination.open(path: root.path("dest"), create: true)
        let digest = try FilesFixture.digest([1])
        var seen: Set<String> = []
        for _ in 0..<3 {
            let staging = try Staging(destination, lanes: 2)
            for _ in 0..<4 {
                let file = staging.newFile(lane: 1, digest: digest)
                try staging.write(UnsafeRawBufferPointer(start: nil, count: 0), to: file, executable: false)
                #expect(seen.insert(file.name).inserted)
            }
            #expect(staging.leftovers().count == seen.count)
        }
    }

    @Test("A file that could not be removed from staging is known, one that is gone by itself is none")
    func unremoved() throws {
        let destination = try Destination.open(path: root.path("dest"), create: true)
        let staging = try Staging(destination, lanes: 1)
        let file = staging.newFile(lane: 0, partialBlobOf: try FilesFixture.digest([1]))
        staging.remove(file)
        #expect(!staging.hasLeftovers)
        try root.write("x", to: "\(FilesFixture.state("staging/0"))/\(file.name)/x")
        staging.remove(file)
        #expect(staging.hasLeftovers)
    }

    @Test("Foreign things in staging are not taken for left-overs; links there are not followed [V5]")
    func leftovers() throws {
        let destination = try Destination.open(path: root.path("dest"), create: true)
        let staging = try Staging(destination, lanes: 1)
        let digest = try FilesFixture.digest([1])
        try root.write("untouched", to: "outside")
        let lane = FilesFixture.state("staging/0")
        try root.write("junk", to: "\(lane)/junk")
        try root.link("\(lane)/\(digest.hex)", to: root.path("outside"))
        let isOpen = staging.open(Staging.File(lane: 0, digest: digest)) != nil
        #expect(!isOpen)
        #expect(staging.leftovers().isEmpty)
        #expect(try FileManager.default.contentsOfDirectory(atPath: root.path(lane)) == [])
        #expect(root.read("outside") == Array("untouched".utf8))
    }

    @Test("What cannot be cleared is told, and everything else goes")
    func notCleared() throws {
        let destination = try Destination.open(path: root.path("dest"), create: true)
        let staging = try Staging(destination, lanes: 1)
        let file = staging.newFile(lane: 0, digest: try FilesFixture.digest([1]))
        try staging.write(UnsafeRawBufferPointer(start: nil, count: 0), to: file, executable: false)
        // So deep that it stays.
        let lane = FilesFixture.state("staging/0")
        try root.write("", to: "\(lane)/" + String(repeating: "a/", count: 70) + "file")
        let error = #expect(throws: FileError.self) { try staging.clear() }
        #expect(error?.path.hasSuffix("staging/0/a") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: root.path(lane)) == ["a"])
    }

    @Test("A staged file moves to its place with its mode, replacing what is there [S112 V15]")
    func rename() throws {
        let destination = try Destination.open(path: root.path("dest"), create: true)
        let staging = try Staging(destination, lanes: 1)
        try root.write("old", to: "dest/file")
        let file = staging.newFile(lane: 0, digest: try FilesFixture.digest([7]))
        _ = try [UInt8(7)].withUnsafeBytes { try staging.write($0, to: file, executable: true) }
        #expect(staging.rename(file, to: "file", in: destination.root) == nil)
        #expect(AssetTree.read(root.path("dest")).nodes == ["file": .file([7], executable: true)])
        #expect(staging.rename(file, to: "file", in: destination.root) == .noSuchFileOrDirectory)
    }
}
