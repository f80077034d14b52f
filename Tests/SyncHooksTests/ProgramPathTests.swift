import Foundation
import SyncPluginHost
import SyncPlugins
import SyncSystem
import Testing

@Suite("Which program may be a hook", .timeLimit(.minutes(10)))
struct ProgramPathTests {
    private func code(_ text: String, _ fixture: HookFixture, from directory: String? = nil) -> ProgramError.Code? {
        do throws(ProgramError) {
            _ = try resolveProgram(text, relativeTo: directory ?? fixture.programs, destination: fixture.destination)
            return nil
        } catch { return error.code }
    }

    @Test("Absolute, relative and bare names resolve to an absolute path [V55]")
    func resolves() throws {
        let fixture = try HookFixture()
        let script = try fixture.script("true")
        func resolved(_ text: String) throws -> String {
            try resolveProgram(text, relativeTo: fixture.programs, destination: fixture.destination)
        }
        #expect(try resolved(script) == script)
        #expect(try resolved("./hook") == fixture.programs + "/./hook")
        #expect(try resolved("../programs/hook") == fixture.programs + "/../programs/hook")
        #expect(try ["/usr/bin/true", "/bin/true"].contains(resolved("true")))
    }

    @Test("A bare name is never looked up where the command runs [V55]")
    func bareName() throws {
        let fixture = try HookFixture()
        _ = try fixture.script("true", named: "only-here")
        #expect(code("only-here", fixture) == .missing)
    }

    @Test("Missing, not executable, a directory, empty and NUL are told apart [F093]")
    func refusals() throws {
        let fixture = try HookFixture()
        _ = try fixture.script("true", named: "plain", mode: 0o644)
        #expect(code("./nothing", fixture) == .missing)
        #expect(code("./plain/below", fixture) == .missing)
        #expect(code(fixture.programs, fixture) == .notAFile)
        #expect(code("/dev/null", fixture) == .notAFile)
        #expect(code("", fixture) == .unusable)
        #expect(code("/bin/tr\0ue", fixture) == .unusable)
        // Root may execute a file only when some execute bit is set, access(2).
        #expect(code("./plain", fixture) == .notExecutable)
    }

    @Test("Nothing in the destination runs, however it is reached [V62]")
    func insideDestination() throws {
        let fixture = try HookFixture()
        let inside = try fixture.script("true", in: fixture.destination)
        let files = FileManager.default
        try files.createDirectory(atPath: fixture.destination + "/deep", withIntermediateDirectories: false)
        try files.createSymbolicLink(atPath: fixture.programs + "/link", withDestinationPath: inside)
        try files.createSymbolicLink(atPath: fixture.programs + "/tree", withDestinationPath: fixture.destination)
        try files.createSymbolicLink(atPath: fixture.destination + "/out", withDestinationPath: "/bin/true")
        try files.createSymbolicLink(atPath: fixture.destination + "/bin", withDestinationPath: "/bin")
        try files.createSymbolicLink(atPath: fixture.programs + "/far", withDestinationPath: "../dest/bin")
        for path in [
            inside, "./link", "./tree/hook", "../dest/hook", "../dest/deep/../hook", "./tree/out", "../dest/bin/true",
            "./far/true", "../dest/nothing",
        ] { #expect(code(path, fixture) == .insideDestination, "\(path)") }
        #expect(code("./hook", fixture, from: fixture.destination) == .insideDestination)
        let outside = try fixture.script("true")
        #expect(code("../programs/hook", fixture, from: fixture.destination) == nil)
        #expect(code(outside, fixture) == nil)
        // A neighbour whose name only starts the same is not inside.
        try files.createDirectory(atPath: fixture.destination + "2", withIntermediateDirectories: false)
        #expect(code(try fixture.script("true", in: fixture.destination + "2"), fixture) == nil)
    }

    @Test("A program that others can change, or put another in the place of, does not run [V55]")
    func changeable() async throws {
        let fixture = try HookFixture()
        let deep = fixture.programs + "/a/b"
        try FileManager.default.createDirectory(atPath: deep, withIntermediateDirectories: true)
        let script = try fixture.script("touch \(fixture.root)/ran", in: deep)
        try FileManager.default.createSymbolicLink(atPath: fixture.programs + "/link", withDestinationPath: script)
        #expect(code(script, fixture) == nil && code("./link", fixture) == nil)
        // The file, its directory, one above, and one that only holds a link to it.
        for (place, mode) in [(script, 0o775), (deep, 0o775), (fixture.programs + "/a", 0o777)] {
            #expect(chmod(place, mode_t(mode)) == 0)
            #expect(code(script, fixture) == .changeable, "\(place)")
            let outcome = await fixture.run(ProgramHook(environment: [:]), fixture.invocation([script]))
            guard case .notStarted(let reason) = outcome.end else {
                Issue.record("\(place): \(outcome.end)")
                continue
            }
            #expect(reason.contains("chmod go-w \(place)"))
            #expect(chmod(place, 0o755) == 0)
        }
        #expect(chmod(fixture.programs, 0o777) == 0)
        #expect(code("./link", fixture) == .changeable)
        // In a directory with the sticky bit nobody can replace what is another's.
        #expect(chmod(fixture.programs, 0o1777) == 0)
        #expect(code("./link", fixture) == nil)
        #expect(!fixture.exists("ran"))
    }

    @Test("Root runs nobody else's program [V55]", .enabled(if: geteuid() == 0, "only root can give files away"))
    func foreign() throws {
        let fixture = try HookFixture()
        let script = try fixture.script("true")
        #expect(chown(script, 4242, 4242) == 0)
        #expect(code(script, fixture) == .changeable)
        #expect(chown(script, 0, 0) == 0 && chown(fixture.programs, 4242, 4242) == 0)
        #expect(code(script, fixture) == .changeable)
    }

    @Test("A loop of links is an error, not a hang [V62]")
    func loop() throws {
        let fixture = try HookFixture()
        try FileManager.default.createSymbolicLink(atPath: fixture.programs + "/a", withDestinationPath: "b")
        try FileManager.default.createSymbolicLink(atPath: fixture.programs + "/b", withDestinationPath: "a")
        #expect(code("./a", fixture) == .system(.tooManySymbolicLinkLevels))
    }

    @Test("What cannot start says why and is not tried again for nothing [F093 F095]")
    func notStarted() async throws {
        let fixture = try HookFixture()
        let plain = try fixture.script("true", named: "plain", mode: 0o644)
        let text = fixture.programs + "/text"
        try Data("no first line".utf8).write(to: URL(fileURLWithPath: text))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: text)
        let odd = fixture.programs + "/odd"
        try Data("#!/nonexistent/sh\n".utf8).write(to: URL(fileURLWithPath: odd))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: odd)
        let inside = try fixture.script("touch \(fixture.root)/ran", in: fixture.destination)
        for path in [plain, text, odd, inside, fixture.programs + "/nothing", "relative/hook", ""] {
            let outcome = await fixture.run(ProgramHook(environment: [:]), fixture.invocation([path]))
            #expect(!outcome.isTransient)
            guard case .notStarted(let reason) = outcome.end else {
                Issue.record("\(path): \(outcome.end)")
                continue
            }
            #expect(reason.hasSuffix("."))
            #expect(reason.contains("the interpreter that it names is not") == (path == odd))
        }
        #expect(!fixture.exists("ran"))
    }

    @Test("A destination that is gone is an error, not another working directory")
    func noDestination() async throws {
        let fixture = try HookFixture()
        var invocation = fixture.invocation(["/bin/pwd"])
        invocation.directory = fixture.root + "/gone"
        let outcome = await fixture.run(ProgramHook(environment: [:]), invocation)
        #expect(outcome.outputBytes == 0)
        guard case .notStarted = outcome.end else {
            Issue.record("\(outcome.end)")
            return
        }
    }
}
