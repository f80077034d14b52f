import Testing

@testable import SyncCommands

@Suite("Tables", .timeLimit(.minutes(10)))
struct TextTableTests {
    private let rows = [
        ["SESSION", "STATE", "FILES", ""],
        ["com.example.tower", "waiting", "974/2,000", "tries again at 02:05:10 (cannot reach cdn.example.com)"],
        ["b", "idle (ok)", "1/1", ""],
    ]

    @Test(
        "Every line fits the terminal; the widest cells are cut, and narrow ones stay whole", arguments: [30, 60, 80])
    func fits(width: Int) {
        let lines = tableLines(rows, width: width)
        #expect(lines.allSatisfy { $0.count <= width }, "\(lines)")
        #expect(lines[1].contains("…") && (width < 60 || lines[1].contains("974/2,000")))
    }

    @Test("Without a terminal, and where there is room, nothing is cut", arguments: [Int?.none, 200])
    func whole(width: Int?) {
        let lines = tableLines(rows, width: width)
        #expect(lines[1].hasSuffix("(cannot reach cdn.example.com)") && !lines.joined().contains("…"))
        #expect(lines[2] == "b                  idle (ok)  1/1")
    }
}
