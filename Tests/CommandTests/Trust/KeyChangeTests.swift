import CommandTestSupport
import Foundation
import Testing

/// Keys that change: none that still counts is lost on the way. `Tests/signing-kill.sh` kills a rotate at each step.
@Suite("Keys that change", .timeLimit(.minutes(5)))
struct KeyChangeTests {
    @Test("A new root key that waits for signatures takes the file of no other key")
    func waiting() throws {
        let scratch = try Scratch()
        let tool = Tool(scratch)
        func keys(_ arguments: String...) throws -> String {
            let outcome = try tool.run(["keys"] + arguments)
            try #require(outcome.status == 0, "\(outcome.error)")
            return outcome.error
        }
        func file(_ name: String) throws -> Data { try Data(contentsOf: scratch.url.appendingPathComponent(name)) }
        let made = try keys("new", "keys", "--project", "p", "--root-keys", "2", "--root-threshold", "2")
        #expect(made.contains("Keep root-2.key, root.key offline"))
        try FileManager.default.moveItem(atPath: scratch.path + "/keys/root.key", toPath: scratch.path + "/drawer.key")
        let before = try file("keys/root-2.key")
        _ = try keys("rotate", "keys", "--role", "root")
        #expect(try file("keys/root-2.key") == before)
        #expect(try file("keys/root-3.key") != before)
        #expect(
            try keys("sign", "keys/2.root.pending", "--with", "drawer.key", "--from", "keys/1.root", "--yes").contains(
                "2.root has enough signatures"))
    }

    @Test("A release that a new key signs again is the one that every channel names which points at it")
    func everyChannel() throws {
        let set = try SignedSet()
        func run(_ arguments: String...) throws {
            let outcome = try set.tool.run(arguments)
            try #require(outcome.status == 0, "\(outcome.error)")
        }
        try run("channel", "set", "site", "beta", "default", "--sign", "keys")
        try run("keys", "rotate", "keys", "--role", "release")
        // Nothing else has changed: it is revision 1 as before.
        try run("publish", "assets", "--to", "site", "--sign", "keys")
        let pull = try set.pull("--channel", "beta", "--trust", "keys/1.root")
        #expect(pull.status == 0, "\(pull.error)")
        try run("keys", "refresh", "site", "--sign", "keys")
    }

    @Test("keys show --json of a root names each key once: its number, and who signs what")
    func show() throws {
        let set = try SignedSet()
        let outcome = try set.tool.run(["keys", "show", "keys/1.root", "--json"])
        let shown = try #require(try outcome.objects().first)
        #expect(shown["number"] as? Int == 1)
        #expect((shown["root"] as? [String: Any])?["threshold"] as? Int == 1)
        #expect(outcome.output.components(separatedBy: #""root":"#).count == 2, "\(outcome.output)")
    }

    @Test("After a change of keys, too, an older release than the installed one needs --allow-older")
    func older() throws {
        let set = try SignedSet()
        try set.publish("two", "--channel", "beta")
        try set.pin()
        try set.keys("rotate", "keys", "--role", "release")
        try set.publish("three")
        try set.publish("four", "--channel", "beta")
        #expect(try set.pull("--channel", "beta").status == 0)
        let refused = try set.pull()
        #expect(refused.status == 77 && refused.error.contains("--allow-older"), "\(refused.error)")
        #expect(try set.text("tower/a.txt") == "four")
        #expect(try set.pull("--allow-older").status == 0)
        #expect(try set.text("tower/a.txt") == "three")
    }
}
