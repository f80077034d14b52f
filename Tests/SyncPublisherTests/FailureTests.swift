import Foundation
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@testable import SyncPublisher

/// A publish that fails leaves what was there before, and nothing else.
@Suite(.timeLimit(.minutes(10)))
struct FailureTests {
    static let tree = AssetTree.manySmall(40).merged(with: .large(1, size: 300_000))

    @Test(
        "A file that changes between being seen and being read is named: exit 74",
        arguments: ["sheets/d0/A-1.bin", "models/m0.ifc"], ["grow", "shrink", "rewrite", "remove", "link", "fifo"])
    func changedFile(path: String, how: String) throws {
        let set = try PublishedSet(Self.tree)
        let full = set.root.path("in/\(path)")
        var done = false
        let error = #expect(throws: PublishError.self) {
            try set.options.publish(progress: { step in
                guard step.step == .walking, step.files > 0, !done else { return }
                done = true
                switch how {
                case "grow": truncate(full, 400_000)
                case "shrink": truncate(full, 10)
                case "rewrite": try? set.root.write("other", to: "in/\(path)")
                default:
                    unlink(full)
                    if how == "link" { symlink("/etc/passwd", full) }
                    if how == "fifo" { mkfifo(full, 0o600) }
                }
            })
        }
        #expect(error?.exitStatus == .ioError)
        #expect(error?.summary == "\(path) changed while it was being published")
        #expect(try set.bytes(below: "out").isEmpty)
    }

    @Test("A failed publish leaves the old set as it was")
    func oldSetStays() throws {
        let set = try PublishedSet(Self.tree)
        try set.publish()
        let before = try set.bytes(below: "out")
        var changed = Self.tree
        for path in Self.tree.paths { changed.addFile(path, size: 30_000, seed: 77) }
        changed.addFile("zzz", size: 90_000, seed: 78)
        try set.replace(changed)
        var seen = 0
        let error = #expect(throws: PublishError.self) {
            try set.options.publish(isCancelled: {
                seen += 1
                return seen > 3
            })
        }
        #expect(error?.exitStatus == .interrupted)
        #expect(try set.bytes(below: "out") == before)
        try set.publish()
        #expect(try set.unpacked().nodes == changed.nodes)
    }

    @Test("What a killed run left over is cleared by the next")
    func leftovers() throws {
        let set = try PublishedSet(Self.tree)
        try set.root.write("x", to: "out/packs/.publish-7.tmp")
        try set.root.write("x", to: "out/.publish-1.tmp")
        try set.root.write("x", to: "out/.htaccess")
        try set.publish()
        let names = try set.bytes(below: "out").keys.filter { $0.contains(".publish") || $0.contains(".ht") }
        #expect(names == [".htaccess"])
    }

    @Test("What cannot be looked at is not taken for missing")
    func unseen() throws {
        let set = try PublishedSet(Self.tree)
        try set.publish()
        let output = try OutputDirectory(set.root.path("out"), isReadOnly: true)
        #expect(try output.size(.top, "manifest.json") != nil)
        #expect(try output.size(.top, "none") == nil)
        #expect(try output.size(.channels, "index.json") == nil)
        // Longer than any path may be.
        let name = String(repeating: "x", count: 5_000)
        #expect(throws: PublishError.self) { try output.size(.top, name) }
        #expect(throws: PublishError.self) { _ = try output.open(.top, name) != nil }
        #expect(throws: PublishError.self) { try output.read(.top, name, limit: 100) }
        #expect(throws: PublishError.self) { try output.digest(.top, name) }
        try set.root.link("out/channels", to: "channels")
        #expect(throws: PublishError.self) { try output.size(.channels, "index.json") }
        try set.root.link("loop", to: "loop")
        #expect(throws: PublishError.self) { try OutputDirectory(set.root.path("loop"), isReadOnly: true) }
        #expect(throws: PublishError.self) { try OutputPlacement.place(of: set.root.path("loop")) }
    }

    @Test("What is no file counts as none; a file that cannot be read is not taken for another one")
    func unread() throws {
        let set = try PublishedSet(Self.tree)
        try set.publish()
        try set.root.write("x", to: "out/directory/x")
        try set.root.link("out/loop", to: "loop")
        mkfifo(set.root.path("out/fifo"), 0o600)
        let output = try OutputDirectory(set.root.path("out"), isReadOnly: true)
        for name in ["none", "directory", "directory/x/below", "loop", "fifo"] {
            let isOpen = try output.open(.top, name) != nil
            #expect(!isOpen, "\(name)")
            #expect(try output.read(.top, name, limit: 100) == nil, "\(name)")
            #expect(try output.digest(.top, name) == nil, "\(name)")
        }
        #expect(try output.read(.top, "manifest.json", limit: 1) == nil)
        // Open, and not to be read.
        let path = set.root.path("out/manifest.json")
        let file = open(path, O_WRONLY)
        defer { close(file) }
        let error = #expect(throws: PublishError.self) { try OutputDirectory.digest(file, shown: path) }
        #expect(error?.exitStatus == .ioError)
        #expect(error?.summary.hasPrefix("cannot read \(path): ") == true, "\(error?.summary ?? "")")
    }

    @Test("Two at a time in one output: the second is told, exit 75")
    func busy() throws {
        let set = try PublishedSet(Self.tree)
        var second: PublishError?
        _ = try set.options.publish(progress: { _ in second = second ?? set.failure() })
        #expect(second?.exitStatus == .busy)
        #expect(try set.unpacked().nodes == Self.tree.nodes)
    }

    @Test("The output is free at once though a program that is being started still has its descriptor")
    func sharedDescriptor() throws {
        let set = try PublishedSet(Self.tree)
        let path = set.root.path("out")
        var child: Int32 = -1
        do {
            let output = try OutputDirectory(path)
            // What fork(2) does until execve(2): another descriptor of the same open file.
            for descriptor in Int32(3)..<4096 where child < 0 {
                var buffer = [UInt8](repeating: 0, count: 4096)
                let count = readlink("/proc/self/fd/\(descriptor)", &buffer, buffer.count)
                guard count > 0, String(decoding: buffer.prefix(count), as: UTF8.self) == "\(path)/\(OutputLock.name)"
                else { continue }
                child = dup(descriptor)
            }
            _ = consume output
        }
        defer { close(child) }
        #expect(child >= 0)
        try set.publish()
    }

    @Test("A pack that cannot get its name: exit 74, and no manifest")
    func nameTaken() throws {
        let set = try PublishedSet(Self.tree)
        try set.publish()
        let name = try set.manifest().packs[0].urls[0]
        try FileManager.default.removeItem(atPath: set.root.path("out"))
        try set.root.write("x", to: "out/\(name)/in-the-way")
        let error = set.failure()
        #expect(error?.exitStatus == .ioError)
        #expect(try set.bytes(below: "out").keys.sorted() == ["\(name)/in-the-way"])
    }

    @Test("A manifest that cannot get its name: exit 74; packs that a manifest names stay", arguments: [false, true])
    func manifestNameTaken(plain: Bool) throws {
        let set = try PublishedSet(Self.tree)
        try set.root.write("x", to: "out/manifest.json\(plain ? "" : ".zst")/in-the-way")
        let error = set.failure()
        #expect(error?.exitStatus == .ioError)
        let names = try set.bytes(below: "out").keys
        #expect(names.contains("manifest.json.zst") == plain)
        #expect(names.contains { $0.hasSuffix(".pack") } == plain)
        #expect(!names.contains { $0.contains(".publish") })
    }
}
