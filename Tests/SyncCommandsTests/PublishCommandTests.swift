import ArgumentParser
import SyncManifest
import SyncModel
import SyncPublisher
import Testing

@testable import SyncCommands

@Suite(.timeLimit(.minutes(3)))
struct PublishCommandTests {
    /// Nowhere to keep state.
    static let environment = EnvironmentPaths(home: nil) { _ in nil }

    @Test("The options of a publish reach the publisher")
    func options() throws {
        let command = try #require(
            try SyncagentCommand.parseAsRoot([
                "publish", "assets", "--to", "out", "--project", "com.example.tower", "--base",
                "old/manifest.json", "--pack-size", "16M", "--level", "9", "--jobs", "3", "--revision", "7",
                "--group", "sheets=sheets/**", "--group", "sheets=plans/*=x", "--group-hook",
                "sheets=reindex",
                "--exclude", "**/.git", "--safe-links", "--repack", "--dictionary", "never",
            ]) as? PublishCommand
        )
        let options = try command.publishOptions(environment: Self.environment)
        #expect(options.directory == "assets" && options.output == "out")
        #expect(options.project == "com.example.tower")
        #expect(options.base == .manifest("old/manifest.json"))
        #expect(options.packSize == 16 << 20 && options.level == 9 && options.jobs == 3)
        #expect(options.revision == 7 && options.repack && options.dictionary == .never)
        #expect(options.exclude == ["**/.git"] && options.leavesOutUnsafeLinks)
        #expect(
            options.groups == [
                Manifest.Group(name: "sheets", include: ["sheets/**", "plans/*=x"], hooks: ["reindex"])
            ]
        )
    }

    @Test("Without options: the base in the output, a worker for each core, the time of now")
    func defaults() throws {
        let command = try #require(
            try SyncagentCommand.parseAsRoot(["publish", "assets", "--to", "out"]) as? PublishCommand
        )
        let options = try command.publishOptions(environment: Self.environment)
        #expect(options.base == .inOutput)
        #expect(options.jobs >= 1)
        #expect(options.packSize == 32 << 20 && options.level == 3 && options.dictionary == .automatic)
        #expect(options.created.map { ManifestRules.objection(time: $0) } == .some(nil))
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
            PublishCommand.summary(report, milliseconds: 1_230) == """
                com.example.tower revision 42: 20,000 files, 512 MiB stored in 400 MiB
                1 pack written, 8.00 MiB; 12 reused; 3.00 MiB in them no longer used; 2 old packs no longer named; \
                manifest 1.00 MiB, 1.23 s
                """
        )
        report.unchanged = true
        #expect(PublishCommand.summary(report, milliseconds: 90).hasSuffix("; nothing changed, 0.09 s"))
    }
}
