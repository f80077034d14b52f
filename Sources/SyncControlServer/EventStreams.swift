import HTTPTypes
import Hummingbird
import NIOCore
import SyncControl
import SyncModel
import Synchronization

/// The event streams that are open: counted, and ended together when the server stops.
final class EventStreams: Sendable {
    private struct State {
        var open: [ObjectIdentifier: LineBuffer] = [:]
        var isStopping = false
    }

    private let state = Mutex(State())
    private let limit: Int

    /// **Bytes** that wait for one reader, beside what the kernel's socket buffer holds.
    private static let capacity = 64 << 10

    init(limit: Int) { self.limit = limit }

    /// Ends every stream, and those that come later at once.
    func endAll() {
        let open = state.withLock { state in
            state.isStopping = true
            return Array(state.open.values)
        }
        for buffer in open { buffer.end() }
    }

    /// A place for one more stream.
    ///
    /// - Throws: ``ControlError`` with code `busy` when all are taken.
    func open() throws(ControlError) -> LineBuffer {
        let buffer = LineBuffer(capacity: Self.capacity)
        let isPlaced = state.withLock { state in
            guard state.open.count < limit else { return false }
            state.open[ObjectIdentifier(buffer)] = buffer
            if state.isStopping { buffer.end() }
            return true
        }
        guard isPlaced else {
            throw ControlError(
                .busy,
                "\(limit) clients follow events already; end one of them.",
                exitStatus: .busy
            )
        }
        return buffer
    }

    /// The answer's body: the stream's lines, as fast as the client reads; ends when the client goes away.
    func body(
        _ lines: AsyncThrowingStream<String, any Error>,
        through buffer: LineBuffer,
        on channel: any Channel
    ) -> ResponseBody {
        // A client that has gone says so here only, as long as there is nothing to write.
        channel.closeFuture.whenComplete { _ in
            buffer.end()
            self.close(buffer)
        }
        return ResponseBody { writer in
            defer {
                buffer.end()
                self.close(buffer)
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    do {
                        for try await line in lines where await !buffer.put(line) { break }
                        buffer.end()
                    } catch {
                        buffer.end(error)
                    }
                }
                do {
                    while let bytes = try await buffer.take() {
                        try await writer.write(ByteBuffer(bytes: bytes))
                    }
                } catch let error as ControlError {
                    // The head has gone out: the reader learns of it as a last line.
                    let line = try ControlJSON.encode(ErrorAnswer(error))
                    try await writer.write(ByteBuffer(bytes: line + [0x0A]))
                }
                group.cancelAll()
            }
            try await writer.finish(nil)
        }
    }

    private func close(_ buffer: LineBuffer) {
        state.withLock { _ = $0.open.removeValue(forKey: ObjectIdentifier(buffer)) }
    }
}
