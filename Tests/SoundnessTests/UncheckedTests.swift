import Testing

private let uncheckedMarks = ["@unchecked Sendable", "nonisolated(unsafe)"]

/// Where the compiler is told to trust, as `path:line`.
private func marks(in source: SourceText) -> [String] {
    source.bareCode.enumerated().filter { _, line in uncheckedMarks.contains { line.contains($0) } }.map { index, _ in
        "\(source.path):\(index + 1)"
    }
}

/// Marks without a reason beside them: `// Safe: …` on the same line.
private func unexplainedMarks(in source: SourceText) -> [String] {
    source.bareCode.indices.filter { index in uncheckedMarks.contains { source.bareCode[index].contains($0) } }.filter {
        !source.lines[$0].contains("// Safe: ")
    }.map { "\(source.path):\($0 + 1)" }
}

@Suite(.timeLimit(.minutes(10)))
struct UncheckedTests {
    @Test("Whatever the compiler cannot check says why it is safe")
    func explained() throws {
        let sources = try SourceText.all(below: "Sources") + SourceText.all(below: "Tests")
        #expect(sources.flatMap(unexplainedMarks) == [])
    }

    @Test("Few places ask the compiler not to check them")
    func few() throws {
        let all = try SourceText.all(below: "Sources").flatMap(marks)
        #expect(all.count <= 24, "each is a promise that no tool keeps: \(all)")
    }

    @Test(
        "The check finds a mark without a reason",
        arguments: [
            "final class A: @unchecked Sendable {}", "nonisolated(unsafe) var a = 1",
            "struct A: Hashable, @unchecked Sendable { let url = \"http://x\" }",
        ])
    func canFail(line: String) {
        let bare = SourceText(path: "Sources/A/A.swift", text: "\n\(line)\n")
        #expect(unexplainedMarks(in: bare) == ["Sources/A/A.swift:2"])
        #expect(marks(in: bare).count == 1)
        let above = SourceText(path: "Sources/A/A.swift", text: "// Safe: the lock.\n\(line)\n")
        #expect(unexplainedMarks(in: above) == ["Sources/A/A.swift:2"])
        let inLine = SourceText(path: "Sources/A/A.swift", text: "\n\(line)  // Safe: the lock.\n")
        #expect(unexplainedMarks(in: inLine) == [])
    }
}
