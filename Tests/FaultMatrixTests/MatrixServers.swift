import SyncTestKit
import Synchronization

/// Serves objects under one fault, armed and disarmed at will.
final class MatrixServers: Sendable {
    let stage: MatrixStage
    /// The authority whose certificates clients trust, in PEM.
    let trusted: String

    private struct State: Sendable {
        var fault: MatrixFault?
        var asked: [String: Int] = [:]
        var replaced: [String: ServedObject] = [:]
        var mirrorIsDown = false
    }
    private let state: Mutex<State>
    private let objects: [String: ServedObject]

    /// Serves `objects` by path; paths for which `isFaulty` says no are served well all the time.
    init(
        _ fault: MatrixFault,
        objects: [String: ServedObject],
        isFaulty: @escaping @Sendable (String) -> Bool = { _ in true }
    ) throws {
        self.objects = objects
        state = Mutex(State(fault: fault))
        let (options, trusted) = try Self.options(fault.setting)
        self.trusted = trusted
        let stage = MatrixStage(server: try FaultServer(options), mirror: try FaultServer())
        self.stage = stage
        stage.mirror.respondToOthers { [weak self] request in
            guard let self, !mirrorIsDown else { return .status(404) }
            return object(request.path).map { .object($0) } ?? .status(404)
        }
        stage.server.respondToOthers { [weak self] request in self?.answer(request, isFaulty) ?? .status(404)
        }
    }

    private func answer(_ request: ServedRequest, _ isFaulty: (String) -> Bool) -> FaultAnswer {
        // A redirect leads to /elsewhere/…/path; the object is the path's.
        var path = Substring(request.path)
        while path.hasPrefix("/elsewhere/") { path = path.dropFirst(11).drop { $0 != "/" } }
        guard let object = object(String(path)) else { return .status(404, text: "no such object") }
        guard isFaulty(String(path)) else { return .object(object) }
        let (fault, nth) = state.withLock { state -> (MatrixFault?, Int) in
            state.asked[request.path, default: 0] += 1
            return (state.fault, state.asked[request.path] ?? 0)
        }
        guard let fault else { return .object(object) }
        return fault.answer(MatrixQuestion(request: request, nth: nth, object: object))
    }

    private func object(_ path: String) -> ServedObject? {
        state.withLock { $0.replaced[path] } ?? objects[path]
    }

    /// Whether the mirror has nothing either.
    var mirrorIsDown: Bool {
        get { state.withLock { $0.mirrorIsDown } }
        set { state.withLock { $0.mirrorIsDown = newValue } }
    }

    /// Serves another object at a path.
    func replace(_ path: String, with object: ServedObject) { state.withLock { $0.replaced[path] = object } }

    /// Puts everything right.
    func disarm() throws {
        state.withLock { $0.fault = nil }
        stage.server.releaseStalls()
        stage.server.scriptConnections(.serve)
        try stage.server.openPort()
    }

    /// Begins a fault; its count of requests starts anew.
    func arm(_ fault: MatrixFault) {
        state.withLock {
            $0.fault = fault
            $0.asked = [:]
        }
    }

    private static func options(_ setting: MatrixFault.Setting) throws -> (
        FaultServer.Options, trusted: String
    ) {
        var options = FaultServer.Options()
        guard case .tls(let kind) = setting else { return (options, "") }
        let authority = try TestAuthority()
        let terms: TestAuthority.Terms =
            switch kind {
            case .expired: .expired
            case .notYetValid: .notYetValid
            case .wrongName: .wrongName
            default: .init()
            }
        let signer = kind == .unknownAuthority ? try TestAuthority() : authority
        var tls = ServerTLS(try signer.issue(terms))
        tls.offersHTTP2 = kind == .http2 || kind == .oneStream
        tls.isOnlyTLS10 = kind == .onlyTLS10
        if kind == .oneStream { options.http2Streams = 1 }
        options.tls = tls
        return (options, authority.certificate)
    }
}
