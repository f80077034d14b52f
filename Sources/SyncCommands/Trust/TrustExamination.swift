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
                for warning in TrustWarning.all(of: pin, now: SystemTime.milliseconds()) {
                    problem("trust \(pin.project)", warning.what, warning.advice)
                }
            }
        } catch { problem("trust", error.message, "see above") }
    }
}

/// A warning about a pin, before a pull is refused because of it.
struct TrustWarning {
    let what: String
    let advice: String

    /// The share of its validity after which a statement should have been signed again.
    private static let share = 0.8

    static func all(of pin: TrustPin, now: Int64) -> [TrustWarning] {
        var warnings: [TrustWarning] = []
        for fresh in [pin.newest.freshContent] + pin.channels.values.map(\.freshContent) {
            guard let fresh, !fresh.isRemoved, isLate(fresh.signed, fresh.until, now) else { continue }
            let channel = fresh.channel.map { " of channel \($0)" } ?? ""
            warnings.append(
                TrustWarning(
                    what: sentence(
                        "the statement that revision \(fresh.revision) is the newest\(channel)", fresh.until, now),
                    advice: "its publisher has to run 'syncagent keys refresh', ideally from a timer"))
        }
        let root = pin.root.content
        if isLate(root.signed, root.until, now) {
            warnings.append(
                TrustWarning(
                    what: sentence("root \(root.number)", root.until, now),
                    advice: "its publisher has to run 'syncagent keys rotate'"))
        }
        return warnings
    }

    /// One line for each warning about all pins; none if they cannot be read, which `doctor` reports.
    static func lines(stateDirectory: String) -> [String] {
        ((try? PinStore(stateDirectory: stateDirectory).all())?.pins ?? []).flatMap { pin in
            all(of: pin, now: SystemTime.milliseconds()).map { "\(pin.project): \($0.what); \($0.advice)" }
        }
    }

    private static func isLate(_ signed: Int64, _ until: Int64, _ now: Int64) -> Bool {
        Double(now) > Double(signed) + share * (Double(until) - Double(signed))
    }

    private static func sentence(_ subject: String, _ until: Int64, _ now: Int64) -> String {
        let time = timestamp(milliseconds: until)
        return now > until ? "\(subject) expired at \(time)" : "\(subject) expires at \(time)"
    }
}
