import SyncContent
import SyncManifest
import SyncModel
import SyncPlugins
import SyncSystem
import SyncTrust

/// Finds a manifest. If its project is pinned, only a manifest that the trusted signers have signed is accepted.
///
/// 1. The trust: that of the command, else the pin of the place, else that of the project that the manifest names, else
///   the configuration's pin of that project, else none.
/// 2. The statements that ``TrustCheck`` asks for, from one place after the other.
/// 3. The manifest, by its digest: no cache can pair an old one with a new statement.
struct ReleaseSource {
    let source: ManifestSource
    let pins: PinStore
    let environment: EngineEnvironment
    var wanted = WantedRelease()
    /// Whether an old release may be asked for. Then only the named place counts, but not what it says about the newest
    /// release.
    var looksBack = false

    var choice: TrustChoice { environment.trust }

    /// How often it starts over because another process has stored something newer.
    private static let attempts = 5

    func find(_ given: String) throws(EngineError) -> FoundManifest {
        let found = try release(at: given)
        guard source.base == nil || found.derivation != nil else {
            throw EngineError(
                .usage,
                "\(found.shown) is a manifest and says itself where its files are; --base is for a checksum list: leave it out"
            )
        }
        return found
    }

    private func release(at given: String) throws(EngineError) -> FoundManifest {
        let location = ManifestSource.named(given)
        try source.check(wanted, at: location)
        if let anchored = try anchored(location) { return try signed(location, anchored) }
        let place = try PinStore.digest(location.withoutSecretsOfPlace)
        if let pin = try pins.pin(at: place) { return try signed(location, BelievedPin(pin: pin, kept: pin)) }
        let found = try source.find(given, wanted)
        if let pin = try pins.pin(found.project) { return try signed(location, BelievedPin(pin: pin, kept: pin)) }
        if let anchor = choice.pins[found.project] {
            let believed = try begin(anchor, .configuration, location)
            guard believed.pin.project == found.project else {
                throw refused(
                    "the pin of \(escaped(found.project)) in the configuration is for \(believed.pin.project)")
            }
            return try signed(location, believed)
        }
        guard !choice.requiresSignature else {
            throw refused(
                "\(found.shown): \(escaped(found.project)) is not pinned, and the configuration refuses unsigned "
                    + "releases; pin it with --trust")
        }
        return found
    }

    /// The manifest of an earlier run. What was signed then is installed now.
    func recorded(_ digest: SHA256Digest, project: String, location: String, isPublic: Bool?, isSigned: Bool)
        throws(EngineError) -> FoundManifest
    {
        let pin = try pins.pin(project)
        if !isSigned, pin != nil {
            throw refused(
                "this run of \(escaped(project)) was requested before the project was pinned, and its release is not signed; "
                    + "pull it again")
        }
        var found: FoundManifest
        if isSigned, source.cache.body(digest) == nil {
            do throws(Failure) {
                found = try source.manifest(digest, size: nil, at: manifestURL(location), location, reload: false).found
            } catch { throw error.engineError }
        } else {
            found = try source.recorded(digest, location: location, wanted, isPublic: isPublic)
        }
        if isSigned, let pin { found.add(pin.root.content.mirrors) }
        return found
    }

    // MARK: Places

    /// A place to ask, and its deadlines.
    private struct Asked {
        let place: String
        /// Whether to bypass all caches.
        var reload = false
        /// How long its statements may take; the time starts anew with each root that is accepted.
        let patience: Duration
        /// When all places together must have answered.
        let last: SuspendingClock.Instant
        /// When its statements must have arrived.
        var end: SuspendingClock.Instant

        init(_ place: String, within patience: Duration, until last: SuspendingClock.Instant) {
            (self.place, self.patience, self.last) = (place, patience, last)
            end = min(last, .now + patience)
        }

        mutating func restart() { end = min(last, .now + patience) }
    }

    /// Why a place was of no use.
    enum Failure: Error {
        case refused(TrustRefusal, url: String)
        case engine(EngineError)
        /// The trusted signers have decided it: no other place is asked.
        case settled(EngineError)
        /// Another process has stored something newer.
        case overtaken

        var engineError: EngineError {
            switch self {
            case .refused(let refusal, let url): ReleaseSource.refused(url, refusal)
            case .engine(let error), .settled(let error): error
            case .overtaken: EngineError(.busy, "other pulls of the project keep changing the pin; pull again")
            }
        }
    }

    private static func refused(_ url: String, _ refusal: TrustRefusal) -> EngineError {
        EngineError(
            refusal.cause.isSilence ? .unavailable : .refused,
            "\(redacted(url: url)): \(refusal.message); nothing was changed",
            cause: refusal.cause.isSilence ? .unreachable : .signature)
    }

    func refused(_ message: String) -> EngineError { EngineError(.refused, message, cause: .signature) }

    /// Finds a former release by the file that keeps it beside the newest one: its statement has its number.
    private func signedOfKept(_ location: String, _ believed: BelievedPin) throws(EngineError) -> FoundManifest {
        let kept = try source.find(location)
        var releases = self
        releases.wanted.revision = try kept.decode().revision
        let answer: FoundManifest?
        do throws(EngineError) { answer = try releases.signed(location, believed) } catch {
            guard error.status == .noInput else { throw error }
            // Nobody has signed a release with this number.
            answer = nil
        }
        guard let found = answer, found.digest == kept.digest else {
            throw refused("\(redacted(url: location)) is not a manifest that was signed; nothing was changed")
        }
        return found
    }

    /// Asks one place after the other until one is accepted.
    private func signed(_ location: String, _ believed: BelievedPin) throws(EngineError) -> FoundManifest {
        if looksBack, wanted.revision == nil, ManifestPlace(location).baseURL != manifestURL(location) {
            return try signedOfKept(location, believed)
        }
        // One time for the whole check, however long it takes. TUF 5.1.
        let now = environment.now()
        var believed = believed
        let places = try places(location, believed.pin, now)
        var refusal: EngineError?
        var other: EngineError?
        let patience = min(choice.patience, choice.patienceWithAll / places.count)
        let last = SuspendingClock.now + choice.patienceWithAll
        for (number, place) in places.enumerated() {
            var (asked, attempts) = (Asked(place, within: patience, until: last), 0)
            while true {
                do throws(Failure) { return try check(&asked, location, &believed, now: now) } catch {
                    if case .settled(let settled) = error { throw settled }
                    if case .overtaken = error, attempts < Self.attempts {
                        attempts += 1
                        if let kept = try pins.pin(believed.pin.project) {
                            (believed.pin, believed.kept, believed.news) = (kept, kept, nil)
                        }
                        continue
                    }
                    guard case .refused(let cause, let url) = error else {
                        other = other ?? error.engineError
                        break
                    }
                    // A cache may have an old statement: bypass it, once.
                    if !asked.reload, ![.unsigned, .clock].contains(cause.cause), !cause.cause.isSilence,
                        !place.hasPrefix("file:")
                    {
                        asked.reload = true
                        continue
                    }
                    // The pull ends with the error of one of the places.
                    let isAnother = (cause.cause.isSilence ? refusal ?? other : refusal) != nil
                    if cause.cause.isSilence {
                        other = other ?? error.engineError
                    } else {
                        refusal = refusal ?? error.engineError
                    }
                    // An unreachable place may be back the next time, or this machine may have been offline.
                    if places.count > 1, ![.clock, .unreachable].contains(cause.cause) {
                        try penalise(place, &believed, now)
                    }
                    if places.count > 1 || cause.cause != .unreachable {
                        let next = SuspendingClock.now < last ? places[(number + 1)...].first : nil
                        environment.events.emit(
                            .refused(url, cause, asking: next, isAnother: isAnother, at: environment.now()))
                    }
                }
                break
            }
            if source.stop.isStopped || SuspendingClock.now >= last { break }
        }
        throw refusal ?? other ?? refused("\(redacted(url: location)): there is no signed release")
    }

    /// The places to ask: the named one and its mirrors, recently refused ones last.
    private func places(_ location: String, _ pin: TrustPin, _ now: Int64) throws(EngineError) -> [String] {
        guard !looksBack else { return [ManifestPlace(location).baseURL] }
        var places = [manifestURL(location)]
        for mirror in pin.root.content.mirrors where !places.contains(mirror + "manifest.json") {
            places.append(mirror + "manifest.json")
        }
        var (first, last) = ([String](), [String]())
        for place in places {
            if pin.isPenalised(try Self.digest(place), now: now) { last.append(place) } else { first.append(place) }
        }
        return first + last
    }

    private static func digest(_ place: String) throws(EngineError) -> SHA256Digest {
        try PinStore.digest(withoutSecrets(place))
    }

    /// Records for the next pull that a place was refused.
    private func penalise(_ place: String, _ believed: inout BelievedPin, _ now: Int64) throws(EngineError) {
        var pin = believed.pin
        pin.penalise(try Self.digest(place), now: now)
        guard believed.kept != nil else { return believed.pin = pin }
        // If another process was faster, the next pull asks there once more.
        do throws(Failure) { try keep(pin, &believed) } catch { if case .engine(let error) = error { throw error } }
    }

    /// Checks the statements of one place, and its manifest.
    private func check(_ asked: inout Asked, _ location: String, _ believed: inout BelievedPin, now: Int64)
        throws(Failure) -> FoundManifest
    {
        var check = TrustCheck(
            believed.pin, now: now, grace: choice.grace, channel: wanted.channel, revision: wanted.revision,
            looksBack: looksBack)
        while true {
            switch check.want {
            case .manifest(let digest, let size):
                return try finish(&check, digest: digest, size: size, asked: asked, location: location, &believed)
            case .fresh:
                let name = FreshStatement.name(wanted.channel)
                try take(&check, name, limit: Role.fresh.limit, from: &asked, &believed)
            case .root(let number):
                try take(&check, "\(number).root", limit: Role.root.limit, from: &asked, &believed)
            case .release(let revision):
                try take(&check, "\(revision).release", limit: Role.release.limit, from: &asked, &believed)
            }
        }
    }

    private func take(
        _ check: inout TrustCheck, _ name: String, limit: Int, from asked: inout Asked, _ believed: inout BelievedPin
    ) throws(Failure) {
        let place = asked.place
        let url = resolve("trust/\(name)", against: place)
        var served = try source.statement(url, limit: limit, reload: asked.reload, until: asked.end)
        if let bytes = served.bytes, isWebPage(bytes) {
            // Some servers show a page for whatever they do not have, such as the next root.
            guard case .root = check.want else { throw .refused(.webPage, url: url) }
            served.bytes = nil
        }
        if served.bytes != nil { believed.isPublic = served.isPublic }
        if served.bytes == nil, isNotThere(check) {
            let names = wanted.revision == nil ? source.channels(besides: place)?.names : nil
            throw .engine(wanted.isMissing(redacted(url: place), names))
        }
        var refusal: TrustRefusal?
        let number = check.pin.root.content.number
        do throws(TrustRefusal) { try check.take(served.bytes) } catch { refusal = error }
        if check.pin.root.content.number > number { asked.restart() }
        // An accepted root stays, whatever comes after it. TUF 5.3.8.
        if check.pin != believed.pin, believed.kept != nil {
            try keep(check.pin, &believed)
        } else {
            believed.pin = check.pin
        }
        guard let refusal else { return }
        // The statement may be there, and only denied to this user.
        if let denied = served.refusal, [.unsigned, .mixed].contains(refusal.cause) {
            throw ManifestSource.refusal(denied)
        }
        guard refusal.cause == .removed else {
            // There is no newer root, so the refusal concerns what was fetched before.
            guard served.bytes == nil, case .root = check.want else { throw .refused(refusal, url: url) }
            throw .refused(refusal, url: resolve("trust/" + FreshStatement.name(wanted.channel), against: place))
        }
        throw .settled(wanted.isMissing(redacted(url: place), source.channels(besides: place)?.names, wasRemoved: true))
    }

    /// Whether a missing statement is that of a channel or revision that was never accepted, rather than an attack.
    private func isNotThere(_ check: TrustCheck) -> Bool {
        switch check.want {
        case .fresh: check.channel != nil && check.track.fresh == nil && check.track.serial == 0
        case .release(let revision): revision == wanted.revision
        case .root, .manifest: false
        }
    }

    private func keep(_ pin: TrustPin, _ believed: inout BelievedPin) throws(Failure) {
        defer { believed.pin = pin }
        guard !source.cache.isReadOnly, pin != believed.kept else { return }
        let isKept = try engine { [kept = believed.kept] () throws(EngineError) in try pins.keep(pin, inPlaceOf: kept) }
        guard isKept else { throw .overtaken }
        believed.kept = pin
        if let news = believed.news.take() { environment.events.emit(news(environment.now())) }
    }

    /// The manifest that the statements agree on.
    private func finish(
        _ check: inout TrustCheck, digest: SHA256Digest, size: UInt64, asked: Asked, location: String,
        _ believed: inout BelievedPin
    ) throws(Failure) -> FoundManifest {
        let place = asked.place
        if !looksBack, let anchor = believed.anchor, !check.pin.roots.contains(anchor.statement.digest) {
            let (number, project) = (check.pin.root.content.number, check.pin.project)
            throw .refused(
                TrustRefusal(
                    .older,
                    "the newest root of \(project) there is \(number), and root \(anchor.content.number), which --trust "
                        + "names, does not follow it; if that one is right, run: syncagent trust forget \(project)"),
                url: place)
        }
        let project = check.pin.project
        let name = "signed \(project)" + (wanted.name.map { " \($0)" } ?? "")
        var found: FoundManifest
        if let kept = source.kept(digest, name, at: place, location, believed.isPublic) {
            found = kept
            // A known release was verified when it was first accepted.
            let manifest = check.isKnown ? nil : try engine { () throws(EngineError) in try kept.decode() }
            try accept(&check, manifest, place)
        } else {
            let response = try source.manifest(
                digest, size: size, at: place, location, reload: asked.reload, within: choice.patience)
            found = response.found
            try accept(&check, engine { () throws(EngineError) in try response.found.decode() }, place)
            let entry = ManifestCache.Entry(
                digest: digest, validator: Validator(), isCompressed: true, project: project)
            source.cache.remember(entry, body: response.body, for: name)
        }
        let pin = try engine { () throws(EngineError) in
            var pin = check.pin
            pin.note(place: try PinStore.digest(location.withoutSecretsOfPlace))
            pin.forgive(try Self.digest(place))
            return pin
        }
        try keep(pin, &believed)
        if let grace = check.grace { environment.events.emit(.stale(grace, pin, at: environment.now())) }
        found.release = TrustedRelease(check)
        found.release?.beginning = believed.beginning
        found.add(check.root.mirrors)
        return found
    }

    /// - Parameter manifest: `nil` if its project and revision are known.
    private func accept(_ check: inout TrustCheck, _ manifest: Manifest?, _ place: String) throws(Failure) {
        do throws(TrustRefusal) {
            try check.accept(
                project: manifest?.project ?? check.pin.project, revision: manifest?.revision ?? check.track.revision)
        } catch { throw .refused(error, url: place) }
    }

    private func engine<R>(_ work: () throws(EngineError) -> R) throws(Failure) -> R {
        do throws(EngineError) { return try work() } catch { throw .engine(error) }
    }
}

extension TrustRefusal {
    /// A server shows a page where a statement has to be.
    static let webPage = TrustRefusal(.malformed, "a web page came in its place")
}

// Fetches statements, and manifests by digest. Everything is bounded, and the manifest is the one asked for; whether
// it is signed is up to ``ReleaseSource``.
extension ManifestSource {
    /// The bytes of a statement, `nil` if there is none; whether they came from a public address; and the server's 403,
    /// which leaves open whether there is one: buckets answer 403 for what they do not have.
    typealias Statement = (bytes: [UInt8]?, isPublic: Bool?, refusal: TransferError?)

    /// - Parameter end: When the statement must have arrived.
    func statement(_ url: String, limit: Int, reload: Bool, until end: SuspendingClock.Instant) throws(ReleaseSource
        .Failure) -> Statement
    {
        switch fetch(url, limit: limit, reload: reload, until: end) {
        case .success((let bytes, let report)): return (bytes, report.isPublic, nil)
        case .failure(let error):
            if stop.isStopped { throw .engine(EngineError(.interrupted, "stopped while looking at signatures")) }
            if error.code == .tooLarge {
                throw .refused(TrustRefusal(.malformed, "it has more than \(limit) bytes"), url: url)
            }
            switch error.status {
            case 404, 410: return (nil, nil, nil)
            case 403: return (nil, nil, error)
            default: break
            }
            if error.exitStatus == .refused { throw Self.refusal(error) }
            throw Self.silence(error, url, until: end)
        }
    }

    /// The failure when a server, or a policy, denies a statement.
    static func refusal(_ error: TransferError) -> ReleaseSource.Failure {
        .engine(EngineError(.refused, "cannot fetch a signature: \(error)", cause: error.cause))
    }

    /// The failure when nothing arrived that could be checked.
    private static func silence(_ error: TransferError, _ url: String, until end: SuspendingClock.Instant?)
        -> ReleaseSource.Failure
    {
        if error.code == .cancelled, let end, SuspendingClock.now >= end {
            return .refused(TrustRefusal(.slow, "it takes too long to arrive"), url: url)
        }
        return .refused(TrustRefusal(.unreachable, "cannot fetch it: \(error.detail)"), url: url)
    }

    private func fetch(_ url: String, limit: Int, reload: Bool, until end: SuspendingClock.Instant?)
        -> Result<(bytes: [UInt8], report: TransferReport), TransferError>
    {
        let request = TransferRequest(
            id: .next(), urls: [url], limit: UInt64(limit), priority: .max, reload: reload)
        return fetch(request, until: end)
    }

    /// Fetches the manifest with this digest from a place.
    ///
    /// - Parameters:
    ///   - size: **Bytes** of its text; `nil` if unknown.
    ///   - patience: How long the fetch may take, with a second more for each KiB of the text; `nil` for no limit.
    func manifest(
        _ digest: SHA256Digest, size: UInt64?, at place: String, _ location: String, reload: Bool,
        within patience: Duration? = nil
    ) throws(ReleaseSource.Failure) -> (found: FoundManifest, body: [UInt8]) {
        let most = limits.ownTextBytes
        if let size, size > UInt64(most) { throw .engine(tooLong(redacted(url: place))) }
        let url = resolve("manifests/\(digest).json.zst", against: place)
        // No publisher's frame is longer than its text plus what zstd adds at most, ZSTD_compressBound.
        let bound = size.map { min(most, Int(clamping: $0 + $0 / 256 + 512)) } ?? most
        let (body, isPublic): ([UInt8], Bool?)
        let end = patience.map { SuspendingClock.now + $0 + .seconds((size ?? 0) / 1024) }
        switch fetch(url, limit: bound, reload: reload, until: end) {
        case .success(let response): (body, isPublic) = (response.bytes, response.report.isPublic)
        case .failure(let error):
            if stop.isStopped { throw .engine(EngineError(.interrupted, "stopped while fetching the manifest")) }
            if error.status == 404 || error.status == 410 {
                throw .refused(TrustRefusal(.mixed, "the signed manifest is not there"), url: url)
            }
            if bound < most, error.code == .tooLarge {
                throw .refused(TrustRefusal(.mixed, "it is longer than the signed manifest"), url: url)
            }
            let engineError = refusal(error)
            throw engineError.status == .unavailable ? Self.silence(error, url, until: end) : .engine(engineError)
        }
        let limit = size.map { Int($0) } ?? most
        guard (try? sha256(decodeZstd(body, limit: limit))) == digest else {
            throw .refused(TrustRefusal(.mixed, "it is not the signed manifest"), url: url)
        }
        do throws(EngineError) {
            let found = ManifestPlace(location, base: place, isPublic: isPublic)
            let manifest = try decode(body, isCompressed: true, at: found, shown: redacted(url: url))
            return (FoundManifest(manifest, at: found, self), body)
        } catch { throw .engine(error) }
    }

    /// The manifest with this digest as cached under a name, not yet decoded; `nil` if it is not cached.
    func kept(_ digest: SHA256Digest, _ name: String, at place: String, _ location: String, _ isPublic: Bool?)
        -> FoundManifest?
    {
        guard !cache.isReadOnly, let entry = cache.entry(for: name), entry.digest == digest else { return nil }
        let found = ManifestPlace(location, base: place, isPublic: isPublic)
        return cached(entry, at: found) { () throws(EngineError) in
            do throws(ReleaseSource.Failure) {
                return try manifest(digest, size: nil, at: place, location, reload: true).found
            } catch { throw error.engineError }
        }
    }
}
