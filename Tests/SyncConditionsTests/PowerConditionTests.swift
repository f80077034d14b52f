import Foundation
import SyncTestKit
import Testing

@testable import SyncSchedule

/// One machine: directories below /sys/class/power_supply with their files, and what follows.
private struct Machine: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let supplies: [[String: String]]
    let expected: Verdict

    init(_ name: String, _ expected: Verdict, _ supplies: [String: String]...) {
        (testDescription, self.expected, self.supplies) = (name, expected, supplies)
    }

    static let mainsOn = ["type": "Mains", "online": "1"]
    static let mainsOff = ["type": "Mains", "online": "0"]
    static let discharging = ["type": "Battery", "status": "Discharging"]
    static let charging = ["type": "Battery", "status": "Charging"]
    static let mouse = ["type": "Battery", "scope": "Device", "status": "Discharging"]

    static let all = [
        Machine("nothing listed: a desktop", .ok), Machine("mains and no battery", .ok, mainsOn),
        Machine("mains off and no battery", .ok, mainsOff), Machine("laptop on mains", .ok, mainsOn, charging),
        Machine("laptop on mains, battery draining all the same", .ok, mainsOn, discharging),
        Machine("laptop on battery", .blocked, mainsOff, discharging),
        Machine(
            "laptop on battery, status not known yet", .blocked, mainsOff, ["type": "Battery", "status": "Unknown"]),
        Machine("laptop on battery, battery full", .blocked, mainsOff, ["type": "Battery", "status": "Full"]),
        Machine("USB-C charger", .ok, mainsOff, ["type": "USB", "online": "1"], charging),
        Machine("USB charger of another kind", .ok, ["type": "USB_PD", "online": "1"], charging),
        Machine("programmable supply", .ok, ["type": "USB", "online": "2"], charging),
        Machine("USB port without charger", .blocked, ["type": "USB", "online": "0"], discharging),
        Machine("wireless charger", .ok, ["type": "Wireless", "online": "1"], charging),
        Machine("desktop with a mouse", .ok, mouse),
        Machine(
            "laptop on battery with a mouse that charges", .blocked, mainsOff, discharging,
            ["type": "USB", "online": "1", "scope": "Device"]),
        Machine("battery bay is empty", .ok, mainsOff, ["type": "Battery", "present": "0", "status": "Unknown"]),
        Machine("UPS that drains: the mains are somewhere else", .ok, ["type": "UPS", "status": "Discharging"]),
        Machine("no supply listed, battery drains", .blocked, discharging),
        Machine("no supply listed, battery charges", .ok, charging),
        Machine("no supply listed, one of two drains", .blocked, charging, discharging),
        Machine("no supply listed, battery does not know", .unknown, ["type": "Battery", "status": "Unknown"]),
        Machine("no supply listed, battery says nothing", .unknown, ["type": "Battery"]),
        Machine("an entry without type", .unknown, ["online": "1"]),
        Machine("mains without online, battery charges", .unknown, ["type": "Mains"], charging),
        Machine("mains without online, battery drains", .blocked, ["type": "Mains"], discharging),
        Machine("mains with garbage", .unknown, ["type": "Mains", "online": "yes"]),
        Machine("mains beside an entry without type", .ok, mainsOn, [:]),
    ]
}

@Suite(.timeLimit(.minutes(10)))
struct PowerConditionTests {
    @Test("Mains, or no battery at all [S49]", arguments: Machine.all) fileprivate func table(machine: Machine) throws {
        let root = try TemporaryRoot()
        for (index, files) in machine.supplies.enumerated() {
            try root.write("0", to: "class/S\(index)/uevent")
            for (name, value) in files { try root.write(value + "\n", to: "class/S\(index)/\(name)") }
        }
        if machine.supplies.isEmpty { mkdir(root.path("class"), 0o700) }
        #expect(try PowerCondition(root: root.path("class")).verdict() == machine.expected)
    }

    @Test("A flip of the plug is seen at the next look [S133]")
    func flip() throws {
        let root = try TemporaryRoot()
        try root.write("Mains\n", to: "AC/type")
        try root.write("Battery\n", to: "BAT0/type")
        let condition = PowerCondition(root: root.path)
        for (online, expected) in [("1", Verdict.ok), ("0", .blocked), ("1", .ok)] {
            try root.write("\(online)\n", to: "AC/online")
            #expect(try condition.verdict() == expected)
        }
    }

    @Test("Where the kernel lists nothing, nobody knows [S49]")
    func unreadable() throws {
        let root = try TemporaryRoot()
        #expect(try PowerCondition(root: root.path("missing")).verdict() == .unknown)
    }
}
