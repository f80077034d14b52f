import SyncContent
import SyncManifest
import SyncModel
import SyncSystem
import SyncTrust

/// A pin, and the stored one that it was made from.
struct BelievedPin {
    var pin: TrustPin
    /// The stored pin; `nil` if this one is new.
    var kept: TrustPin?
    /// A root named by the user, to which the check must lead; `nil` if none was.
    var anchor: TrustPin.Root?
    /// The root that the user's choice led to: trust begins there again if the pin is ever lost; `nil` if there was no
    /// choice.
    var beginning: SHA256Digest?
    /// Whether the last statement came from a public address; `nil` if unknown.
    var isPublic: Bool?
    /// Makes the event that the project is pinned, to be reported once the pin is stored; `nil` if it was pinned
    /// before.
    var news: ((_ time: Int64) -> SyncEvent)?
}

// Turns the user's choice of whom to trust into a pin: a file with a root, a fingerprint, or the first root found.
extension ReleaseSource {
    /// The command's choice of whom to trust; `nil` if it made none.
    func anchored(_ location: String) throws(EngineError) -> BelievedPin? {
        guard let anchor = choice.anchor else { return nil }
        let basis: TrustPin.Basis =
            switch anchor {
            case .file: .file
            case .fingerprint: .fingerprint
            case .first, .unreadable: .first
            }
        return try begin(anchor, basis, location)
    }

    /// The pin for an anchor: the stored one, if it started from this root, has passed it, or may yet reach it; else a
    /// new one.
    func begin(_ anchor: TrustChoice.Anchor, _ basis: TrustPin.Basis, _ location: String) throws(EngineError)
        -> BelievedPin
    {
        if case .fingerprint(let digest) = anchor,
            let pin = try pins.all().pins.first(where: { $0.roots.contains(digest) })
        {
            return BelievedPin(pin: pin, kept: pin, beginning: digest)
        }
        let new = try pin(anchor, basis, location)
        let named = new.root.statement.digest
        guard let kept = try pins.pin(new.project) else {
            let isFirst = anchor == .first
            let note =
                "\(new.project) is pinned on first use to SHA256:\(named); "
                + "compare it with the publisher's"
            return BelievedPin(pin: new, anchor: isFirst ? nil : new.root, beginning: named) {
                .pinned(new, note: isFirst ? note : nil, at: $0)
            }
        }
        guard anchor != .first else {
            // The first use was earlier: the root that is served first today does not count.
            return BelievedPin(pin: kept, kept: kept, beginning: kept.roots.first ?? kept.root.statement.digest)
        }
        guard !kept.roots.contains(named) else { return BelievedPin(pin: kept, kept: kept, beginning: named) }
        // After a change of keys, the file may arrive before this machine has seen the change.
        guard new.root.content.number > kept.root.content.number else {
            throw refused(
                "\(new.project) is pinned to another root, SHA256:\(kept.root.statement.digest); if this one is right, run: "
                    + "syncagent trust forget \(new.project)")
        }
        return BelievedPin(pin: kept, kept: kept, anchor: new.root, beginning: named)
    }

    private func pin(_ anchor: TrustChoice.Anchor, _ basis: TrustPin.Basis, _ location: String) throws(EngineError)
        -> TrustPin
    {
        let end = SuspendingClock.now + choice.patience
        func make(_ bytes: [UInt8], _ shown: String) throws(EngineError) -> TrustPin {
            do throws(TrustRefusal) { return try TrustPin(root: bytes, basis: basis, now: environment.now()) } catch {
                throw refused("\(shown): \(error.message)")
            }
        }
        switch anchor {
        case .unreadable(let error): throw error
        case .file(let path, let bytes): return try make(bytes, escaped(path))
        case .fingerprint(let digest):
            var count = 0
            var newest: UInt64?
            for number in 1...UInt64(TrustCheck.mostRoots) {
                let (bytes, shown) = try root(number, location, until: end)
                if let bytes {
                    let pin = try make(bytes, shown)
                    if pin.root.statement.digest == digest { return pin }
                    count += 1
                    continue
                }
                // Roots of keys that were lost may be gone.
                if newest == nil { newest = try newestNumber(location, until: end) }
                if let newest, number < newest { continue }
                throw refused(
                    count == 0
                        ? "\(shown) is not there: the set published there is not signed"
                        : "\(redacted(url: location)): none of the roots there is SHA256:\(digest); "
                            + "is that the digest that 'syncagent keys show' prints, and is this the right URL?")
            }
            throw refused(
                "\(redacted(url: location)): none of the first \(TrustCheck.mostRoots) roots is SHA256:\(digest)")
        case .first:
            // The first root of the present keys: where root keys were lost, a new chain of roots has begun.
            var first: TrustPin?
            var last: TrustPin?
            var missing = ""
            let newest = min(try newestNumber(location, until: end), UInt64(TrustCheck.mostRoots))
            for number in 1...max(1, newest) {
                let (bytes, shown) = try root(number, location, until: end)
                guard let bytes else {
                    (last, missing) = (nil, shown)
                    continue
                }
                let pin = try make(bytes, shown)
                let follows = last.map { pin.root.statement.isSigned(.root, by: $0.root.content.root) }
                if follows != true { first = pin }
                last = pin
            }
            guard let first else { throw refused("\(missing) is not there: the set published there is not signed") }
            return first
        }
    }

    /// The number of the newest root as the place itself states it, unverified; 0 if it states none.
    private func newestNumber(_ location: String, until end: SuspendingClock.Instant) throws(EngineError) -> UInt64 {
        let bytes = try statement(FreshStatement.name(nil), .fresh, location, until: end).bytes
        guard let bytes, let statement = try? SignedStatement(bytes, limit: Role.fresh.limit),
            let fresh = try? FreshStatement(json: statement.json)
        else { return 0 }
        return fresh.root
    }

    private func root(_ number: UInt64, _ location: String, until end: SuspendingClock.Instant) throws(EngineError) -> (
        bytes: [UInt8]?, shown: String
    ) { try statement("\(number).root", .root, location, until: end) }

    private func statement(_ name: String, _ role: Role, _ location: String, until end: SuspendingClock.Instant)
        throws(EngineError) -> (bytes: [UInt8]?, shown: String)
    {
        let url = resolve("trust/\(name)", against: manifestURL(location))
        do throws(ReleaseSource.Failure) {
            let served = try source.statement(url, limit: role.limit, reload: false, until: end)
            let isPage = served.bytes.map { isWebPage($0) } ?? false
            // A denied first root, or a page in its place, is an error; after the last root, either may only mean that
            // there is none.
            if name == "1.root" {
                if let denied = served.refusal { throw ManifestSource.refusal(denied) }
                if isPage { throw .refused(.webPage, url: url) }
            }
            return (isPage ? nil : served.bytes, redacted(url: url))
        } catch { throw error.engineError }
    }
}

extension SyncEvent {
    /// The event that a project is pinned.
    static func pinned(_ pin: TrustPin, note: String?, at time: Int64) -> SyncEvent {
        SyncEvent(.trustPinned, time: time, note: note) {
            $0.field("project", pin.project)
            $0.field("root", pin.root.content.number)
            $0.field("sha256", pin.root.statement.digest.hex)
            $0.field("origin", pin.basis)
        }
    }

    /// The event that a place is of no use.
    ///
    /// - Parameters:
    ///   - next: The place that is asked now; `nil` for none.
    ///   - isAnother: Whether the pull ends with the error of another place.
    static func refused(_ url: String, _ refusal: TrustRefusal, asking next: String?, isAnother: Bool, at time: Int64)
        -> SyncEvent
    {
        let url = redacted(url: url)
        let asking = next.map { "; asking \(redacted(url: $0))" }
        let note = asking ?? (isAnother ? "" : nil)
        return SyncEvent(.trustRefused, time: time, note: note.map { "\(url): \(refusal.message)\($0)" }) {
            $0.field("url", url)
            $0.field("cause", refusal.cause)
            $0.field("reason", refusal.message)
        }
    }

    /// The event that an expired statement was accepted.
    static func stale(_ grace: TrustPin.Grace, _ pin: TrustPin, at time: Int64) -> SyncEvent {
        let until = timestamp(milliseconds: grace.until)
        let note = "\(pin.project): the statement that this is the newest expired at \(until); --stale accepts it"
        return SyncEvent(.trustStale, time: time, note: note) {
            $0.field("project", pin.project)
            $0.field("until", until)
        }
    }
}
