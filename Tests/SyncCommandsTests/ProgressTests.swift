import Foundation
import SyncAgent
import SyncEngine
import SyncModel
import Synchronization
import Testing

@testable import SyncCommands

@Suite(.timeLimit(.minutes(10)))
struct ProgressTextTests {
    static let progress = ProgressSnapshot(
        phase: "Fetching", filesDone: 12_345, filesTotal: 20_000, bytesDone: 300 << 20, bytesTotal: 512 << 20)

    private static func line(_ progress: ProgressSnapshot, rate: Double?, width: Int = .max) -> String {
        ProgressText.line(progress, ProgressText.Pace(rate: rate), width: width)
    }

    @Test(
        "What does not fit into the terminal is left out, the least telling first",
        arguments: [
            (200, "Fetching  58 %  12,345/20,000 files  300 MiB/512 MiB  53.0 MiB/s  ETA 4 s"),
            (70, "58 %  12,345/20,000 files  300 MiB/512 MiB  53.0 MiB/s  ETA 4 s"),
            (56, "58 %  12,345/20,000 files  300 MiB/512 MiB  ETA 4 s"), (40, "58 %  12,345/20,000 files  ETA 4 s"),
            (26, "58 %  12,345/20,000 files"), (20, "12,345/20,000 files"), (9, "12,345/20"), (0, ""),
        ])
    func fits(width: Int, text: String) {
        #expect(Self.line(Self.progress, rate: 53 * 1_048_576, width: width) == text)
    }

    @Test("Nothing is made up before it is known")
    func unknown() {
        let start = ProgressSnapshot(phase: "Checking", filesDone: 7)
        #expect(Self.line(start, rate: nil) == "Checking  7 files")
        #expect(Self.line(start, rate: 0) == "Checking  7 files")
        let empty = ProgressSnapshot(phase: "Fetching", filesDone: 7, bytesTotal: 9)
        #expect(Self.line(empty, rate: 0) == "Fetching  7 files  0 B/9 B  0 B/s")
        let over = ProgressSnapshot(phase: "Finishing", filesDone: 7, bytesDone: 9, bytesTotal: 9)
        #expect(Self.line(over, rate: 0) == "Finishing  7 files  9 B/9 B")
        #expect(ProgressText.eta(Self.progress, rate: 0) == nil)
        #expect(ProgressText.eta(Self.progress, rate: .infinity) == "0 s")
        #expect(Self.line(Self.progress, rate: .nan).contains("/s") == false)
        let manifest = ProgressSnapshot(phase: "Manifest", unit: .bytes, bytesDone: 3 << 20)
        #expect(Self.line(manifest, rate: 1_048_576) == "Manifest  3.00 MiB  1.00 MiB/s")
        #expect(Self.line(ProgressSnapshot(phase: "Looking", unit: .nothing), rate: nil) == "Looking")
    }

    @Test("All of it is said only when every file is in place")
    func percent() {
        var progress = Self.progress
        progress.bytesDone = 512 << 20
        #expect(Self.line(progress, rate: 0).contains("99 %"))
        progress.filesDone = 20_000
        #expect(Self.line(progress, rate: 0).contains("100 %"))
        // Another process has written these.
        (progress.bytesDone, progress.bytesTotal) = (.max, 1)
        #expect(Self.line(progress, rate: 0).contains("100 %"))
    }

    @Test(
        "After five seconds without a byte that stands in place of the rate",
        arguments: [
            (200, "Fetching  58 %  12,345/20,000 files  no data for 12 s (cdn.example.com, retry 3 of 7 in 4 s)"),
            (61, "58 %  no data for 12 s (cdn.example.com, retry 3 of 7 in 4 s)"), (40, "58 %  no data for 12 s"),
            (16, "no data for 12 s"), (7, "no data"),
        ])
    func silence(width: Int, text: String) {
        var progress = Self.progress
        progress.isTransferring = true
        progress.wait = TransferWait(host: "cdn.example.com", attempt: 4, attempts: 8, until: 0)
        var pace = ProgressText.Pace(rate: 10, growth: 10, silence: 12, wait: 4)
        #expect(ProgressText.line(progress, pace, width: width) == text)
        pace.silence = 4
        #expect(!ProgressText.line(progress, pace, width: width).contains("no d"))
        pace.silence = 12
        progress.isTransferring = false
        #expect(!ProgressText.line(progress, pace, width: width).contains("no d"))
    }

    @Test("Who attaches is told of silence, too, while bytes should come [S118]")
    func attached() {
        var progress = RunStatus.Progress(phase: .fetching, filesDone: 1, filesTotal: 2, bytesDone: 3, bytesTotal: 9)
        let pace = ProgressText.Pace(rate: 10, growth: 10, silence: 12)
        #expect(ProgressText.line(ProgressSnapshot(progress), pace).hasSuffix("no data for 12 s"))
        progress.bytesDone = 9
        #expect(!ProgressSnapshot(progress).isTransferring)
        (progress.bytesDone, progress.phase) = (3, .looking)
        #expect(!ProgressSnapshot(progress).isTransferring)
    }

    @Test("Colours surround words, and take no columns")
    func colours() {
        var progress = Self.progress
        progress.isTransferring = true
        let pace = ProgressText.Pace(rate: 10, silence: 7)
        let silent = ProgressText.line(progress, pace, width: 30, hasColour: true)
        #expect(silent == "58 %  \u{1B}[33mno data for 7 s\u{1B}[m")
        let line = ProgressText.line(progress, ProgressText.Pace(), width: 26, hasColour: true)
        #expect(line == "\u{1B}[1m58 %\u{1B}[m  12,345/20,000 files")
    }

    @Test("The time left goes by what is finished, not by what the wire brings")
    func timeLeft() {
        let pace = ProgressText.Pace(rate: 1_048_576, growth: 4_194_304)
        #expect(ProgressText.line(Self.progress, pace).hasSuffix("1.00 MiB/s  ETA 53 s"))
    }
}

@Suite(.timeLimit(.minutes(10)))
struct RateEstimateTests {
    @Test("A steady stream is measured right from the second count on [S118]")
    func steady() throws {
        var rate = RateEstimate()
        #expect(rate.perSecond == nil)
        for step in 0..<100 { rate.add(count: UInt64(step) * 50, at: Double(step) / 10) }
        #expect(abs(try #require(rate.perSecond) - 500) < 0.001)
    }

    @Test("A stall lets the rate fall, a retry does not make it negative")
    func stall() throws {
        var rate = RateEstimate(timeConstant: 5)
        for second in 0...20 { rate.add(count: UInt64(second) * 1000, at: Double(second)) }
        for second in 21...40 { rate.add(count: 20_000, at: Double(second)) }
        let stalled = try #require(rate.perSecond)
        #expect(stalled < 30)
        rate.add(count: 10, at: 41)
        #expect(try #require(rate.perSecond) >= 0)
    }

    @Test("A new phase starts over: its rate is not that of the wait before it")
    func phases() throws {
        var rate = RateEstimate()
        for second in 0..<10 { rate.add(count: 0, of: "Sampling", at: Double(second)) }
        rate.add(count: 0, of: "Packing", at: 10)
        #expect(rate.perSecond == nil)
        rate.add(count: 500, of: "Packing", at: 11)
        #expect(abs(try #require(rate.perSecond) - 500) < 0.001)
    }

    @Test("A clock that stands still changes nothing")
    func noTime() {
        var rate = RateEstimate()
        rate.add(count: 1, at: 5)
        let before = rate
        rate.add(count: 1_000_000, at: 5)
        #expect(rate == before)
    }
}

@Suite(.timeLimit(.minutes(10)))
struct OutputTests {
    /// Runs `body` with an output whose two streams are files; returns what they hold afterwards.
    static func captured(quiet: Bool = false, _ body: (Output) throws -> Void) throws -> (out: String, err: String) {
        let directory = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        // A leftover in the temporary directory harms nobody.
        defer { try? FileManager.default.removeItem(at: directory) }
        let names = ["out", "err"].map { directory.appendingPathComponent($0).path }
        let descriptors = names.map { open($0, O_RDWR | O_CREAT, 0o600) }
        defer { for descriptor in descriptors { close(descriptor) } }
        try body(Output(quiet: quiet, standardOutput: descriptors[0], standardError: descriptors[1]))
        let texts = try names.map { try String(contentsOfFile: $0, encoding: .utf8) }
        return (texts[0], texts[1])
    }

    @Test("Data goes to standard output, words to standard error")
    func streams() throws {
        let (out, err) = try Self.captured { output in
            output.line("data")
            output.event(JSONLine.object { $0.field("event", "x") })
            output.message("word")
            output.warning("careful")
            output.error("bad")
        }
        #expect(out == "data\n{\"event\":\"x\"}\n")
        #expect(err == "word\nsyncagent: warning: careful\nsyncagent: bad\n")
    }

    @Test("Quiet keeps messages back, not warnings and errors")
    func quiet() throws {
        let (_, err) = try Self.captured(quiet: true) { output in
            output.message("word")
            output.warning("careful")
            output.error("bad")
        }
        #expect(err == "syncagent: warning: careful\nsyncagent: bad\n")
    }

    @Test("Events wait for a flush, in order with lines")
    func buffering() throws {
        let (out, _) = try Self.captured { output in
            for number in 0..<3 { output.event(JSONLine.object { $0.field("n", number) }) }
            output.line("end")
        }
        #expect(out == "{\"n\":0}\n{\"n\":1}\n{\"n\":2}\nend\n")
    }

    @Test("A progress line is erased before a message and at the end")
    func progressIsErased() throws {
        let (_, err) = try Self.captured { output in
            output.drawProgress(["1/2 files"])
            output.message("word")
            output.drawProgress(["2/2 files"])
            output.clearProgress()
            output.clearProgress()
        }
        #expect(err == "\r1/2 files\u{1B}[K\r\u{1B}[Kword\n\r2/2 files\u{1B}[K\r\u{1B}[K")
    }

    @Test("Lines under the bar are drawn over, and those that are no longer wanted go")
    func linesUnderTheBar() throws {
        let (_, err) = try Self.captured { output in
            output.drawProgress(["10 %", "a", "b"])
            output.drawProgress(["20 %", "b"])
            output.drawProgress(["30 %"])
            output.message("word")
        }
        #expect(
            err == "\r10 %\u{1B}[K\na\u{1B}[K\nb\u{1B}[K" + "\r\u{1B}[2A20 %\u{1B}[K\nb\u{1B}[K\u{1B}[J"
                + "\r\u{1B}[1A30 %\u{1B}[K\u{1B}[J" + "\r\u{1B}[Kword\n")
    }

    @Test("A log gets a line a minute, and none for what has no number")
    func logLines() throws {
        let looking = ProgressSnapshot(phase: "Looking", unit: .nothing)
        let fetching = ProgressSnapshot(phase: "Fetching", filesDone: 3, filesTotal: 7)
        func lines(_ snapshots: [ProgressSnapshot], drawInterval: Double?) throws -> String {
            try Self.captured { output in
                let display = ProgressDisplay(output: output, style: .lines, drawInterval: drawInterval)
                for snapshot in snapshots { display.report(snapshot) }
            }.1
        }
        #expect(try lines([looking, fetching], drawInterval: nil) == "")
        #expect(try lines([looking], drawInterval: 0) == "")
        #expect(try lines([looking, fetching], drawInterval: 0).hasPrefix("Fetching"))
    }

    @Test("A terminal is redrawn at most ten times a second, and the line is gone at the end [S116]")
    func redrawsAreLimited() async throws {
        let pipe = Pipe()
        let output = Output(standardOutput: -1, standardError: pipe.fileHandleForWriting.fileDescriptor)
        let display = ProgressDisplay(output: output, style: .terminal, columns: { 80 })
        let start = ContinuousClock.now
        let reported = try await display.whileRunning {
            for number in 0..<2000 { display.report(ProgressSnapshot(phase: "Fetching", filesDone: number)) }
            return 2000
        }
        let elapsed = (ContinuousClock.now - start) / .seconds(1)
        try pipe.fileHandleForWriting.close()
        let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let draws = text.components(separatedBy: "files").count - 1
        #expect(reported == 2000)
        #expect(draws >= 1)
        #expect(Double(draws) <= elapsed * 10 + 1)
        #expect(text.hasSuffix("\r\u{1B}[K"))
    }
}
