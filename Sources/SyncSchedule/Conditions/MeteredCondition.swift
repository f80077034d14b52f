import SyncModel
import SyncPlugins
import SyncSystem

/// On a network that is not metered, or within the budget for one that is.
///
/// NetworkManager's property `Metered` describes the connection of the default route: 1 yes, 2 no, 3 and 4 the same as
/// a guess, 0 unknown; enum NMMetered in its D-Bus API. Yes and guessed yes count as metered.
struct MeteredCondition: Condition {
    let name = "metered"
    /// Body **bytes** that a run may receive on a metered network.
    var budget: UInt64 = 0
    /// The bus of NetworkManager.
    let bus: SystemBus

    func state(in context: ConditionContext) throws(PluginError) -> ConditionState {
        do throws(FileError) {
            let metered = try bus.number(
                "Metered", of: "org.freedesktop.NetworkManager", service: "org.freedesktop.NetworkManager",
                path: "/org/freedesktop/NetworkManager")
            return Self.judge(metered, received: context.receivedBytes, budget: budget)
        } catch { return .unknown(reason: "cannot tell whether the network is metered: \(error.reason)") }
    }

    /// The rule, independent of the source of the value.
    static func judge(_ metered: UInt64, received: UInt64, budget: UInt64) -> ConditionState {
        switch metered {
        case 1, 3:
            let what = metered == 1 ? "the network is metered" : "the network seems to be metered"
            if budget == 0 { return .blocked(reason: what) }
            if received < budget { return .ok }
            return .blocked(
                reason: "\(what), and \(ByteCount(received)) of the \(ByteCount(budget)) allowed have been received")
        case 0, 2, 4: return .ok
        default: return .unknown(reason: "NetworkManager reports \(metered) for 'metered', which is not a known value")
        }
    }
}
