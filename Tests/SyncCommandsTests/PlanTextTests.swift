import Testing

@testable import SyncCommands
@testable import SyncEngine
@testable import SyncManifest

@Suite("What plan says", .timeLimit(.minutes(10)))
struct PlanTextTests {
    @Test("Figures have commas, and one is one")
    func figures() {
        let request = PlanReport.Request(
            url: "packs/a.pack", sources: ["packs/a.pack"], size: 9, range: 2..<9, blobs: 1, gapBytes: 0)
        var fetched = Plan()
        (fetched.packBytes, fetched.files, fetched.loose) = (3, 59_881, Array(0..<2_000))
        fetched.spans = Array(repeating: Plan.Span(source: .pack(0), range: 2..<9, slots: 0..<1), count: 2_001)
        let plan = PlanReport(
            project: "org.example.icons", revision: 1, destination: "/srv/icons", files: 116_007, unchanged: 1_000,
            wanted: 115_007, obstructed: [], prunable: 1, prunes: false, pruneRefusal: nil, refusal: nil, totalBytes: 3,
            unchangedBytes: 0, reusedBytes: 0, leftoverBytes: 0, dictionaryBytes: 0, fetch: fetched,
            manifestRequests: 1,
            requestCount: 2_002...2_010, requests: [request])
        #expect(
            plan.lines == [
                "org.example.icons revision 1 into /srv/icons",
                "files      116,007: 1,000 up to date, 115,007 to fetch", "bytes      3 B in all, 0 B here",
                "to fetch   3 B from packs, 0 B from individual files, 0 B in gaps between needed blobs",
                "requests   2,002 to 2,010: 1 for the manifest, 1 for packs, 2,000 for files; more if idle connections take over "
                    + "the ends of long ones; one per file would be 57,880 more",
                "obsolete   1 file, removed with --prune", "  packs/a.pack bytes 2-9: 1 blob, 0 B in gaps",
            ])
    }

    @Test("A pull says what it replaced that was not its own, where it is kept, and what it has left")
    func notes() {
        var report = PullReport()
        #expect(PullCommand.notes(report, backupDir: nil) == [])
        (report.replaced, report.obsolete) = (1, 2_000)
        #expect(
            PullCommand.notes(report, backupDir: nil) == [
                "1 file was replaced that no pull had installed, or that had been edited since; with --backup-dir DIR such "
                    + "files are kept",
                "2,000 files from earlier pulls are no longer in the manifest; --prune removes such files",
            ])
        #expect(PullCommand.notes(report, backupDir: "/kept").first?.hasSuffix("edited since; see /kept") == true)
        let ofShard = PullCommand.notes(report, backupDir: nil, isShard: true)
        #expect(ofShard.last?.hasSuffix("--join with --prune removes such files") == true)
        report.notRemoved = 3
        let last = PullCommand.notes(report, backupDir: nil).last
        #expect(last?.hasPrefix("3 files or directories could not be removed; ") == true)
    }
}
