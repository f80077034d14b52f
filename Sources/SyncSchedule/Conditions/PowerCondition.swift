import SyncPlugins
import SyncSystem

/// On mains power, or without a battery at all.
///
/// Reads the kernel's information: Documentation/ABI/testing/sysfs-class-power. A battery with `scope` `Device` powers
/// a peripheral such as a mouse and does not count. If there are batteries and no supply is reported, as on some ARM
/// machines, the state of the batteries decides.
struct PowerCondition: Condition {
    let name = "power"
    /// Where the kernel lists power supplies.
    let root: String

    func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        guard let names = try? directoryEntries(root)?.sorted() else {
            return .unknown(reason: "power supplies cannot be listed: \(root): \(errnoText)")
        }
        return Self.judge(names.map { Supply("\(root)/\($0)") })
    }

    struct Supply: Sendable, Equatable {
        /// `Mains`, `USB`, `Battery`, …; `nil` when it cannot be read.
        var type: String?
        /// Whether it supplies power; `nil` if that is not reported.
        var isOnline: Bool?
        /// `Device` for the battery of a mouse.
        var scope: String?
        /// `Charging`, `Discharging`, `Full`, `Not charging`, `Unknown`.
        var status: String?
        var isPresent = true
    }

    /// The rule, independent of the source of the values.
    static func judge(_ supplies: [Supply]) -> ConditionState {
        let ours = supplies.filter { $0.scope != "Device" }
        let sources = ours.filter(\.isSource)
        if sources.contains(where: { $0.isOnline == true }) { return .ok }
        let batteries = ours.filter { $0.type == "Battery" && $0.isPresent }
        let unreadable = ours.contains { $0.type == nil || $0.isSource && $0.isOnline == nil }
        if batteries.isEmpty { return unreadable ? .unknown(reason: "a power supply does not report its type") : .ok }
        if sources.isEmpty, !unreadable, !batteries.contains(where: { $0.status == "Discharging" }) {
            return batteries.contains { ["Charging", "Full", "Not charging"].contains($0.status) }
                ? .ok : .unknown(reason: "no power supply or battery reports whether there is mains power")
        }
        if unreadable, !batteries.contains(where: { $0.status == "Discharging" }) {
            return .unknown(reason: "a power supply does not report whether it supplies power")
        }
        return .blocked(reason: "the machine runs on its battery")
    }
}

extension PowerCondition.Supply {
    init(_ directory: String) {
        func value(_ name: String) -> String? { systemLine("\(directory)/\(name)").map(String.init) }
        // 2 is "online at a programmable voltage".
        self.init(
            type: value("type"), isOnline: value("online").flatMap { Int($0) }.map { $0 > 0 }, scope: value("scope"),
            status: value("status"), isPresent: value("present") != "0")
    }

    /// Whether it can power the machine: mains, USB in all its kinds, a wireless charger.
    var isSource: Bool {
        guard let type else { return false }
        return type == "Mains" || type.hasPrefix("USB") || type == "BrickID" || type == "Wireless"
    }
}
