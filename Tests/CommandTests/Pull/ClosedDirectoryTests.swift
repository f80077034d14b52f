import CommandTestSupport
import Foundation
import Testing

@Suite(
    "Directories that are closed to their owner", .enabled(if: geteuid() == 0, "only root can be another user"),
    .timeLimit(.minutes(10)))
struct ClosedDirectoryTests {
    private static let user: uid_t = 4242
    private let scratch: Scratch
    private let tool: Tool

    init() throws {
        scratch = try Scratch()
        tool = Tool(scratch)
        let home = scratch.path + "/other"
        try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: true)
        try #require(chown(home, Self.user, Self.user) == 0)
    }

    private static let modes = ["000", "111", "222", "300", "444", "555"]

    private func publish(_ text: String) throws {
        for number in 0..<20 { try scratch.write(Data("kept \(number)".utf8), to: "in/kept/\(number)") }
        for mode in Self.modes {
            try scratch.write(Data("\(text) of \(mode)".utf8), to: "in/\(mode)/file")
            try scratch.write(Data("\(text) below \(mode)".utf8), to: "in/\(mode)/\(mode)/file")
        }
        for mode in Self.modes {
            for path in ["\(mode)/\(mode)", mode] {
                try #require(chmod(scratch.path + "/in/" + path, mode_t(mode, radix: 8) ?? 0) == 0)
            }
        }
        let outcome = try tool.run(["publish", "in", "--to", "site", "--project", "p", "--preserve", "modes"])
        try #require(outcome.status == 0, "\(outcome.error)")
    }

    private func other(_ arguments: [String]) throws -> Tool.Outcome {
        let home = scratch.path + "/other"
        let variables = ["HOME": home, "XDG_STATE_HOME": home + "/state", "XDG_CONFIG_HOME": home + "/config"]
        let process = tool.process(arguments, environment: variables)
        process.executableURL = URL(fileURLWithPath: "/usr/bin/setpriv")
        process.arguments =
            ["--reuid=\(Self.user)", "--regid=\(Self.user)", "--clear-groups", Tool.url.path] + arguments
        return try tool.run(process)
    }

    private func files(_ outcome: Tool.Outcome) throws -> [String: Int] {
        try outcome.events().last?["files"] as? [String: Int] ?? [:]
    }

    @Test("A file that another user has made his own is his: --prune leaves it, and ends well")
    func takenOver() throws {
        let destination = scratch.path + "/other/dest"
        let arguments = ["pull", "site/manifest.json", "--into", destination, "--prune"]
        try scratch.write(Data("gone".utf8), to: "in/gone")
        try publish("first")
        let first = try other(arguments)
        #expect(first.status == 0, "\(first.error)")
        let path = destination + "/gone"
        try #require(chown(path, 0, 0) == 0 && chmod(path, 0o600) == 0)
        try FileManager.default.removeItem(atPath: scratch.path + "/in/gone")
        try publish("second")
        let second = try other(arguments)
        #expect(second.status == 0, "\(second.error)")
        #expect(access(path, F_OK) == 0)
    }

    @Test("Where somebody has closed a directory that no mode is kept of, plan and pull end alike")
    func closedByHand() throws {
        let destination = scratch.path + "/other/dest"
        for name in ["1", "2"] { try scratch.write(Data(name.utf8), to: "in/a/\(name)") }
        try #require(try tool.run(["publish", "in", "--to", "site", "--project", "p"]).status == 0)
        let arguments = ["site/manifest.json", "--into", destination]
        #expect(try other(["pull"] + arguments).status == 0)
        try FileManager.default.removeItem(atPath: destination + "/a/1")
        try #require(chmod(destination + "/a", 0o555) == 0)
        for command in ["plan", "pull"] {
            let outcome = try other([command] + arguments)
            #expect(outcome.status == 74 && outcome.error.contains("cannot install a/1"), "\(outcome.error)")
        }
    }

    @Test("They come, are updated and checked by a user who is not root, and are closed again; the plan agrees")
    func life() throws {
        let destination = scratch.path + "/other/dest"
        let arguments = ["site/manifest.json", "--into", destination, "--json"]
        try publish("first")
        let first = try other(["pull"] + arguments)
        #expect(first.status == 0, "\(first.error)")
        let again = try other(["pull"] + arguments)
        #expect(try again.status == 0 && files(again)["unchanged"] == 32, "\(again.error)")
        let plan = try other(["plan"] + arguments)
        #expect(try plan.status == 0 && plan.objects().last?["unchanged"] as? Int == 32, "\(plan.output)")
        try publish("second")
        let planned = try other(["plan"] + arguments)
        #expect(try planned.objects().last?["wanted"] as? Int == 12, "\(planned.output)")
        let second = try other(["pull"] + arguments)
        #expect(try second.status == 0 && files(second)["installed"] == 12, "\(second.error)\(second.output)")
        for mode in Self.modes {
            for path in [mode, "\(mode)/\(mode)"] {
                let found = try FileManager.default.attributesOfItem(atPath: destination + "/" + path)
                #expect((found[.posixPermissions] as? NSNumber)?.uint16Value == UInt16(mode, radix: 8), "\(path)")
                let text = try String(contentsOfFile: "\(destination)/\(path)/file", encoding: .utf8)
                #expect(text == (path == mode ? "second of \(mode)" : "second below \(mode)"))
            }
        }
        // None of them is named any more.
        for mode in Self.modes { try FileManager.default.removeItem(atPath: scratch.path + "/in/" + mode) }
        let outcome = try tool.run(["publish", "in", "--to", "site", "--project", "p", "--preserve", "modes"])
        try #require(outcome.status == 0, "\(outcome.error)")
        let pruned = try other(["pull"] + arguments + ["--prune"])
        #expect(try pruned.status == 0 && files(pruned)["removed"] == 12, "\(pruned.error)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: destination).sorted() == [".syncagent", "kept"])
    }
}
