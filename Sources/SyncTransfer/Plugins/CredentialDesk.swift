import SyncCurl
import SyncPlugins
import SyncSystem

/// The credential for one origin.
struct HostCredential {
    enum State: Equatable {
        /// Providers must be asked, because of this status if any.
        case unasked(refused: Int?)
        /// Providers are being asked; the number of the question.
        case asking(UInt64)
        case known
    }

    fileprivate(set) var state = State.known
    private(set) var kind: Credential.Kind?
    /// How often ``kind`` has changed.
    private var changes = 0
    /// How often providers have answered, be it with the same credential again.
    fileprivate(set) var answers = 0
    /// When it has to be requested again, **seconds** since 1970.
    fileprivate var expires: Int64?
    /// Refusals since the last accepted request.
    fileprivate var refusals = 0
    /// The status of the one after which it was put off to request it again.
    fileprivate var lastRefusal: Int?
    /// Whether it is used on, although refused, until it is requested again.
    fileprivate var isPutOff = false
    /// What the server said it wants, where whoever answers challenges has been asked.
    fileprivate var challenge: (text: String, isPublic: Bool)?

    fileprivate mutating func set(_ kind: Credential.Kind?) {
        state = .known
        guard kind != self.kind else { return }
        self.kind = kind
        changes += 1
    }

    /// Which ``kind`` it is, counted up with each new one; 0 if there is none.
    var version: Int { kind == nil ? 0 : changes }

    /// Whether it is from a provider.
    fileprivate var isProvided: Bool { answers > 0 && kind != nil }

    mutating func wasAccepted() { refusals = 0 }

    /// Whether it is the answer to a challenge: then a redirect accepts it, too.
    var isByChallenge: Bool { challenge != nil && isProvided }

    /// Whether requests are signed with it: 400 is what buckets say of keys that have ended, and of a signature for another region.
    var isSignature: Bool { if case .sigV4? = kind { true } else { false } }

    var isAsked: Bool { if case .asking = state { true } else { false } }
}

/// Knows the credentials of origins, and asks providers for those that are not configured.
final class CredentialDesk {
    private let configured: Credentials
    private let providers: [ConfiguredCredentialProvider]
    private let challenges: (any ChallengeAnswer)?
    private let deadline: Duration
    private let events: @Sendable (TransferEvent) -> Void
    private let agenda: Agenda
    private let inbox: Inbox
    private var lastQuestion: UInt64 = 0
    /// Questions whose deadline has passed while providers still think.
    private var overdue: Set<UInt64> = []

    /// How often another credential is requested: since the last accepted request, and for one piece, which may be
    /// refused for a reason of its own.
    private static let mostRefusals = 2
    /// With so many questions overdue, requests go out without credentials: each holds a thread.
    private static let mostOverdue = 3
    /// What events call whoever answers challenges.
    private static let challengeName = "registry"
    /// **Seconds** after which is asked again what could not be answered, or was answered with an expired credential:
    /// clocks differ, and asking again at once would never end.
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

    /// Whether a host has to wait for providers; asks them if need be.
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

    /// Providers have not answered in time: requests go out without a credential. As ``take(_:_:for:)``.
    func passDeadline(of host: HostState?, _ number: UInt64) -> Bool {
        guard let host, isWaiting(host, for: number) else { return false }
        overdue.insert(number)
        record(failed(.timedOut, "no answer within \(deadline)", host), for: host)
        return true
    }

    /// Providers have answered.
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
        // What was refused to some requests may be good for others: where nobody can say what there is now, it stays.
        let isKept = host.credential.isPutOff && answer.credential == nil && !answer.failures.isEmpty
        host.credential.set(isKept ? host.credential.kind : answer.credential?.kind)
        host.credential.answers += 1
        if !isKept {
            host.credential.lastRefusal = nil
            host.credential.isPutOff = false
        }
        // What could not be answered is not asked again for each request.
        if host.credential.challenge != nil, answer.credential == nil { host.credential.refusals = Self.mostRefusals }
        let now = agenda.unixTime
        // The user may log in meanwhile.
        let isUnanswered = !answer.failures.isEmpty || host.credential.challenge != nil && answer.credential == nil
        let expires = isUnanswered ? now : answer.credential?.expires
        host.credential.expires = expires.map { $0 > now ? $0 : now + Self.pause }
    }

    func isWaiting(_ host: HostState?, for number: UInt64) -> Bool { host?.credential.state == .asking(number) }

    /// A provider's credential may have been refused: requests another.
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
        // Another token would have the same rights, unless the user logs in as somebody else; and where there was no credential
        // there may be one later.
        guard isChallenge ? status == 401 : host.credential.isProvided else {
            if host.credential.answers > 0 { putOff(host) }
            return false
        }
        if piece.position > piece.refusedAt { piece.credentialRefusals = 0 }
        piece.refusedAt = piece.position
        // Another piece's refusal has already led to a new one.
        guard piece.shownCredential == host.credential.answers, host.credential.state == .known else {
            return piece.credentialRefusals < Self.mostRefusals
        }
        guard host.credential.refusals < Self.mostRefusals, piece.credentialRefusals < Self.mostRefusals else {
            putOff(host)
            // Whoever answers a challenge may show the same once more.
            if host.credential.challenge == nil { host.credential.lastRefusal = status }
            return false
        }
        piece.credentialRefusals += 1
        host.credential.refusals += 1
        if isChallenge, let text = fault.challenge { host.credential.challenge = (text, isPublic) }
        host.credential.state = .unasked(refused: status)
        return true
    }

    /// What there is is refused for now, and looked for again later: the user may log in meanwhile, or change the keys. A wrong
    /// password that a challenge was answered with is not shown until then.
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

/// What providers have said, and which of them could not.
typealias ProvidedCredential = (credential: Credential?, failures: [PluginError])

extension [ConfiguredCredentialProvider] {
    /// The first credential that a provider has. Blocks.
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
