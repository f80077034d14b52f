import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// What people type by mistake, and what they are told.
@Suite("Wrong addresses", .timeLimit(.minutes(10)))
struct WrongAddressTests {
    @Test("The URL of a directory, with or without its slash, and a local directory stand for the manifest in it")
    func directory() throws {
        let set = try ServedSet()
        let base = set.url.replacing("/manifest.json", with: "")
        for (number, address) in [base + "/", base, "site", "site/"].enumerated() {
            let outcome = try set.tool.run(["pull", address, "--into", "d\(number)"])
            #expect(outcome.status == 0, "\(address): \(outcome.error)")
            #expect(try set.text("d\(number)/sheets/b.txt") == "two")
        }
        try FileManager.default.createSymbolicLink(atPath: set.scratch.path + "/site/tower", withDestinationPath: ".")
        let empty = try set.tool.run(["pull", base + "/nothing/", "--into", "no"])
        #expect(empty.status == 66 && empty.error.contains("/nothing/manifest.json: no manifest there"))
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/no"))
    }

    @Test("However a server answers for a directory without its slash, the manifest in it is meant, dots or not")
    func slashless() throws {
        let set = try ScriptedSet()
        let answers: [FaultAnswer] = [
            .status(403), .status(401), .status(400), .status(404), .redirect(to: "/site/", status: 301),
            .redirect(to: "/site"), .status(200, text: "<!DOCTYPE html><html>Index</html>"), .status(200, text: "[]"),
            .status(200),
        ]
        for path in try set.scratch.contents(of: "site") {
            let file = set.scratch.url.appendingPathComponent("site/\(path)")
            guard let data = FileManager.default.contents(atPath: file.path) else { continue }
            set.server.serve(ServedObject(Array(data)), at: "/sets/com.example.tower-1.0/\(path)")
        }
        for (number, answer) in answers.enumerated() {
            for (count, directory) in ["/site", "/sets/com.example.tower-1.0"].enumerated() {
                set.server.script(directory, answer)
                let outcome = try set.tool.run(["pull", set.server.url(directory), "--into", "d\(number).\(count)"])
                #expect(outcome.status == 0, "\(directory), \(number): \(outcome.error)")
            }
        }
        let empty = try set.tool.run(["pull", set.server.url("/sets/com.example"), "--into", "no"])
        #expect(empty.status == 66, "\(empty.error)")
    }

    @Test("A server that asks for a pause is not asked for the plain manifest in place of the compressed one")
    func pause() throws {
        let set = try ScriptedSet()
        set.server.script("/site/manifest.json.zst", .unavailable(429, retryAfter: "0"))
        let outcome = try set.tool.run(["pull", set.server.url("/site/manifest.json")])
        #expect(outcome.status == 69 && outcome.error.contains("status 429"), "\(outcome.error)")
        #expect(set.server.log.requests(to: "/site/manifest.json").isEmpty)
    }

    @Test("A web page in place of a manifest is told as that, with 65")
    func page() throws {
        let set = try ServedSet()
        try set.scratch.write(Data("\n<!DOCTYPE html><html>Log in</html>".utf8), to: "site/login")
        let outcome = try set.tool.run(["pull", set.url.replacing("manifest.json", with: "login")])
        #expect(outcome.status == 65 && outcome.error.contains("got a web page instead of the manifest"))
    }

    @Test("https to a port of plain HTTP, and a host without a scheme, are explained")
    func schemes() throws {
        let set = try ServedSet()
        let secure = try set.tool.run(["pull", set.url.replacing("http://", with: "https://"), "--deadline", "3s"])
        #expect(secure.status == 69 && secure.error.contains("plain HTTP"), "\(secure.error)")
        let bare = try set.tool.run(["pull", "cdn.example.com/tower/manifest.json"])
        #expect(bare.status == 66, "\(bare.error)")
        #expect(bare.error.contains("write https://cdn.example.com/tower/manifest.json"), "\(bare.error)")
        let path = try set.tool.run(["pull", "some/where.json"])
        #expect(path.status == 66 && !path.error.contains("https://"), "\(path.error)")
    }

    @Test("A group that is not in the manifest leaves no directory behind")
    func group() throws {
        let set = try ServedSet()
        for arguments in [["--group", "nope"], ["--group-hook", "nope=/bin/true"]] {
            let outcome = try set.pull(arguments[0], arguments[1])
            #expect(outcome.status == 64 && outcome.error.contains("nope"), "\(outcome.error)")
            #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/tower"))
        }
    }

    @Test("Verifying a destination that is not there is one line, and 2")
    func verify() throws {
        let set = try ServedSet()
        let outcome = try set.tool.run(["verify", set.url, "--into", "nowhere"])
        #expect(outcome.status == 2)
        #expect(outcome.output.split(separator: "\n").count == 1 && outcome.output.contains("nowhere does not exist"))
        let json = try set.tool.run(["verify", set.url, "--into", "nowhere", "--json"]).objects()
        #expect((json.last?["problems"] as? [Any])?.count == 2)
    }

    @Test("serve answers / with a page that names the manifest and the command to pull it")
    func index() throws {
        let set = try ServedSet()
        let answer = try set.server.client.send("GET", "/")
        let page = String(decoding: answer.body, as: UTF8.self)
        #expect(answer.status == 200)
        #expect(
            page.contains("syncagent pull http://127.0.0.1/manifest.json --into")
                && page.contains("href=\"/manifest.json\""))
    }
}

/// What is said of many files at once.
@Suite("Said once", .timeLimit(.minutes(10)))
struct SaidOnceTests {
    private func broken() throws -> ServedSet {
        var files: [String: Data] = [:]
        for number in 0..<40 { files["f/\(100 + number)"] = Data("file \(number)".utf8) }
        let set = try ServedSet(files)
        try FileManager.default.removeItem(atPath: set.scratch.path + "/site/packs")
        return set
    }

    @Test("Forty files that a server does not have are one warning, with a count, three paths and the advice")
    func once() throws {
        let set = try broken()
        let outcome = try set.pull()
        #expect(outcome.status == 2)
        let warnings = outcome.error.split(separator: "\n").filter { $0.contains("warning:") }
        #expect(warnings.count == 1, "\(outcome.error)")
        #expect(warnings.first?.contains("40 files: http://127.0.0.1") == true, "\(outcome.error)")
        #expect(outcome.error.contains("f/100, f/101, f/102 and 37 more"))
        #expect(outcome.error.contains("-> Upload the missing files"))
        let loud = try set.pull("-v")
        #expect(loud.error.split(separator: "\n").count { $0.contains("warning: f/1") } == 40, "\(loud.error)")
        #expect(try set.pull("--json").events().count { $0["event"] as? String == "task.failed" } == 40)

        // The report says it once for the three runs, and in its first line why to look.
        let report = try set.tool.run(["report"]).output
        #expect(report.contains("(in 3 runs)"), "\(report)")
        #expect(report.split(separator: "\n").count { $0.contains("status 404") } == 1, "\(report)")
        #expect(report.contains("could be installed: the server does not have all of them"), "\(report)")
    }

    @Test("-v names what was installed and removed; a plan names what would be, and -vv what stays")
    func names() throws {
        let set = try ServedSet()
        let plan = try set.tool.run(["plan", set.url, "--into", "tower", "-v"])
        #expect(plan.output.contains("new        a.txt  (3 B)\nnew        sheets/b.txt  (3 B)\n"), "\(plan.output)")
        let pulled = try set.pull("-v")
        #expect(pulled.output == "installed  a.txt\ninstalled  sheets/b.txt\n", "\(pulled.output)")
        let quiet = try set.tool.run(["plan", set.url, "--into", "tower", "-v"])
        #expect(!quiet.output.contains("sheets/b.txt"))
        let all = try set.tool.run(["plan", set.url, "--into", "tower", "-vv", "--json"]).objects()
        #expect(all.count { $0["event"] as? String == "plan.file" && $0["action"] as? String == "unchanged" } == 2)
    }

    @Test("A dry run ends as the pull would: 73 for a place that cannot be made, 77 for an older revision")
    func dryRun() throws {
        let set = try ServedSet()
        try set.scratch.write(Data(), to: "file")
        for arguments in [["pull", set.url, "--into", "file/x", "--dry-run"], ["plan", set.url, "--into", "file/x"]] {
            let outcome = try set.tool.run(arguments)
            #expect(outcome.status == 73 && outcome.error.contains("file/x"), "\(outcome.error)")
        }
        let plan = try #require(try set.tool.run(["plan", set.url, "--into", "tower", "--json"]).objects().last)
        let requests = try #require(plan["requests"] as? [String: Int])
        let pulled = try #require(try set.pull("--json").events().last?["requests"] as? Int)
        #expect(requests["least"].map { $0 <= pulled } == true && requests["most"].map { pulled <= $0 } == true)
    }
}
