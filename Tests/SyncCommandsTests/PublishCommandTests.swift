import ArgumentParser
import Foundation
import SyncManifest
import SyncModel
import SyncPublisher
import Testing

@testable import SyncCommands

@Suite(.timeLimit(.minutes(10)))
struct PublishCommandTests {
    /// Nowhere to keep state.
    static let environment = EnvironmentPaths(home: nil) { _ in nil }

    @Test("The options of a publish reach the publisher")
    func options() throws {
        let command = try #require(
            try SyncagentCommand.parseAsRoot([
                "publish", "assets", "--to", "out", "--project", "com.example.tower", "--base", "old/manifest.json",
                "--pack-size", "16M", "--level", "9", "--jobs", "3", "--revision", "7", "--group", "sheets=sheets/**",
                "--group", "sheets=plans/*=x", "--group-hook", "sheets=reindex", "--exclude", "**/.git", "--safe-links",
                "--repack", "--dictionary", "never",
            ]) as? PublishCommand)
        let options = try command.publishOptions(environment: Self.environment)
        #expect(options.directory == "assets" && options.output == "out")
        #expect(options.project == "com.example.tower")
        #expect(options.base == .manifest("old/manifest.json"))
        #expect(options.packSize == 16 << 20 && options.level == 9 && options.jobs == 3)
        #expect(options.revision == 7 && options.repack && options.dictionary == .never)
        #expect(options.exclude == ["**/.git"] && options.leavesOutUnsafeLinks)
        #expect(
            options.groups == [Manifest.Group(name: "sheets", include: ["sheets/**", "plans/*=x"], hooks: ["reindex"])])
    }

    @Test("Without options: the base in the output, a worker for each core, the time of now")
    func defaults() throws {
        let command = try #require(
            try SyncagentCommand.parseAsRoot(["publish", "assets", "--to", "out"]) as? PublishCommand)
        let options = try command.publishOptions(environment: Self.environment)
        #expect(options.base == .inOutput)
        #expect(options.jobs >= 1)
        #expect(options.packSize == 32 << 20 && options.level == 3 && options.dictionary == .automatic)
        #expect(options.created.map { ManifestRules.objection(time: $0) } == .some(nil))
    }

    @Test("A file whose name is empty, as of a variable that is not set, is refused by the option's name")
    func unnamedFile() {
        for option in ["--config", "--exclude-from"] {
            let error = #expect(throws: (any Error).self) {
                try PublishCommand.parse(["assets", "--to", "out", option, ""])
            }
            #expect(error.map { PublishCommand.message(for: $0) } == "\(option) needs a file, not an empty string.")
        }
    }

    @Test("What cannot be pruned or restored is refused before anything is looked at")
    func releases() throws {
        for words in [
            ["prune", "site"], ["prune", "site", "--keep", "0"], ["prune", "ftp://bucket", "--keep", "1"],
            ["prune", "site", "--keep", "1", "--older-than", "soon"],
            ["prune", "site", "--keep", "1", "--grace", "24"],
            ["restore", "site"], ["restore", "site", "last"], ["restore", "host:site", "1"], ["list", ""],
        ] {
            #expect(throws: (any Error).self, "\(words)") { try SyncagentCommand.parseAsRoot(["releases"] + words) }
        }
        let words = ["releases", "prune", "site", "--keep", "2", "--older-than", "30d", "--grace", "0", "--dry-run"]
        let prune = try #require(try SyncagentCommand.parseAsRoot(words) as? ReleasesPruneCommand)
        #expect(prune.keep == 2 && prune.grace == 0 && prune.isDryRun)
        let digest = String(repeating: "ab", count: 32)
        #expect(try SyncagentCommand.parseAsRoot(["releases", "restore", "site", digest]) is ReleasesRestoreCommand)
    }

    @Test("publish.json says what does not change; the command line says more")
    func file() throws {
        let directory = NSTemporaryDirectory() + "publish-file-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try Data(
            """
            {project: "com.example.file", channel: "beta", groups: {maps: ["maps/**"]}, mirrors: ["https://m.example/"], loose: true,
             exclude: ["*.tmp"], exclude_from: ["list"], pack_size: "1M", level: 7, dictionary: "never", deltas: false, retain: 14}
            """.utf8
        ).write(to: URL(fileURLWithPath: directory + "/publish.json"))
        try Data("*.bak\n".utf8).write(to: URL(fileURLWithPath: directory + "/list"))
        func options(_ more: String...) throws -> PublishOptions {
            let arguments = ["publish", directory, "--to", "out"] + more
            let command = try #require(try SyncagentCommand.parseAsRoot(arguments) as? PublishCommand)
            return try command.publishOptions(environment: Self.environment)
        }
        let plain = try options()
        #expect(plain.project == "com.example.file" && plain.groups?.map(\.name) == ["maps"])
        #expect(plain.mirrors == ["https://m.example/"] && plain.isLoose == true && plain.filesURL == nil)
        #expect(plain.exclude == ["*.tmp"] && plain.excludeFrom == [])
        #expect(
            plain.givenPatterns.map(\.name) == ["list"] && plain.givenPatterns.map(\.text) == [Array("*.bak\n".utf8)])
        #expect(plain.packSize == 1 << 20 && plain.level == 7 && plain.dictionary == .never && !plain.deltas)
        #expect(plain.ownNames == ["publish.json"])
        #expect(try plain.retain == 14 && options("--retain", "3").retain == 3)
        #expect(plain.channel == "beta" && plain.keepsReleases)
        let other = try options("--channel", "default")
        #expect(other.channel == nil && other.keepsReleases)
        let more = try options(
            "--project", "com.example.line", "--group", "all-maps=**", "--no-mirrors", "--no-loose", "--exclude", "x",
            "--level", "3", "--dictionary", "auto", "--files-url", "https://f.example")
        #expect(more.project == "com.example.line" && more.groups?.map(\.name) == ["all-maps"])
        #expect(more.mirrors == [] && more.isLoose == false && more.filesURL == "https://f.example")
        #expect(more.exclude == ["*.tmp", "x"] && more.level == 3 && more.dictionary == .automatic)
        let none = try options("--no-config", "--no-groups")
        #expect(none.project == nil && none.groups == [] && none.mirrors == nil && none.ownNames == [])
        #expect(throws: CommandFailure.self) { try options("--config", directory + "/none.json") }
        // A file with settings is none of the set, however it is named.
        #expect(try options("--config", directory + "/./publish.json").ownNames == ["publish.json"])
        try FileManager.default.createDirectory(atPath: directory + "/more", withIntermediateDirectories: true)
        try FileManager.default.copyItem(atPath: directory + "/list", toPath: directory + "/more/list")
        try FileManager.default.copyItem(
            atPath: directory + "/publish.json", toPath: directory + "/more/settings.json")
        #expect(try options("--config", directory + "/more/settings.json").ownNames == ["more/settings.json"])
        let all = try options("--dry-run", "-vv")
        #expect(try all.listsUnchanged && !options("--dry-run", "-v").listsUnchanged)
    }

    @Test("A shard takes of publish.json what is its own; the join takes the rest")
    func fileForShards() throws {
        let directory = NSTemporaryDirectory() + "publish-file-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let text = """
            {project: "p", channel: "beta", retain: 3, dictionary: "always", manifest_parts: false, level: 7}
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: directory + "/publish.json"))
        func options(_ more: String...) throws -> PublishOptions {
            let arguments = ["publish", directory, "--to", "out"] + more
            let command = try #require(try SyncagentCommand.parseAsRoot(arguments) as? PublishCommand)
            return try command.publishOptions(environment: Self.environment)
        }
        let shard = try options("--shard", "0/2")
        #expect(shard.channel == nil && shard.retain == nil && !shard.keepsReleases)
        #expect(shard.project == "p" && shard.level == 7 && shard.dictionary == .automatic && shard.isInParts == nil)
        let join = try options("--join", "2")
        #expect(join.channel == "beta" && join.retain == 3 && join.keepsReleases && join.isInParts == nil)
        // What somebody asks for here is still refused by the publisher.
        #expect(try options("--shard", "0/2", "--retain", "4").retain == 4)
    }

    @Test("The summary says in words what was done")
    func summary() {
        var report = PublishReport()
        report.project = "com.example.tower"
        report.revision = 42
        report.files = 20_000
        report.rawBytes = 512 << 20
        report.storedBytes = 400 << 20
        report.newBytes = 8 << 20
        report.packsWritten = 1
        report.packsReused = 12
        report.deadBytes = 3 << 20
        report.packsDropped = 2
        report.compressedManifestBytes = 1 << 20
        #expect(
            report.summary(milliseconds: 1_230) == """
                com.example.tower revision 42: 20,000 files, 512 MiB stored in 400 MiB
                1 pack written, 8.00 MiB; 12 reused; 3.00 MiB in them no longer used; 2 old packs no longer referenced; \
                manifest 1.00 MiB, 1.2 s
                """)
        report.unchanged = true
        #expect(report.summary(milliseconds: 90).hasSuffix("; nothing changed, 0.09 s"))
    }
}
