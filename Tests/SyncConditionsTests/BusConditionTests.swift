import Foundation
import SyncPlugins
import SyncTestKit
import Testing

@testable import SyncSchedule

@Suite(
    "Conditions that ask the system's bus", .timeLimit(.minutes(10)),
    .enabled(if: FakeBus.missing == nil, "\(FakeBus.missing ?? "")"))
struct BusConditionTests {
    @Test("Yes and guessed yes are metered; no, guessed no and unknown are not; flips are seen [S49 S52]")
    func metered() throws {
        let bus = try FakeBus()
        let condition = MeteredCondition(bus: SystemBus(address: bus.address))
        for (value, expected) in [
            ("0", Verdict.ok), ("1", .blocked), ("2", .ok), ("3", .blocked), ("4", .ok), ("1", .blocked),
            ("5", .unknown), ("text", .unknown), ("4", .ok),
        ] {
            try bus.set("Metered", value)
            #expect(try condition.verdict() == expected, "Metered \(value)")
        }
    }

    @Test("A budget lets a run go on until it is used up [S52]")
    func budget() throws {
        let bus = try FakeBus()
        try bus.set("Metered", "1")
        let condition = MeteredCondition(budget: 500, bus: SystemBus(address: bus.address))
        #expect(try condition.verdict(received: 0) == .ok)
        #expect(try condition.verdict(received: 499) == .ok)
        #expect(try condition.verdict(received: 500) == .blocked)
        try bus.set("Metered", "2")
        #expect(try condition.verdict(received: 500) == .ok)
    }

    @Test("Idle for long enough, by logind [S49]")
    func idle() throws {
        let bus = try FakeBus()
        let condition = IdleCondition(seconds: 600, bus: SystemBus(address: bus.address))
        let now: Int64 = 1_800_000_000_000
        #expect(try condition.verdict(at: now) == .blocked, "somebody types")
        try bus.set("IdleHint", "true")
        #expect(try condition.verdict(at: now) == .ok, "no session at all: idle since ever")
        try bus.set("IdleSinceHint", "\((now - 599_000) * 1_000)")
        let context = ConditionContext(destination: "/", now: now)
        #expect(
            try condition.state(in: context)
                == .blocked(reason: "somebody used the machine 599 s ago, and 600 s are required", until: now + 1_000))
        #expect(try condition.verdict(at: now + 1_000) == .ok)
    }

    @Test("dbus-send asks where there is no busctl")
    func otherProgram() throws {
        let send = try #require(ChildProgram.find("dbus-send"))
        let bus = try FakeBus()
        let programs = try TemporaryRoot()
        try programs.link("dbus-send", to: send)
        let system = SystemBus(address: bus.address, directories: [programs.path])
        let (metered, idle) = (MeteredCondition(bus: system), IdleCondition(seconds: 600, bus: system))
        #expect(try metered.verdict() == .ok)
        try bus.set("Metered", "3")
        #expect(try metered.verdict() == .blocked)
        #expect(try idle.verdict() == .blocked)
        try bus.set("IdleHint", "true")
        #expect(try idle.verdict(at: 1_000_000) == .ok)
    }

    @Test("No service, no bus, no program: unknown, and why [S49]")
    func absent() throws {
        let bus = try FakeBus(hasServices: false)
        let places = [
            (SystemBus(address: bus.address), "does not exist"),
            (SystemBus(address: "unix:path=/nonexistent/bus"), "No such file"), (SystemBus(address: "nonsense"), ""),
            (SystemBus(address: bus.address, directories: []), "neither busctl (systemd) nor dbus-send (dbus)"),
        ]
        for (place, words) in places {
            for condition in [MeteredCondition(bus: place), IdleCondition(seconds: 1, bus: place)] as [any Condition] {
                let state = try condition.state(in: ConditionContext(destination: "/", now: 0))
                #expect(Verdict(state) == .unknown)
                #expect(words.isEmpty || state.words.contains(words), "\(state)")
            }
        }
    }

    @Test("A service that never answers, a bus that never does: unknown, never a hang [S49]")
    func hangs() throws {
        let bus = try FakeBus()
        try bus.set("Metered", "hang")
        // A socket that takes connections and says nothing, not even in the handshake.
        let root = try TemporaryRoot()
        let silent = try SilentSocket(root.path("silent"))
        for address in [bus.address, "unix:path=\(silent.path)"] {
            let condition = MeteredCondition(bus: SystemBus(address: address, deadline: .milliseconds(400)))
            let state = try condition.state(in: ConditionContext(destination: "/", now: 0))
            #expect(Verdict(state) == .unknown)
            #expect(state.words.contains("no answer"), "\(state)")
        }
        try bus.set("Metered", "1")
        #expect(try MeteredCondition(bus: SystemBus(address: bus.address)).verdict() == .blocked, "it recovers")
    }
}

@Suite("Programs that ask", .timeLimit(.minutes(10)))
struct SystemBusTests {
    @Test(
        "Whatever the program does, the answer is unknown",
        arguments: [
            ("echo nonsense", "unexpected answer: nonsense"), ("true", "no output"), ("echo v u 4; exit 3", "v u 4"),
            ("echo v u 99999999999999999999", "unexpected answer"), ("kill -9 $$", "signal 9"),
            ("sleep 100", "no answer"), ("sleep 100 & sleep 100", "no answer"),
            ("trap '' TERM; while :; do echo flood; done", "no answer"),
            ("printf 'v u 4\\033[31m'", "unexpected answer: v u 4\\u{1b}[31m"),
        ])
    func faults(script: String, words: String) throws {
        let root = try TemporaryRoot()
        try root.write(Array("#!/bin/sh\n\(script)\n".utf8), to: "busctl", executable: true)
        let bus = SystemBus(address: "unix:path=/none", directories: [root.path], deadline: .milliseconds(500))
        let state = try MeteredCondition(bus: bus).state(in: ConditionContext(destination: "/", now: 0))
        #expect(Verdict(state) == .unknown)
        #expect(state.words.contains(words), "\(state)")
    }

    @Test("A program that cannot be run is told as such")
    func notRun() throws {
        let root = try TemporaryRoot()
        try root.write(Array("not a program".utf8), to: "busctl", executable: true)
        let state = try MeteredCondition(bus: SystemBus(directories: [root.path])).state(
            in: ConditionContext(destination: "/", now: 0))
        #expect(state.words.contains("cannot be run"), "\(state)")
    }

    @Test(
        "Both programs' forms of a value are read",
        arguments: [
            ("v u 4\n", UInt64?.some(4)), ("v b true\n", 1), ("v b false\n", 0),
            ("v t 1800000000000000\n", 1_800_000_000_000_000), ("   variant       uint32 3\n", 3),
            ("   variant       boolean true\n", 1), ("   variant       uint64 7\n", 7), ("u 4\n", nil),
            ("v s \"four\"\n", nil), ("v u -1\n", nil), ("v b 1\n", nil), ("v u 4 5\n", nil), ("", nil),
        ])
    func values(output: String, expected: UInt64?) { #expect(SystemBus.value(output) == expected) }
}

/// A socket that listens and never answers.
private final class SilentSocket: Sendable {
    let path: String
    private let descriptor: Int32

    init(_ path: String) throws {
        self.path = path
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard bound == 0, listen(descriptor, 8) == 0 else { throw TestKitError("bind \(path)") }
    }

    deinit { close(descriptor) }
}
