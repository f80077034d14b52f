import SyncPlugins
import SyncTestKit
import SyncTransfer
import Testing

/// One row of the fault catalogue as something a server does, and what has to come of it.
///
/// The same row runs at the level of a transport and of a whole pull.
struct MatrixFault: Sendable, CustomTestStringConvertible {
    /// How a transfer under the fault ends.
    enum Outcome: Sendable {
        /// With every byte: the fault passes, or can be worked around.
        case delivered
        /// With one of these codes, and no wrong byte taken.
        case fails([TransferError.Code])
    }

    /// Which server stands there.
    enum Setting: Sendable {
        case plain
        case tls(ServerKind)
        /// In cleartext, asked through itself as a proxy.
        case proxy

        enum ServerKind: Sendable {
            case good, http2, expired, notYetValid, wrongName, unknownAuthority, onlyTLS10, oneStream
        }
    }

    /// A sentence with the row's number in brackets.
    let name: String
    var outcome: @Sendable (Situation) -> Outcome = { _ in .delivered }
    /// Whether a pull may be done although the transfer fails: every byte was right before the fault showed.
    var mayShowTooLate = false
    var setting = Setting.plain
    /// Whether a second source, without faults, is named after the first.
    var hasMirror = false
    /// Whether the transport gives its server up.
    var isGivenUp = false
    var configure: @Sendable (inout TransportConfiguration) -> Void = { _ in }
    /// Done before the transfer starts.
    var before: @Sendable (MatrixStage) throws -> Void = { _ in }
    /// Done while it runs.
    var during: @Sendable (MatrixStage) async throws -> Void = { _ in }
    /// The host that is asked while the fault is armed, in place of the server's.
    var host: String?
    /// What the server answers.
    var answer: @Sendable (MatrixQuestion) -> FaultAnswer = { $0.good }
    /// What must hold afterwards, at the level of the transport.
    var check: @Sendable (MatrixStage, Situation) throws -> Void = { _, _ in }

    var testDescription: String { name }

    init(_ name: String, _ change: (inout MatrixFault) -> Void) {
        self.name = name
        change(&self)
    }

    /// A fault that is nothing but answers: the first ones in order, then good ones.
    init(_ name: String, first answers: @escaping @Sendable (MatrixQuestion) -> [FaultAnswer]) {
        self.init(name) { fault in
            fault.answer = { question in answers(question).dropFirst(question.nth - 1).first ?? question.good }
        }
    }

    /// A fault that stays as long as it is armed, and makes the transfer fail.
    init(
        _ name: String, fails codes: [TransferError.Code],
        always answer: @escaping @Sendable (MatrixQuestion) -> FaultAnswer
    ) {
        self.init(name) { fault in
            fault.answer = answer
            fault.outcome = { _ in .fails(codes) }
        }
    }

    /// A fault that stays, and that the transfer gets around.
    init(_ name: String, always answer: @escaping @Sendable (MatrixQuestion) -> FaultAnswer) {
        self.init(name) { $0.answer = answer }
    }
}

/// One request under a fault.
struct MatrixQuestion: Sendable {
    let request: ServedRequest
    /// Number of the request for this object since the fault was armed; the first is 1.
    let nth: Int
    /// The object that is asked for.
    let object: ServedObject
    /// The servers of the case.
    let stage: MatrixStage

    /// What a server without faults answers.
    var good: FaultAnswer { .object(object) }

    /// **Bytes** of the body that a good answer has.
    var bodyCount: Int {
        guard let range = request.range(ofSize: object.bytes.count) else { return object.bytes.count }
        return range.clamped(to: 0..<object.bytes.count).count
    }

    /// First **byte** of the object in a good answer.
    var start: Int { request.range(ofSize: object.bytes.count)?.lowerBound ?? 0 }
}

/// The server of one case, and what the fault may do to it.
final class MatrixStage: Sendable {
    let server: FaultServer
    /// Another server without faults, with the same objects.
    let mirror: FaultServer
    /// A certificate that clients trust, other than the server's first one.
    let renewed: ServerTLS?
    /// A certificate that clients do not trust.
    let untrusted: ServerTLS?

    init(server: FaultServer, mirror: FaultServer, renewed: ServerTLS?, untrusted: ServerTLS?) {
        self.server = server
        self.mirror = mirror
        self.renewed = renewed
        self.untrusted = untrusted
    }

    /// Shows another certificate from now on, and breaks what is connected.
    func show(_ tls: ServerTLS?) throws {
        guard let tls else { throw MatrixFailure("no certificate in this setting") }
        try server.changeTLS(tls)
    }

    /// Requests that came with a header.
    func requests(with header: String) -> Int { server.log.values(of: header).count }
}

/// Fails a case with what was expected.
struct MatrixFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// Throws unless a condition holds.
func require(_ condition: Bool, _ message: @autoclosure () -> String) throws {
    if !condition { throw MatrixFailure(message()) }
}
