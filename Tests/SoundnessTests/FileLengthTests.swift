import Testing

private let maximumLines = 500

/// The complaint about a file that is too long.
private func complaint(about source: SourceText) -> String? {
    let count = source.lines.count - (source.lines.last == "" ? 1 : 0)
    return count > maximumLines ? "\(source.path) has \(count) lines; split it by job" : nil
}

@Suite(.timeLimit(.minutes(10)))
struct FileLengthTests {
    @Test("No file is longer than 500 lines", arguments: ["Sources", "Tests"])
    func lengths(directory: String) throws {
        #expect(try SourceText.all(below: directory).compactMap(complaint) == [])
    }

    @Test("The check finds a file that is too long")
    func canFail() {
        func file(lines: Int) -> SourceText {
            SourceText(path: "Sources/A/A.swift", text: String(repeating: "let a = 1\n", count: lines))
        }
        #expect(complaint(about: file(lines: 500)) == nil)
        #expect(complaint(about: file(lines: 501)) == "Sources/A/A.swift has 501 lines; split it by job")
    }

    @Test("The executable only calls the library of commands")
    func executableIsThin() throws {
        let files = try SourceText.all(below: "Sources/syncagent")
        #expect(files.map(\.path) == ["Sources/syncagent/main.swift"])
        #expect(files.allSatisfy { $0.lines.count <= 20 })
    }
}
