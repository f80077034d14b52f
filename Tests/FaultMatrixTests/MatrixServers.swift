import SyncTestKit
import Synchronization

/// Serves objects under one fault, armed and disarmed at will.
final class MatrixServers: Sendable {
    let stage: MatrixStage
    /// The authority whose certificates clients trust, in PEM.
    var trusted: String { kinds.trusted }
    private let kinds: Kinds

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
        _ fault: MatrixFault, objects: [String: ServedObject],
        isFaulty: @escaping @Sendable (String) -> Bool = { _ in true }
    ) throws {
        self.objects = objects
        state = Mutex(State(fault: fault))
        let kinds = try Kinds(fault.setting)
        self.kinds = kinds
        let stage = MatrixStage(
            server: try FaultServer(kinds.options), mirror: try FaultServer(), renewed: kinds.good,
            untrusted: kinds.untrusted)
        self.stage = stage
        stage.mirror.respondToOthers { [weak self] request in
            guard let self, !mirrorIsDown else { return .status(404) }
            return object(request.path).map { .object($0) } ?? .status(404)
        }
        stage.server.respondToOthers { [weak self] request in self?.answer(request, isFaulty) ?? .status(404) }
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
        return fault.answer(MatrixQuestion(request: request, nth: nth, object: object, stage: stage))
    }

    private func object(_ path: String) -> ServedObject? { state.withLock { $0.replaced[path] } ?? objects[path] }

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
        try trust()
    }

    /// Shows a certificate that clients trust.
    func trust() throws { if let good = kinds.good { try stage.server.changeTLS(good) } }

    /// Begins a fault; its count of requests starts anew.
    func arm(_ fault: MatrixFault) throws {
        if let faulty = kinds.options.tls { try stage.server.changeTLS(faulty) }
        state.withLock {
            $0.fault = fault
            $0.asked = [:]
        }
    }

    /// What the server shows under a fault, and without one.
    private struct Kinds {
        var options = FaultServer.Options()
        var trusted = ""
        var good: ServerTLS?
        var untrusted: ServerTLS?

        init(_ setting: MatrixFault.Setting) throws {
            guard case .tls(let kind) = setting else { return }
            let authority = try TestAuthority()
            let stranger = try TestAuthority()
            let terms: TestAuthority.Terms =
                switch kind {
                case .expired: .expired
                case .notYetValid: .notYetValid
                case .wrongName: .wrongName
                default: .init()
                }
            let offersHTTP2 = kind == .http2 || kind == .oneStream
            func tls(_ signer: TestAuthority, _ terms: TestAuthority.Terms = .init()) throws -> ServerTLS {
                var tls = ServerTLS(try signer.issue(terms))
                tls.offersHTTP2 = offersHTTP2
                return tls
            }
            var faulty = try tls(kind == .unknownAuthority ? stranger : authority, terms)
            faulty.isOnlyTLS10 = kind == .onlyTLS10
            if kind == .oneStream { options.http2Streams = 1 }
            options.tls = faulty
            trusted = authority.certificate
            good = try tls(authority)
            untrusted = try tls(stranger)
        }
    }
}
