import CommandTestSupport
import Foundation
import Testing

/// What `--trust` means on a machine where trust has begun already.
@Suite("What --trust names", .timeLimit(.minutes(10)))
struct TrustAnchorTests {
    /// The option for a root in a directory of keys, by its file or by its digest.
    private static func anchor(_ set: SignedSet, _ root: String, isDigest: Bool) throws -> String {
        guard isDigest else { return root }
        let shown = try set.tool.run(["keys", "show", root, "--json"]).objects().first
        return "SHA256:\(try #require(shown?["sha256"] as? String))"
    }

    @Test(
        "After a change of keys the command may name the new root before the machine has learned of it",
        arguments: [false, true])
    func newer(isDigest: Bool) throws {
        let set = try SignedSet()
        try set.pin()
        try set.keys("rotate", "keys", "--role", "release")
        try set.keys("rotate", "keys", "--role", "root")
        try set.publish("two")
        let anchor = try Self.anchor(set, "keys/3.root", isDigest: isDigest)
        let looked = try set.tool.run(["plan", set.url, "--into", "tower", "--trust", anchor])
        #expect(looked.status == 0, "\(looked.error)")
        #expect(try set.numbers().first == 1, "plan keeps nothing")
        let outcome = try set.pull("--trust", anchor)
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(try set.text("tower/a.txt") == "two")
        #expect(try set.numbers().first == 3)
    }

    @Test("A root that does not come after the one that is believed is refused, and nothing changes")
    func others() throws {
        let set = try SignedSet()
        try set.pin()
        try set.keys("new", "thief", "--project", "com.example.tower")
        try set.keys("rotate", "thief", "--role", "release")
        try set.publish("two")
        let before = try set.numbers()
        for number in 1...2 {
            let outcome = try set.pull("--trust", "thief/\(number).root", "--hook", "/bin/false")
            #expect(outcome.status == 77, "\(outcome.error)")
            #expect(outcome.error.contains("trust forget com.example.tower"), "\(outcome.error)")
        }
        // One that is right, and not published yet.
        try set.keys("rotate", "keys", "--role", "fresh")
        let early = try set.pull("--trust", "keys/2.root")
        #expect(early.status == 77)
        #expect(try SignedSet.causes(early) == ["older"])
        #expect(try set.numbers() == before)
        #expect(try set.text("tower/a.txt") == "one")
        try set.publish("three")
        #expect(try set.pull("--trust", "keys/2.root").status == 0)
        #expect(try set.text("tower/a.txt") == "three")
    }

    @Test("A digest of none of the roots there is refused, and it is said where and what to look at")
    func noRoot() throws {
        let set = try SignedSet()
        let outcome = try set.pull("--trust", "SHA256:" + String(repeating: "0", count: 64))
        #expect(outcome.status == 77)
        #expect(outcome.error.contains("\(set.url): none of the roots there is SHA256:0"), "\(outcome.error)")
        #expect(!set.exists("tower/a.txt"))
    }

    @Test("That a project is pinned is told once, when the pin is stored, and not when it cannot be")
    func told() throws {
        let set = try SignedSet()
        // A directory in place of the file that is locked before a pin is stored.
        let lock = ".local/state/syncagent/trust/.lock"
        try set.scratch.write(Data(), to: lock + "/in-the-way")
        let refused = try set.pull("--trust", "first")
        #expect(refused.status == 73, "\(refused.error)")
        #expect(try !refused.objects().contains { $0["event"] as? String == "trust.pinned" })
        try set.remove(lock)
        for expected in [1, 0] {
            let outcome = try set.pull("--trust", "first")
            #expect(outcome.status == 0, "\(outcome.error)")
            let told = try outcome.objects().filter { $0["event"] as? String == "trust.pinned" }
            #expect(told.count == expected)
            #expect(told.allSatisfy { $0["root"] as? Int == 1 && $0["origin"] as? String == "first" })
        }
    }

    @Test("Where another project was before, the one counts that was pinned there last", arguments: [false, true])
    func otherProject(isSwapped: Bool) throws {
        let scratch = try Scratch()
        let tool = Tool(scratch)
        func run(_ arguments: String...) throws {
            let outcome = try tool.run(arguments)
            try #require(outcome.status == 0, "\(outcome.error)")
        }
        try scratch.write(Data("one".utf8), to: "assets/a.txt")
        for project in isSwapped ? ["pb", "pa"] : ["pa", "pb"] {
            // What is not there need not go.
            try? FileManager.default.removeItem(atPath: scratch.path + "/site")
            try run("keys", "new", project, "--project", project)
            try run("publish", "assets", "--to", "site", "--project", project, "--sign", project)
            try run("pull", "site", "--into", "d-\(project)", "--trust", "\(project)/1.root")
            // Which project is there, the pin says from now on.
            try run("pull", "site", "--into", "d-\(project)")
        }
    }
}
