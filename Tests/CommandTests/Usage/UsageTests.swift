import CommandTestSupport
import Foundation
import Testing

@Suite(.timeLimit(.minutes(10)))
struct UsageTests {
    @Test(
        "Wrong arguments end with 64, say which, and touch nothing [F115]",
        arguments: [
            ([], "USAGE"), (["nonsense"], "'nonsense' is not a command. 'syncagent --help' lists all commands."),
            (["plul", "m.json"], "Did you mean 'syncagent pull'?"), (["completion"], "<shell>"),
            (["completion", "tcsh"], "tcsh"), (["publsh", "."], "Did you mean 'syncagent publish'?"),
            (["schedule", "ad"], "Did you mean 'syncagent schedule add'?"),
            (["help", "nosuch"], "'nosuch' is not a command"),
            (["help", "hooks", "lst"], "Did you mean 'syncagent hooks list'?"), (["pull"], "<manifest>"),
            (["pull", "m.json", "--connections", "65"], "1 to 64"),
            (["pull", "m.json", "--limit-rate", "none"], "'none'"),
            (["pull", "m.json", "--session", "../x"], "--session"), (["pull", "gopher://x/m.json"], "gopher"),
            (["pull", "m.json", "--hook", "no-such-program"], "PATH"),
            (["pull", "m.json", "--hook", "/bin/echo done"], "--hook takes a program without arguments"),
            (["pull", "m.json", "--hook", "echo done"], "\"arguments\" in the configuration file"),
            (["ls", "m.json", "/maps"], "PATH is as in the manifest"), (["plan", "m.json", "--prune"], "--prune"),
            (["verify", "a", "b/../c"], "'b/../c'"), (["serve"], "<directory>"),
            (["serve", ".", "--port", "70000"], "65535"), (["events", "--since=-1"], "-1"),
            (["wait", "--timeout", "soon"], "soon"), (["rm"], "<session>"), (["keys"], "USAGE: syncagent keys"),
            (["trust"], "USAGE: syncagent trust"), (["channel"], "USAGE: syncagent channel"),
            (["pull", "m.json", "--hook-on", "ok"], "--hook-on needs a --hook, --group-hook or --file-hook"),
            (["ls", "https:///m.json"], "MANIFEST is a URL without a host"),
            (["diff", "m.json", "http://?x"], "NEW is a URL without a host"),
            (["ls", "https://ada@example.com/m.json"], "MANIFEST is a URL with a user name or password"),
            (["pull", "http://127.0.0.1:99999/m.json"], "MANIFEST is not a URL that can be requested"),
            (["publish", ".", "--to", "x", "--mirror", "http://[m/"], "--mirror is not a URL that can be requested"),
            (["publish", ".", "--to", "x", "--sign", "k", "--until", "+30d"], "'+30d' is not a time"),
            (["pull", "m.json", "--limit-rate", "1 0M"], "'1 0M' is not a number of bytes"),
            (["prioritize", "tower"], "<path>"), (["prioritize", "tower", "/etc"], "relative"),
            (["agent", "run", "--jobs", "0"], "1 to 64"), (["hooks", "replay", "first"], "first"),
            (["pull", "m.json", "--hook-on", "ok"], "--hook-on"),
            (["pull", "m.json", "--background", "--dry-run"], "--dry-run"),
            (["pull", "m.json", "--background", "--not-before", "soon"], "soon"),
            (["pull", "m.json", "--discretionary"], "add --background"),
            (["pull", "m.json", "--background", "--window", "22:00"], "22:00-06:00"),
        ] as [([String], String)]) func usage(arguments: [String], words: String) throws
    {
        let scratch = try Scratch()
        let outcome = try Tool(scratch).run(arguments)
        #expect(outcome.status == 64)
        #expect(outcome.output == "")
        #expect(outcome.error.contains(words), "\(outcome.error)")
        #expect(try scratch.contents(of: ".").allSatisfy { $0.hasPrefix(".captured-") })
    }

    @Test("A password in a URL is refused before anything is done or kept, and is not shown")
    func password() throws {
        let scratch = try Scratch()
        for verb in [["pull"], ["plan"], ["verify"], ["ls"], ["schedule", "add"]] {
            let when = verb == ["schedule", "add"] ? ["--nightly", "02:00", "--into", "x", "--backend", "agent"] : []
            for (url, remedy) in [
                ("http://ada:canary@127.0.0.1:1/m.json", "--credentials"),
                ("lfs+http://ada:canary@127.0.0.1:1/a.git", "git's credential helpers"),
                ("oci://ada:canary@127.0.0.1:1/a:b", "docker login"),
            ] {
                let outcome = try Tool(scratch).run(verb + [url] + when)
                #expect(outcome.status == 64 && outcome.error.contains(remedy), "\(verb): \(outcome.error)")
                #expect(!(outcome.output + outcome.error).contains("canary"), "\(verb): \(outcome.error)")
            }
        }
        #expect(try scratch.contents(of: ".").allSatisfy { $0.hasPrefix(".captured-") })
    }

    @Test("completion prints what the shell needs, for bash, zsh and fish", arguments: ["bash", "zsh", "fish"])
    func completion(shell: String) throws {
        let outcome = try Tool(try Scratch()).run(["completion", shell])
        #expect(outcome.status == 0 && outcome.error == "")
        // zsh reads the first line of such a file; a shell that sources it needs none.
        let head = ["bash": "", "zsh": "#compdef syncagent\n", "fish": "function "][shell] ?? "?"
        #expect(outcome.output.hasPrefix(head) && !outcome.output.hasPrefix("#!"), "\(outcome.output.prefix(80))")
        #expect(outcome.output.contains("publish") && outcome.output.contains("exclude-from"))
    }

    @Test("--version prints the version alone")
    func version() throws {
        let outcome = try Tool(try Scratch()).run(["--version"])
        #expect(outcome.status == 0)
        #expect(outcome.output.wholeMatch(of: #/\d+\.\d+\.\d+\n/#) != nil, "\(outcome.output)")
        #expect(outcome.error == "")
    }

    @Test(
        "--help goes to standard output",
        arguments: [
            [], ["pull"], ["plan"], ["verify"], ["serve"], ["status"], ["events"], ["wait"], ["attach"], ["pause"],
            ["resume"], ["cancel"], ["rm"], ["prioritize"], ["hooks"], ["hooks", "receipt"], ["agent"],
            ["agent", "run"], ["doctor"], ["gc"],
        ])
    func help(verb: [String]) throws {
        let outcome = try Tool(try Scratch()).run(verb + ["--help"])
        #expect(outcome.status == 0)
        #expect(outcome.output.contains("USAGE: syncagent"))
        #expect(outcome.error == "")
    }

    @Test("Text from the command line cannot steer the terminal [V63]")
    func escapes() throws {
        let outcome = try Tool(try Scratch()).run(["pull", "m.json", "--group-hook", "\u{1B}]52;c;eA==\u{7}"])
        #expect(outcome.status == 64)
        #expect(!outcome.error.contains("\u{1B}]"), "\(outcome.error.debugDescription)")
    }
}
