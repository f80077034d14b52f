import Glibc
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTestKit
import SyncTransfer
import Testing

@Suite("Files beside a local manifest are read as a server would send them", .timeLimit(.minutes(10)))
struct FileTransportTests {
    static let object = ServedObject.patterned(size: 1_000_000)

    /// Files `a` with the object and `b` without anything.
    private final class Shelf: Sendable {
        let root: TemporaryRoot
        let transport = FileTransport()

        init() throws {
            root = try TemporaryRoot()
            try root.write(FileTransportTests.object.bytes, to: "a")
            try root.write([UInt8](), to: "b")
        }

        deinit { transport.shutdown() }

        func url(_ name: String) -> String { "file://\(root.path(name))" }

        func start(
            _ names: [String] = ["a"], range: Range<UInt64>? = nil, limit: UInt64 = .max, id: UInt64 = 1,
            sink: CollectingSink.Behaviour = .init()
        ) -> TransferRun {
            var sink = sink
            if let range { sink.start = range.lowerBound }
            let id = TransferID(rawValue: id)
            let request = TransferRequest(id: id, urls: names.map(url), range: range, limit: limit)
            return TransferRun(request, on: transport, sink: CollectingSink(sink))
        }

        func failure(_ run: TransferRun) async throws -> TransferError {
            switch try await run.end() {
            case .success: throw TestKitError("succeeded, expected a failure")
            case .failure(let error): return error
            }
        }
    }

    @Test(
        "A range arrives alone, and counts no other bytes",
        arguments: [0..<1, 5..<900_000, 999_999..<1_000_000, 1_000_000..<1_000_000, 7..<7])
    func ranges(
        range: Range<UInt64>
    ) async throws {
        let shelf = try Shelf()
        let run = shelf.start(range: range)
        let report = try await run.end().get()
        #expect(isSame(run.sink.bytes, Self.object.bytes[Int(range.lowerBound)..<Int(range.upperBound)]))
        #expect(report.bytesReceived == range.upperBound - range.lowerBound)
        #expect(run.sink.violations.isEmpty)
    }

    @Test(
        "A range that the file does not have is no success",
        arguments: [
            999_999..<1_000_001, 1_000_000..<1_000_001, 2_000_000..<3_000_000, 0..<UInt64.max,
            (UInt64.max - 1)..<UInt64.max,
        ])
    func beyond(range: Range<UInt64>) async throws {
        let shelf = try Shelf()
        let run = shelf.start(range: range)
        #expect(try await shelf.failure(run).code == .badAnswer)
        #expect(run.sink.bytes.isEmpty)
    }

    @Test("A sink that wants bytes before or behind the range gets none of them")
    func eager() async throws {
        let shelf = try Shelf()
        let request = TransferRequest(id: TransferID(rawValue: 1), urls: [shelf.url("a")], range: 10..<20, limit: 10)
        var behaviour = CollectingSink.Behaviour()
        behaviour.start = 25
        let behind = TransferRun(request, on: shelf.transport, sink: CollectingSink(behaviour))
        #expect(try await behind.end().get().bytesReceived == 0)
        behaviour.start = 3
        let before = TransferRun(request, on: shelf.transport, sink: CollectingSink(behaviour))
        // It refuses what it did not ask for.
        #expect(try await shelf.failure(before).code == .stoppedBySink)
        #expect(before.sink.violations == ["bytes at 10, wanted 3"])
    }

    @Test("What may not be read is told apart from what is not there")
    func permission() async throws {
        let shelf = try Shelf()
        #expect(try await shelf.failure(shelf.start(["none"])).code == .badStatus(404))
        #expect(try await shelf.failure(shelf.start(["a/x"], id: 2)).code == .badStatus(404))
        // A transport of its own: its thread is not there yet.
        let closed = try Shelf()
        chmod(closed.root.path("a"), 0)
        let run = try asNobody { closed.start(["a", "none"]) }
        let error = try await closed.failure(run)
        #expect(error.code == .badStatus(403) && error.detail.contains("cannot be read"), "\(error)")
        #expect(error.cause == .other, "no server asks for credentials")
    }

    /// Root may read everything, but for a thread that looks at files as somebody else. setfsuid(2)
    private func asNobody(_ body: @escaping @Sendable () -> TransferRun) throws -> TransferRun {
        guard geteuid() == 0 else { return body() }
        typealias SetUser = @convention(c) (UInt32) -> Int32
        let setUser = unsafeBitCast(try #require(dlsym(nil, "setfsuid")), to: SetUser.self)
        let run = Monitor<TransferRun?>(nil)
        try WorkerThread(name: "nobody") {
            _ = setUser(65_534)
            let started = body()  // The transport's thread is created here, and looks the same way.
            run.change { $0 = started }
        }
        return run.wait { $0 }
    }

    @Test("When one file fails, the next is read")
    func mirrors() async throws {
        let shelf = try Shelf()
        let run = shelf.start(["none", "b", "a"], range: 0..<1_000)
        let report = try await run.end().get()
        #expect(report.sourceIndex == 2 && report.currentURL == shelf.url("a"))
        #expect(isSame(run.sink.bytes, Self.object.bytes[..<1_000]))
    }

    @Test("More bytes than allowed are none")
    func limit() async throws {
        let shelf = try Shelf()
        let run = shelf.start(limit: 999_999)
        #expect(try await shelf.failure(run).code == .tooLarge)
        #expect(run.sink.calls.isEmpty)
    }

    @Test("What is read and what waits is listed, with the bytes that have come of the range, up to a limit [S161]")
    func statuses() async throws {
        let shelf = try Shelf()
        let paused = Monitor(false)
        var behaviour = CollectingSink.Behaviour()
        behaviour.pauseEvery = 1
        behaviour.onPause = { paused.change { $0 = true } }
        var runs = [shelf.start(range: 5..<900_000, sink: behaviour)]
        _ = try await waitFor { paused.withLock { $0 } ? true : nil }
        runs += (2...4).map { shelf.start(id: $0) }
        let now = WallTime(milliseconds: 0)
        let all = try #require(shelf.transport.transferStatuses(limit: 9, at: now))
        #expect(all.more == 0 && all.transfers.map(\.transfer) == [1, 2, 3, 4])
        #expect(all.transfers.map(\.state) == [.receiving, .queued, .queued, .queued])
        let first = all.transfers[0]
        #expect(first.received == UInt64(runs[0].sink.bytes.count) && first.received > 0)
        #expect(first.range == [5, 900_000] && first.source == "file:" && first.original == shelf.url("a"))
        let some = try #require(shelf.transport.transferStatuses(limit: 2, at: now))
        #expect(some.more == 2 && some.transfers.map(\.transfer) == [1, 2])
        // The one that is read comes last: the next would be read at once.
        for id in [4, 3, 2, 1] as [UInt64] { shelf.transport.cancel(TransferID(rawValue: id)) }
        for run in runs { #expect(try await shelf.failure(run).code == .cancelled) }
        #expect(try await waitFor { shelf.transport.transferStatuses(limit: 9, at: now) }.transfers.isEmpty)
    }

    @Test("A cancel before the start is kept")
    func cancelledEarly() async throws {
        let shelf = try Shelf()
        shelf.transport.cancel(TransferID(rawValue: 1))
        // Even where there is nothing to read.
        let run = shelf.start(["b"])
        #expect(try await shelf.failure(run).code == .cancelled)
        #expect(run.sink.calls.isEmpty)
    }

    @Test("A shutdown ends what is paused and what waits, and a start after it")
    func shutdown() async throws {
        let shelf = try Shelf()
        let paused = Monitor(false)
        var behaviour = CollectingSink.Behaviour()
        behaviour.pauseEvery = 1
        behaviour.onPause = { paused.change { $0 = true } }
        let runs = (1...20).map { shelf.start(id: $0, sink: behaviour) }
        await withCheckedContinuation { continuation in
            onOtherThread {
                paused.wait { $0 ? true : nil }
                shelf.transport.shutdown()
                continuation.resume()
            }
        }
        for run in runs {
            #expect(run.completions == 1, "it has ended when shutdown() returns")
            #expect(try await shelf.failure(run).code == .cancelled)
        }
        #expect(try await shelf.failure(shelf.start(id: 21)).code == .cancelled)
    }

    @Test("A sink may shut the transport down")
    func shutdownInside() async throws {
        let shelf = try Shelf()
        let transport = shelf.transport
        var behaviour = CollectingSink.Behaviour()
        behaviour.pauseEvery = 1
        behaviour.onPause = { transport.shutdown() }
        #expect(try await shelf.failure(shelf.start(sink: behaviour)).code == .cancelled)
    }
}

private func onOtherThread(_ body: @escaping @Sendable () -> Void) {
    do { try WorkerThread(name: "test", body: body) } catch { body() }
}
