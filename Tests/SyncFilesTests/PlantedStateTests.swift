import Foundation
import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import SyncSystem
import SyncTestKit
import Testing

import struct Synchronization.Atomic

/// What somebody has put below `.syncagent` is neither followed, nor filled, nor written through.
@Suite("Things planted in the state directory", .timeLimit(.minutes(10)))
struct PlantedStateTests {
    private let fixture: FilesFixture
    private var root: TemporaryRoot { fixture.root }
    private var outside: String { root.path("outside") }

    init() throws {
        fixture = try FilesFixture()
        try fixture.root.write("untouched", to: "outside/file")
    }

    private func expectVictimUntouched(_ location: SourceLocation = #_sourceLocation) {
        #expect(AssetTree.read(outside).paths == ["file"], sourceLocation: location)
        #expect(root.read("outside/file") == Array("untouched".utf8), sourceLocation: location)
    }

    private static func directory(_ path: String) -> Staging.Directory {
        Array(path.utf8).withUnsafeBufferPointer { Staging.Directory(path: $0) }
    }

    private static func name(_ target: Staging.Directory) -> String {
        let digits = String(target.key, radix: 16)
        return "dir-" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    private func staged(_ target: Staging.Directory) -> String {
        root.path(FilesFixture.state("staging/" + Self.name(target)))
    }

    private func write(_ text: String, as leaf: String, in target: Staging.Directory, _ staging: Staging) throws {
        _ = try Array(text.utf8).withUnsafeBytes { try staging.write($0, as: leaf, in: target, executable: false) }
    }

    private func place(_ target: Staging.Directory, as name: String, _ staging: Staging) -> Errno? {
        Array(name.utf8).withUnsafeBufferPointer { staging.place(target, as: $0[...], in: fixture.destination.root) }
    }

    // MARK: Directories under construction

    @Test("A link with the name of a staged directory is not filled: it goes, and a directory is made [V5]")
    func plantedLink() throws {
        let target = Self.directory("d")
        try root.link(FilesFixture.state("staging/" + Self.name(target)), to: outside)
        let staging = try Staging(fixture.destination, lanes: 1)
        try write("new", as: "file", in: target, staging)
        expectVictimUntouched()
        #expect(place(target, as: "d", staging) == nil)
        #expect(fixture.status("d")?.kind == .directory)
        #expect(root.read("dest/d/file") == Array("new".utf8))
    }

    @Test("A directory that stands there already is emptied, not moved into the tree with what it has")
    func prefilled() throws {
        let target = Self.directory("d")
        let name = FilesFixture.state("staging/" + Self.name(target))
        try root.write("planted", to: name + "/deep/planted")
        try root.link(name + "/out", to: outside)
        let staging = try Staging(fixture.destination, lanes: 1)
        try write("new", as: "file", in: target, staging)
        #expect(place(target, as: "d", staging) == nil)
        #expect(AssetTree.read(root.path("dest/d")).paths == ["file"])
        expectVictimUntouched()
    }

    @Test(
        "What has been put in the place of a filled directory does not stay in the tree [V7]", arguments: [true, false])
    func swapped(isLink: Bool) throws {
        let target = Self.directory("d")
        let staging = try Staging(fixture.destination, lanes: 1)
        try write("new", as: "file", in: target, staging)
        #expect(rename(staged(target), root.path("moved")) == 0)
        if isLink {
            #expect(symlink(outside, staged(target)) == 0)
        } else {
            try root.write("planted", to: FilesFixture.state("staging/" + Self.name(target)) + "/planted")
        }
        #expect(place(target, as: "d", staging) == .staleNFSFileHandle)
        #expect(fixture.status("d") == nil)
        expectVictimUntouched()
        // What was filled is still known by descriptor.
        #expect(staging.rename(memberNamed: "file", of: target, into: fixture.destination.root) == nil)
        #expect(root.read("dest/file") == Array("new".utf8))
    }

    @Test("A directory that has to be opened again is the same one, or nothing is done with it")
    func reopened() throws {
        let staging = try Staging(fixture.destination, lanes: 1)
        let targets = (0..<200).map { Self.directory("d\($0)") }
        for target in targets { try write("new", as: "file", in: target, staging) }
        #expect(rename(staged(targets[0]), root.path("moved")) == 0)
        #expect(symlink(outside, staged(targets[0])) == 0)
        #expect(throws: FileError.self) { try write("x", as: "second", in: targets[0], staging) }
        #expect(
            staging.rename(memberNamed: "file", of: targets[0], into: fixture.destination.root) == .staleNFSFileHandle)
        staging.remove(memberNamed: "file", of: targets[0])
        expectVictimUntouched()
        try write("x", as: "second", in: targets[1], staging)
        #expect(place(targets[1], as: "d1", staging) == nil)
        #expect(AssetTree.read(root.path("dest/d1")).paths == ["file", "second"])
    }

    @Test("While a racer swaps staged directories for links, no file is made or replaced outside [V7]")
    func racer() throws {
        let staging = try Staging(fixture.destination, lanes: 1)
        let targets = (0..<300).map { Self.directory("d\($0)") }
        let current = Atomic(0)
        let isDone = Atomic(false)
        let paths = targets.map(staged)
        let placed = concurrently(2, name: "race") { [outside] index -> Int in
            guard index == 0 else {
                while !isDone.load(ordering: .sequentiallyConsistent) {
                    let path = paths[current.load(ordering: .sequentiallyConsistent)]
                    _ = rename(path, path + ".moved")
                    _ = symlink(outside, path)
                    _ = unlink(path)
                    _ = rename(path + ".moved", path)
                }
                return 0
            }
            defer { isDone.store(true, ordering: .sequentiallyConsistent) }
            var placed = 0
            for (number, target) in targets.enumerated() {
                current.store(number, ordering: .sequentiallyConsistent)
                for _ in 0..<20 { try? write("new", as: "file", in: target, staging) }
                if place(target, as: "d\(number)", staging) == nil { placed += 1 }
            }
            return placed
        }
        expectVictimUntouched()
        for number in 0..<300 {
            if let found = fixture.status("d\(number)") { #expect(found.kind == .directory, "\(placed)") }
        }
    }

    @Test("What an interrupted run left is taken apart without following a link, and what is foreign goes")
    func takenApart() throws {
        let staging = try Staging(fixture.destination, lanes: 1)
        let (link, full) = (Self.directory("link"), Self.directory("full"))
        try root.link(FilesFixture.state("staging/" + Self.name(link)), to: outside)
        let name = FilesFixture.state("staging/" + Self.name(full))
        try root.write("kept", to: name + "/kept")
        try root.write("deep", to: name + "/sub/deep")
        let digest = try FilesFixture.digest(Array("kept".utf8))
        #expect(staging.takeApart { _, leaf in leaf == "kept" || leaf == "sub" ? digest : nil } == 1)
        #expect(try FileManager.default.contentsOfDirectory(atPath: root.path(FilesFixture.state("staging"))) == ["0"])
        #expect(staging.leftovers().count == 1)
        expectVictimUntouched()
    }

    @Test("Names that are nearly those of lanes and staged directories are none")
    func nearlyNames() throws {
        for name in ["+7", "07", "1024", "-1"] { try root.write("", to: FilesFixture.state("staging/\(name)/x")) }
        let odd = "dir-+123456789abcdef"
        try root.write("", to: FilesFixture.state("staging/\(odd)/x"))
        let staging = try Staging(fixture.destination, lanes: 2)
        let names = try FileManager.default.contentsOfDirectory(atPath: root.path(FilesFixture.state("staging")))
        #expect(names.sorted() == ["+7", "-1", "0", "07", "1", "1024", odd].sorted())
        #expect(staging.members().isEmpty)
    }

    // MARK: Whose it is

    @Test(
        "A state directory that others may write to is refused, with what to do",
        arguments: ["", "/staging", "/staging/0"])
    func writableByOthers(name: String) throws {
        _ = try Staging(fixture.destination, lanes: 1)
        #expect(chmod(root.path("dest/.syncagent" + name), 0o770) == 0)
        let error = #expect(throws: FileError.self) {
            _ = try Staging(try Destination.open(path: root.path("dest"), create: true), lanes: 1)
        }
        #expect(error.map { "\($0)".contains("chmod go-w") && "\($0)".contains("dest/.syncagent" + name) } == true)
    }

    @Test(
        "Another user's state directory is refused, also by root; who only reads files does not need it",
        .enabled(if: geteuid() == 0, "only root can give files away"), arguments: [true, false])
    func ofAnotherUser(
        create: Bool
    ) throws {
        #expect(chown(root.path("dest/.syncagent"), 4242, 4242) == 0)
        let error = #expect(throws: FileError.self) {
            _ = try Destination.open(path: root.path("dest"), create: create)
        }
        #expect(error.map { "\($0)".contains("another user (uid 4242)") } == true)
        #expect(try Destination.open(path: root.path("dest"), create: false, usesState: false).state == -1)
    }

    // MARK: Hard links

    /// Gives a name in the state directory to a file outside.
    private func plantHardLink(_ name: String) throws {
        #expect(link(outside + "/file", root.path(FilesFixture.state(name))) == 0)
    }

    @Test("The lock is taken through a hard link, and no note is written there")
    func lock() throws {
        try plantHardLink("lock")
        let lock = try fixture.destination.lock()
        let isTaken = lock != nil
        #expect(isTaken)
        expectVictimUntouched()
        _ = consume lock
    }

    @Test("An index is not written through a hard link", arguments: ["index.new", "index.paths", "index"])
    func index(name: String) throws {
        try plantHardLink(name)
        var writer = StatIndexWriter(in: fixture.destination)
        let status = try #require(fixture.status(".syncagent"))
        for number in 0..<3_000 {
            let path = String(repeating: "d", count: 60) + "\(100_000 + number)"
            writer.append(
                IndexRecord(status: status, digest: try FilesFixture.digest([1]), kind: .file, installed: true),
                path: path)
        }
        try writer.write(owner: "p", completion: nil, durable: false)
        #expect(StatIndex.read(from: fixture.destination).count == 3_000)
        expectVictimUntouched()
    }

    @Test("A log and a map of chunks are replaced instead")
    func logAndMap() throws {
        try plantHardLink("index.log")
        try plantHardLink("chunks.new")
        let log = try IndexLog(fixture.destination)
        let digest = try FilesFixture.digest([1])
        try log.append([IndexLog.Entry(path: Array("a".utf8), digest: digest, kind: .file)])
        #expect(IndexLog.read(fixture.destination).count == 1)
        var map = ChunkMapWriter(fixture.destination)
        map.append(ChunkMap.Record(digest: digest, number: 0))
        map.finish()
        let isThere = ChunkMap(fixture.destination) != nil
        #expect(isThere)
        expectVictimUntouched()
    }

    @Test("A part that has another name is no left-over", arguments: [true, false])
    func part(isPartialBlob: Bool) throws {
        let staging = try Staging(fixture.destination, lanes: 1)
        var file = Staging.File(lane: 0, digest: try FilesFixture.digest([1]), isPart: true)
        file.isPartialBlob = isPartialBlob
        try plantHardLink("staging/0/" + file.name)
        let isOpen = staging.open(file) != nil
        #expect(!isOpen)
        staging.remove(file)
        expectVictimUntouched()
    }

    // MARK: FIFOs and monsters

    @Test("A FIFO in a file's place is as good as nothing there, and nobody waits for its writer [F099]")
    func fifos() throws {
        for name in ["index", "index.log", "chunks"] {
            #expect(mkfifo(root.path(FilesFixture.state(name)), 0o600) == 0)
        }
        #expect(StatIndex.read(from: fixture.destination).count == 0)
        #expect(IndexLog.read(fixture.destination).isEmpty)
        let hasMap = ChunkMap(fixture.destination) != nil
        #expect(!hasMap)
        // And all are written anew.
        _ = try IndexLog(fixture.destination)
        try StatIndexWriter(in: fixture.destination).write(owner: "p", completion: nil, durable: false)
        #expect(mkfifo(root.path(FilesFixture.state("lock")), 0o600) == 0)
        let error = #expect(throws: FileError.self) {
            let lock = try fixture.destination.lock()
            _ = consume lock
        }
        #expect(error?.remark == "it is not a regular file")
        #expect(fixture.destination.lockHolder() == nil)
    }

    @Test("A sparse monster takes no memory: its head must fit its length, and that has a bound")
    func monsters() throws {
        try StatIndexWriter(in: fixture.destination).write(owner: "p", completion: nil, durable: false)
        let (index, log) = (root.path(FilesFixture.state("index")), root.path(FilesFixture.state("index.log")))
        for length in [200 << 20, 1 << 40] {
            #expect(truncate(index, off_t(length)) == 0)
            let before = Self.mostMemory()
            #expect(StatIndex.read(from: fixture.destination).owner == "")
            #expect(Self.mostMemory() - before < 100 << 20)
        }
        try root.write([], to: FilesFixture.state("index.log"))
        try root.write(Array("SACHUNK1".utf8), to: FilesFixture.state("chunks"))
        #expect(truncate(log, 1 << 40) == 0 && truncate(root.path(FilesFixture.state("chunks")), 1 << 40) == 0)
        #expect(IndexLog.read(fixture.destination).isEmpty)
        let hasMap = ChunkMap(fixture.destination) != nil
        #expect(!hasMap)
    }

    /// Peak of resident memory in **bytes**. proc_pid_status(5), VmHWM.
    private static func mostMemory() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
        return (Int(line.filter(\.isNumber)) ?? 0) << 10
    }

    @Test("A receipt is a file in a directory of ours; a link to one says nothing")
    func receipts() throws {
        let receipt = HookReceipt(run: "r", group: "all")
        try root.write("", to: "outside2/r.all")
        try root.link(FilesFixture.state("receipts"), to: root.path("outside2"))
        #expect(try !receipt.exists(in: fixture.destination))
        #expect(throws: FileError.self) { try receipt.leave(in: fixture.destination) }
        #expect(HookReceipt.collect(in: fixture.destination, before: .max, keeping: []) == 0)
        #expect(unlink(root.path(FilesFixture.state("receipts"))) == 0)
        try root.link(FilesFixture.state("receipts/r.all"), to: outside + "/file")
        #expect(try !receipt.exists(in: fixture.destination))
    }
}
