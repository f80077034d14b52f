import CommandTestSupport
import Foundation
import SyncTestKit
import Testing

/// Files on a server with a checksum list beside them, as anybody may publish them.
final class ListedFiles {
    let scratch: Scratch
    let tool: Tool
    let server: FaultServer
    private(set) var files: [String: ServedObject] = [:]

    init(_ files: [String: [UInt8]]) throws {
        scratch = try Scratch()
        tool = Tool(scratch)
        server = try FaultServer()
        for (path, bytes) in files { serve(bytes, at: path) }
        list()
    }

    var url: String { server.url("/maps/SHA256SUMS") }

    func serve(_ bytes: [UInt8], at path: String) {
        files[path] = ServedObject(bytes)
        let name =
            path.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(["/", ".", "-", "_", "~"])) ?? path
        server.serve(ServedObject(bytes), at: "/maps/" + name)
    }

    /// Publishes the list of what is there.
    func list() {
        let lines = files.sorted { $0.key < $1.key }.map { "\($0.value.sha256)  \($0.key)\n" }.joined()
        server.serve(ServedObject(text: lines), at: "/maps/SHA256SUMS")
    }

    func run(_ arguments: String...) throws -> Tool.Outcome { try tool.run(arguments) }

    func run(_ arguments: [String]) throws -> Tool.Outcome { try tool.run(arguments) }

    func text(_ path: String) throws -> [UInt8] {
        Array(try Data(contentsOf: scratch.url.appendingPathComponent(path)))
    }

    /// Requests since the last call.
    func requests() -> Int {
        defer { seen = server.log.requestCount }
        return server.log.requestCount - seen
    }
    private var seen = 0
}

@Suite(.timeLimit(.minutes(10)))
struct ListTests {
    private let set: ListedFiles

    init() throws {
        set = try ListedFiles([
            "a.txt": Array("one".utf8), "dir/b c.bin": patternedBytes(size: 3_000_000, seed: 7),
            "dir/ä#%": Array("two".utf8),
            "empty": [],
        ])
    }

    @Test("A checksum list is pulled like a manifest; nothing new is one request, and a new list brings what changed")
    func sums() throws {
        let first = try set.run("pull", set.url, "--json")
        #expect(first.status == 0, "\(first.error)")
        #expect(try set.text("maps/a.txt") == Array("one".utf8))
        #expect(try set.text("maps/dir/b c.bin") == patternedBytes(size: 3_000_000, seed: 7))
        #expect(try set.text("maps/dir/ä#%") == Array("two".utf8) && set.text("maps/empty").isEmpty)
        let last = try #require(try first.events().last)
        #expect((last["files"] as? [String: Int])?["installed"] == 4)
        let source = try #require(last["source"] as? [String: String])
        #expect(source["kind"] == "sums" && source["url"] == set.url && source["at"]?.count == 64)
        _ = set.requests()

        let second = try set.run("pull", set.url, "--json")
        #expect(second.status == 0 && set.requests() == 1, "\(second.error)")

        set.serve(Array("three".utf8), at: "a.txt")
        set.list()
        let third = try set.run("pull", set.url, "--json")
        #expect(third.status == 0, "\(third.error)")
        // The list, and the file with its size.
        #expect(set.requests() == 2)
        #expect(try set.text("maps/a.txt") == Array("three".utf8))

        for verb in ["verify", "plan"] {
            let outcome = try set.run(verb, set.url, "--json")
            #expect(outcome.status == 0 && set.requests() == 1, "\(verb): \(outcome.error)")
            let told = try #require(try outcome.events().last?["source"] as? [String: String])
            #expect(told["kind"] == "sums")
        }
        let status = try set.run("status", "maps", "--json")
        #expect(status.output.contains("\"source\":{") && status.output.contains("\"sums\""), "\(status.output)")
        #expect(try set.run("status", "maps").output.contains("sums, "))
        let listed = try set.run("ls", set.url)
        #expect(listed.status == 0 && listed.output.contains("dir/b c.bin"))
        #expect(try set.run("diff", set.url, set.url).status == 0)
        #expect(try set.run("report", "--json").output.contains("\"kind\":\"sums\""))
    }

    @Test(
        "A damaged file is found and mended, groups are the top-level directories, and --prune removes what is not listed"
    )
    func mend() throws {
        #expect(try set.run("pull", set.url, "--group", "dir").status == 0)
        #expect(
            try set.scratch.contents(of: "maps").filter { !$0.hasPrefix(".") } == ["dir", "dir/b c.bin", "dir/ä#%"])
        #expect(try set.run("pull", set.url).status == 0)
        try set.scratch.write(Data("onE".utf8), to: "maps/a.txt")
        let verified = try set.run("verify", set.url)
        #expect(verified.status == 2 && verified.output.contains("a.txt"), "\(verified.output)")
        #expect(try set.run("pull", set.url).status == 0)
        #expect(try set.text("maps/a.txt") == Array("one".utf8))
        set.server.serve(
            ServedObject(text: "\(ServedObject(Array("one".utf8)).sha256)  a.txt\n"), at: "/maps/SHA256SUMS")
        let pruned = try set.run("pull", set.url, "--prune", "--force")
        #expect(pruned.status == 0, "\(pruned.error)")
        #expect(try set.scratch.contents(of: "maps").filter { !$0.hasPrefix(".") } == ["a.txt"])
    }

    @Test("Other bytes than the list says are refused by name, and never shown")
    func wrong() throws {
        set.server.serve(ServedObject(text: "onE"), at: "/maps/a.txt")
        let outcome = try set.run("pull", set.url, "--json")
        #expect(outcome.status == 2)
        #expect(outcome.output.contains("task.failed") && outcome.output.contains("a.txt"), "\(outcome.output)")
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/maps/a.txt"))
        #expect(try set.text("maps/dir/ä#%") == Array("two".utf8))
    }

    @Test(
        "What is learnt of a list without SHA-256 holds for every tree of a set that is shown at once",
        arguments: ["exchange", "links"])
    func learntOfTrees(layout: String) throws {
        let set = try ListedFiles(["a": Array("one".utf8), "b": Array("two".utf8)])
        let lines = "f97c5d29941bfb1b2fdab0874906ab82  a\nb8a9f715dbb64fd5c56e7783c6820a61  b\n"
        let url = set.server.url("/maps/MD5SUMS")
        func pull(_ text: String, expecting status: Int32 = 0) throws -> Tool.Outcome {
            // No validator: only its bytes say whether a list is the same.
            set.server.respond(to: "/maps/MD5SUMS") { _ in
                FaultAnswer.object(ServedObject(text: text)).withoutValidators()
            }
            let outcome = try set.run("pull", url, "--atomic=\(layout)", "--keep-for", "0", "--json")
            #expect(outcome.status == status, "\(outcome.error)")
            return outcome
        }
        _ = try pull(lines)
        let same = try pull(lines)
        #expect(!same.output.contains("tree.switched"), "\(same.output)")
        set.serve(Array("three".utf8), at: "c")
        for count in 1...2 {
            _ = try pull(lines + "35d6d33467aae9a2e3dccb4b6b027878  c\n" + String(repeating: "#\n", count: count))
        }
        #expect(try set.text("maps/c") == Array("three".utf8) && set.text("maps/a") == Array("one".utf8))
        for path in ["a", "b", "c"] {
            #expect(set.server.log.requests(to: "/maps/" + path).count == 1, "\(set.server.log.description)")
        }
    }

    @Test(
        "A list that does not say every SHA-256 is not pulled in pieces, and says what to do",
        arguments: ["--shard", "--join"])
    func piecesOfUnknown(option: String) throws {
        let set = try ListedFiles(["a": Array("one".utf8)])
        set.server.serve(ServedObject(text: "f97c5d29941bfb1b2fdab0874906ab82  a\n"), at: "/maps/MD5SUMS")
        let outcome = try set.run(
            "pull", set.server.url("/maps/MD5SUMS"), "--into", "maps", option, option == "--shard" ? "0/2" : "2")
        #expect(outcome.status == 64 && outcome.error.contains("syncagent import"), "\(outcome.error)")
    }

    @Test("A size that no server says is learnt with the bytes, once")
    func unknownSize() throws {
        let object = ServedObject(text: "without a length")
        set.server.script("/maps/page", FaultAnswer.object(object).ignoringRanges().chunked())
        let lines = "\(object.sha256)  page\n"
        set.server.serve(ServedObject(text: lines), at: "/maps/SHA256SUMS")
        let first = try set.run("pull", set.url, "--json")
        #expect(first.status == 0, "\(first.error)")
        #expect(try set.text("maps/page") == Array("without a length".utf8))
        #expect(set.server.log.requests(to: "/maps/page").count == 1)
        _ = set.requests()
        #expect(try set.run("pull", set.url).status == 0 && set.requests() == 1)
        #expect(try set.run("verify", set.url).status == 0)
    }

    @Test("A list of MD5s is checked, and what it brought holds by its SHA-256 from then on")
    func otherDigests() throws {
        let object = ServedObject(text: "hello")
        set.server.serve(object, at: "/maps/h")
        set.server.serve(ServedObject(text: "5d41402abc4b2a76b9719d911017c592  h\n"), at: "/maps/SHA256SUMS")
        let first = try set.run("pull", set.url, "--json")
        #expect(first.status == 0, "\(first.error)")
        #expect(first.output.contains(object.sha256) && first.output.contains("\"installed\":1"), "\(first.output)")
        #expect(set.server.log.requests(to: "/maps/h").count == 1)
        #expect(try set.run("verify", set.url).status == 0)
        _ = set.requests()
        #expect(try set.run("pull", set.url).status == 0 && set.requests() == 1)

        try FileManager.default.removeItem(atPath: set.scratch.path + "/maps/h")
        for text in ["hullo", "hello, too"] {
            set.server.serve(ServedObject(text: text), at: "/maps/h")
            let other = try set.run("pull", set.url, "--json")
            #expect(
                other.status == 77 && other.output.contains("the bytes differ from those first received"),
                "\(other.output)")
        }
        set.server.serve(object, at: "/maps/h")
        #expect(try set.run("pull", set.url).status == 0)

        set.server.serve(ServedObject(text: "5d41402abc4b2a76b9719d911017c593  h\n"), at: "/maps/SHA256SUMS")
        let wrong = try set.run("pull", set.url, "--json")
        #expect(wrong.status == 2 && wrong.output.contains("gave wrong bytes: md5"), "\(wrong.output)")
        #expect(try set.text("maps/h") == Array("hello".utf8))

        set.server.serve(ServedObject(text: String(repeating: "0", count: 128) + "  h\n"), at: "/maps/SHA256SUMS")
        let blake = try set.run("pull", set.url)
        #expect(blake.status == 2 && blake.error.contains("if the list is of b2sum"), "\(blake.error)")
    }

    @Test("A local list is pulled from beside it, or from --base; a hostile one is refused with its line")
    func local() throws {
        try set.scratch.write(Data("one".utf8), to: "here/a.txt")
        let line = "\(ServedObject(text: "one").sha256)  a.txt\n"
        try set.scratch.write(Data(line.utf8), to: "here/SHA256SUMS")
        #expect(try set.run("pull", "here/SHA256SUMS", "--into", "out").status == 0)
        #expect(try set.text("out/a.txt") == Array("one".utf8))
        let based = try set.run("pull", "here/SHA256SUMS", "--into", "based", "--base", set.server.url("/maps"))
        #expect(based.status == 0, "\(based.error)")
        #expect(try set.text("based/a.txt") == Array("one".utf8) && set.requests() == 1)
        #expect(
            try set.run("pull", "here/SHA256SUMS", "--into", "based", "--base", set.server.url("/maps")).status == 0)
        #expect(set.requests() == 0, "a list that is the same needs nobody")
        // A run that may go on later, in another process, needs the manifest that was made of the list, not the list.
        for place in ["hooked", "out"] {
            let hooked = try set.run("pull", "here/SHA256SUMS", "--into", place, "--file-hook", "/bin/true")
            #expect(hooked.status == 0, "\(hooked.error)")
        }
        let after = try set.run("pull", "here/SHA256SUMS", "--into", "after")
        #expect(after.status == 0, "\(after.error)")

        try set.scratch.write(
            Data((line + line.replacingOccurrences(of: "a.txt", with: "../x")).utf8), to: "bad/SHA256SUMS")
        let refused = try set.run("pull", "bad/SHA256SUMS", "--into", "bad-out")
        #expect(refused.status == 65 && refused.error.contains("line 2"), "\(refused.error)")
        for other in ["\(String(repeating: "a", count: 56))  a.txt\n", "BLAKE2b (a) = 00\n", "a.txt\n"] {
            try set.scratch.write(Data(other.utf8), to: "bad/OTHER")
            let told = try set.run("pull", "bad/OTHER", "--into", "bad-out")
            #expect(told.status == 65 && told.error.contains("not a checksum list either"), "\(told.error)")
        }
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/bad-out"))
    }

    @Test("What is damaged in the cache is made of the list again, at once by the next command")
    func damagedCache() throws {
        let cache = set.scratch.path + "/.local/state/syncagent/manifests"
        for damage in ["", "{}"] {
            #expect(try set.run("pull", set.url, "--into", "first").status == 0)
            for name in try FileManager.default.contentsOfDirectory(atPath: cache) where name.hasSuffix(".json") {
                try Data(damage.utf8).write(to: URL(fileURLWithPath: "\(cache)/\(name)"))
            }
            let told = try set.run("pull", set.url, "--into", "second")
            #expect(told.status == 69 && told.error.contains("damaged"), "\(told.error)")
            let again = try set.run("pull", set.url, "--into", "second")
            #expect(again.status == 0, "\(again.error)")
            try FileManager.default.removeItem(atPath: set.scratch.path + "/second")
        }
    }

    @Test("--base with a manifest is refused, since nothing would come of it")
    func baseOfManifest() throws {
        #expect(try set.run("import", set.url, "--to", "m.json").status == 0)
        for verb in ["pull", "plan", "ls", "verify"] {
            let outcome = try set.run(verb, "m.json", "--base", "https://cdn.example.com/maps/")
            #expect(outcome.status == 64 && outcome.error.contains("--base is for a checksum list"), "\(outcome.error)")
        }
    }

    @Test("import writes the manifest that was derived, whole; it is pulled like any other")
    func imported() throws {
        let outcome = try set.run("import", set.url, "--to", "m.json")
        #expect(outcome.status == 0, "\(outcome.error)")
        let text = String(decoding: try set.text("m.json"), as: UTF8.self)
        #expect(text.contains("\"source\":{\"kind\":\"sums\",\"url\":\"\(set.url)\",\"at\":\""), "\(text)")
        #expect(text.contains("\"urls\":[\"\(set.server.url("/maps/dir/b%20c.bin"))\"]"))
        #expect(try set.run("pull", "m.json", "--into", "copy").status == 0)
        #expect(try set.text("copy/dir/ä#%") == Array("two".utf8))
        let printed = try set.run("import", set.url)
        #expect(printed.output == text)
        #expect(try set.run("import", "m.json").status == 64)

        // Digests that the list does not have are in it.
        set.server.serve(ServedObject(text: "hello"), at: "/maps/h")
        set.server.serve(ServedObject(text: "5d41402abc4b2a76b9719d911017c592  h\n"), at: "/maps/MD5SUMS")
        let learnt = try set.run("import", set.server.url("/maps/MD5SUMS"))
        #expect(learnt.output.contains(ServedObject(text: "hello").sha256) && !learnt.output.contains("x-learn"))
        try set.scratch.write(Data("\(ServedObject(text: "x").sha256)  x\n".utf8), to: "l/SUMS")
        try set.scratch.write(Data("x".utf8), to: "l/x")
        let relative = try set.run("import", "l/SUMS", "--to", "m2.json")
        #expect(relative.status == 64 && relative.error.contains("--base"), "\(relative.error)")
        #expect(try set.run("import", "l/SUMS", "--to", "l/m2.json").status == 0)
        #expect(try set.run("pull", "l/m2.json", "--into", "beside").status == 0)
        for name in ["x", "SUMS"] {
            let before = try set.text("l/\(name)")
            let refused = try set.run("import", "l/SUMS", "--to", "l/\(name)")
            #expect(refused.status == 64 && refused.error.contains("name another file with --to"), "\(refused.error)")
            #expect(try set.text("l/\(name)") == before, "what the list names is not lost")
        }
    }

    @Test("import writes no file in the place of a FIFO, and behind a symbolic link the file that it leads to")
    func importedToOtherKinds() throws {
        let place = set.scratch.path
        #expect(mkfifo(place + "/fifo", 0o600) == 0 && symlink("real.json", place + "/link.json") == 0)
        let refused = try set.run("import", set.url, "--to", "fifo")
        #expect(refused.status == 73 && refused.error.contains("it is not a regular file"), "\(refused.error)")
        _ = set.requests()
        let nowhere = try set.run("import", set.url, "--to", "nowhere/manifest.json")
        #expect(nowhere.status == 73 && nowhere.error.contains("No such file"), "\(nowhere.error)")
        #expect(set.requests() == 0, "what cannot be written is not fetched")
        let attributes = try FileManager.default.attributesOfItem(atPath: place + "/fifo")
        #expect(attributes[.type] as? FileAttributeType != .typeRegular)
        try set.scratch.write(Data("old".utf8), to: "real.json")
        #expect(try set.run("import", set.url, "--to", "link.json").status == 0)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: place + "/link.json") == "real.json")
        #expect(try set.text("real.json") == set.text("link.json"))
        #expect(try set.run("pull", "real.json", "--into", "behind").status == 0)
    }

    @Test("A Metalink's mirrors are asked by priority, and files without a digest hold as they came first")
    func metalink() throws {
        let other = try FaultServer()
        let big = patternedBytes(size: 2_000_000, seed: 9)
        set.server.script("/maps/big", .status(404))
        other.serve(ServedObject(big), at: "/big")
        set.server.serve(ServedObject(text: "any"), at: "/maps/any")
        let text = """
            <?xml version="1.0" encoding="UTF-8"?>
            <metalink xmlns="urn:ietf:params:xml:ns:metalink">
            <file name="big"><size>2000000</size><hash type="sha-256">\(ServedObject(big).sha256)</hash>
            <url priority="2">\(other.url("/big"))</url><url priority="1">big</url></file>
            <file name="any"><size>3</size><url>any</url></file>
            </metalink>
            """
        set.server.serve(ServedObject(text: text), at: "/maps/set.meta4")
        let url = set.server.url("/maps/set.meta4")
        let first = try set.run("pull", url, "--json")
        #expect(first.status == 0, "\(first.error)")
        #expect(try set.text("maps/big") == big && set.text("maps/any") == Array("any".utf8))
        #expect(first.output.contains("\"kind\":\"metalink\""))
        _ = set.requests()
        #expect(try set.run("pull", url).status == 0 && set.requests() == 1)

        set.server.serve(ServedObject(text: "anY"), at: "/maps/any")
        try FileManager.default.removeItem(atPath: set.scratch.path + "/maps/any")
        let refused = try set.run("pull", url, "--json")
        #expect(refused.status == 77, "\(refused.output)")
        #expect(refused.output.contains("the bytes differ from those first received"))
        let said = try set.run("pull", url)
        #expect(said.status == 77 && said.error.contains("the bytes differ from those first received"), "\(said.error)")
        #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/maps/any"))
    }

    @Test("Two halves of a file without a digest go together only if one server says that they are of one version")
    func halves() throws {
        let other = try FaultServer()
        let old = ServedObject(patternedBytes(size: 3_000_000, seed: 4))
        let new = ServedObject(patternedBytes(size: 3_000_000, seed: 5))
        other.serve(new, at: "/any")
        let half = FaultAnswer.object(old).dropping(at: 1_000_000)
        let unreported = FaultAnswer.object(new).withoutValidators()
        let stories: [(name: String, answers: [FaultAnswer], right: ServedObject)] = [
            ("same", [half, .object(old)], old), ("changed", [half, .object(new)], new),
            ("untold", [half.withoutValidators(), unreported], new), ("elsewhere", [half, .status(404)], new),
        ]
        for (name, answers, right) in stories {
            for size in ["<size>3000000</size>", ""] {
                let place = name + (size.isEmpty ? "-unsized" : "")
                set.server.script("/\(place)/any", answers)
                let second = name == "elsewhere" ? "<url priority=\"2\">\(other.url("/any"))?\(place)</url>" : ""
                let file = "<file name=\"any\">\(size)<url priority=\"1\">any</url>\(second)</file>"
                set.server.serve(
                    ServedObject(text: "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\(file)</metalink>"),
                    at: "/\(place)/set.meta4")
                let outcome = try set.run("pull", set.server.url("/\(place)/set.meta4"))
                #expect(outcome.status == 0, "\(place): \(outcome.error)")
                #expect(try set.text("\(place)/any") == right.bytes, "\(place)")
            }
        }
        #expect(set.server.log.bytesSent(to: "/same/any") < 4_000_000)
    }

    @Test("What came first holds for every destination, whatever else the list says later")
    func first() throws {
        let url = set.server.url("/maps/set.meta4")
        func list(_ names: String...) {
            let files = names.map { "<file name=\"\($0)\"><url>\($0)</url></file>" }.joined()
            set.server.serve(
                ServedObject(text: "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\">\(files)</metalink>"),
                at: "/maps/set.meta4")
        }
        set.server.serve(ServedObject(text: "any"), at: "/maps/any")
        list("any")
        for place in ["a", "b"] {
            #expect(try set.run("pull", url, "--into", place).status == 0)
            try FileManager.default.removeItem(atPath: set.scratch.path + "/\(place)/any")
        }
        for text in ["anY", "another", "x"] {
            set.server.serve(ServedObject(text: text), at: "/maps/any")
            for place in ["b", "a"] {
                let refused = try set.run("pull", url, "--into", place)
                #expect(refused.status == 77, "\(text): \(refused.error)")
                #expect(
                    refused.error.contains("the bytes differ from those first received"), "\(text): \(refused.error)")
            }
        }
        set.server.serve(ServedObject(text: "more"), at: "/maps/more")
        list("any", "more")
        for place in ["b", "a"] {
            let refused = try set.run("pull", url, "--into", place)
            #expect(refused.status == 77, "\(refused.error)")
            #expect(try set.text("\(place)/more") == Array("more".utf8))
            #expect(!FileManager.default.fileExists(atPath: set.scratch.path + "/\(place)/any"))
        }
    }
}
