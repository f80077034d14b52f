import SyncPlugins
import SyncSystem

/// The credential for one origin.
struct HostCredential {
    enum State: Equatable {
        /// Providers must be asked; `refused` is the status that made it necessary, if any.
        case unasked(refused: Int?)
        /// Providers are being asked, with the question of this number.
        case asking(UInt64)
        case known
    }

    fileprivate(set) var state = State.known
    private(set) var kind: Credential.Kind?
    /// How often ``kind`` has changed.
    private var changes = 0
    /// How often providers have answered, even with the same credential.
    fileprivate(set) var answers = 0
    /// When the credential has to be requested again, **seconds** since 1970.
    fileprivate var expires: Int64?
    /// Refusals since the last accepted request.
    fileprivate var refusals = 0
    /// The status of the refusal after which the next request for a credential was postponed.
    fileprivate var lastRefusal: Int?
    /// Whether the credential stays in use although it was refused, until it is requested again.
    fileprivate var isPutOff = false
    /// The challenge of the server, once the answerer of challenges has been asked.
    fileprivate var challenge: (text: String, isPublic: Bool)?

    fileprivate mutating func set(_ kind: Credential.Kind?) {
        state = .known
        guard kind != self.kind else { return }
        self.kind = kind
        changes += 1
    }

    /// The number of the current ``kind``, raised with each new one; 0 if there is none.
    var version: Int { kind == nil ? 0 : changes }

    /// Whether the credential is from a provider.
    fileprivate var isProvided: Bool { answers > 0 && kind != nil }

    mutating func wasAccepted() { refusals = 0 }

    /// Whether the credential is the answer to a challenge. If so, a redirect, too, counts as acceptance.
    var isByChallenge: Bool { challenge != nil && isProvided }

    /// Whether requests are signed with it. Buckets answer 400 to expired keys, and to a signature for another region.
    var isSignature: Bool { if case .sigV4? = kind { true } else { false } }

    var isAsked: Bool { if case .asking = state { true } else { false } }
}

/// Knows the credentials of origins, and asks providers for those that are not configured.
final class CredentialBroker {
    private let configured: Credentials
    private let providers: [ConfiguredCredentialProvider]
    private let challenges: (any ChallengeAnswer)?
    private let deadline: Duration
    private let events: @Sendable (TransferEvent) -> Void
    private let agenda: Agenda
    private let inbox: Inbox
    private var lastQuestion: UInt64 = 0
    /// Questions whose deadline has passed while providers are still working on them.
    private var overdue: Set<UInt64> = []

    /// How often another credential is requested: since the last accepted request, and for one piece, which may be
    /// refused for a reason of its own.
    private static let mostRefusals = 2
    /// With this many overdue questions, requests go out without credentials: each question holds a thread.
    private static let mostOverdue = 3
    /// The name of the answerer of challenges in events.
    private static let challengeName = "registry"
    /// **Seconds** until a question is repeated that could not be answered, or was answered with an expired credential.
    /// Clocks differ, and asking again at once would never end.
    private static let pause: Int64 = 60

    init(_ configuration: TransportConfiguration, agenda: Agenda, inbox: Inbox) {
        configured = configuration.credentials
        providers = configuration.credentialProviders
        challenges = configuration.challenges
        deadline = configuration.pluginDeadline
        events = configuration.events
        self.agenda = agenda
        self.inbox = inbox
    }

    func credential(for origin: Origin) -> HostCredential {
        var credential = HostCredential()
        if let kind = configured[origin] {
            credential.set(kind)
        } else if providers.contains(where: { $0.scope.covers(origin) }) {
            credential.state = .unasked(refused: nil)
        }
        return credential
    }

    /// Whether a host has to wait for providers; asks them if necessary.
    func mustWait(_ host: HostState) -> Bool {
        if host.credential.state == .known, let expires = host.credential.expires, expires <= agenda.unixTime {
            host.credential.state = .unasked(refused: host.credential.lastRefusal)
        }
        switch host.credential.state {
        case .known: return false
        case .asking: return true
        case .unasked(let refused):
            guard overdue.count < Self.mostOverdue else {
                record(failed(.unavailable, "\(overdue.count) earlier questions are unanswered", host), for: host)
                return false
            }
            var request = CredentialRequest(origin: host.origin.description, refused: refused)
            (request.challenge, request.isPublic) = (
                host.credential.challenge?.text, host.credential.challenge?.isPublic ?? false
            )
            ask(request, for: host)
            return true
        }
    }

    private func ask(_ request: CredentialRequest, for host: HostState) {
        lastQuestion += 1
        let (number, origin) = (lastQuestion, host.origin)
        host.credential.state = .asking(number)
        agenda.add(.credentialDeadline(origin, number), at: agenda.now + deadline)
        let asked =
            request.challenge == nil
            ? providers.filter { $0.scope.covers(origin) }
            : challenges.map { [ConfiguredCredentialProvider(name: Self.challengeName, plugin: $0)] } ?? []
        do throws(ThreadError) {
            try WorkerThread(name: "credentials") { [inbox] in
                inbox.post(.provided(origin, number, asked.credential(for: request)))
            }
        } catch { inbox.post(.provided(origin, number, failed(.unavailable, "\(error)", host))) }
    }

    private func failed(_ code: PluginError.Code, _ text: String, _ host: HostState) -> ProvidedCredential {
        let names =
            host.credential.challenge != nil ? Self.challengeName : providers.map(\.name).joined(separator: ", ")
        let isKept = host.credential.isPutOff && host.credential.kind != nil
        let what = isKept ? "with the credentials from before" : "without credentials"
        let message = "\(text); requests to \(host.origin) go out \(what)"
        return (nil, [PluginError(plugin: names, code: code, message: message)])
    }

    /// Handles a missed deadline of providers: requests go out without a credential. Returns as ``take(_:_:for:)``.
    func passDeadline(of host: HostState?, _ number: UInt64) -> Bool {
        guard let host, isWaiting(host, for: number) else { return false }
        overdue.insert(number)
        record(failed(.timedOut, "no answer within \(deadline)", host), for: host)
        return true
    }

    /// Handles an answer of providers.
    ///
    /// - Returns: Whether the host was still waiting; handles with its former credential are then of no use.
    func take(_ answer: ProvidedCredential, _ number: UInt64, for host: HostState?) -> Bool {
        overdue.remove(number)
        guard let host, isWaiting(host, for: number) else { return false }
        record(answer, for: host)
        return true
    }

    private func record(_ answer: ProvidedCredential, for host: HostState) {
        for failure in answer.failures { events(.pluginFailed(.credential, failure)) }
        // A credential refused to some requests may be good for others. If no provider can name a new one, it stays.
        let isKept = host.credential.isPutOff && answer.credential == nil && !answer.failures.isEmpty
        host.credential.set(isKept ? host.credential.kind : answer.credential?.kind)
        host.credential.answers += 1
        if !isKept {
            host.credential.lastRefusal = nil
            host.credential.isPutOff = false
        }
        // A challenge that could not be answered is not asked about again for each request.
        if host.credential.challenge != nil, answer.credential == nil { host.credential.refusals = Self.mostRefusals }
        let now = agenda.unixTime
        // The user may log in meanwhile.
        let isUnanswered = !answer.failures.isEmpty || host.credential.challenge != nil && answer.credential == nil
        let expires = isUnanswered ? now : answer.credential?.expires
        host.credential.expires = expires.map { $0 > now ? $0 : now + Self.pause }
    }

    func isWaiting(_ host: HostState?, for number: UInt64) -> Bool { host?.credential.state == .asking(number) }

    /// Requests another credential if a provider's credential may have been refused.
    ///
    /// - Returns: Whether the piece shall try again.
    func renew(after fault: Fault, of piece: Piece, chain: RedirectChain, at host: HostState?, isPublic: Bool) -> Bool {
        guard case .status(let status) = fault.kind, let host, !chain.current.isSigned,
            [401, 403].contains(status) || status == 400 && host.credential.isSignature
        else { return false }
        let isChallenge =
            host.credential.challenge != nil
            || !host.credential.isProvided
                && fault.challenge.map { challenges?.mayAnswer($0, of: host.origin.description) ?? false } ?? false
        // After a 403, another token would have the same rights, unless the user logs in as somebody else. Where there
        // was no credential, there may be one later.
        guard isChallenge ? status == 401 : host.credential.isProvided else {
            if host.credential.answers > 0 { putOff(host) }
            return false
        }
        if piece.position > piece.refusedAt { piece.credentialRefusals = 0 }
        piece.refusedAt = piece.position
        // Another piece's refusal has already led to a new credential.
        guard piece.shownCredential == host.credential.answers, host.credential.state == .known else {
            return piece.credentialRefusals < Self.mostRefusals
        }
        guard host.credential.refusals < Self.mostRefusals, piece.credentialRefusals < Self.mostRefusals else {
            putOff(host)
            // The answerer of a challenge may give the same credential once more.
            if host.credential.challenge == nil { host.credential.lastRefusal = status }
            return false
        }
        piece.credentialRefusals += 1
        host.credential.refusals += 1
        if isChallenge, let text = fault.challenge { host.credential.challenge = (text, isPublic) }
        host.credential.state = .unasked(refused: status)
        return true
    }

    /// Accepts the refusal of the credential for now, and postpones the next request for one: the user may log in
    /// meanwhile, or change the keys. A wrong password that answered a challenge is not sent until then.
    private func putOff(_ host: HostState) {
        let later = agenda.unixTime + Self.pause
        host.credential.expires = min(host.credential.expires ?? later, later)
        host.credential.isPutOff = true
        guard host.credential.challenge != nil, host.credential.refusals >= Self.mostRefusals,
            case .basic? = host.credential.kind
        else { return }
        host.credential.set(nil)
    }
}

/// The answer of providers: a credential, and the failures on the way.
typealias ProvidedCredential = (credential: Credential?, failures: [PluginError])

extension [ConfiguredCredentialProvider] {
    /// The first credential that a provider gives. Blocks.
    fileprivate func credential(for request: CredentialRequest) -> ProvidedCredential {
        var failures: [PluginError] = []
        for entry in self {
            do throws(PluginError) {
                guard let found = try entry.plugin.credential(for: request) else { continue }
                guard found.kind.isClean else {
                    let text = "a credential with a control character in it"
                    throw PluginError(plugin: entry.name, code: .badAnswer, message: text)
                }
                return (found, failures)
            } catch { failures.append(error) }
        }
        return (nil, failures)
    }
}
