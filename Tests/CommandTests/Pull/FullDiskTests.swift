import CommandTestSupport
import Foundation
import Testing

/// A destination on a file system that is too small: tmpfs(5) in a mount namespace of its own, unshare(1).
@Suite("A full disk", .timeLimit(.minutes(10)))
struct FullDiskTests {
    private static let canMount: Bool = {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
        process.arguments = ["-m", "true"]
        process.standardError = FileHandle.nullDevice
        do { try process.run() } catch { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }()

    private struct End {
        let status: String
        let error: String
        let last: [String: Any]
        let installed: Int
        /// Lines that tell an end.
        let ends: Int
        var files: [String: Int] { last["files"] as? [String: Int] ?? [:] }
    }

    private func end(_ name: String, of set: ServedSet) throws -> End {
        let lines = try set.text("\(name).json").split(separator: "\n").map {
            try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
        return End(
            status: try set.text("\(name).status"), error: try set.text("\(name).error"),
            last: try #require(lines.last), installed: lines.count { $0["event"] as? String == "task.installed" },
            ends: lines.count { $0["event"] as? String == "pull.finished" })
    }

    @Test(
        "A pull ends with 74, keeps and counts what is in place, and the next one brings the rest only [F061]",
        .enabled(if: FullDiskTests.canMount, "SKIPPED: no mount namespaces here"))
    func full() throws {
        var files: [String: Data] = [:]
        var numbers = SystemRandomNumberGenerator()
        // Each takes a page, which nobody can know before: by their bytes they would fit.
        for number in 0..<600 {
            let directory = ["", "one/", "two/"][number % 3]
            files["\(directory)\(number)"] = Data((0..<200).map { _ in UInt8.random(in: 0...255, using: &numbers) })
        }
        let set = try ServedSet(files)
        try set.script(
            "night",
            """
            mkdir small && mount -t tmpfs -o size=1m none small || exit 1
            pull() {
                "\(Tool.url.path)" pull "\(set.url)" --into small/tower --json >$1.json 2>$1.error
                printf %s $? >$1.status
                find small/tower -type f -not -path '*/.syncagent/*' | wc -l >$1.count
            }
            pull first
            pull again
            mount -o remount,size=64m small && pull second
            """)
        try runUnshared("night", of: set)

        let first = try end("first", of: set)
        #expect(first.status == "74" && first.last["result"] as? String == "partial", "\(first.error)")
        let placed = try #require(first.files["installed"])
        #expect(placed > 0 && placed == first.installed && first.files["failed"] == 600 - placed)
        #expect(try Int(set.text("first.count").trimmingCharacters(in: .whitespacesAndNewlines)) == placed)
        let message = (first.last["error"] as? [String: Any])?["message"] as? String
        #expect(message?.contains("the disk is full") == true, "\(message ?? "none")")
        #expect(first.ends == 1 && (first.last["error"] as? [String: Any])?["status"] as? Int == 74)
        #expect(first.last["event"] as? String == "pull.finished")
        #expect(try !set.text("first.json").contains("staging") && !first.error.contains("staging"))

        // The next one is told before it asks for anything.
        #expect(try end("again", of: set).status == "74")

        let second = try end("second", of: set)
        #expect(second.status == "0", "\(second.error)")
        let kept = try #require(second.files["unchanged"])
        #expect(kept >= placed && kept + second.installed == 600)
    }

    /// Runs a script in a mount namespace of its own.
    private func runUnshared(_ script: String, of set: ServedSet) throws {
        let process = set.tool.process([])
        process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
        process.arguments = ["-m", "\(set.scratch.path)/\(script)"]
        process.environment?["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }

    @Test(
        "What is left of a file that is no longer wanted gives way to what is [F060 F061 G17]",
        .enabled(if: FullDiskTests.canMount, "SKIPPED: no mount namespaces here"))
    func leftovers() throws {
        var numbers = SystemRandomNumberGenerator()
        let bytes = Data(
            (0..<(512 << 10)).map { _ in numbers.next() as UInt64 }.flatMap { number in
                withUnsafeBytes(of: number) { Array($0) }
            })
        let set = try ServedSet(["large": bytes])
        let name = String(repeating: "ab", count: 32) + ".part"
        try set.script(
            "night",
            """
            mkdir small && mount -t tmpfs -o size=8m none small || exit 1
            umask 077
            mkdir -p small/tower/.syncagent/staging/0
            head -c 5m /dev/zero >small/tower/.syncagent/staging/0/\(name) || exit 1
            "\(Tool.url.path)" pull "\(set.url)" --into small/tower --json >only.json 2>only.error
            printf %s $? >only.status
            test ! -e small/tower/.syncagent/staging/0/\(name)
            """)
        try runUnshared("night", of: set)
        let end = try end("only", of: set)
        #expect(end.status == "0" && end.installed == 1, "\(end.error)")
    }
}
