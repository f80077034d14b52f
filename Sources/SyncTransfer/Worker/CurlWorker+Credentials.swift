import SyncCurl
import SyncPlugins
import SyncSystem

/// What to show to one origin.
struct HostCredential {
    /// How far asking for it has come.
    enum State: Equatable {
        /// Providers are to be asked, because of this status if any.
        case unasked(refused: Int?)
        /// They are being asked; the number of the question.
        case asking(UInt64)
        /// This is it.
        case known
    }

    var state = State.known
    var kind: Credential.Kind?
    /// Raised with each other ``kind``; 0 when there is none.
    var version = 0
    /// Of all that there were.
    var lastVersion = 0
    /// When it has to be asked for again, **seconds** since 1970.
    var expires: Int64?
    /// Refusals since an answer was good.
    var refusals = 0
    /// Whether a provider gave it.
    var isProvided = false

    mutating func set(_ kind: Credential.Kind?) {
        state = .known
        guard kind != self.kind else { return }
        self.kind = kind
        lastVersion += 1
        version = kind == nil ? 0 : lastVersion
    }

    /// So many times another credential is asked for: since an answer was good, and for one part of a transfer, which
    /// may be refused for a reason of its own.
    static let mostRefusals = 2
}

extension CurlWorker {
    /// What is known from the start.
    func credential(for origin: Origin) -> HostCredential {
        var credential = HostCredential()
        if let kind = configuration.credentials[origin] {
            credential.set(kind)
        } else if providers.contains(where: { $0.scope.covers(origin) }) {
            credential.state = .unasked(refused: nil)
        }
        return credential
    }

    /// Whether a host has to wait for what providers say; asks them if that has not happened.
    func waitsForCredential(_ host: HostState) -> Bool {
        if host.credential.state == .known, let expires = host.credential.expires,
            expires <= configuration.clock.unixTime()
        {
            host.credential.state = .unasked(refused: nil)
        }
        switch host.credential.state {
        case .known: return false
        case .asking: return true
        case .unasked(let refused):
            ask(CredentialRequest(origin: host.origin.description, refused: refused), for: host)
            return true
        }
    }

    private func ask(_ request: CredentialRequest, for host: HostState) {
        let number = resolving.number()
        host.credential.state = .asking(number)
        let origin = host.origin
        timers.insert(
            Timer(at: now + configuration.pluginDeadline, action: .credentialDeadline(origin, number))
        )
        let asked = providers.filter { $0.scope.covers(origin) }
        // Without a thread nobody is asked: the deadline comes.
        _ = try? WorkerThread(name: "credentials") { [inbox] in
            inbox.post(.provided(origin, number, asked.credential(for: request)))
        }
    }

    /// Nobody has answered in time: requests go out without.
    func passCredentialDeadline(_ origin: Origin, _ number: UInt64) {
        let names = providers.map(\.name).joined(separator: ", ")
        let text =
            "no answer within \(configuration.pluginDeadline); requests to \(origin) go out without credentials"
        let failure = PluginError(plugin: names, code: .timedOut, message: text)
        provided(origin, number, ProvidedCredential(failures: [failure]))
    }

    /// Providers have answered.
    func provided(_ origin: Origin, _ number: UInt64, _ answer: ProvidedCredential) {
        guard let host = hosts[origin], host.credential.state == .asking(number) else { return }
        for failure in answer.failures { configuration.events(.pluginFailed(.credential, failure)) }
        host.credential.set(answer.credential?.kind)
        host.credential.isProvided = answer.credential != nil
        // After a failure it is asked for again before long.
        host.credential.expires =
            answer.failures.isEmpty ? answer.credential?.expires : configuration.clock.unixTime() + 60
        // They were told the former one.
        idleHandles -= host.handles.values.reduce(0) { $0 + $1.count }
        host.handles = [:]
        list(host)
    }

    /// A provided credential was refused: another one is asked for.
    ///
    /// - Returns: Whether the piece shall try again.
    func renewCredential(after fault: Fault, of piece: Piece, chain: RedirectChain) -> Bool {
        guard case .status(let status) = fault.kind, status == 401 || status == 403,
            let host = hosts[chain.current.origin], host.credential.isProvided,
            !chain.current.isSigned
        else { return false }
        // Somebody else's refusal has led to another one already.
        guard piece.shownCredential == host.credential.version, host.credential.state == .known else {
            return piece.credentialRefusals < HostCredential.mostRefusals
        }
        guard host.credential.refusals < HostCredential.mostRefusals,
            piece.credentialRefusals < HostCredential.mostRefusals
        else { return false }
        piece.credentialRefusals += 1
        host.credential.refusals += 1
        host.credential.state = .unasked(refused: status)
        return true
    }
}

/// What providers gave for one origin.
struct ProvidedCredential: Sendable {
    var credential: Credential?
    var failures: [PluginError] = []
}

extension [ConfiguredCredentialProvider] {
    /// The first credential that a provider has. Blocks.
    func credential(for request: CredentialRequest) -> ProvidedCredential {
        var result = ProvidedCredential()
        for entry in self {
            do throws(PluginError) {
                guard let found = try entry.provider.credential(for: request) else { continue }
                guard found.kind.isClean else {
                    let text = "a credential with a control character in it"
                    throw PluginError(plugin: entry.name, code: .badAnswer, message: text)
                }
                result.credential = found
                return result
            } catch {
                result.failures.append(error)
            }
        }
        return result
    }
}
