import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import SyncTestKit
import Testing

@Suite(.timeLimit(.minutes(10)))
struct TreeTests {
    @Test("Deep trees are walked with few open directories, up to the longest path")
    func deep() throws {
        let set = try PublishedSet()
        // 4,094 bytes: 2,046 directories and a file of two letters.
        let path = String(repeating: "d/", count: 2_046) + "ff"
        try makeDeep(set.root.path("in"), path)
        try set.publish()
        let files = try set.manifest().files
        #expect(files.count == 1)
        #expect(files.path(0) == path)
        try removeDeep(set.root.path("in"))
    }

    @Test("A path above 4,095 bytes is refused by name")
    func tooDeep() throws {
        let set = try PublishedSet()
        try makeDeep(set.root.path("in"), String(repeating: "d/", count: 2_047) + "ff")
        let error = set.failure()
        #expect(error?.exitStatus == .dataInvalid)
        #expect(error?.details.first?.contains("4096 bytes") == true)
        try removeDeep(set.root.path("in"))
    }

    @Test("Hidden files are published, and empty directories by the innermost")
    func hiddenAndEmpty() throws {
        let set = try PublishedSet(AssetTree([".hidden/.file": .file([1], executable: false)]))
        try FileManager.default.createDirectory(
            atPath: set.root.path("in/empty/inner"), withIntermediateDirectories: true)
        let report = try set.publish()
        #expect(try set.manifest().files.path(0) == ".hidden/.file")
        let directories = try set.manifest().directories
        #expect(directories.indices.map(directories.path) == ["empty/inner"])
        #expect(report.warnings == [] && report.directories == 1)
    }

    @Test("The walk can be stopped among directories without files")
    func stopsAmongDirectories() throws {
        let set = try PublishedSet(AssetTree(["a": .file([1], executable: false)]))
        for index in 0..<3_000 { #expect(mkdir(set.root.path("in/d\(index)"), 0o755) == 0) }
        var steps = 0
        _ = try set.options.publish(progress: { if $0.step == .walking { steps += 1 } })
        #expect(steps >= 3)
        let error = #expect(throws: PublishError.self) {
            var asked = 0
            _ = try set.options.publish(isCancelled: {
                asked += 1
                return asked == 1
            })
        }
        #expect(error?.exitStatus == .interrupted)
    }

    @Test("A source named through a link is published; links in it are not followed")
    func linkToSource() throws {
        let set = try PublishedSet(AssetTree.linksAndPrograms())
        try set.root.link("alias", to: "in")
        try set.publish { $0.directory = set.root.path("alias") }
        #expect(try set.unpacked().nodes == AssetTree.linksAndPrograms().nodes)
    }

    @Test(
        "The project's name is the one asked for, or made of the directory's",
        arguments: [("Tower (v2)", "Tower--v2-"), (".hidden", "hidden"), ("plain", "plain")])
    func projectName(
        directory: String, project: String
    ) throws {
        let set = try PublishedSet()
        try set.root.write("x", to: "\(directory)/f")
        let report = try set.publish {
            $0.directory = set.root.path(directory) + "/"
            $0.project = nil
        }
        #expect(report.project == project)
        #expect(set.failure { $0.project = "no spaces" }?.exitStatus == .usage)
    }

    /// Below PATH_MAX at each call: one level at a time, by descriptor.
    private func makeDeep(_ start: String, _ path: String) throws {
        var directory = open(start, O_RDONLY | O_DIRECTORY)
        let components = path.split(separator: "/").map(String.init)
        for component in components.dropLast() {
            #expect(mkdirat(directory, component, 0o755) == 0)
            let next = openat(directory, component, O_RDONLY | O_DIRECTORY)
            close(directory)
            directory = next
        }
        let file = openat(directory, components.last ?? "", O_CREAT | O_WRONLY, 0o644)
        #expect(file >= 0)
        close(file)
        close(directory)
    }

    /// What makes a test's directory cannot take away such a tree: `rename` the middle up until it is short.
    private func removeDeep(_ start: String) throws {
        let remover = Process()
        remover.executableURL = URL(fileURLWithPath: "/bin/rm")
        remover.arguments = ["-rf", start]
        try remover.run()
        remover.waitUntilExit()
        #expect(remover.terminationStatus == 0)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct ExclusionTests {
    static let tree = AssetTree([
        "a.tmp": .file([1], executable: false), "a.txt": .file([2], executable: false),
        "d/a.tmp": .file([3], executable: false), "d/.git/config": .file([4], executable: false),
        "d/keep": .file([5], executable: false), "e/only.tmp": .file([6], executable: false),
    ])

    static let cases: [(patterns: [String], kept: [String], excluded: Int)] = [
        ([], ["a.tmp", "a.txt", "d/.git/config", "d/a.tmp", "d/keep", "e/only.tmp"], 0),
        (["*.tmp"], ["a.txt", "d/.git/config", "d/a.tmp", "d/keep", "e/only.tmp"], 1),
        (["**/*.tmp"], ["a.txt", "d/.git/config", "d/keep"], 3),
        (["**/.git", "e"], ["a.tmp", "a.txt", "d/a.tmp", "d/keep"], 2),
        (["d/**"], ["a.tmp", "a.txt", "e/only.tmp"], 3), (["**"], [], 4),
    ]

    @Test("What a pattern excludes is left out, a directory with all that is in it", arguments: cases.indices)
    func excludes(index: Int) throws {
        let (patterns, kept, excluded) = Self.cases[index]
        let set = try PublishedSet(Self.tree)
        let report = try set.publish {
            $0.exclude = patterns
            $0.permits = [.versionControl, .fewerFiles]
        }
        let files = try set.manifest().files
        #expect(files.indices.map { files.path($0) } == kept)
        #expect(report.excluded == excluded)
    }

    @Test("What is excluded cannot be refused")
    func excludedIsNotRefused() throws {
        let set = try PublishedSet(Self.tree)
        try set.root.write("x", to: "in/.SyncAgent/index")
        try set.root.link("in/d/out", to: "/etc")
        #expect(set.failure()?.details.count == 2)
        try set.publish {
            $0.exclude = [".SyncAgent", "d/out"]
            $0.permits = .versionControl
        }
        #expect(try set.unpacked().nodes == Self.tree.nodes)
    }

    @Test("Links out of the tree are left out when asked for; a directory that had nothing else stays")
    func unsafeLinks() throws {
        var tree = Self.tree
        tree.nodes["inside"] = .link("d/keep")
        let set = try PublishedSet(tree)
        try set.root.link("in/out", to: "/etc")
        try set.root.link("in/f/bad", to: "../../x")
        try set.root.link("in/g/deep/bad", to: "/etc")
        try set.root.write("x", to: "in/g/kept")
        // Goes up again from a directory that is left empty.
        try set.root.link("in/through", to: "f/../a.txt")
        tree.nodes["through"] = .link("f/../a.txt")
        tree.nodes["g/kept"] = .file([0x78], executable: false)
        #expect(set.failure()?.details.count == 3)
        let permits = PublishOptions.Permits.versionControl
        let report = try set.publish { ($0.leavesOutUnsafeLinks, $0.permits) = (true, permits) }
        #expect(report.warnings == ["3 links that leave the tree are left out"])
        let directories = try set.manifest().directories
        #expect(directories.indices.map { directories.path($0) } == ["f", "g/deep"])
        #expect(try !set.publish { ($0.leavesOutUnsafeLinks, $0.permits) = (true, permits) }.warnings.isEmpty)
        #expect(try set.unpacked().nodes == tree.nodes)
    }

    @Test("A pattern that can match nothing is a usage error", arguments: ["", "/a", "a/", "a//b", "../a", "./a"])
    func badPatterns(pattern: String) throws {
        let set = try PublishedSet(Self.tree)
        #expect(set.failure { $0.exclude = [pattern] }?.exitStatus == .usage)
    }
}
