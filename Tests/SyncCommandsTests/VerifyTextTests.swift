import Testing

@testable import SyncCommands
@testable import SyncEngine

@Suite("What verify says", .timeLimit(.minutes(10)))
struct VerifyTextTests {
    @Test(
        "The last line tells how many files are right, one as one and many with commas",
        arguments: [
            (1, 0, "1 file, 3 B: all correct"), (116_007, 0, "116,007 files, 3 B: all correct"),
            (1, 1, "1 of 1 file is wrong; pull again to repair it"),
            (2_000, 1_204, "1,204 of 2,000 files are wrong; pull again to repair them"),
        ])
    func sum(files: Int, wrong: Int, text: String) {
        let problem = VerifyReport.Problem(path: "sheets/A-101.pdf", reason: "differs")
        let problems = Array(repeating: problem, count: wrong)
        let report = VerifyReport(files: files, bytes: 3, problems: problems)
        let lines = report.lines
        #expect(lines.count == wrong + 1)
        #expect(lines.last == text)
        #expect(lines.dropLast().allSatisfy { $0 == "sheets/A-101.pdf: differs" })
    }
}
