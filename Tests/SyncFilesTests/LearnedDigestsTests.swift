import SyncContent
import SyncFiles
import SyncManifest
import SyncModel
import Testing

@Suite("What was learnt of files", .timeLimit(.minutes(10)))
struct LearnedDigestsTests {
    @Test("A file that would become longer than is read begins again, with what was learnt last")
    func full() throws {
        let fixture = try FilesFixture()
        let digest = try FilesFixture.digest([1])
        let check = ContentCheck(nil, isSizeKnown: true)
        func knows(_ number: UInt64) -> Bool {
            LearnedDigests(fixture.destination).content(check, size: number, url: "https://h/a")?.digest == digest
        }
        for number in UInt64(1)...5 {
            let line = LearnedDigests.line(digest, size: number, for: check, listedSize: number, url: "https://h/a")
            LearnedDigests.append(try #require(line), in: fixture.destination, limit: 300)
            #expect(knows(number))
        }
        // Two of these lines have room.
        #expect(!knows(1) && !knows(2) && !knows(3) && !knows(4))
        // What is left of it counts what is there.
        let lines = String(repeating: "x", count: 450)
        #expect(LearnedDigests().hasRoom(after: lines, limit: 1_000))
        #expect(!LearnedDigests(fixture.destination).hasRoom(after: lines, limit: 1_000))
    }
}
