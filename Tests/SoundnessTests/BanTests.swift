import Testing

/// A call that is not to be used, why, and what is used in its place.
private struct Ban: Sendable, CustomTestStringConvertible {
    let text: String
    let reason: String
    let replacement: String
    /// Targets where it may stand all the same.
    var except: Set<String> = []
    /// A file where it may stand all the same, and nowhere else in its target.
    var exceptFile: String?
    /// Whether string literals are searched, too.
    var inStrings = false

    var testDescription: String { text }
}

/// Below what assembles an engine, for commands and for programs that embed one, nothing asks the outside world who, when
/// or where it is: it is told.
private let topOnly: Set<String> = ["SyncCommands", "SyncKit", "SyncAssembly"]

private let bans: [Ban] = [
    Ban(text: "try!", reason: "ends the process", replacement: "a typed throw"),
    Ban(text: "as!", reason: "ends the process", replacement: "as? and a guard"),
    Ban(text: "fatalError(", reason: "ends the process", replacement: "an error, or precondition on own state"),
    Ban(text: "unowned(unsafe)", reason: "reads freed memory when wrong", replacement: "weak, or ownership"),
    Ban(
        text: "print(", reason: "standard output is data, and a progress line may be in the way", replacement: "Output",
        exceptFile: "Sources/SyncCommands/Terminal/Output.swift"),
    Ban(
        text: "Date(", reason: "tests cannot turn it", replacement: "a clock that is passed in", except: topOnly,
        // An instant that is passed in, in the form that time zones are asked with.
        exceptFile: "Sources/SyncSchedule/Rule/Zone.swift"),
    Ban(
        text: "SystemTime.milliseconds", reason: "tests cannot turn it", replacement: "a clock that is passed in",
        except: topOnly),
    Ban(
        text: "getenv(", reason: "hidden input", replacement: "a parameter", except: topOnly,
        exceptFile: "Sources/SyncSystem/Processes/CurrentProcess.swift"),
    Ban(text: "CurrentProcess.variable(", reason: "hidden input", replacement: "a parameter", except: topOnly),
    Ban(text: "ProcessInfo", reason: "hidden input", replacement: "a parameter", except: topOnly),
    Ban(
        text: ".random(in:", reason: "tests cannot repeat it", replacement: "a generator that is passed in",
        except: topOnly,
        // The name of a try that came to no engine, which would have one.
        exceptFile: "Sources/SyncEngine/Report/RecordedRun.swift"),
    Ban(
        text: "SystemRandomNumberGenerator", reason: "tests cannot repeat it",
        replacement: "a generator that is passed in", except: topOnly),
    Ban(
        text: "Task {", reason: "nobody waits for it or cancels it", replacement: "async let or a task group",
        except: topOnly,
        // It keeps a handle on each: jobs are waited for, the alarm is cancelled.
        exceptFile: "Sources/SyncDaemon/Agent.swift"),
    Ban(text: "Task.detached", reason: "nobody waits for it or cancels it", replacement: "async let or a task group"),
    Ban(text: "\"/bin/sh\"", reason: "names from outside become commands", replacement: "argv", inStrings: true),
    Ban(
        text: "system(\"", reason: "names from outside become commands", replacement: "argv and posix_spawn",
        inStrings: true),
    Ban(
        text: "import Synchronization", reason: "its Mutex ends the process when it is inlined into an async function",
        replacement: "Mutex of SyncSystem, and import struct Synchronization.Atomic",
        // Nothing in it is async.
        except: ["SyncContent"], exceptFile: "Sources/SyncSystem/Threads/Monitor.swift"),
    Ban(text: "popen(", reason: "names from outside become commands", replacement: "argv and posix_spawn"),
    Ban(
        text: "FoundationNetworking", reason: "traps, and ignores what it is asked for, on Linux",
        replacement: "libcurl"),
    Ban(
        text: "CURLOPT_RESUME_FROM", reason: "takes a 416 and a wrong 200 for the whole file",
        replacement: "Range, and a look at the answer"),
    Ban(
        text: "CURLOPT_TIMEOUT", reason: "counts the time in libcurl's own queue",
        replacement: "a limit on what makes no progress"),
    Ban(
        text: "CURL_NETRC_OPTIONAL", reason: "sends what nobody asked to be sent",
        replacement: "credentials of the configuration"),
    Ban(text: "CURL_NETRC_REQUIRED", reason: "the same", replacement: "credentials of the configuration"),
    Ban(text: "CURLOPT_HSTS", reason: "is best effort and forgets", replacement: "https in the manifest"),
]

/// Where a file uses what is banned.
private func violations(of ban: Ban, in source: SourceText) -> [String] {
    guard !ban.except.contains(source.target), source.path != ban.exceptFile else { return [] }
    let lines = ban.inStrings ? source.code : source.bareCode
    return lines.enumerated().filter { occurs(ban.text, in: $0.element) }.map { index, _ in
        "\(source.path):\(index + 1): \(ban.text) \(ban.reason); use \(ban.replacement)"
    }
}

/// Whether `word` stands in `line` and is not the end of a longer name.
private func occurs(_ word: String, in line: String) -> Bool {
    var rest = Substring(line)
    while let found = rest.firstRange(of: word) {
        let before = rest[..<found.lowerBound].last
        let isWord = word.first.map { $0.isLetter } ?? false
        if !isWord || before.map({ !$0.isLetter && !$0.isNumber && $0 != "_" && $0 != "." }) ?? true { return true }
        rest = rest[found.upperBound...]
    }
    return false
}

@Suite(.timeLimit(.minutes(10)))
struct BanTests {
    @Test("The executable only calls the library of commands")
    func executableIsThin() throws {
        let files = try SourceText.all(below: "Sources/syncagent")
        #expect(files.map(\.path) == ["Sources/syncagent/main.swift"])
        #expect(files.allSatisfy { $0.lines.count <= 20 })
    }

    @Test("No source file uses what is banned [S58 S141 S142 S143 S144 S145 S146 S147 R12 V34]", arguments: bans)
    fileprivate func sources(ban: Ban) throws {
        #expect(try SourceText.all(below: "Sources").flatMap { violations(of: ban, in: $0) } == [])
    }

    @Test("Tests do not end the test process either", arguments: bans.prefix(4)) fileprivate func tests(ban: Ban) throws
    { #expect(try SourceText.all(below: "Tests").flatMap { violations(of: ban, in: $0) } == []) }

    @Test("Each ban finds what it bans", arguments: bans) fileprivate func canFail(ban: Ban) {
        let source = SourceText(path: "Sources/SyncEngine/Bad.swift", text: "let a = 1\n    x = \(ban.text) y")
        #expect(violations(of: ban, in: source).count == 1)
    }

    @Test("Comments, strings and longer names are no violation", arguments: bans.filter { !$0.inStrings })
    fileprivate func falseAlarms(ban: Ban) {
        let text = "// \(ban.text)\nlet a = \"\(ban.text)\"\n/* \(ban.text)\n*/\nlet b = \"\"\"\n\(ban.text)\n\"\"\"\n"
        #expect(violations(of: ban, in: SourceText(path: "Sources/SyncEngine/A.swift", text: text)) == [])
        let longer = SourceText(path: "Sources/SyncEngine/A.swift", text: "HTTPDate(1); fingerprint(x); subTask {")
        #expect(violations(of: ban, in: longer) == [])
    }
}
