import SyncAgent
import SyncModel
import SyncServer
import SyncSystem

// The open event streams: counted, and ended together when the server stops.
extension ControlServer {
    /// **Bytes** buffered for one reader, beside the kernel's socket buffer.
    private static let streamCapacity = 64 << 10

    /// Ends every stream. Later streams end at once.
    func endStreams() {
        let open = streams.withLock { streams -> [BodyStream] in
            streams.isStopping = true
            return Array(streams.open.values)
        }
        for stream in open { stream.end() }
    }

    /// A response with the lines. It is as fast as its client reads, and ends when the client disconnects.
    ///
    /// - Throws: ``ControlError`` with code `busy` if there are ``maximumStreams`` already.
    func stream(_ lines: AsyncThrowingStream<String, any Error>) throws(ControlError) -> HTTPResponse {
        let stream = BodyStream(capacity: Self.streamCapacity)
        let isPlaced = streams.withLock { streams in
            guard streams.open.count < maximumStreams else { return false }
            streams.open[ObjectIdentifier(stream)] = stream
            if streams.isStopping { stream.end() }
            return true
        }
        guard isPlaced else {
            throw ControlError(
                .busy, "\(maximumStreams) clients are already following events; end one of them.", exitStatus: .busy)
        }
        let body = HTTPResponse.Body.stream(stream) { [streams] stream in
            await withDiscardingTaskGroup { group in
                group.addTask { await Self.send(lines, to: stream) }
                await stream.left()
                group.cancelAll()
            }
            streams.withLock { _ = $0.open.removeValue(forKey: ObjectIdentifier(stream)) }
        }
        return HTTPResponse(status: 200, headers: [.contentType: "application/x-ndjson"], body: body)
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
            if let line = try? ["error": error].controlJSON() { _ = await stream.write(line + [0x0A]) }
        }
        stream.end()
    }
}
