import Foundation
import SyncManifest
import SyncModel
import SyncTestKit
import Testing

@testable import SyncPublisher

/// `.syncignore` and `--exclude-from` are read as git reads `.gitignore`: each case is held against git itself where it is
/// installed.
@Suite(.timeLimit(.minutes(10)))
struct IgnoreTests {
    /// A tree with one of everything that the cases speak of.
    static let paths = [
        "#hash", "!bang", "a.o", "b.txt", "build/out/x.o", "build/y.txt", "doc/a.o", "doc/build", "doc/notes.txt",
        "foo/bar/baz/x", "foo/bar/y", "foo/z", "foobar", "key.pem", "sub/deep/a.o", "sub/deep/keep.o", "sub/foo/bar",
        "sub/key.pem", "two words", "x[1].txt", "x1.txt", "x2.txt", "tail ", "back\\slash",
    ]

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        /// By directory, the top being empty.
        let files: [String: String]
        let leftOut: [String]

        init(_ name: String, _ text: String, _ leftOut: [String]) { self.init(name, ["": text], leftOut) }

        init(_ name: String, _ files: [String: String], _ leftOut: [String]) {
            (testDescription, self.files, self.leftOut) = (name, files, leftOut)
        }
    }

    static let cases = [
        Case("a name at any depth", "a.o", ["a.o", "doc/a.o", "sub/deep/a.o"]),
        Case("an ending at any depth", "*.o", ["a.o", "build/out/x.o", "doc/a.o", "sub/deep/a.o", "sub/deep/keep.o"]),
        Case("a slash at the front holds it to the directory of the file", "/a.o", ["a.o"]),
        Case("a slash in the middle does, too", "doc/a.o", ["doc/a.o"]),
        Case("a slash at the end wants a directory", "build/", ["build/out/x.o", "build/y.txt"]),
        Case("without it the file of that name goes, too", "build", ["build/out/x.o", "build/y.txt", "doc/build"]),
        Case("foo/bar in the middle of a path is not meant", "foo/bar", ["foo/bar/baz/x", "foo/bar/y"]),
        Case("two asterisks in front", "**/foo/bar", ["foo/bar/baz/x", "foo/bar/y", "sub/foo/bar"]),
        Case("two asterisks behind", "foo/**", ["foo/bar/baz/x", "foo/bar/y", "foo/z"]),
        Case("two asterisks between stand for nothing, too", "foo/**/x", ["foo/bar/baz/x"]),
        Case("two asterisks between take one", "foo/**/y", ["foo/bar/y"]),
        Case(
            "two asterisks beside letters are one", "foo**",
            ["foo/bar/baz/x", "foo/bar/y", "foo/z", "foobar", "sub/foo/bar"]),
        Case("an asterisk takes no slash", "foo/*x", []),
        Case("an asterisk for one directory", "foo/*/y", ["foo/bar/y"]),
        Case("a question mark is one letter", "x?.txt", ["x1.txt", "x2.txt"]),
        Case("a set of letters", "x[1-1].txt", ["x1.txt"]),
        Case("letters that are not in a set", "x[!1].txt", ["x2.txt"]),
        Case("the other sign for it", "x[^1].txt", ["x2.txt"]),
        Case("a class of letters", "x[[:digit:]].txt", ["x1.txt", "x2.txt"]),
        Case("a bracket that is meant", "x\\[1].txt", ["x[1].txt"]),
        Case("what comes back", "*.o\n!keep.o", ["a.o", "build/out/x.o", "doc/a.o", "sub/deep/a.o"]),
        Case("the last line that matches decides", "!a.o\na.o", ["a.o", "doc/a.o", "sub/deep/a.o"]),
        Case(
            "nothing comes back out of a directory that is gone", "sub/\n!sub/key.pem",
            ["sub/deep/a.o", "sub/deep/keep.o", "sub/foo/bar", "sub/key.pem"]),
        Case(
            "unless its entries go one by one", "sub/*\n!sub/key.pem",
            ["sub/deep/a.o", "sub/deep/keep.o", "sub/foo/bar"]), Case("a comment", "#hash", []),
        Case("a number sign that is meant", "\\#hash", ["#hash"]),
        Case("an exclamation mark that is meant", "\\!bang", ["!bang"]),
        Case("blanks at the end are nothing", "a.o   ", ["a.o", "doc/a.o", "sub/deep/a.o"]),
        Case("but one that is meant", "tail\\ ", ["tail "]), Case("blanks within", "two words", ["two words"]),
        Case("a backslash that is meant", "back\\\\slash", ["back\\slash"]),
        Case("lines of DOS", "a.o\r\nkey.pem\r\n", ["a.o", "doc/a.o", "key.pem", "sub/deep/a.o", "sub/key.pem"]),
        Case("a byte order mark", "\u{FEFF}key.pem", ["key.pem", "sub/key.pem"]),
        Case("empty lines and lonely signs", "\n  \n/\n!\n\\\n", []), Case("case counts", "KEY.PEM", []),
        Case("a file further down", ["doc": "*.o\n/notes.txt"], ["doc/a.o", "doc/notes.txt"]),
        Case(
            "further down decides", ["": "*.o", "sub/deep": "!keep.o"],
            ["a.o", "build/out/x.o", "doc/a.o", "sub/deep/a.o"]),
        Case("further down against the top", ["": "!a.o", "doc": "a.o"], ["doc/a.o"]),
        Case("anchored further down", ["sub": "/foo"], ["sub/foo/bar"]),
        Case("two asterisks at the end of a word and a slash", "fo**/bar", ["foo/bar/baz/x", "foo/bar/y"]),
    ]

    @Test("A line of .syncignore leaves out what git would", arguments: cases)
    func table(one: Case) throws {
        let place = try IgnoredTree(Self.paths)
        for (directory, text) in one.files { try place.ignore(text, in: directory) }
        let kept = Self.paths.filter { !one.leftOut.contains($0) }.sorted()
        #expect(try place.published().sorted() == kept)
        if let theirs = try place.keptByGit() { #expect(theirs.sorted() == kept, "what git keeps") }
    }

    @Test("Patterns nobody would write: the same as in git, whatever they are", .enabled(if: IgnoredTree.hasGit))
    func anyPattern() throws {
        var random = SplitMix(seed: 7)
        let names = ["a", "b", "ab", "ba", "abb", "a.b"]
        var paths: Set<String> = []
        for first in names {
            for second in names {
                paths.insert("d\(first)/\(second)")
                paths.insert("d\(first)/d\(second)/\(names[random.next(names.count)])")
            }
            paths.insert(first)
        }
        let tokens = [
            "a", "b", "d", "ab", "*", "**", "/", "/", "?", "[ab]", "[!a]", "[^b-d]", ".", "\\a", "\\*", "**/", "/**",
            "a/b", "[", "]", "[[:alpha:]]", " ",
        ]
        func line() -> String {
            let text = (0...random.next(5)).map { _ in tokens[random.next(tokens.count)] }.joined()
            return (random.next(4) == 0 ? "!" : "") + text + (random.next(5) == 0 ? "/" : "")
        }
        let place = try IgnoredTree(Array(paths))
        for round in 0..<120 {
            var texts = ["": (0...random.next(4)).map { _ in line() }.joined(separator: "\n")]
            texts["da"] = random.next(2) == 0 ? line() : ""
            texts["da/dab"] = random.next(3) == 0 ? line() : ""
            let named = random.next(3) == 0 ? line() : ""
            for (directory, text) in texts { try place.ignore(text, in: directory) }
            try place.root.write(named, to: "named")
            let ours = try place.published(excludeFrom: [place.root.path("named")]).sorted()
            let theirs = try #require(try place.keptByGit(excludeFrom: place.root.path("named"))).sorted()
            #expect(ours == theirs, "round \(round): \(texts), named: \(named)")
        }
    }

    @Test("--exclude-from decides last, and the last file before the first")
    func named() throws {
        let place = try IgnoredTree(["a", "b", "c", "d"])
        try place.root.write("a\nb\nc\n", to: "one")
        try place.root.write("!b\n", to: "two")
        try place.ignore("!c", in: "")
        #expect(
            try place.published(excludeFrom: [place.root.path("one"), place.root.path("two")]).sorted() == [
                "b", "c", "d",
            ])
    }

    @Test("A pattern of many asterisks does not take for ever")
    func hostile() throws {
        let name = String(repeating: "a", count: 200)
        let place = try IgnoredTree([name, "d/d/d/d/d/d/d/d/d/d/d/d/\(name)"])
        let many = String(repeating: "*a", count: 60)
        let deep = String(repeating: "**/", count: 400)
        try place.ignore("\(many)b\n\(deep)\(many)b\n", in: "")
        #expect(try place.published().count == 2)
    }

    @Test("Patterns have the budget that those of a manifest's groups have, and a request to stop is heard meanwhile")
    func budget() throws {
        let names = (0..<120).map { String(repeating: "ab", count: 50) + "\($0)" }
        let place = try IgnoredTree(names)
        try place.ignore(String(repeating: String(repeating: "*a", count: 3_000) + "c\n", count: 40), in: "")
        var options = PublishOptions(directory: place.root.path("in"), output: place.root.path("out"))
        options.limits.patternBytes = 30_000_000
        func failure(_ isCancelled: () -> Bool = { false }) -> PublishError? {
            SigningTests.error { () throws(PublishError) in _ = try options.preview(isCancelled: isCancelled)
            }
        }
        #expect(failure()?.exitStatus == .dataInvalid)
        // A little more for each entry that was looked at.
        let refused = failure()?.summary ?? ""
        #expect(refused.contains(/tried on more than 30[01]\d{5} bytes of paths/), "\(refused)")
        // Deaf, it would get as far as before.
        #expect(failure { true }?.exitStatus == .interrupted)

        // Those of the command line count as well.
        try place.ignore("", in: "")
        options.exclude = Array(repeating: String(repeating: "*a", count: 3_000) + "c", count: 40)
        #expect(failure()?.exitStatus == .dataInvalid)
        #expect(failure { true }?.exitStatus == .interrupted)

        // What is long because there is much of it is not refused.
        options.limits.patternBytes = 0
        options.exclude = ["**/*c", "*0"]
        #expect(failure() == nil)
    }

    @Test("Patterns that take too much memory are refused by their line, also those of many directories together")
    func memory() throws {
        let place = try IgnoredTree(["a", "b/a", "b/b/a"])
        try place.ignore(String(repeating: "?a\n", count: 40_000), in: "")
        let one = place.failure()
        #expect(one?.exitStatus == .dataInvalid && one?.summary.hasPrefix(".syncignore:") == true)
        for directory in ["", "b", "b/b"] { try place.ignore(String(repeating: "?a\n", count: 12_000), in: directory) }
        #expect(place.failure()?.summary.hasPrefix("b/b/.syncignore:") == true)
    }

    @Test("Groups whose patterns readers would refuse are refused, before anything is written")
    func groups() throws {
        let set = try PublishedSet(.manySmall(40))
        func failure(_ limit: WritableKeyPath<ManifestLimits, Int>, _ value: Int) -> PublishError? {
            set.failure {
                $0.groups = [Manifest.Group(name: "maps", include: ["**/*.map", "**/*.pdf"], hooks: [])]
                $0.limits[keyPath: limit] = value
            }
        }
        #expect(failure(\.patternMatches, 79)?.summary.hasPrefix("group maps, **/*.pdf: ") == true)
        #expect(failure(\.patternBytes, 600)?.exitStatus == .dataInvalid)
        #expect(failure(\.patternsPerGroup, 1)?.exitStatus == .usage)
        #expect(failure(\.groups, 0)?.exitStatus == .usage)
        #expect(try set.bytes(below: "out").isEmpty)
        #expect(failure(\.patternMatches, 80) == nil)
    }

    @Test("A .syncignore that is no file is refused by name, and so is a line that is no pattern")
    func refused() throws {
        let place = try IgnoredTree(["a"])
        try place.root.link("in/.syncignore", to: "a")
        let link = place.failure()
        #expect(link?.exitStatus == .dataInvalid && link?.details.first?.hasPrefix(".syncignore: ") == true)
        #expect(link?.remedy.contains("--exclude for any but a .syncignore;") == true)
        try FileManager.default.removeItem(atPath: place.root.path("in/.syncignore"))
        try place.ignore("a\n" + String(repeating: "b", count: 9_000), in: "")
        let long = place.failure()
        #expect(long?.exitStatus == .dataInvalid && long?.summary.hasPrefix(".syncignore:2: ") == true)
        let missing = place.failure(excludeFrom: ["none"])
        #expect(missing?.exitStatus == .noInput)
    }
}

/// A tree with ignore files, and what is published of it.
private struct IgnoredTree {
    let root: TemporaryRoot

    static let hasGit = FileManager.default.isExecutableFile(atPath: "/usr/bin/git")

    init(_ paths: [String]) throws {
        root = try TemporaryRoot()
        for path in paths { try root.write("x", to: "in/\(path)") }
    }

    func ignore(_ text: String, in directory: String) throws {
        try root.write(text, to: "in/\(directory.isEmpty ? "" : directory + "/").syncignore")
    }

    private func options(_ excludeFrom: [String]) -> PublishOptions {
        var options = PublishOptions(directory: root.path("in"), output: root.path("out"))
        options.excludeFrom = excludeFrom
        return options
    }

    /// Without the directories of which only the files are left out.
    func published(excludeFrom: [String] = []) throws -> [String] {
        try options(excludeFrom).preview().changes.map(\.path).filter { !$0.hasSuffix("/") }
    }

    func failure(excludeFrom: [String] = []) -> PublishError? {
        do throws(PublishError) {
            _ = try options(excludeFrom).preview()
            return nil
        } catch { return error }
    }

    /// What `git ls-files` says is there and not ignored; `nil` without git.
    func keptByGit(excludeFrom: String? = nil) throws -> [String]? {
        guard Self.hasGit else { return nil }
        if !FileManager.default.fileExists(atPath: root.path("in/.git")) { _ = try git(["init", "--quiet"]) }
        let named = excludeFrom.map { ["--exclude-from=\($0)"] } ?? []
        let output = try git(["ls-files", "-o", "-z", "--exclude-per-directory=.syncignore"] + named)
        try FileManager.default.removeItem(atPath: root.path("in/.git"))
        return output.split(separator: "\0").map(String.init).filter {
            $0 != ".syncignore" && !$0.hasSuffix("/.syncignore")
        }
    }

    private func git(_ arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/git")
        process.arguments = arguments
        process.currentDirectoryURL = URL(fileURLWithPath: root.path("in"))
        process.environment = ["GIT_CONFIG_NOSYSTEM": "1", "HOME": root.path(""), "GIT_CONFIG_GLOBAL": "/dev/null"]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let data = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        return String(decoding: data, as: UTF8.self)
    }
}

/// SplitMix64, for cases that are the same each time.
private struct SplitMix {
    private var state: UInt64
    init(seed: UInt64) { state = seed }

    mutating func next(_ bound: Int) -> Int {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return Int((z ^ (z >> 31)) % UInt64(bound))
    }
}
