import Foundation
import Testing

@testable import SyncCommands

@Suite("Words for terminals that know ASCII alone", .timeLimit(.minutes(10)))
struct PlainTextTests {
    @Test("Our signs as people write them, letters of names escaped, ASCII as it is")
    func words() {
        #expect(PlainText.of("plain 'text' \u{1B}[31m") == "plain 'text' \u{1B}[31m")
        #expect(PlainText.of("“a” … 3 × 4 → 12 °") == "\"a\" ... 3 x 4 -> 12  deg")
        #expect(PlainText.of("größe/図") == "gr\\u{f6}\\u{df}e/\\u{56f3}")
        #expect(PlainText.signs.values.allSatisfy { $0.utf8.allSatisfy { $0 < 0x80 } })
    }

    @Test("Each sign in a message of the sources has its ASCII")
    func sources() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appendingPathComponent("Sources")
        // What a plugin is shown, and this table itself.
        let left = ["SyncPluginHost/Checks/", "SyncPluginHost/Points/Hook.swift", "SyncCommands/Terminal/Output.swift"]
        var looked = 0
        for path in try FileManager.default.subpathsOfDirectory(atPath: root.path)
        where path.hasSuffix(".swift") && !left.contains(where: path.hasPrefix) {
            looked += 1
            let text = try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
            for line in text.split(separator: "\n") where line.contains("\"") {
                guard !line.drop(while: { $0 == " " }).hasPrefix("//") else { continue }
                let odd = line.unicodeScalars.filter { !$0.isASCII && PlainText.signs[$0] == nil }
                #expect(odd.isEmpty, "\(path): \(line)")
            }
        }
        #expect(looked > 300)
    }

    @Test(
        "A locale without UTF-8 has ASCII alone; the first variable that is set counts",
        arguments: [
            ([:], true), (["LANG": "C"], true), (["LANG": "de_DE"], true), (["LANG": "de_DE.UTF-8"], false),
            (["LC_ALL": "C", "LANG": "de_DE.utf8"], true), (["LC_CTYPE": "C.utf8", "LANG": "C"], false),
        ] as [([String: String], Bool)])
    func locale(variables: [String: String], isASCIIOnly: Bool) {
        let environment = EnvironmentPaths(home: nil, lookup: { variables[$0] })
        #expect(environment.isASCIIOnly == isASCIIOnly)
    }
}
