import Synchronization

/// What a ``FaultServer`` answers, by path. Safe to change while the server runs.
final class FaultScript: Sendable {
    private enum PathScript: Sendable {
        case answers([FaultAnswer], next: Int)
        case rule(@Sendable (ServedRequest) -> FaultAnswer)
    }
    private struct State: Sendable {
        var paths: [String: PathScript] = [:]
        var fallback: (@Sendable (ServedRequest) -> FaultAnswer)?
        var connections: [ConnectionFault] = []
        var nextConnection = 0
    }
    private let state = Mutex(State())

    func set(_ path: String, answers: [FaultAnswer]) { state.withLock { $0.paths[path] = .answers(answers, next: 0) } }

    func set(_ path: String, rule: @escaping @Sendable (ServedRequest) -> FaultAnswer) {
        state.withLock { $0.paths[path] = .rule(rule) }
    }

    func setFallback(_ rule: @escaping @Sendable (ServedRequest) -> FaultAnswer) {
        state.withLock { $0.fallback = rule }
    }

    func setConnections(_ faults: [ConnectionFault]) {
        state.withLock {
            $0.connections = faults
            $0.nextConnection = 0
        }
    }

    /// The next answer for this request. Answers in order, the last one again and again; 404 without a script.
    func answer(to request: ServedRequest) -> FaultAnswer {
        // Rules run outside the lock: they may change the script.
        let (ready, rule) = state.withLock { state -> (FaultAnswer?, (@Sendable (ServedRequest) -> FaultAnswer)?) in
            switch state.paths[request.path] {
            case .rule(let rule): return (nil, rule)
            case .answers(let answers, let next):
                guard let answer = answers.dropFirst(next).first ?? answers.last else { return (nil, nil) }
                state.paths[request.path] = .answers(answers, next: next + 1)
                return (answer, nil)
            case nil: return (nil, state.fallback)
            }
        }
        return ready ?? rule?(request) ?? .status(404, text: "no such object\n")
    }

    /// What happens to the next connection. In order, the last one again and again; served without a script.
    func nextConnectionFault() -> ConnectionFault {
        state.withLock { state in
            let fault = state.connections.dropFirst(state.nextConnection).first ?? state.connections.last
            state.nextConnection += 1
            return fault ?? .serve
        }
    }
}

/// What becomes of a connection before any request on it is read.
public enum ConnectionFault: Sendable {
    /// Requests are read and answered.
    case serve
    /// Closed with FIN at once.
    case drop
    /// Closed with RST at once.
    case reset
    /// Kept open; nothing is read or sent, so a TLS handshake stalls too.
    case ignore
}
