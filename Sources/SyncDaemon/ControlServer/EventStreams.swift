import SyncAgent
import SyncModel
import SyncServer
import SyncSystem

/// The open event streams: counted, and ended together when the server stops.
final class EventStreams: Sendable {
    private struct State {
        var open: [ObjectIdentifier: BodyStream] = [:]
        var isStopping = false
    }

    private let state = Mutex(State())

    /// **Bytes** buffered for one reader, beside the kernel's socket buffer.
    private static let capacity = 64 << 10

    /// Ends every stream. Later streams end at once.
    func endAll() {
        let open = state.withLock { state -> [BodyStream] in
            state.isStopping = true
            return Array(state.open.values)
        }
        for stream in open { stream.end() }
    }

    /// A response body with the lines. It is as fast as its client reads, and ends when the client disconnects.
    ///
    /// - Throws: ``ControlError`` with code `busy` if there are `limit` streams already.
    func body(_ lines: AsyncThrowingStream<String, any Error>, limit: Int) throws(ControlError) -> HTTPResponse.Body {
        let stream = BodyStream(capacity: Self.capacity)
        let isPlaced = state.withLock { state in
            guard state.open.count < limit else { return false }
            state.open[ObjectIdentifier(stream)] = stream
            if state.isStopping { stream.end() }
            return true
        }
        guard isPlaced else {
            throw ControlError(
                .busy, "\(limit) clients are already following events; end one of them.", exitStatus: .busy)
        }
        return .stream(stream) { stream in
            await withDiscardingTaskGroup { group in
                group.addTask { await Self.send(lines, to: stream) }
                await stream.left()
                group.cancelAll()
            }
            self.state.withLock { _ = $0.open.removeValue(forKey: ObjectIdentifier(stream)) }
        }
    }

    private static func send(_ lines: AsyncThrowingStream<String, any Error>, to stream: BodyStream) async {
        do {
            for try await line in lines where await !stream.write(line.utf8 + [0x0A]) { break }
        } catch is CancellationError {
            // The client has disconnected.
        } catch {
            let error =
                error as? ControlError ?? ControlError(.internal, escaped("\(error)"), exitStatus: .internalError)
            // The head has been sent, so the client gets the error as a last line. Text and one number always encode.
            if let line = try? ControlJSON.encode(["error": error]) { _ = await stream.write(line + [0x0A]) }
        }
        stream.end()
    }
}
