import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

private let python = "/usr/bin/python3"
private let hasPrograms =
    FileManager.default.isExecutableFile(atPath: python) && FileManager.default.isExecutableFile(atPath: "/usr/bin/git")
private let hasClient = FileManager.default.isExecutableFile(atPath: "/usr/bin/git-lfs")

/// Serves a repository as git's own http-backend does, and its large files by the batch API. Below `root`: `acme/site.git`, `store/SHA256`,
/// and `how`, a JSON object: `user` who must ask (password `pw`), `extra` for a header that links need, `valid` links (by number),
/// `broken` SHA-256 that are not given, of which the server says `code` (404), `busy` answers of 503, `denied` where nobody may
/// have a link, `href` for another one. It writes `log`: a line for each request.
private let serverProgram = """
    import base64, hashlib, http.server, json, os, subprocess, sys, urllib.parse
    root = sys.argv[1]
    count = {"link": 0, "busy": 0}
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def log_message(self, *words): pass
        def how(self):
            with open(root + "/how") as file: return json.load(file)
        def note(self):
            with open(root + "/log", "a") as file: file.write(f"{self.command} {self.path} {self.headers.get('Range', '-')}\\n")
        def send(self, status, body, kind="text/plain", more=()):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in more: self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD": self.wfile.write(body)
        def do_GET(self): self.answer(b"")
        def do_HEAD(self): self.answer(b"")
        def do_POST(self):
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b""
                while True:
                    size = int(self.rfile.readline().split(b";")[0], 16)
                    body += self.rfile.read(size)
                    self.rfile.readline()
                    if size == 0: break
                return self.answer(body)
            self.answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        def answer(self, body):
            self.note()
            how, path = self.how(), self.path.partition("?")[0]
            if path.startswith("/store/"): return self.store(how, path[7:])
            if how.get("user"):
                wanted = "Basic " + base64.b64encode((how["user"] + ":pw").encode()).decode()
                if self.headers.get("Authorization") != wanted:
                    return self.send(401, b"", more=[("WWW-Authenticate", 'Basic realm="git"')])
            if path == "/acme/site.git/info/lfs/objects/batch": return self.batch(how, json.loads(body))
            if path.endswith("/info/lfs/locks/verify"): return self.send(404, b"{}")
            self.git(body)
        def batch(self, how, question):
            if how.get("denied"): return self.send(401, b"{}")
            if count["busy"] < how.get("busy", 0):
                count["busy"] += 1
                return self.send(503, b"", more=[("Retry-After", "1")])
            assert question["operation"] == "download" and len(question["objects"]) <= 100
            objects = []
            for item in question["objects"]:
                row = {"oid": item["oid"], "size": item["size"], "authenticated": True}
                if item["oid"] in how.get("broken", []) or not os.path.exists(f"{root}/store/{item['oid']}"):
                    row["error"] = {"code": how.get("code", 404), "message": "Object does not exist"}
                else:
                    count["link"] += 1
                    host = self.headers["Host"]
                    link = f"http://{host}/store/{item['oid']}?sig={count['link']}"
                    row["actions"] = {"download": {"href": how.get("href", link),
                                                   "header": {"X-Extra": "yes"}, "expires_in": 3600}}
                objects.append(row)
            self.send(200, json.dumps({"transfer": "basic", "objects": objects}).encode(), "application/vnd.git-lfs+json")
        def store(self, how, name):
            if self.headers.get("X-Extra") != "yes" or self.headers.get("Authorization"): return self.send(403, b"")
            number = int(self.path.partition("?sig=")[2])
            if number < how.get("valid", 0): return self.send(403, b"expired")
            with open(f"{root}/store/{name}", "rb") as file: data = file.read()
            span = self.headers.get("Range")
            if not span: return self.send(200, data, more=[("Accept-Ranges", "bytes")])
            first, _, last = span.removeprefix("bytes=").partition("-")
            first, last = int(first), min(int(last or len(data) - 1), len(data) - 1)
            self.send(206, data[first:last + 1], more=[("Content-Range", f"bytes {first}-{last}/{len(data)}")])
        def git(self, body):
            path, _, query = self.path.partition("?")
            environment = {"PATH": "/usr/bin:/bin", "GIT_PROJECT_ROOT": root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                           "REQUEST_METHOD": self.command, "QUERY_STRING": query, "REMOTE_ADDR": "127.0.0.1", "HOME": root,
                           "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                           "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                           "GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
            made = subprocess.run(["/usr/bin/git", "http-backend"], input=body, env=environment, capture_output=True).stdout
            head, _, rest = made.partition(b"\\r\\n\\r\\n")
            lines = [line.split(": ", 1) for line in head.decode().split("\\r\\n") if ": " in line]
            status = next((int(value.split()[0]) for name, value in lines if name == "Status"), 200)
            kind = next((value for name, value in lines if name == "Content-Type"), "text/plain")
            self.send(status, rest, kind)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(root + "/port.new", "w") as file: file.write(str(server.server_address[1]))
    os.rename(root + "/port.new", root + "/port")
    server.serve_forever()
    """

/// A repository with large files, on a server and on this machine.
private final class LargeSet {
    let scratch: Scratch
    private let server = Process()
    private(set) var port = ""
    private var serverRoot: String { scratch.path + "/server" }
    /// Where files are written and committed.
    private var work: String { scratch.path + "/work" }

    init() throws {
        scratch = try Scratch()
        try FileManager.default.createDirectory(atPath: serverRoot + "/store", withIntermediateDirectories: true)
        try FileManager.default.createDirectory(atPath: serverRoot + "/acme", withIntermediateDirectories: true)
        try write("{}", to: "server/how")
        try write(serverProgram, to: "server/server.py")
        try git(["init", "-q", "-b", "main", work], in: scratch.path)
        try git(["init", "-q", "--bare", "-b", "main", serverRoot + "/acme/site.git"], in: scratch.path)
        try git(["config", "uploadpack.allowFilter", "true"], in: serverRoot + "/acme/site.git")
        server.executableURL = URL(fileURLWithPath: python)
        server.arguments = [serverRoot + "/server.py", serverRoot]
        try server.run()
        for _ in 0..<500 where port.isEmpty {
            Thread.sleep(forTimeInterval: 0.02)
            port = text("server/port") ?? ""
        }
        try #require(!port.isEmpty)
    }

    deinit { kill(server.processIdentifier, SIGKILL) }

    var url: String { "lfs+http://127.0.0.1:\(port)/acme/site.git" }

    func stop() {
        kill(server.processIdentifier, SIGKILL)
        server.waitUntilExit()
    }

    func write(_ text: String, to path: String) throws { try scratch.write(Data(text.utf8), to: path) }

    func how(_ text: String) throws { try write(text, to: "server/how") }

    func text(_ path: String) -> String? {
        FileManager.default.contents(atPath: "\(scratch.path)/\(path)").map { String(decoding: $0, as: UTF8.self) }
    }

    func bytes(_ path: String) -> [UInt8]? {
        FileManager.default.contents(atPath: "\(scratch.path)/\(path)").map(Array.init)
    }

    @discardableResult func git(_ arguments: [String], in directory: String) throws -> Tool.Outcome {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/git")
        process.arguments =
            [
                "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c",
                "protocol.file.allow=always",
            ]
            + arguments
        process.currentDirectoryURL = URL(fileURLWithPath: directory)
        // A system with git-lfs has filters of its own.
        process.environment = ["HOME": scratch.path, "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"]
        let outcome = try Tool(scratch).run(process)
        try #require(outcome.status == 0, "\(arguments): \(outcome.error)")
        return outcome
    }

    /// Puts a file into LFS.
    func large(_ path: String, _ bytes: [UInt8]) throws {
        let object = ServedObject(bytes)
        try scratch.write(Data(bytes), to: "server/store/\(object.sha256)")
        let name = object.sha256
        try scratch.write(
            Data(bytes), to: "server/acme/site.git/lfs/objects/\(name.prefix(2))/\(name.dropFirst(2).prefix(2))/\(name)"
        )
        try write(
            "version https://git-lfs.github.com/spec/v1\noid sha256:\(name)\nsize \(bytes.count)\n", to: "work/\(path)")
    }

    func plain(_ path: String, _ bytes: [UInt8]) throws { try scratch.write(Data(bytes), to: "work/\(path)") }

    /// Commits what is there; its name.
    @discardableResult func commit() throws -> String {
        try git(["add", "-A"], in: work)
        try git(["commit", "-q", "-m", "x"], in: work)
        try git(["push", "-q", serverRoot + "/acme/site.git", "HEAD:main"], in: work)
        return try git(["rev-parse", "HEAD"], in: work).output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    func tag(_ name: String) throws {
        try git(["tag", "-a", "-m", "x", name], in: work)
        try git(["push", "-q", serverRoot + "/acme/site.git", name], in: work)
    }

    func link(_ path: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(atPath: "\(work)/\(path)", withDestinationPath: target)
    }

    func setExecutable(_ path: String) throws {
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: "\(work)/\(path)")
    }

    func run(_ arguments: String..., environment: [String: String] = [:]) throws -> Tool.Outcome {
        try Tool(scratch).run(arguments, environment: environment)
    }

    /// Requests since the last time: method, path and range.
    func requests() -> [String] {
        defer { try? write("", to: "server/log") }
        return (text("server/log") ?? "").split(separator: "\n").map(String.init)
    }

    /// Every file and link below a directory with what it holds, except those of programs.
    func tree(_ directory: String) throws -> [String: [UInt8]] {
        let root = scratch.path + "/" + directory
        var found: [String: [UInt8]] = [:]
        let names = FileManager.default.enumerator(atPath: root)
        while let name = names?.nextObject() as? String {
            if name == ".git" || name.hasPrefix(".git/") || name.hasPrefix(".syncagent") { continue }
            if let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(root)/\(name)") {
                found[name] = Array("-> \(target)".utf8)
            } else if let data = FileManager.default.contents(atPath: "\(root)/\(name)") {
                let isExecutable = FileManager.default.isExecutableFile(atPath: "\(root)/\(name)")
                found[name] = Array(data) + Array(isExecutable ? "x".utf8 : "-".utf8)
            }
        }
        return found
    }
}

@Suite(.timeLimit(.minutes(10)), .enabled(if: hasPrograms, "SKIPPED: git or python3 is not installed"))
struct LFSTests {
    private let set: LargeSet
    private let video = patternedBytes(size: 3_000_000, seed: 5)

    init() throws {
        set = try LargeSet()
        try set.plain(".gitattributes", Array("*.bin filter=lfs diff=lfs merge=lfs -text\n".utf8))
        try set.large("video/tour.bin", video)
        try set.large("a b.bin", Array("small".utf8))
        try set.plain("readme.md", Array("hello".utf8))
        try set.plain("empty", [])
        try set.plain("big.txt", patternedBytes(size: 200_000, seed: 9))
        try set.plain("run.sh", Array("#!/bin/sh\n".utf8))
        try set.setExecutable("run.sh")
        try set.link("latest.bin", to: "video/tour.bin")
        // A pointer that no attribute makes one.
        try set.large("notes/pointer.txt", Array("not large".utf8))
    }

    private func expectAll(_ directory: String) {
        #expect(set.bytes(directory + "/video/tour.bin") == video)
        #expect(set.text(directory + "/a b.bin") == "small" && set.text(directory + "/readme.md") == "hello")
        #expect(set.text(directory + "/empty") == "" && set.bytes(directory + "/latest.bin") == video)
        #expect(set.bytes(directory + "/big.txt") == patternedBytes(size: 200_000, seed: 9))
        #expect(set.text(directory + "/notes/pointer.txt")?.hasPrefix("version https://git-lfs") == true)
    }

    @Test("A repository is pulled with its tree: large files from LFS, others from git; nothing new costs two requests")
    func pull() throws {
        let first = try set.commit()
        let pulled = try set.run("pull", set.url, "--json")
        #expect(pulled.status == 0, "\(pulled.output)\(pulled.error)")
        expectAll("acme.site")
        #expect(FileManager.default.isExecutableFile(atPath: set.scratch.path + "/acme.site/run.sh"))
        let source = try pulled.objects().last?["source"] as? [String: String]
        #expect(source == ["kind": "lfs", "url": set.url, "at": first])
        #expect((1...2).contains(set.requests().count { $0.contains("/objects/batch") }))

        #expect(try set.run("pull", set.url).status == 0)
        let again = set.requests()
        #expect(again.count <= 2, "\(again)")
        #expect(try set.run("verify", set.url).status == 0)

        // What changed, and nothing else.
        _ = set.requests()
        try set.large("a b.bin", Array("other".utf8))
        try set.plain("readme.md", Array("hello again".utf8))
        let second = try set.commit()
        #expect(try set.run("pull", set.url).status == 0)
        let asked = set.requests().filter { $0.contains("/store/") }
        #expect(asked.count == 1, "\(asked)")
        #expect(set.text("acme.site/a b.bin") == "other" && set.text("acme.site/readme.md") == "hello again")

        // A branch, a tag, a commit.
        try set.tag("v1")
        for reference in ["main", "v1", second] {
            let outcome = try set.run("pull", "\(set.url)@\(reference)", "--into", "at", "--json")
            #expect(outcome.status == 0, "\(reference): \(outcome.error)")
            #expect((try outcome.objects().last?["source"] as? [String: String])?["at"] == second)
        }
        let old = try set.run("pull", "\(set.url)@\(first)", "--into", "old")
        #expect(old.status == 0 && set.text("old/readme.md") == "hello", "\(old.error)")
        let none = try set.run("pull", "\(set.url)@none", "--into", "none")
        #expect(none.status == 66 && none.error.contains("none"), "\(none.error)")

        set.stop()
        let gone = try set.run("pull", set.url, "--patience", "1s")
        #expect(gone.status == 69, "\(gone.error)")
        #expect(set.text("acme.site/readme.md") == "hello again")
    }

    @Test(
        "It is the tree that git-lfs makes", .enabled(if: hasClient, "SKIPPED: git-lfs is not installed"))
    func oracle() throws {
        try set.commit()
        let plain = set.url.dropFirst("lfs+".count)
        try set.git(["lfs", "install"], in: set.scratch.path)
        try set.git(["clone", "-q", String(plain), "clone"], in: set.scratch.path)
        #expect(try set.run("pull", set.url, "--into", "d").status == 0)
        let (theirs, ours) = (try set.tree("clone"), try set.tree("d"))
        #expect(theirs == ours, "\(theirs.keys.sorted()) \(ours.keys.sorted())")
        #expect(theirs.count == 9)
    }

    @Test("What import writes is whole, pinned, and can be pulled as long as the source is there")
    func imported() throws {
        let commit = try set.commit()
        let imported = try set.run("import", set.url, "--to", "m.json")
        #expect(imported.status == 0, "\(imported.error)")
        let text = set.text("m.json") ?? ""
        #expect(
            text.contains(#""source":{"kind":"lfs","url":"\#(set.url)","at":"\#(commit)"}"#)
                && !text.contains("x-learn"))
        try set.plain("readme.md", Array("newer".utf8))
        try set.commit()
        let pulled = try set.run("pull", "m.json", "--into", "d")
        #expect(pulled.status == 0, "\(pulled.error)")
        expectAll("d")
    }

    @Test("A repository on this machine is read where it is")
    func local() throws {
        try set.commit()
        let pulled = try set.run("pull", "lfs+file://\(set.scratch.path)/server/acme/site.git", "--into", "d")
        #expect(pulled.status == 0, "\(pulled.error)")
        expectAll("d")
        #expect(set.requests() == [])
        let none = try set.run("pull", "lfs+file://\(set.scratch.path)/none.git", "--into", "e")
        #expect(none.status == 66, "\(none.error)")
        let site = set.scratch.path + "/server/acme/site.git"
        try set.git(["tag", "file", "main:.gitattributes"], in: site)
        let file = try set.run("pull", "lfs+file://\(site)@file", "--into", "f")
        #expect(file.status == 66 && file.error.contains("expected commit type"), "\(file.error)")
    }

    @Test("Links that have expired are asked for again; a busy server is asked again, too")
    func expired() throws {
        try set.commit()
        // The first two links are of no use.
        try set.how(#"{"valid": 3, "busy": 1}"#)
        let pulled = try set.run("pull", set.url, "--into", "d")
        #expect(pulled.status == 0, "\(pulled.error)")
        expectAll("d")
    }

    @Test("Who must say who he is does so with git's credentials, which go to that server alone")
    func credentials() throws {
        try set.commit()
        try set.how(#"{"user": "anna"}"#)
        let refused = try set.run("pull", set.url, "--into", "d")
        #expect(refused.status == 77, "\(refused.error)")
        try set.write("http://anna:pw@127.0.0.1%3a\(set.port)\n", to: ".git-credentials")
        try set.write("[credential]\n\thelper = store\n", to: ".gitconfig")
        let pulled = try set.run("pull", set.url, "--into", "d")
        #expect(pulled.status == 0 && !pulled.error.contains("pw@"), "\(pulled.error)")
        expectAll("d")
    }

    @Test("A server that gives no links, or links that lead nowhere, is asked for nothing else, and the reason is told")
    func noLinks() throws {
        try set.commit()
        try set.how(#"{"denied": true}"#)
        let denied = try set.run("pull", set.url, "--into", "d")
        #expect(denied.status == 77, "\(denied.error)")
        for words in ["401, and git's credential helpers have none", "-> Let git's credential helpers know"] {
            #expect(denied.error.contains(words), "\(denied.error)")
        }
        try set.how(#"{"href": "file:///etc/passwd"}"#)
        let wrong = try set.run("pull", set.url, "--into", "d")
        #expect(wrong.status == 2 && wrong.error.contains("file:///etc/passwd: the scheme file"), "\(wrong.error)")
        #expect(!set.requests().contains { $0.contains("syncagent-lfs") })
        #expect(set.bytes("d/readme.md") == Array("hello".utf8))
    }

    @Test("A file that the server has not is named with the server's words, and the others come")
    func missing() throws {
        try set.commit()
        let name = ServedObject(Array("small".utf8)).sha256
        // One that the server may give in a moment is asked for again, and keeps no other away.
        for code in [404, 503] {
            try set.how(#"{"broken": ["\#(name)"], "code": \#(code)}"#)
            let outcome = try set.run("pull", set.url, "--into", "d\(code)")
            #expect(outcome.status == 2 && outcome.error.contains("\(code) Object does not exist"), "\(outcome.error)")
            #expect(outcome.error.contains("git lfs push") == (code == 404), "\(outcome.error)")
            #expect(set.bytes("d\(code)/video/tour.bin") == video && set.bytes("d\(code)/a b.bin") == nil)
        }
        try set.how("{}")
        try set.write("wrong", to: "server/store/\(name)")
        let wrong = try set.run("pull", set.url, "--into", "d")
        #expect(wrong.status != 0 && set.bytes("d/a b.bin") == nil, "\(wrong.error)")
    }

    @Test(
        "What names no repository, or cannot be done, is said before anything is asked",
        arguments: [
            ("lfs+http://h", "names no repository"), ("lfs+http://u:canary@h/a.git", "credential helpers"),
            ("lfs+http://h/a.git?x=canary", "without a query"), ("lfs+http://h/a.git@-x", "not a branch"),
            ("lfs+http://h/a.git@a..b", "not a branch"), ("lfs+file://h/a.git", "lfs+file:///"),
        ])
    func addresses(url: String, words: String) throws {
        let outcome = try set.run("pull", url, "--into", "d")
        #expect(outcome.status == 64 && outcome.error.contains(words), "\(outcome.error)")
        #expect(!outcome.error.contains("canary"))
    }

    @Test("A copy of a repository that is damaged is made again")
    func damagedCopy() throws {
        try set.commit()
        #expect(try set.run("pull", set.url, "--into", "d").status == 0)
        let state = ".local/state/syncagent/git"
        let names = try FileManager.default.contentsOfDirectory(atPath: "\(set.scratch.path)/\(state)")
        let copy = try #require(names.first { $0.hasSuffix(".git") })
        for name in ["HEAD", "config", "shallow"] {
            try set.write(name == "shallow" ? "x\n" : "", to: "\(state)/\(copy)/\(name)")
            try set.plain("readme.md", Array(name.utf8))
            try set.commit()
            let pulled = try set.run("pull", set.url, "--into", "d")
            #expect(pulled.status == 0 && set.text("d/readme.md") == name, "\(name): \(pulled.error)")
        }
    }

    @Test("gc removes the copies of repositories that no session pulls from")
    func collected() throws {
        try set.commit()
        func copies() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: set.scratch.path + "/.local/state/syncagent/git")
                .filter { $0.hasSuffix(".git") }
        }
        #expect(try set.run("pull", set.url, "--into", "d").status == 0)
        let needed = try copies()
        #expect(needed.count == 1)
        // What was only looked at.
        #expect(try set.run("ls", "lfs+file://\(set.scratch.path)/server/acme/site.git").status == 0)
        #expect(try copies().count == 2)
        // Somebody may be about to pull from what was made just now.
        #expect(try set.run("gc").status == 0)
        #expect(try copies().count == 2)
        let state = set.scratch.path + "/.local/state/syncagent/git"
        for name in try FileManager.default.contentsOfDirectory(atPath: state) where name.hasSuffix(".lock") {
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSinceNow: -7_200)], ofItemAtPath: "\(state)/\(name)")
        }
        let dry = try set.run("gc", "--dry-run")
        #expect(dry.output.contains("git: 1 copy of a repository, ") && dry.output.contains("would be removed"))
        #expect(try copies().count == 2)
        #expect(try set.run("gc").output.contains("git: 1 copy of a repository, "))
        #expect(try copies() == needed)
        #expect(try set.run("pull", set.url, "--into", "d").status == 0)
    }

    @Test("What .lfsconfig includes of this machine does not count, and one that cannot be read refuses the repository")
    func configuration() throws {
        try set.write("[lfs]\n\turl = http://127.0.0.1:\(set.port)/elsewhere\n", to: "own")
        try set.plain(".lfsconfig", Array("[include]\n\tpath = \(set.scratch.path)/own\n".utf8))
        try set.commit()
        let pulled = try set.run("pull", set.url, "--into", "d")
        #expect(pulled.status == 0, "\(pulled.error)")
        expectAll("d")
        try set.plain(".lfsconfig", Array("[lfs\n".utf8))
        try set.commit()
        let broken = try set.run("pull", set.url, "--into", "d")
        #expect(broken.status == 65 && broken.error.contains(".lfsconfig"), "\(broken.error)")
    }

    @Test("Names that no destination may have, links out of the tree and pointers with extensions refuse all of it")
    func hostile() throws {
        try set.link("out", to: "../outside")
        try set.commit()
        let outside = try set.run("pull", set.url, "--into", "d")
        #expect(outside.status == 65 && outside.error.contains("“out”: the link's target"), "\(outside.error)")
        try FileManager.default.removeItem(atPath: "\(set.scratch.path)/work" + "/out")
        try set.plain("bad\nname", Array("x".utf8))
        try set.commit()
        let names = try set.run("pull", set.url, "--into", "d")
        #expect(names.status == 65, "\(names.error)")
        try FileManager.default.removeItem(
            at: set.scratch.url.appendingPathComponent("work").appendingPathComponent("bad\nname"))
        try set.write(
            """
            version https://git-lfs.github.com/spec/v1
            ext-0-case sha256:\(String(repeating: "a", count: 64))
            oid sha256:\(String(repeating: "b", count: 64))
            size 5

            """, to: "work/x.bin")
        try set.commit()
        let extended = try set.run("pull", set.url, "--into", "d")
        #expect(
            extended.status == 65 && extended.error.contains("x.bin") && extended.error.contains("extension"),
            "\(extended.error)")
        #expect(set.bytes("d/readme.md") == nil)
    }
}
