import Foundation
import SyncEngine
import SyncFiles
import SyncModel
import SyncTestKit
import Testing

@Suite("Destinations that do not tell upper from lower case", .timeLimit(.minutes(10)))
struct FoldedNameTests {
    private let scene: Scene

    init() throws { scene = try Scene() }

    private static func tree(_ names: [String]) -> AssetTree {
        var tree = AssetTree()
        for name in names { tree.addText(name, "text of " + name) }
        return tree
    }

    @Test(
        "Names that would meet are refused by name before anything is written [F073 V13]",
        arguments: [["README", "Readme"], ["docs", "Docs/file"], ["Straße/a", "STRASSE/A"], ["e\u{301}", "\u{C9}"]])
    func refused(names: [String]) throws {
        try scene.publish(Self.tree(names + ["kept"]))
        let engine = scene.engine(foldsCase: { _ in true })
        let error = #expect(throws: EngineError.self) { try engine.pull(scene.options()) }
        #expect(error?.status == .cannotCreate)
        #expect(error.map { message in names.allSatisfy { message.message.contains($0) } } == true)
        #expect(AssetTree.read(scene.destination).paths == [])
        #expect(throws: EngineError.self) { try engine.plan(scene.options()) }
        // Elsewhere they are names like others.
        let outcome = try scene.pull()
        #expect(outcome.status == .done && scene.problems(Self.tree(names + ["kept"])) == [])
    }

    @Test("A set whose names do not meet is installed there")
    func harmless() throws {
        let tree = Self.tree(["README", "a/file", "A/other", "b"])
        try scene.publish(tree)
        #expect(try scene.engine(foldsCase: { _ in true }).pull(scene.options()).status == .done)
    }

    @Test("A filesystem that tells them apart is known by its own state directory")
    func probe() throws {
        #expect(try !Destination.open(path: scene.destination, create: true).foldsCase)
        // Somebody's directory of that name proves nothing.
        try scene.root.write("x", to: "dest/.SYNCAGENT/x")
        #expect(try !Destination.open(path: scene.destination, create: true).foldsCase)
    }

    @Test("One that has this for single directories is asked about each of them", arguments: [true, false])
    func below(meet: Bool) throws {
        // The fake knows a directory by its name, as the kernel knows it by its flag.
        let folds: @Sendable (Int32) -> Bool = { directory in
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(directory)"))?.hasSuffix(
                "/icons") == true
        }
        let harmless = ["README", "Readme", "icons/a/X", "icons/b"]
        try scene.publish(Self.tree(harmless))
        #expect(try scene.engine(directoryFoldsCase: folds).pull(scene.options()).status == .done)
        let names = harmless + (meet ? ["icons/a/x"] : ["icons/c"])
        try scene.publish(Self.tree(names), revision: 2)
        let before = AssetTree.read(scene.destination).paths
        let engine = scene.engine(directoryFoldsCase: folds)
        guard meet else {
            #expect(try engine.pull(scene.options()).status == .done)
            return
        }
        let error = #expect(throws: EngineError.self) { try engine.pull(scene.options()) }
        #expect(error?.status == .cannotCreate && error?.message.contains("icons/a/X and icons/a/x") == true)
        #expect(error?.message.contains("README") == false)
        #expect(AssetTree.read(scene.destination).paths == before)
        #expect(throws: EngineError.self) { try engine.plan(scene.options()) }
    }

    @Test(
        "A real filesystem is found out",
        .enabled(if: FoldingMount.isPossible, "needs root and a filesystem that folds case, by loop mount or FUSE"),
        arguments: [[], ["own-inodes"], ["no-modes"]])
    func real(options: [String]) throws {
        let mount = try #require(FoldingMount(in: scene.root, options))
        defer { mount.end() }
        try scene.publish(Self.tree(["README", "Readme", "kept"]))
        let options = { [scene] in
            var options = scene.options()
            options.destination = mount.path + "/dest"
            return options
        }
        let error = #expect(throws: EngineError.self) { try scene.engine().pull(options()) }
        #expect(error?.status == .cannotCreate && error?.message.contains("README and Readme") == true)
        #expect(AssetTree.read(mount.path + "/dest").paths == [])
        let harmless = Self.tree(["README", "kept"])
        try scene.publish(harmless, revision: 2)
        #expect(try scene.engine().pull(options()).status == .done)
        #expect(AssetTree.read(mount.path + "/dest").paths == ["README", "kept"])
    }

    @Test(
        "Where modes cannot be set, verify and pull agree, nothing is hashed again, and --prune removes what was installed",
        .enabled(if: FoldingMount.isPossible, "needs root and FUSE"), arguments: [false, true])
    func withoutModes(
        remounts: Bool
    ) throws {
        let options = ["no-modes", "own-inodes"]
        var mount = try #require(FoldingMount(in: scene.root, options))
        defer { mount.end() }
        var tree = Self.tree(["kept", "old"])
        tree.addFile("program", size: 900, seed: 5, executable: true)
        try scene.publish(tree)
        var recipe = scene.options()
        recipe.destination = mount.path + "/dest"
        #expect(try scene.engine().pull(recipe).status == .done)
        let verified = try scene.engine().verify(recipe)
        #expect(verified.isWhole, "\(verified.problems)")
        if remounts {
            mount.end()
            mount = try #require(FoldingMount(in: scene.root, options))
        } else {
            let ear = Ear()
            #expect(try scene.engine(ear).pull(recipe).files.unchanged == 3)
            #expect(ear.all.progress.allSatisfy { !$0.isCounting }, "nothing is hashed again")
        }
        tree.nodes["old"] = nil
        try scene.publish(tree, revision: 2)
        recipe.prune = true
        let pruned = try scene.engine().pull(recipe)
        #expect(pruned.status == .done && pruned.files.removed == 1)
        #expect(AssetTree.read(mount.path + "/dest").paths == ["kept", "program"])
    }
}

/// A mounted filesystem that folds case: the first that this machine can make of vfat, ext4 with casefold, xfs, and
/// Tests/foldfs.py by FUSE.
private final class FoldingMount {
    let path: String
    private var server: Process?

    static let isPossible: Bool = {
        guard geteuid() == 0, let root = try? TemporaryRoot(), let mount = FoldingMount(in: root) else { return false }
        mount.end()
        return true
    }()

    /// - Parameter options: Of Tests/foldfs.py; without any, another filesystem is tried first.
    init?(in root: TemporaryRoot, _ options: [String] = []) {
        path = root.path("mounted")
        guard (try? root.write("", to: "mounted/.keep")) != nil, unlink(path + "/.keep") == 0 else { return nil }
        if !options.isEmpty || !mountImage(in: root), !mountServed(in: root, options) { return nil }
    }

    private func mountImage(in root: TemporaryRoot) -> Bool {
        let file = root.path("image")
        let makers = [
            ["mkfs.vfat", file], ["mkfs.ext4", "-q", "-F", "-O", "casefold", file],
            ["mkfs.xfs", "-q", "-f", "-n", "version=ci", file],
        ]
        for maker in makers {
            guard (try? root.write("", to: "image")) != nil, truncate(file, 320 << 20) == 0, Self.run(maker),
                Self.run(["mount", "-o", "loop", file, path])
            else { continue }
            if maker[0] != "mkfs.ext4" || foldsBelow() { return true }
            end()
        }
        return false
    }

    private func foldsBelow() -> Bool {
        mkdir(path + "/dest", 0o755) == 0 && Self.run(["chattr", "+F", path + "/dest"])
    }

    private func mountServed(in root: TemporaryRoot, _ options: [String]) -> Bool {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("foldfs.py").path
        // Debian's own interpreter has python3-fusepy.
        let process = Self.process(["/usr/bin/python3", "-B", script, root.path("shown"), path] + options)
        guard (try? root.write("", to: "shown/A")) != nil, (try? process.run()) != nil else { return false }
        server = process
        for _ in 0..<500 where process.isRunning {
            if access(path + "/a", F_OK) == 0 { return true }
            usleep(20_000)
        }
        end()
        return false
    }

    func end() {
        _ = Self.run(["umount", path])
        server?.terminate()
        server?.waitUntilExit()
        server = nil
    }

    private static func run(_ arguments: [String]) -> Bool {
        let process = process(arguments)
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }

    private static func process(_ arguments: [String]) -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.environment = ["PATH": "/usr/sbin:/sbin:/usr/bin:/bin"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        return process
    }
}
