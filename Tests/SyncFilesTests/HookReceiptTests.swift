import Foundation
import SyncFiles
import SyncSystem
import SyncTestKit
import Testing

@Suite("Receipts of hooks", .timeLimit(.minutes(10)))
struct HookReceiptTests {
    @Test("Of two that leave the same receipt one makes it; it is there from then on [S33]")
    func leaving() throws {
        let fixture = try FilesFixture()
        let receipt = HookReceipt(run: "20261120T020000Z-1f0c9a37", group: "sheets/a")
        #expect(try !receipt.exists(in: fixture.destination))
        #expect(try receipt.leave(in: fixture.destination))
        #expect(try !receipt.leave(in: fixture.destination))
        #expect(try receipt.exists(in: fixture.destination))
        #expect(try !HookReceipt(run: "20261120T020000Z-1f0c9a37", group: "all").exists(in: fixture.destination))
        let ofOne = HookReceipt(run: "20261120T020000Z-1f0c9a37", group: "sheets/a", hook: 7)
        #expect(try !ofOne.exists(in: fixture.destination))
        #expect(try ofOne.leave(in: fixture.destination))
        let name = "receipts/20261120T020000Z-1f0c9a37.sheets%2fa.7"
        #expect(fixture.root.read(FilesFixture.state(name)) == [])
        // Two long names with the same beginning.
        let long = String(repeating: "region.", count: 36)
        for group in [long + "a", long + "b"] {
            #expect(try HookReceipt(run: "r1", group: group).leave(in: fixture.destination))
        }
    }

    @Test(
        "Whether there is a receipt is not said where nobody can look",
        .enabled(if: geteuid() == 0, "only root can be somebody else"))
    func closed() throws {
        let fixture = try FilesFixture()
        let destination = fixture.destination
        let receipt = HookReceipt(run: "r1", group: "all")
        #expect(try receipt.leave(in: destination))
        let found = try asNobody { Result { () throws(FileError) in try receipt.exists(in: destination) } }
        #expect(throws: FileError.self) { try found.get() }
        #expect(try receipt.exists(in: fixture.destination))
    }

    @Test("Old receipts go, those of runs that owe a hook stay; what is no receipt is left alone")
    func collecting() throws {
        let fixture = try FilesFixture()
        let now = Int64(Date().timeIntervalSince1970) * 1_000_000_000
        func collect(before time: Int64, keeping runs: Set<String> = [], isDryRun: Bool = false) -> Int {
            HookReceipt.collect(in: fixture.destination, before: time, keeping: runs, isDryRun: isDryRun)
        }
        #expect(collect(before: .max) == 0)
        for run in ["r1", "r1.2", "r2"] {
            #expect(try HookReceipt(run: run, group: "all").leave(in: fixture.destination))
        }
        mkdir(fixture.root.path(FilesFixture.state("receipts/directory")), 0o700)
        #expect(collect(before: now - 60_000_000_000) == 0)
        #expect(collect(before: .max, keeping: ["r1"], isDryRun: true) == 2)
        #expect(collect(before: .max, keeping: ["r1"]) == 2)
        #expect(try HookReceipt(run: "r1", group: "all").exists(in: fixture.destination))
        #expect(try !HookReceipt(run: "r2", group: "all").exists(in: fixture.destination))
    }
}
