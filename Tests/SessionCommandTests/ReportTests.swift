import CommandTestSupport
import Foundation
import SyncTestKit
import Synchronization
import Testing

@Suite("Report and metrics of real pulls", .timeLimit(.minutes(10)))
struct ReportTests {
    private static let curl = ["/usr/bin/curl", "/bin/curl"].first { FileManager.default.isExecutableFile(atPath: $0) }

    @Test("Without any session there is nothing to tell, and no state is made; the page of metrics is valid")
    func nothing() throws {
        let scratch = try Scratch()
        let tool = Tool(scratch)
        let report = try tool.run(["report"])
        #expect(report.status == 0 && report.output.contains("no sessions"), "\(report.error)")
        #expect(try tool.run(["report", "tower"]).status == 66)
        let metrics = try tool.run(["metrics"])
        #expect(metrics.status == 0 && metrics.output.contains("\nsyncagent_sessions 0\n"), "\(metrics.error)")
        let file = try tool.run(["metrics", "--textfile", "m.prom"])
        #expect(file.status == 0, "\(file.error)")
        #expect(try String(contentsOfFile: scratch.path + "/m.prom", encoding: .utf8) == metrics.output)
        #expect(!FileManager.default.fileExists(atPath: scratch.path + "/.local"))
    }

    @Test("A pull, one that had nothing to do, and a failed hook: as text, JSON, a page and metrics [V64]")
    func pulls() throws {
        let set = try ServedSet()
        #expect(try set.tool.run(["pull", set.url + "?key=CANARY", "--into", "tower"]).status == 0)
        #expect(try set.pull().status == 0)
        try set.script("hook.sh", "echo no index server; exit 3")
        #expect(try set.pull("--hook", "./hook.sh").status == 5)

        let text = try set.tool.run(["report"])
        #expect(text.status == 0, "\(text.error)")
        #expect(text.output.contains("1 session, 1 needs attention"), "\(text.output)")
        #expect(text.output.contains("ATTENTION  com.example.tower: 2 files put in place"), "\(text.output)")
        #expect(text.output.contains("hook.sh: exit 3") && !text.output.contains("/./"), "\(text.output)")
        #expect(text.output.contains("it wrote: no index server"), "\(text.output)")
        #expect(text.output.contains("from      http://127.0.0.1:"), "\(text.output)")
        #expect(text.output.contains("sheets 1 (3 B)"), "\(text.output)")

        let object = try #require(try set.tool.run(["report", "com.example.tower", "--json"]).objects().first)
        let session = try #require((object["sessions"] as? [[String: Any]])?.first)
        #expect(session["verdict"] as? String == "attention")
        #expect((session["files"] as? [String: Any])?["installed"] as? Int == 2)
        let runs = try #require(session["runs"] as? [[String: Any]])
        #expect(runs.count == 3)
        let origin = try #require((session["origins"] as? [[String: Any]])?.first)
        // What servers sent is all that was received.
        let received = (session["bytes"] as? [String: Any])?["received"] as? Int
        #expect(origin["bytes"] as? Int == received && received ?? 0 > 0)
        #expect(origin["requests"] as? Int == session["requests"] as? Int)

        let page = try set.tool.run(["report", "--html", "--output", "report.html"])
        #expect(page.status == 0 && page.output.isEmpty, "\(page.error)")
        let html = try set.text("report.html")
        #expect(html.hasPrefix("<!doctype html>") && html.hasSuffix("</html>\n"))

        let metrics = try set.tool.run(["metrics", "--textfile", "syncagent.prom"])
        #expect(metrics.status == 0, "\(metrics.error)")
        let prom = try set.text("syncagent.prom")
        #expect(prom.contains("syncagent_runs_total{result=\"ok\",session=\"com.example.tower\"} 3\n"), "\(prom)")
        #expect(prom.contains("syncagent_placed_files_total{session=\"com.example.tower\"} 2\n"))
        #expect(prom.contains("syncagent_last_run_failed_hooks{session=\"com.example.tower\"} 1\n"))
        #expect(try set.tool.run(["metrics"]).output == prom)
        for form in [text.output, html, prom, "\(object)"] { #expect(!form.contains("CANARY")) }
    }

    @Test("A state directory that cannot be written to is a problem, before a pull finds out")
    func readOnlyState() throws {
        let set = try ServedSet()
        #expect(try set.pull().status == 0)
        #expect(try set.tool.run(["doctor", "--strict"]).status == 0)
        let process = set.tool.process([])
        process.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
        let mount = "mount --bind .local/state .local/state && mount -o remount,bind,ro .local/state || exit 99"
        process.arguments = ["-rm", "sh", "-c", "\(mount); exec \"$0\" doctor --strict", Tool.url.path]
        // Without mounts of our own, as in a container, there is nothing to see.
        guard let doctor = try? set.tool.run(process), ![1, 99].contains(doctor.status) else { return }
        #expect(doctor.status == 2 && doctor.output.contains("cannot be written to"), "\(doctor.output)")
    }

    @Test("A pull that has no manifest, or no usable configuration, is told by every view, and so is its end")
    func failedTries() throws {
        let set = try ServedSet()
        let tool = set.tool
        #expect(try set.pull().status == 0)
        #expect(try tool.run(["doctor", "--strict"]).status == 0)
        func expectFailed(_ words: String) throws {
            let status = try tool.run(["status"])
            #expect(status.output.contains("idle (failed)"), "\(status.output)")
            let report = try tool.run(["report"])
            #expect(report.output.contains("FAILED     com.example.tower: it failed"), "\(report.output)")
            #expect(report.output.contains(words), "\(report.output)")
            let metrics = try tool.run(["metrics"]).output
            #expect(metrics.contains("last_run_result{result=\"failed\",session=\"com.example.tower\"} 1\n"))
            let doctor = try tool.run(["doctor", "--strict"])
            #expect(doctor.status == 2 && doctor.output.contains(words), "\(doctor.output)")
        }
        let missing = set.url.replacing("manifest.json", with: "nope.json")
        let failed = try tool.run(["pull", missing, "--into", "tower", "--json"])
        #expect(failed.status == 66)
        let end = try #require(try failed.objects().last)
        #expect(end["event"] as? String == "pull.finished" && end["session"] as? String == "com.example.tower")
        try expectFailed("no manifest there")
        #expect(try set.pull().status == 0)
        #expect(try tool.run(["doctor", "--strict"]).status == 0)

        try set.scratch.write(Data("{nonsense: 1}".utf8), to: ".config/syncagent/config.json")
        #expect(try set.pull().status == 78)
        try expectFailed("nonsense")
        #expect(try tool.run(["doctor"]).output.contains("problem  configuration: "))
        let metrics = #"metrics: {textfile: "\#(set.scratch.url.path)/kept.prom"}"#
        try set.scratch.write(Data("{\(metrics)}".utf8), to: ".config/syncagent/config.json")
        #expect(try set.pull().status == 0)
        let good = "last_run_result{result=\"ok\",session=\"com.example.tower\"} 1\n"
        #expect(try set.text("kept.prom").contains(good))
        #expect(try !tool.run(["doctor"]).output.contains("metrics: cannot"))
        let lost = metrics.replacing("/kept.prom", with: "/none/kept.prom")
        try set.scratch.write(Data("{\(lost)}".utf8), to: ".config/syncagent/config.json")
        #expect(try tool.run(["doctor"]).output.contains("problem  configuration: metrics: cannot write "))
        let plugin = #"{plugins: {use: [{point: "resolver", plugin: "no-such-plugin"}]}, \#(metrics)}"#
        try set.scratch.write(Data(plugin.utf8), to: ".config/syncagent/config.json")
        let pull = try set.pull()
        #expect(pull.status == 78)
        #expect(try !set.text("kept.prom").contains(good), "a try that came to no engine is in the file of metrics too")
        let said = pull.error.split(separator: "\n").last.map { $0.dropFirst("syncagent: ".count) } ?? ""
        let doctor = try tool.run(["doctor"]).output
        #expect(!said.isEmpty && doctor.contains("problem  configuration: \(said)"), "\(doctor)\n\(said)")
    }

    @Test(
        "An index, or its log, that is too long to be read is told by doctor as by a pull",
        arguments: ["index", "index.log"])
    func tooLong(name: String) throws {
        let set = try ServedSet()
        #expect(try set.pull().status == 0)
        let file = set.scratch.url.appendingPathComponent("tower/.syncagent/\(name)").path
        if !FileManager.default.fileExists(atPath: file) { try Data().write(to: URL(fileURLWithPath: file)) }
        try #require(truncate(file, 2 << 30 + 1) == 0)
        let doctor = try set.tool.run(["doctor", "--strict"])
        #expect(doctor.status == 2 && doctor.output.contains("/tower/.syncagent/\(name)"), "\(doctor.output)")
        #expect(doctor.output.contains("Remove it:") && !doctor.output.contains("give this user access"))
        #expect(try set.pull().status == 73)
        try FileManager.default.removeItem(atPath: file)
        #expect(try set.pull().status == 0)
        #expect(try set.tool.run(["doctor", "--strict"]).status == 0)
    }

    @Test("What is missing is told with what to do; mended, it is over")
    func missing() throws {
        var files: [String: Data] = [:]
        for number in 0..<3 {
            files["maps/\(number).bin"] = Data((0..<5_000).map { UInt8(truncatingIfNeeded: $0 * number) })
        }
        let set = try ServedSet(files)
        let packs = set.scratch.url.appendingPathComponent("site/packs")
        let away = set.scratch.url.appendingPathComponent("away")
        try FileManager.default.moveItem(at: packs, to: away)
        #expect(try set.pull().status != 0)
        var report = try set.tool.run(["report"]).output
        #expect(report.contains("FAILED     com.example.tower"), "\(report)")
        #expect(report.contains("status 404"), "\(report)")
        #expect(report.contains("-> Upload the missing files"), "\(report)")
        try FileManager.default.moveItem(at: away, to: packs)
        #expect(try set.pull().status == 0)
        report = try set.tool.run(["report"]).output
        #expect(report.contains("ok         com.example.tower: 3 files put in place"), "\(report)")
        #expect(report.contains("earlier"), "\(report)")
        #expect(!report.contains("->"), "\(report)")
    }

    @Test("--post sends the JSON to a webhook; a secret in its URL stays out of sight [V27 V64]")
    func post() throws {
        let set = try ServedSet()
        #expect(try set.pull().status == 0)
        let server = try FaultServer()
        let seen = Mutex<[ServedRequest]>([])
        server.respond(to: "/hook/CANARY") { request in
            seen.withLock { $0.append(request) }
            return .status(204)
        }
        let file = try set.scratch.write(Data("\(server.url("/hook/CANARY"))\n".utf8), to: "hook-url")
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file.path)
        let open = try set.tool.run(["report", "--post", "@hook-url"])
        #expect(open.status == 78 && open.error.contains("others may read it"), "\(open.error)")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        let sent = try set.tool.run(["report", "--post", "@hook-url"])
        #expect(sent.status == 0 && sent.output.isEmpty, "\(sent.error)")
        let request = try #require(seen.withLock { $0.first })
        #expect(request.method == "POST" && request.header("content-type") == "application/json")
        let body = try JSONSerialization.jsonObject(with: Data(request.body)) as? [String: Any]
        #expect(body?["report"] as? Int == 1 && body?["needs_attention"] as? Int == 0)

        server.respond(to: "/hook/CANARY") { _ in .status(500, text: "no") }
        let refused = try set.tool.run(["report", "--post", "@hook-url"])
        #expect(
            refused.status == 69 && refused.error.contains("the report was not accepted: HTTP 500"), "\(refused.error)")
        #expect(!refused.error.contains("CANARY"))
        #expect(try set.tool.run(["report", "--post", "ftp://x/"]).status == 64)
        let gone = try set.tool.run(["report", "--post", "http://127.0.0.1:1/secret"])
        #expect(gone.status == 69 && gone.error.hasPrefix("syncagent: http://127.0.0.1:1: "), "\(gone.error)")
        #expect(!gone.error.contains("accepted") && !gone.error.contains("secret"), "\(gone.error)")
        #expect(try set.tool.run(["report", "--post", "http://x/", "--json"]).status == 64)
    }

    @Test("With metrics in the configuration, the file is written at the end of every pull")
    func configured() throws {
        let set = try ServedSet()
        try set.scratch.write(Data("{metrics: {textfile: \"../../m.prom\"}}".utf8), to: ".config/syncagent/config.json")
        #expect(try set.pull().status == 0)
        #expect(
            try set.text("m.prom").contains("syncagent_runs_total{result=\"ok\",session=\"com.example.tower\"} 1\n"))
        // A look around has no runs to tell of, and leaves those that are told.
        let told = try set.text("m.prom")
        for arguments in [
            ["pull", set.url, "--into", "tower", "--dry-run"], ["plan", set.url, "--into", "tower"],
            ["verify", set.url, "--into", "tower"],
        ] {
            #expect(try set.tool.run(arguments).status == 0)
            #expect(try set.text("m.prom") == told, "\(arguments)")
        }
        try set.scratch.write(
            Data("{metrics: {textfile: \"/no/such/place/m.prom\"}}".utf8), to: ".config/syncagent/config.json")
        let other = try set.pull()
        #expect(other.status == 0)
        #expect(other.error.contains("metrics: cannot write /no/such/place/m.prom"), "\(other.error)")
    }

    @Test("The agent tells metrics on its socket", .enabled(if: curl != nil, "SKIPPED: no curl"))
    func endpoint() throws {
        let set = try ServedSet()
        let pull = try set.tool.run(["pull", set.url, "--into", "tower", "--background"])
        #expect(pull.status == 0, "\(pull.error)")
        defer { _ = try? set.tool.run(["agent", "stop"]) }
        #expect(try set.tool.run(["wait"]).status == 0)
        let process = Process()
        process.executableURL = URL(fileURLWithPath: try #require(Self.curl))
        process.arguments = [
            "-sSi", "--unix-socket", set.scratch.path + "/.local/state/syncagent/agent.sock",
            "http://localhost/v1/metrics",
        ]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let answer = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        #expect(answer.hasPrefix("HTTP/1.1 200 OK"), "\(answer)")
        #expect(answer.lowercased().contains("content-type: text/plain; version=0.0.4"))
        #expect(answer.contains("syncagent_runs_total{result=\"ok\",session=\"com.example.tower\"} 1\n"), "\(answer)")
        #expect(answer.contains("syncagent_agent_runs 0\n"))
    }
}
