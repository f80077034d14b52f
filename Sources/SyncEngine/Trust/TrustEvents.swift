import SyncModel
import SyncTrust

extension SyncEvent {
    /// A project is pinned.
    static func pinned(_ pin: TrustPin, note: String?, at time: Int64) -> SyncEvent {
        SyncEvent(.trustPinned, time: time, note: note) {
            $0.field("project", pin.project)
            $0.field("root", pin.root.content.number)
            $0.field("sha256", pin.root.statement.digest.hex)
            $0.field("origin", pin.basis)
        }
    }

    /// A place is of no use.
    ///
    /// - Parameters:
    ///   - next: The place that is asked now; `nil` for none.
    ///   - isAnother: Whether it is not what the pull ends with.
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

    /// An expired statement was accepted.
    static func stale(_ grace: TrustPin.Grace, _ pin: TrustPin, at time: Int64) -> SyncEvent {
        let until = timestamp(milliseconds: grace.until)
        let note = "\(pin.project): the statement that this is the newest expired at \(until); --stale accepts it"
        return SyncEvent(.trustStale, time: time, note: note) {
            $0.field("project", pin.project)
            $0.field("until", until)
        }
    }
}
