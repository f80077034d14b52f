import Glibc
import SyncSystem
import SyncTestKit
import Testing

@Suite("Programs are started in one way", .timeLimit(.minutes(10)))
struct ProgramStartTests {
    private func run(_ script: String, _ change: (inout ProgramStart) -> Void = { _ in }) throws -> (
        end: StartedProgram.End?, output: String
    ) {
        let output = SharedDescriptor(try unnamedFile("output"))
        var start = ProgramStart(["/bin/sh", "-c", script], variables: ["A=1"])
        start.output = output.raw
        change(&start)
        let end = try start.start().wait()
        let bytes = try readFile(output.raw, limit: 1 << 20, shown: "output")
        return (end, String(decoding: bytes, as: UTF8.self))
    }

    @Test("It gets what it is given and nothing else: variables, umask, directory, descriptors, a session of its own")
    func surroundings() throws {
        let leaked = open("/dev/null", O_RDONLY)
        defer { close(leaked) }
        let (end, output) = try run(
            "echo $A $(umask) $PWD; cat; ls /proc/self/fd | wc -l; ps -o pid=,sid= -p $$; exit 3"
        ) { $0.mask = 0o077 }
        let lines = output.split(separator: "\n").map(String.init)
        #expect(end == .exited(3))
        #expect(lines.first == "1 0077 /")
        // 0, 1, 2, and the one that ls reads the directory by.
        #expect(lines[1].trimmed == "4")
        let ids = lines[2].split(separator: " ")
        #expect(ids.count == 2 && ids[0] == ids[1])
    }

    @Test("Standard error goes where output goes, or elsewhere")
    func errors() throws {
        let errors = SharedDescriptor(try unnamedFile("errors"))
        #expect(try run("echo a; echo b >&2; echo c").output == "a\nb\nc\n")
        #expect(try run("echo a; echo b >&2") { $0.error = errors.raw }.output == "a\n")
        #expect(try readFile(errors.raw, limit: 10, shown: "errors") == Array("b\n".utf8))
    }

    @Test("What it reads is there from the first byte")
    func input() throws {
        let input = SharedDescriptor(try unnamedFile("input", holding: Array("hello".utf8)))
        #expect(try run("cat") { $0.input = input.raw }.output == "hello")
    }

    @Test("A program that is not there, is none, or gets a NUL is an error, and nothing runs")
    func failures() throws {
        func code(_ arguments: [String]) -> Errno? {
            do throws(FileError) {
                _ = try ProgramStart(arguments, variables: []).start()
                return nil
            } catch { return error.code }
        }
        #expect(code(["/nowhere/at/all"]) == .noSuchFileOrDirectory)
        #expect(code(["/etc/passwd"]) == .permissionDenied)
        #expect(code(["/bin/sh", "a\0b"]) == .invalidArgument)
        #expect(code([]) == .noSuchFileOrDirectory)
    }

    @Test("Its end is waited for as long as wanted, and a signal reaches its whole group")
    func ending() throws {
        let program = try ProgramStart(["/bin/sh", "-c", "sleep 60 & sleep 60"], variables: []).start()
        #expect(program.wait(until: .now + .milliseconds(50)) == nil)
        #expect(!program.hasEnded && !program.groupIsEmpty)
        program.signalGroup(.terminate)
        #expect(program.wait() == .signalled(Signal.terminate.rawValue))
        // The rest of the group is init's to bury.
        let limit = ContinuousClock.now + .seconds(10)
        while !program.groupIsEmpty, ContinuousClock.now < limit { pauseThread(milliseconds: 5) }
        #expect(program.groupIsEmpty)
    }
}

extension String {
    fileprivate var trimmed: String { filter { $0 != " " } }
    private func collect(_ script: String, seconds: Int = 30, silence: Duration? = nil, most: Int = 1 << 20) -> (
        end: ProgramStart.BriefEnd, output: [UInt8], errors: String
    ) {
        ProgramStart(["/bin/sh", "-c", script], variables: []).collect(
            deadline: .seconds(seconds), silence: silence, most: most, errors: 1_000)
    }

    @Test("All of its output is taken up to a limit, and the end of its errors; more output ends it")
    func collected() {
        let whole = collect("head -c 1000000 /dev/zero; for n in $(seq 2000); do echo line $n >&2; done; exit 3")
        #expect(whole.end == .exited(3) && whole.output.count == 1_000_000)
        #expect(whole.errors.hasSuffix("line 2000\n") && whole.errors.utf8.count <= 18_000)
        #expect(collect("head -c 1048576 /dev/zero").end == .exited(0))
        let begun = ContinuousClock.now
        let endless = collect("yes")
        #expect(endless.end == .overflowed && endless.output.count == 1 << 20)
        // It has ended by then, which makes it no better.
        #expect(collect("head -c 65537 /dev/zero", most: 65_536).end == .overflowed)
        #expect(ContinuousClock.now - begun < .seconds(20))
    }

    @Test("Silence ends it, and writing puts that off; what it has started ends with it")
    func silent() throws {
        let directory = try TemporaryRoot()
        let begun = ContinuousClock.now
        #expect(
            collect("(sleep 100; echo x > \(directory.path)/late) & sleep 100", silence: .milliseconds(300)).end
                == .silent)
        #expect(ContinuousClock.now - begun < .seconds(20))
        let busy = collect("for n in 1 2 3 4 5 6; do echo $n >&2; sleep 0.2; done; echo x", silence: .milliseconds(900))
        #expect(busy.end == .exited(0) && busy.output == Array("x\n".utf8))
        #expect(collect("while :; do echo x; sleep 0.1; done", seconds: 1, silence: .seconds(9)).end == .timedOut)
    }
}
