import SyncAgent
import SyncEngine
import SyncModel
import SyncSystem
import SyncTrust

extension Findings {
    /// Whether a signed statement is about to expire.
    mutating func examineTrust(_ access: StateAccess) {
        do throws(EngineError) {
            let (pins, damage) = try PinStore(stateDirectory: access.place.stateDirectory).all()
            for error in damage { problem("trust", error.message, "see above") }
            for pin in pins {
                for warning in pin.warnings(now: SystemTime.milliseconds()) {
                    problem("trust \(pin.project)", warning.what, warning.advice)
                }
            }
        } catch { problem("trust", error.message, "see above") }
    }
}

extension PinStore {
    /// One line for each warning about all pins; none if they cannot be read, which `doctor` reports.
    var warnings: [String] {
        ((try? all())?.pins ?? []).flatMap { pin in
            pin.warnings(now: SystemTime.milliseconds()).map { "\(pin.project): \($0.what); \($0.advice)" }
        }
    }
}

extension TrustPin {
    /// The share of its validity after which a statement should have been signed again.
    private static let share = 0.8

    /// Warnings, before a pull is refused because of this pin.
    fileprivate func warnings(now: Int64) -> [(what: String, advice: String)] {
        var warnings: [(what: String, advice: String)] = []
        for fresh in [newest.freshContent] + channels.values.map(\.freshContent) {
            guard let fresh, !fresh.isRemoved, Self.isLate(fresh.signed, fresh.until, now) else { continue }
            let channel = fresh.channel.map { " of channel \($0)" } ?? ""
            let subject = "the statement that revision \(fresh.revision) is the newest\(channel)"
            warnings.append(
                (
                    Self.sentence(subject, fresh.until, now),
                    "its publisher has to run 'syncagent keys refresh', ideally from a timer"
                ))
        }
        let root = root.content
        if Self.isLate(root.signed, root.until, now) {
            warnings.append(
                (
                    Self.sentence("root \(root.number)", root.until, now),
                    "its publisher has to run 'syncagent keys rotate'"
                ))
        }
        return warnings
    }

    private static func isLate(_ signed: Int64, _ until: Int64, _ now: Int64) -> Bool {
        Double(now) > Double(signed) + share * (Double(until) - Double(signed))
    }

    private static func sentence(_ subject: String, _ until: Int64, _ now: Int64) -> String {
        let time = timestamp(milliseconds: until)
        return now > until ? "\(subject) expired at \(time)" : "\(subject) expires at \(time)"
    }
}
