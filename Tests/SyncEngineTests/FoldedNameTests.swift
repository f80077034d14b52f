import Foundation
import SyncEngine
import SyncFiles
import SyncModel
import SyncTestKit
import Testing

@Suite("Destinations that do not tell upper from lower case", .timeLimit(.minutes(2)))
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
        arguments: [
            ["README", "Readme"], ["docs", "Docs/file"], ["Straße/a", "STRASSE/A"], ["e\u{301}", "\u{C9}"],
        ]
    )
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

    @Test(
        "A real filesystem is found out",
        .enabled(if: FoldingImage.isPossible, "needs root and such a filesystem")
    )
    func real() throws {
        let image = try #require(FoldingImage(in: scene.root))
        defer { image.unmount() }
        try scene.publish(Self.tree(["README", "Readme", "kept"]))
        let options = { [scene] in
            var options = scene.options()
            options.destination = image.path + "/dest"
            return options
        }
        let error = #expect(throws: EngineError.self) { try scene.engine().pull(options()) }
        #expect(error?.status == .cannotCreate && error?.message.contains("README and Readme") == true)
        #expect(AssetTree.read(image.path + "/dest").paths == [])
        let harmless = Self.tree(["README", "kept"])
        try scene.publish(harmless, revision: 2)
        #expect(try scene.engine().pull(options()).status == .done)
        #expect(AssetTree.read(image.path + "/dest").paths == ["README", "kept"])
    }
}

/// A filesystem in a file, mounted: the first that this machine can make of vfat, ext4 with casefold, and xfs.
private struct FoldingImage {
    let path: String

    static let isPossible: Bool = {
        guard geteuid() == 0, let root = try? TemporaryRoot(), let image = FoldingImage(in: root) else {
            return false
        }
        image.unmount()
        return true
    }()

    init?(in root: TemporaryRoot) {
        path = root.path("mounted")
        let file = root.path("image")
        guard (try? root.write("", to: "mounted/.keep")) != nil, unlink(path + "/.keep") == 0 else {
            return nil
        }
        let makers = [
            ["mkfs.vfat", file], ["mkfs.ext4", "-q", "-F", "-O", "casefold", file],
            ["mkfs.xfs", "-q", "-f", "-n", "version=ci", file],
        ]
        for maker in makers {
            guard (try? root.write("", to: "image")) != nil, truncate(file, 320 << 20) == 0, Self.run(maker),
                Self.run(["mount", "-o", "loop", file, path])
            else { continue }
            guard maker[0] != "mkfs.ext4" || Self.foldsBelow(path) else {
                unmount()
                continue
            }
            return
        }
        return nil
    }

    private static func foldsBelow(_ path: String) -> Bool {
        mkdir(path + "/dest", 0o755) == 0 && run(["chattr", "+F", path + "/dest"])
    }

    func unmount() { _ = Self.run(["umount", path]) }

    private static func run(_ arguments: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        process.environment = ["PATH": "/usr/sbin:/sbin:/usr/bin:/bin"]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}
