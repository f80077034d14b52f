import SyncSystem
import SyncTestKit
import Testing

@Suite("Pipes, and what this process knows of itself", .timeLimit(.minutes(10)))
struct WaitingTests {
    @Test("A pipe is ready when it has bytes, and when its other end is closed")
    func pipe() throws {
        var pipe = Pipe()
        let reader = try #require(pipe?.reader)
        var entries = [PollEntry(reader.raw), PollEntry(-1)]
        var buffer = [UInt8](repeating: 0, count: 8)
        func read() -> ReadResult { buffer.withUnsafeMutableBytes { readSome(reader.raw, into: $0) } }
        #expect(!waitForAny(of: &entries, atMost: 0) && !entries[0].isReady)
        #expect(read() == .nothing)
        let written = try [1, 2, 3].withUnsafeBytes { try writeSome(#require(pipe?.writer.raw), $0) }
        #expect(written == 24)
        #expect(waitForAny(of: &entries, atMost: -1) && entries[0].isReady && !entries[1].isReady)
        #expect(read() == .bytes(8) && read() == .bytes(8) && read() == .bytes(8) && read() == .nothing)
        pipe = nil
        #expect(waitForAny(of: &entries, atMost: -1) && entries[0].isReady)
        #expect(read() == .ended)
        #expect(buffer.withUnsafeMutableBytes { readSome(-1, into: $0) } == .failed(Errno.last))
    }

    @Test("Everything is written, also to a pipe that does not wait for its reader")
    func wholeWrite() throws {
        let pipe = try #require(Pipe())
        #expect(setBlocking(pipe.writer.raw, false) == nil)
        let bytes = [UInt8](repeating: 7, count: 1 << 20)
        let code = Monitor<[Errno?]>([])
        let thread = try WorkerThread(name: "writer") {
            let end = bytes.withUnsafeBytes { writeAll($0, to: pipe.writer.raw) }
            code.change { $0.append(end) }
        }
        var (buffer, count) = ([UInt8](repeating: 0, count: 1 << 16), 0)
        while count < bytes.count, waitToRead(pipe.reader.raw, atMost: .seconds(60)) {
            let result = buffer.withUnsafeMutableBytes { readSome(pipe.reader.raw, into: $0) }
            if case .bytes(let more) = result { count += more }
        }
        thread.join()
        #expect(count == bytes.count && code.withLock { $0 } == [nil])
        #expect(bytes.withUnsafeBytes { writeAll($0, to: -1) } != nil)
    }

    @Test("A pause takes its time")
    func pause() {
        let begin = ContinuousClock.now
        pauseThread(milliseconds: 20)
        #expect(ContinuousClock.now - begin >= .milliseconds(20))
    }

    @Test("This process has a number, a user, a place and variables")
    func process() throws {
        #expect(CurrentProcess.identifier > 0)
        #expect(CurrentProcess.workingDirectory?.first == "/")
        #expect(CurrentProcess.variable("PATH") != nil && CurrentProcess.variable("NO_SUCH_VARIABLE") == nil)
        #expect(send(Signal(rawValue: 0), to: CurrentProcess.identifier) == nil)
        #expect(processorCount >= 1)
    }
}
