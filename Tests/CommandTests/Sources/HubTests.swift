import CommandTestSupport
import Foundation
import SyncTestKit
import Synchronization
import Testing

/// A hub with one repository, and the store that large files are redirected to; as the real one answers.
final class ScriptedHub: @unchecked Sendable {  // Safe: its directory is only used by the test's own thread.
    let hub: FaultServer
    let store: FaultServer
    let scratch: Scratch
    private let state = Mutex(State())

    struct File: Sendable {
        let object: ServedObject
        /// As `git hash-object` has it.
        let oid: String
    }

    struct State: Sendable {
        var commits: [String: [String: File]] = [:]
        var head = ""
        /// Paths in LFS.
        var large: Set<String> = []
        var token: String?
        /// Requests that are left until the window ends, and when that is.
        var budget: (limit: Int, seconds: Double)?
        var used = 0
        var windowEnds = Date.distantPast
        var refused = 0
        var signature = 1
        var nextPage: String?
    }

    static let name = "acme/site"

    init() throws {
        (hub, store, scratch) = (try FaultServer(), try FaultServer(), try Scratch())
        hub.respondToOthers { [self] in answer($0) }
        store.respondToOthers { [self] in stored($0) }
    }

    var endpoint: String { hub.url("") }

    func change(_ body: (inout State) -> Void) { state.withLock { body(&$0) } }

    var refused: Int { state.withLock { $0.refused } }

    /// Makes a commit with these files the newest.
    func commit(_ name: String, _ files: [String: [UInt8]], large: Set<String> = []) {
        let files = files.mapValues { File(object: ServedObject($0), oid: Self.gitDigest($0)) }
        state.withLock { state in
            state.head = String(repeating: name, count: 40 / name.utf8.count)
            state.commits[state.head] = files
            state.large.formUnion(large)
        }
    }

    func run(_ arguments: [String], environment: [String: String] = [:]) throws -> Tool.Outcome {
        var variables = ["HF_ENDPOINT": endpoint, "HF_HOME": scratch.path + "/hf"]
        variables.merge(environment) { _, new in new }
        return try Tool(scratch).run(arguments, environment: variables)
    }

    private func answer(_ request: ServedRequest) -> FaultAnswer {
        let (answer, headers) = state.withLock { state -> (FaultAnswer, [(String, String)]) in
            if let token = state.token, request.header("authorization") != "Bearer \(token)" {
                return (.status(401, text: "{\"error\":\"gated\"}"), [])
            }
            let api = "/api/models/\(Self.name)"
            if request.path.hasPrefix("\(api)/revision/") {
                let name = String(request.path.dropFirst("\(api)/revision/".count))
                guard name == "main" || state.commits[name] != nil else { return (.status(404), []) }
                let commit = name == "main" ? state.head : name
                let text = "{\"id\":\"\(Self.name)\",\"sha\":\"\(commit)\"}"
                return (.object(ServedObject(text: text, contentType: "application/json")), [])
            }
            if request.path.hasPrefix("\(api)/tree/"),
                let files = state.commits[String(request.path.dropFirst("\(api)/tree/".count))]
            {
                return page(files, request, state)
            }
            let parts = request.path.split(separator: "/", maxSplits: 4)
            guard parts.count == 5, parts[2] == "resolve", let files = state.commits[String(parts[3])],
                let object = files[String(parts[4]).removingPercentEncoding ?? ""]?.object
            else { return (.status(404), []) }
            var headers: [(String, String)] = []
            if let budget = state.budget {
                if Date.now >= state.windowEnds { (state.used, state.windowEnds) = (0, .now + budget.seconds) }
                let rest = max(1, Int(state.windowEnds.timeIntervalSinceNow.rounded(.up)))
                let policy = "\"fixed window\";\"resolvers\";q=\(budget.limit);w=\(max(1, Int(budget.seconds)))"
                headers = [("RateLimit-Policy", policy)]
                guard state.used < budget.limit else {
                    state.refused += 1
                    return (.status(429), headers)
                }
                state.used += 1
                headers.append(("RateLimit", "\"resolvers\";r=\(budget.limit - state.used);t=\(rest)"))
            }
            guard state.large.contains(String(parts[4])) else { return (.object(object), headers) }
            return (.redirect(to: store.url("/\(object.sha256)?sig=\(state.signature)")), headers)
        }
        return headers.reduce(answer) { $0.setting($1.0, $1.1) }
    }

    /// Two files a page.
    private func page(_ files: [String: File], _ request: ServedRequest, _ state: State) -> (
        FaultAnswer, [(String, String)]
    ) {
        let names = files.keys.sorted()
        let first =
            request.query?.split(separator: "&").first { $0.hasPrefix("cursor=") }.flatMap { Int($0.dropFirst(7)) } ?? 0
        let shown = names[first..<min(first + 2, names.count)]
        let entries = shown.map { name -> String in
            guard let file = files[name] else { return "" }
            let object = file.object
            let lfs =
                state.large.contains(name)
                ? ",\"lfs\":{\"oid\":\"\(object.sha256)\",\"size\":\(object.bytes.count),\"pointerSize\":130}" : ""
            return
                "{\"type\":\"file\",\"oid\":\"\(file.oid)\",\"size\":\(object.bytes.count),\"path\":\"\(name)\"\(lfs)}"
        }
        let body = ServedObject(text: "[\(entries.joined(separator: ","))]", contentType: "application/json")
        guard first + 2 < names.count else { return (.object(body), []) }
        let next = state.nextPage ?? hub.url("\(request.path)?recursive=true&cursor=\(first + 2)")
        return (.object(body), [("Link", "<\(next)>; rel=\"next\"")])
    }

    private func stored(_ request: ServedRequest) -> FaultAnswer {
        state.withLock { state in
            guard request.header("authorization") == nil, request.query == "sig=\(state.signature)" else {
                return .status(403)
            }
            for files in state.commits.values {
                if let object = files.values.first(where: { "/\($0.object.sha256)" == request.path })?.object {
                    return .object(object)
                }
            }
            return .status(404)
        }
    }

    /// As `git hash-object` has it.
    static func gitDigest(_ bytes: [UInt8]) -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["git", "hash-object", "--stdin"]
        let (input, output) = (Pipe(), Pipe())
        (process.standardInput, process.standardOutput) = (input, output)
        guard (try? process.run()) != nil else { return "" }
        try? input.fileHandleForWriting.write(contentsOf: Data(bytes))
        try? input.fileHandleForWriting.close()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct HubTests {
    private let hub: ScriptedHub
    private let files: [String: [UInt8]] = [
        ".gitattributes": Array("*.bin filter=lfs".utf8), "config.json": Array("{}".utf8),
        "dir/model.bin": patternedBytes(size: 2_000_000, seed: 3), "README.md": Array("hello".utf8),
        "copy.md": Array("hello".utf8),
        "empty": [],
    ]

    init() throws {
        hub = try ScriptedHub()
        hub.commit("a1", files, large: ["dir/model.bin"])
    }

    private func text(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: hub.scratch.url.appendingPathComponent(path)))
    }

    @Test("A repository is pulled with its tree, small files once, and large ones from where they are redirected")
    func pull() throws {
        let first = try hub.run(["pull", "hf://acme/site", "--json"])
        #expect(first.status == 0, "\(first.error)")
        for (path, bytes) in files { #expect(try text("acme.site/" + path) == bytes, "\(path)") }
        let last = try #require(try first.events().last)
        #expect((last["source"] as? [String: String])?["kind"] == "hf")
        #expect((last["source"] as? [String: String])?["at"] == String(repeating: "a1", count: 20))
        #expect((last["files"] as? [String: Int])?["installed"] == 6)
        // Revision, three pages, three small contents, one redirect.
        #expect(hub.hub.log.requestCount == 1 + 3 + 3 + 1)

        var before = hub.hub.log.requestCount
        #expect(try hub.run(["pull", "hf://acme/site"]).status == 0)
        #expect(hub.hub.log.requestCount - before == 1)
        #expect(try hub.run(["verify", "hf://acme/site"]).status == 0)
        #expect(try hub.run(["status", "acme.site"]).output.contains("hf, hf://acme/site"))

        var next = files
        next["README.md"] = Array("hello again".utf8)
        hub.commit("b2", next)
        before = hub.hub.log.requestCount
        #expect(try hub.run(["pull", "hf://acme/site"]).status == 0)
        let asked = hub.hub.log.requestCount - before
        // Revision, three pages, one file.
        #expect(asked == 5)
        #expect(try text("acme.site/README.md") == Array("hello again".utf8))
        let imported = try hub.run(["import", "hf://acme/site@main"])
        #expect(imported.status == 0, "\(imported.error)")
        #expect(imported.output.contains("\"kind\":\"hf\",\"url\":\"hf://acme/site@main\""))
        #expect(!imported.output.contains("x-learn"))
    }

    @Test("Small files that git's digest does not fit are refused by name, and nothing of them is shown")
    func wrong() throws {
        hub.hub.script(
            "/acme/site/resolve/\(String(repeating: "a1", count: 20))/config.json", .object(ServedObject(text: "[]")))
        let outcome = try hub.run(["pull", "hf://acme/site", "--json"])
        #expect(outcome.status == 2)
        #expect(outcome.output.contains("gave wrong bytes: git-sha1"), "\(outcome.output)")
        #expect(!FileManager.default.fileExists(atPath: hub.scratch.path + "/acme.site/config.json"))
        #expect(try text("acme.site/README.md") == Array("hello".utf8))
    }

    @Test(
        "The token goes to the hub alone; without it a gated repository is refused, and another server's next page is not asked"
    )
    func token() throws {
        hub.change { $0.token = "hf_secret" }
        let refused = try hub.run(["pull", "hf://acme/site"])
        #expect(refused.status == 77 && refused.error.contains("HF_TOKEN"), "\(refused.error)")
        // Not even root can read a directory.
        let unread = try hub.run(["pull", "hf://acme/site"], environment: ["HF_TOKEN_PATH": hub.scratch.path])
        #expect(unread.status == 77 && unread.error.contains("the stored token: cannot "), "\(unread.error)")
        let pulled = try hub.run(["pull", "hf://acme/site"], environment: ["HF_TOKEN": "hf_secret"])
        #expect(pulled.status == 0, "\(pulled.error)")
        // The store refuses whoever shows a token.
        #expect(try text("acme.site/dir/model.bin") == patternedBytes(size: 2_000_000, seed: 3))
        try hub.scratch.write(Data("hf_secret\n".utf8), to: "hf/token")
        #expect(try hub.run(["pull", "hf://acme/site", "--into", "again"]).status == 0)

        // Of two manifests either may be on the hub.
        #expect(try hub.run(["import", "hf://acme/site", "--to", "kept.json"]).status == 0)
        for pair in [["hf://acme/site", "kept.json"], ["kept.json", "hf://acme/site"]] {
            let compared = try hub.run(["diff"] + pair)
            #expect(compared.status <= 1, "\(pair): \(compared.error)")
        }

        // The hub's links begin with http.
        let capitals = ["HF_ENDPOINT": "HTTP\(hub.endpoint.dropFirst(4))"]
        let shouted = try hub.run(["pull", "hf://acme/site", "--into", "capitals"], environment: capitals)
        #expect(shouted.status == 0, "\(shouted.error)")

        hub.change { $0.nextPage = hub.store.url("/next") }
        hub.commit("c3", files)
        let before = hub.store.log.requestCount
        let other = try hub.run(["pull", "hf://acme/site", "--into", "other"])
        #expect(other.status == 77 && other.error.contains("next page"), "\(other.error)")
        let asked = hub.store.log.requestCount - before
        #expect(asked == 0)
        let plain = try hub.run(["pull", "hf://acme/site"], environment: ["HF_ENDPOINT": "http://hub.invalid"])
        #expect(plain.status == 78 && !plain.error.contains("hf_secret"), "\(plain.error)")
    }

    @Test("A redirect that is refused is not taken for a repository that is private")
    func circle() throws {
        hub.hub.respondToOthers { .redirect(to: $0.path) }
        let outcome = try hub.run(["pull", "hf://acme/site"])
        #expect(outcome.status == 77 && outcome.error.contains("a redirect loop"), "\(outcome.error)")
        #expect(!outcome.error.contains("private"), "\(outcome.error)")
    }

    @Test("A hub that allows a few requests in a while refuses none, and what takes long is told before [F028]")
    func limit() throws {
        var many: [String: [UInt8]] = [:]
        for number in 0..<240 { many["f\(number)"] = Array("file \(number)".utf8) }
        hub.commit("d4", many)
        hub.change { $0.budget = (limit: 100, seconds: 3) }
        let plan = try hub.run(["plan", "hf://acme/site", "--into", "many"])
        // Of 240, 99 after the one that asks, 100, and 41 six seconds later.
        #expect(
            plan.output.contains("limit      the hub takes 100 requests in 3 s: this takes 6 s at least"),
            "\(plan.output)")
        let told = try #require(try hub.run(["plan", "hf://acme/site", "--into", "many", "--json"]).objects().last)
        let limit = try #require(told["limit"] as? [String: Int])
        #expect(limit["requests"] == 100 && limit["window"] == 3 && (limit["seconds"] ?? 0) >= 4, "\(limit)")

        let outcome = try hub.run(["pull", "hf://acme/site", "--into", "many"])
        #expect(outcome.status == 0, "\(outcome.error)")
        #expect(hub.refused == 0)
        #expect(try text("many/f239") == Array("file 239".utf8))
        let again = try hub.run(["plan", "hf://acme/site", "--into", "many"])
        #expect(!again.output.contains("limit "), "\(again.output)")
    }

    @Test("ls, cat and diff know what a destination has learnt, and do not say what nobody knows")
    func reading() throws {
        let digest = ServedObject(Array("hello".utf8)).sha256
        func entry(_ path: String, of location: String) throws -> [String: Any] {
            try #require(try hub.run(["ls", location, path, "--json"]).objects().first)
        }
        let before = try entry("README.md", of: "hf://acme/site")
        #expect(before["sha256"] == nil && before["size"] as? Int == 5)
        // It is fetched for that, and compared.
        let read = try hub.run(["cat", "hf://acme/site", "README.md"])
        #expect(read.status == 0 && read.output == "hello", "\(read.error)")
        #expect(try hub.run(["cat", "hf://acme/site", "empty"]).status == 0)

        #expect(try hub.run(["pull", "hf://acme/site"]).status == 0)
        var next = files
        next["config.json"] = Array("[]".utf8)
        hub.commit("b2", next)
        #expect(try entry("README.md", of: "hf://acme/site")["sha256"] as? String == digest)
        #expect(try entry("config.json", of: "hf://acme/site")["sha256"] == nil)
        let old = "hf://acme/site@" + String(repeating: "a1", count: 20)
        let compared = try hub.run(["diff", old, "hf://acme/site"])
        #expect(compared.status == 1 && compared.output.contains("config.json"), "\(compared.error)")
        #expect(!compared.output.contains("README.md") && !compared.output.contains("copy.md"), "\(compared.output)")

        hub.hub.script(
            "/acme/site/resolve/\(String(repeating: "b2", count: 20))/config.json", .object(ServedObject(text: "{}")))
        let wrong = try hub.run(["cat", "hf://acme/site", "config.json"])
        #expect(wrong.status == 65 && wrong.output.isEmpty && wrong.error.contains("wrong bytes"), "\(wrong.error)")
    }

    @Test(
        "Wrong bytes of a large file from where the hub sends are refused by name, and nothing of them is shown [F010]")
    func wrongLarge() throws {
        let digest = ServedObject(patternedBytes(size: 2_000_000, seed: 3)).sha256
        hub.store.script("/\(digest)", .object(ServedObject(patternedBytes(size: 2_000_000, seed: 4))))
        let outcome = try hub.run(["pull", "hf://acme/site", "--json"])
        #expect(outcome.status == 2)
        #expect(outcome.output.contains("dir/model.bin") && outcome.output.contains("task.failed"), "\(outcome.output)")
        #expect(!FileManager.default.fileExists(atPath: hub.scratch.path + "/acme.site/dir/model.bin"))
        #expect(try text("acme.site/README.md") == Array("hello".utf8))
    }

    @Test("Without the hub what is there stays, and the exit status says so")
    func gone() throws {
        #expect(try hub.run(["pull", "hf://acme/site"]).status == 0)
        hub.hub.stop()
        let outcome = try hub.run(["pull", "hf://acme/site", "--patience", "1s"])
        #expect(outcome.status == 69, "\(outcome.error)")
        #expect(try text("acme.site/config.json") == Array("{}".utf8))
        #expect(try hub.run(["plan", "hf://acme", "--into", "x"]).status == 64)
    }
}
