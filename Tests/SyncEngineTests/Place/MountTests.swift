import Foundation
import SyncEngine
import SyncFiles
import SyncModel
import SyncSystem
import SyncTestKit
import Testing

/// What is mounted below a directory, until it is taken off again. mount(8)
private final class Mount {
    private let path: String

    init(_ options: [String], at path: String) throws {
        self.path = path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try #require(Self.run(["mount"] + options + [path]))
    }

    func again(_ options: String) throws { try #require(Self.run(["mount", "-o", "remount,\(options)", path])) }

    deinit { _ = Self.run(["umount", path]) }

    static let isPossible: Bool = {
        guard geteuid() == 0, let root = try? TemporaryRoot() else { return false }
        return (try? Mount(["-t", "tmpfs", "none"], at: root.path("probe"))) != nil
    }()

    static func run(_ arguments: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.environment = ["PATH": "/usr/sbin:/sbin:/usr/bin:/bin"]
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}

@Suite(
    "File systems mounted below a destination", .enabled(if: Mount.isPossible, "needs root, who may mount"),
    .timeLimit(.minutes(10)))
struct MountTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private static func tree(_ seed: UInt64 = 0) -> AssetTree {
        var tree = AssetTree()
        for (number, name) in ["maps/a/1", "maps/a/2", "maps/new/deep/1", "maps/new/deep/2", "texts/x", "top"]
            .enumerated()
        { tree.addFile(name, size: 900, seed: UInt64(number + 1) + seed) }
        tree.addFile("maps/large", size: 3_000_000, seed: 77 + seed)
        tree.addFile("texts/large", size: 2_000_000, seed: 78 + seed)
        tree.nodes["maps/link"] = .link("a/1")
        return tree
    }

    @Test(
        "With one of them below it a destination does not begin to change as a whole, complete or not",
        arguments: AtomicSwitch.Layout.allCases)
    func beginsNoTree(layout: AtomicSwitch.Layout) throws {
        let mount = try Mount(["-t", "tmpfs", "none"], at: scene.root.path("dest/maps"))
        try scene.publish(Self.tree())
        func pull() throws -> Scene.Outcome {
            try scene.pull { recipe in
                var wishes = AtomicSwitch()
                wishes.layout = layout
                recipe.atomic = wishes
            }
        }
        func expectRefusal() throws {
            let refused = try pull()
            #expect(refused.status == .refused && refused.error?.message.contains("maps") == true)
            #expect(try TreeHome.find(scene.destination) == nil)
        }
        try expectRefusal()
        #expect(try scene.pull().status == .done)
        try expectRefusal()
        #expect(scene.problems(Self.tree()) == [])
        withExtendedLifetime(mount) {}
    }

    @Test("A directory bind-mounted below one that changes as a whole is refused, although its file system is the same")
    func boundBelowTree() throws {
        func pull() throws -> Scene.Outcome { try scene.pull { $0.atomic = AtomicSwitch() } }
        try scene.publish(Self.tree())
        #expect(try pull().status == .done)
        try scene.root.write([1], to: "elsewhere/theirs")
        let bind = try Mount(["--bind", scene.root.path("elsewhere")], at: scene.root.path("dest/maps"))
        try scene.publish(Self.tree(500), revision: 2)
        let refused = try pull()
        #expect(refused.status == .refused && refused.error?.message.contains("maps is a file system") == true)
        #expect(scene.root.read("elsewhere/theirs") == [1])
        withExtendedLifetime(bind) {}
    }

    @Test("Removing a directory leaves what is bind-mounted in it")
    func boundInRemoved() throws {
        try scene.root.write([1], to: "elsewhere/theirs")
        let bind = try Mount(["--bind", scene.root.path("elsewhere")], at: scene.root.path("doomed/maps"))
        guard let above = openDirectory(scene.root.path) else { throw FileError.last("open", scene.root.path) }
        let isGone = removeTree("doomed", in: above.raw)
        #expect(!isGone)
        #expect(scene.root.read("elsewhere/theirs") == [1])
        withExtendedLifetime(bind) {}
    }

    @Test("Files install there as anywhere, are replaced with a backup, and go with --prune", arguments: [false, true])
    func life(durable: Bool) throws {
        let disk = durable ? Scene.Disk { destination throws(FileError) in try destination.synchronize() } : nil
        let other = try Mount(["-t", "tmpfs", "none"], at: scene.root.path("dest/maps"))
        // The same file system, and yet nothing can be moved across.
        try FileManager.default.createDirectory(atPath: scene.root.path("elsewhere"), withIntermediateDirectories: true)
        let bind = try Mount(["--bind", scene.root.path("elsewhere")], at: scene.root.path("dest/texts"))
        let tree = Self.tree()
        try scene.publish(tree)
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.obstructed == [] && plan.status == .done)
        #expect(try scene.pull(disk: disk).status == .done)
        #expect(scene.problems(tree) == [])
        #expect(try scene.pull(disk: disk).report?.files.unchanged == tree.nodes.count)
        #expect(try scene.engine().verify(scene.options()).extra == 0)

        var next = Self.tree(500)
        next.nodes["maps/a/2"] = nil
        // Its bytes are on another file system.
        next.nodes["moved"] = tree.nodes["maps/a/2"]
        try scene.publish(next, revision: 2)
        let backup = scene.root.path("backup")
        let outcome = try scene.pull(disk: disk) { ($0.prune, $0.force, $0.backupDir) = (true, true, backup) }
        #expect(outcome.status == .done && outcome.report?.files.reused == 1)
        #expect(scene.problems(next) == [])
        #expect(scene.root.read("backup/maps/large") == tree.bytes("maps/large"))
        #expect(scene.root.read("backup/maps/a/2") == tree.bytes("maps/a/2"))
        #expect(scene.root.read("backup/top") == tree.bytes("top"))
        withExtendedLifetime((other, bind)) {}
    }

    @Test("What a stopped pull left there is used by the next one")
    func leftovers() throws {
        let other = try Mount(["-t", "tmpfs", "none"], at: scene.root.path("dest/maps"))
        let tree = Self.tree()
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        // As a stopped pull would have left it: whole, under its digest.
        let bytes = try #require(tree.bytes("maps/large"))
        let name = try Scene.digest(bytes).hex
        unlink(scene.root.path("dest/maps/large"))
        try scene.root.write(bytes, to: "dest/maps/.syncagent/staging/0/\(name)")
        let outcome = try scene.pull()
        #expect(outcome.requests.isEmpty && outcome.report?.files.reused == 1, "\(scene.staged)")
        #expect(scene.problems(tree) == [])
        withExtendedLifetime(other) {}
    }

    @Test("One on which nothing can be staged is named by the plan and before anything is fetched")
    func readOnly() throws {
        let other = try Mount(["-t", "tmpfs", "none"], at: scene.root.path("dest/maps"))
        try other.again("ro")
        let tree = Self.tree()
        try scene.publish(tree)
        let plan = try scene.engine().plan(scene.options())
        #expect(plan.obstructed.count == 6 && plan.obstructed.allSatisfy { $0.contains("dest/maps is a file system") })
        let outcome = try scene.pull()
        #expect(outcome.status == .incomplete && outcome.report?.files.failed == 6)
        #expect(outcome.values("reason", of: "task.failed").allSatisfy { $0.contains("dest/maps") })
        #expect(outcome.requests.count == plan.requests.count)
        #expect(scene.root.read("dest/texts/large") == tree.bytes("texts/large"))
    }

    @Test("Its free space counts by itself, before anything is fetched")
    func space() throws {
        let other = try Mount(["-t", "tmpfs", "-o", "size=1m", "none"], at: scene.root.path("dest/maps"))
        try scene.publish(Self.tree())
        let refusal = try scene.engine().plan(scene.options()).refusal
        #expect(refusal?.status == .ioError && refusal?.message.contains("dest/maps: needs") == true)
        let outcome = try scene.pull()
        #expect(outcome.error == refusal && outcome.requests.isEmpty)
        withExtendedLifetime(other) {}
    }
}

@Suite(
    "What a directory hands down to files made in it", .enabled(if: geteuid() == 0, "needs root, for other groups"),
    .timeLimit(.minutes(10)))
struct InheritanceTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    /// Runs a script below the scene, which says what it finds.
    private func python(_ script: String) throws -> String {
        let process = Process()
        let pipe = Foundation.Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/python3")
        process.arguments = ["-B", "-c", script]
        process.currentDirectoryURL = URL(fileURLWithPath: scene.root.path)
        process.standardOutput = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        return String(decoding: output, as: UTF8.self)
    }

    /// Says of each path its mode, group and ACL.
    private static let look = """
        import os, stat
        def acl(path):
            try: return os.getxattr(path, "system.posix_acl_access").hex()
            except OSError: return "-"
        def look(paths):
            for path in paths:
                found = os.lstat(path)
                print(path.rsplit("/", 1)[0], oct(stat.S_IMODE(found.st_mode)), found.st_gid, acl(path))

        """

    @Test("Group and default ACL of the directory that they are placed in, as if they had been made there")
    func below() throws {
        var tree = AssetTree()
        for (seed, name) in ["group/a", "acl/a", "both/a", "both/new/a", "both/new/b", "plain/a", "plain/b", "top"]
            .enumerated()
        { tree.addFile(name, size: 500, seed: UInt64(seed + 1)) }
        tree.addFile("both/large", size: 3_000_000, seed: 70)
        tree.addFile("acl/program", size: 500, seed: 71, executable: true)
        tree.nodes["group/link"] = .link("a")
        _ = try python(
            """
            import os, struct
            # user::rwx, user:4242:rw-, group::r-x, mask::rwx, other::---
            entries = [(1, 7, -1), (2, 6, 4242), (4, 5, -1), (0x10, 7, -1), (0x20, 0, -1)]
            acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
            for name in ["group", "acl", "both"]:
                os.makedirs("dest/" + name)
                if name != "acl":
                    os.chown("dest/" + name, 0, 4243)
                    os.chmod("dest/" + name, 0o2775)
                if name != "group":
                    os.setxattr("dest/" + name, "system.posix_acl_default", acl)
            """)
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        #expect(scene.problems(tree) == [])
        let placed = try python(
            Self.look + """
                look("dest/" + p for p in ["group/a", "acl/a", "acl/program", "both/a", "both/large", "both/new/a", "plain/a", "top"])
                """)
        let made = try python(
            Self.look + """
                for p in ["group", "acl", "both", "both/new", "plain"]:
                    os.close(os.open("dest/" + p + "/made", os.O_CREAT | os.O_WRONLY, 0o666))
                os.close(os.open("dest/acl/made program", os.O_CREAT | os.O_WRONLY, 0o777))
                os.close(os.open("dest/made", os.O_CREAT | os.O_WRONLY, 0o666))
                look("dest/" + p for p in ["group/made", "acl/made", "acl/made program", "both/made", "both/made", "both/new/made", "plain/made", "made"])
                """)
        #expect(placed == made)
        #expect(try python("import os; print(os.lstat('dest/group/link').st_gid)") == "4243\n")
    }

    @Test(
        "A tree has the ACLs of the one before it, and what is made in it gets what the destination hands down",
        arguments: AtomicSwitch.Layout.allCases)
    func trees(layout: AtomicSwitch.Layout) throws {
        func pull() throws -> Scene.Outcome {
            try scene.pull { recipe in
                var wishes = AtomicSwitch()
                (wishes.layout, wishes.keepSeconds) = (layout, 0)
                recipe.atomic = wishes
            }
        }
        func look(_ names: String) throws -> [Substring] {
            let place = layout == .links ? "dest/.syncagent/now/" : "dest/"
            return try python(
                """
                import os
                def acl(path, name):
                    try: return os.getxattr(path, "system.posix_acl_" + name).hex()
                    except OSError: return "-"
                for name in \(names):
                    path = "\(place)" + name
                    print(oct(os.stat(path).st_mode), os.stat(path).st_gid, acl(path, "access"), acl(path, "default"))
                """
            ).split(separator: "\n")
        }
        var tree = AssetTree()
        tree.addFile("d/a", size: 500, seed: 1)
        try scene.publish(tree)
        #expect(try pull().status == .done)
        _ = try python(
            """
            import os, struct
            entries = [(1, 7, -1), (2, 7, 4242), (4, 0, -1), (0x10, 7, -1), (0x20, 0, -1)]
            acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
            os.chown("dest", 0, 4243)
            os.chmod("dest", 0o2770)
            for path in ["dest", os.path.realpath("dest/d")]:
                os.setxattr(path, "system.posix_acl_access", acl)
                os.setxattr(path, "system.posix_acl_default", acl)
            """)
        for number in 2...4 {
            tree.addFile("d/a", size: 500, seed: UInt64(number))
            tree.addFile("new\(number)/a", size: 500, seed: UInt64(number))
            try scene.publish(tree, revision: number)
            #expect(try pull().status == .done)
            let found = try look("['', 'd', 'new\(number)']")
            // Whom an ACL keeps out the mode alone would let in.
            #expect(found.count == 3 && found.allSatisfy { !$0.contains(" -") }, "\(found)")
            #expect(found.first == found.last, "\(found)")
        }
        // An older tree, which becomes the new one, still has them.
        _ = try python(
            """
            import os
            for path in ["dest"] + [os.path.realpath("dest/" + name) for name in ["d", "new2", "new3", "new4"]]:
                for kind in ["access", "default"]:
                    try: os.removexattr(path, "system.posix_acl_" + kind)
                    except OSError: pass
            """)
        for name in ["d/a", "d/new", "new5/a"] { tree.addFile(name, size: 500, seed: 5) }
        try scene.publish(tree, revision: 5)
        #expect(try pull().status == .done)
        let bare = try look("['', 'd', 'd/a', 'd/new', 'new4', 'new5', 'new5/a']")
        #expect(bare.count == 7 && bare.allSatisfy { $0.hasSuffix(" - -") }, "\(bare)")
        // One directory alone has them.
        _ = try python(
            """
            import os, struct
            entries = [(1, 7, -1), (2, 7, 4242), (4, 0, -1), (0x10, 7, -1), (0x20, 0, -1)]
            acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
            for kind in ["access", "default"]:
                os.setxattr(os.path.realpath("dest/d"), "system.posix_acl_" + kind, acl)
            """)
        for name in ["d/a", "d/later/a"] { tree.addFile(name, size: 500, seed: 6) }
        try scene.publish(tree, revision: 6)
        #expect(try pull().status == .done)
        let found = try look("['', 'new4', 'd', 'd/a', 'd/later']")
        #expect(found.map { $0.hasSuffix(" - -") } == [true, true, false, false, false], "\(found)")
    }

    @Test("What the destination itself hands down does not reach a directory that hands nothing down")
    func top() throws {
        try FileManager.default.createDirectory(
            atPath: scene.root.path("dest/plain"), withIntermediateDirectories: true)
        _ = try python("import os; os.chown('dest', 0, 4243); os.chmod('dest', 0o2775)")
        var tree = AssetTree()
        for (seed, name) in ["plain/a", "top"].enumerated() { tree.addFile(name, size: 500, seed: UInt64(seed + 1)) }
        try scene.publish(tree)
        #expect(try scene.pull().status == .done)
        #expect(
            try python("import os; print(*[os.stat('dest/' + p).st_gid for p in ['plain/a', 'top']])") == "0 4243\n")
    }
}
