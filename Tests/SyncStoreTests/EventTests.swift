import Foundation
import GRDB
import SyncModel
import SyncStore
import Synchronization
import Testing

@Suite("Events and their replay", .timeLimit(.minutes(10)))
struct EventTests {
    private func store(_ compression: EventCompression? = nil) throws -> SyncStore {
        let store = try SyncStore.inMemory(compression: compression)
        try store.begin(towerRun("r1"), now: 1)
        return store
    }

    /// Reads everything, page by page, as a client would that dies after each page.
    private func replay(_ store: SyncStore, from start: Int64 = 0, limit: Int) throws -> [SessionEvent] {
        var all: [SessionEvent] = []
        while true {
            let page = try store.events(of: "tower", after: all.last?.sequence ?? start, limit: limit)
            if page.events.isEmpty { return all }
            #expect(page.events.count <= limit)
            all += page.events
        }
    }

    @Test(
        "Successive readers see every event once, in order, whatever the pages [S8 S36]",
        arguments: [1, 2, 7, 512, 9999])
    func noGapNoRepeat(limit: Int) throws {
        let store = try store()
        var next = 1
        for count in [1, 3, 512, 1, 40] {
            #expect(try store.append(lines(next...next + count - 1), to: "tower", time: 5) == Int64(next))
            next += count
        }
        let all = try replay(store, limit: limit)
        #expect(all.compactMap(\.sequence) == Array(1...557))
        #expect(all.map(\.line) == lines(1...557))
        for start in [0, 1, 3, 4, 5, 515, 516, 556, 557, 600] as [Int64] {
            let numbers = try replay(store, from: start, limit: limit).compactMap(\.sequence)
            #expect(numbers == Array(1...557).filter { $0 > start })
        }
        #expect(try store.events(of: "tower", after: 0, limit: 1).lastSequence == 557)
    }

    @Test("Events that come while a reader reads are not lost [S8]")
    func growing() throws {
        let store = try store()
        try store.append(lines(1...3), to: "tower", time: 1)
        let first = try store.events(of: "tower", after: 0)
        try store.append(lines(4...6), to: "tower", time: 2)
        let second = try store.events(of: "tower", after: first.events.last?.sequence ?? 0)
        #expect((first.events + second.events).compactMap(\.sequence) == Array(1...6))
    }

    @Test("A number that the session has not come to is refused, with what to do; its last one is not [S8]")
    func unreached() throws {
        let store = try store()
        try store.append(lines(1...3), to: "tower", time: 1)
        for seen in [0, 2, 3] as [Int64] { try store.requireReached(seen, of: "tower") }
        for seen in [4, .max] as [Int64] {
            let error = #expect(throws: StoreError.self) { try store.requireReached(seen, of: "tower") }
            var reached = seen
            #expect(throws: StoreError.self) { _ = try store.nextEvents(of: "tower", after: &reached) }
            #expect(error?.code == .unknown && error?.status == .noInput)
            #expect(error?.message.contains("no event \(seen); its last is 3") == true, "\(error?.message ?? "")")
            #expect(error?.message.contains("read again from 0") == true)
        }
    }

    @Test("Empty lines and no lines are exact")
    func edges() throws {
        let store = try store()
        #expect(try store.append([], to: "tower", time: 1) == 1)
        try store.append([[], Array("{}".utf8), []], to: "tower", time: 1)
        #expect(try store.events(of: "tower", after: 0).events.map(\.text) == ["", "{}", ""])
        #expect(.of { try store.append(lines(1...1), to: "bridge", time: 1) } == .unknownSession)
        #expect(.of { _ = try store.events(of: "bridge", after: 0) } == .unknownSession)
    }

    @Test("20,000 events are some tens of rows and come back whole; sessions count for themselves")
    func batches() throws {
        let state = StateDirectory()
        let store = try state.open()
        var bridge = tower
        bridge.identifier = "bridge"
        try store.begin(towerRun("r1"), now: 1)
        try store.begin(towerRun("r2", session: bridge), now: 1)
        let log = EventLog(store: store, session: "tower")
        let other = EventLog(store: store, session: "bridge")
        for (number, line) in lines(1...20_000).enumerated() {
            log.add(line, time: 1)
            if number % 1_000 == 0 { other.add(line, time: 1) }
        }
        try log.flush()
        try other.flush()
        #expect(try replay(store, limit: 1_000).map(\.line) == lines(1...20_000))
        #expect(try store.events(of: "bridge", after: 0).lastSequence == 20)
        #expect(try store.findings() == [])
        #expect(try StateReader(state).number("SELECT count(*) FROM events") <= 50)
    }

    @Test("Many threads add; each keeps its own order and nothing is lost")
    func threads() async throws {
        let store = try store()
        let log = EventLog(store: store, session: "tower", maximumLines: 13)
        await withTaskGroup(of: Void.self) { group in
            for thread in 0..<8 {
                group.addTask { for number in 0..<250 { log.add(Array("\(thread) \(number)".utf8), time: 1) } }
            }
        }
        try log.flush()
        let all = try replay(store, limit: 100).map(\.text)
        #expect(all.count == 2_000)
        for thread in 0..<8 {
            #expect(all.filter { $0.hasPrefix("\(thread) ") } == (0..<250).map { "\(thread) \($0)" })
        }
    }

    @Test("The last events of a group and its completion are one transaction [S30]")
    func withCompletion() throws {
        let store = try store()
        let log = EventLog(store: store, session: "tower")
        for line in lines(1...5) { log.add(line, time: 1) }
        // What could not be recorded with it is kept.
        #expect(
            .of {
                try log.take { earlier throws(StoreError) in
                    _ = try store.complete(bothGroups, of: "r0", events: earlier, now: 2)
                }
            } == .unknown)
        try log.take { earlier throws(StoreError) in
            _ = try store.complete(bothGroups, of: "r1", events: earlier + lines(6...7), now: 2)
        }
        try log.flush()
        #expect(try replay(store, limit: 100).map(\.line) == lines(1...7))
    }

    @Test("What the store does not take while it is busy is recorded later, whole and in order [S12 S25]")
    func busy() throws {
        let state = StateDirectory()
        let store = try state.open(wait: 1)
        try store.begin(towerRun("r1"), now: 1)
        let log = EventLog(store: store, session: "tower", maximumLines: 4)
        let other = try DatabaseQueue(path: state.database)
        try other.inTransaction(.immediate) { _ in
            for line in lines(1...9) { log.add(line, time: 1) }
            log.record()
            return .rollback
        }
        log.add(lines(10...10)[0], time: 1)
        // No failure is left to be told.
        try log.flush()
        #expect(try replay(store, limit: 100).map(\.line) == lines(1...10))
        try other.inTransaction(.immediate) { _ in
            log.add(lines(11...11)[0], time: 1)
            #expect(.of { try log.flush() } == .busy)
            return .rollback
        }
        try log.flush()
        #expect(try replay(store, limit: 100).map(\.line) == lines(1...11))
    }

    @Test("A store that takes nothing is tried once a row, and what it does not take is bounded and told [S12]")
    func refusing() throws {
        let state = StateDirectory()
        let attempts = Mutex(0)
        let counting: EventCompression = (
            compress: { _ in
                attempts.withLock { $0 += 1 }
                return nil
            }, decompress: { _, _ in nil }
        )
        let store = try state.open(compression: counting)
        try store.begin(towerRun("r1"), now: 1)
        let log = EventLog(store: store, session: "tower", maximumLines: 4, maximumBytes: 100)
        try state.tamper("CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no room'); END;")
        for line in lines(1...40) { log.add(line, time: 1) }
        #expect(attempts.withLock { $0 } == 10)
        // 64 rows' worth.
        for line in lines(41...400) { log.add(line, time: 1) }
        try state.tamper("DROP TRIGGER refuse")
        #expect(.of { try log.flush() } != nil, "some are lost")
        try log.flush()
        let kept = try replay(store, limit: 1_000).map(\.line)
        #expect(!kept.isEmpty && kept == lines(1...400).suffix(kept.count))
    }

    @Test("Compressed events come back the same; what does not shrink is kept plain")
    func compressed() throws {
        // Not a real compressor: it shows that the store asks, keeps the length and asks back.
        let halve: EventCompression = (
            compress: { $0.count > 100 ? [UInt8(truncatingIfNeeded: $0.count)] : nil },
            decompress: { bytes, limit in
                bytes.count == 1 ? Array(lines(1...40).joined(separator: [0x0A])).prefix(limit) + [] : nil
            }
        )
        let store = try store(halve)
        try store.append(lines(1...40), to: "tower", time: 1)
        try store.append(lines(41...41), to: "tower", time: 1)
        #expect(try replay(store, limit: 100).map(\.line) == lines(1...41))
    }

    @Test("What comes while the store refuses a row is kept behind what was refused, and nothing waits for it")
    func gathering() throws {
        let state = StateDirectory()
        let store = try state.open()
        try store.begin(towerRun("r1"), now: 1)
        let log = EventLog(store: store, session: "tower", maximumLines: 2)
        try state.tamper("CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no room'); END;")
        #expect(lines(1...3).map { log.gather($0, time: 1) } == [false, true, true])
        log.record()
        #expect(lines(4...5).map { log.gather($0, time: 1) } == [false, true])
        #expect(
            .of {
                try log.take { earlier throws(StoreError) in
                    _ = try store.complete(bothGroups, of: "r0", events: earlier, now: 2)
                }
            } == .unknown)
        try state.tamper("DROP TRIGGER refuse")
        try log.flush()
        #expect(try replay(store, limit: 100).map(\.line) == lines(1...5))
    }

    @Test("Whoever has seen everything costs no reading of events, however often it asks")
    func nothingNew() throws {
        let decoded = Mutex(0)
        let counting: EventCompression = (
            compress: { Array($0.reversed()) },
            decompress: { bytes, _ in
                decoded.withLock { $0 += 1 }
                return bytes.reversed()
            }
        )
        let store = try store(counting)
        try store.append(lines(1...40), to: "tower", time: 1)
        #expect(try store.events(of: "tower", after: 0).events.count == 40)
        #expect(decoded.withLock { $0 } == 1)
        for _ in 0..<5 {
            let page = try store.events(of: "tower", after: 40)
            #expect(page.events.isEmpty && page.lastSequence == 40)
        }
        #expect(decoded.withLock { $0 } == 1)
        try store.append(lines(41...41), to: "tower", time: 1)
        #expect(try store.events(of: "tower", after: 40).events.compactMap(\.sequence) == [41])
    }

    @Test("A feed gives every event once with its number, a page at a time, and says first what is gone [S8 S36]")
    func feed() throws {
        let store = try store()
        try store.append(lines(1...600), to: "tower", time: 1)
        try store.append(lines(601...700), to: "tower", time: 1)
        try store.prune(eventBytes: 5_000)
        var seen: Int64 = 3
        var told: [String] = []
        while case let events = try store.nextEvents(of: "tower", after: &seen), !events.isEmpty {
            told += events.map(\.json)
        }
        let pages =
            [#"{"event":"events.pruned","through":600}"#]
            + (601...700).map { #"{"seq":\#($0),"event":"e","n":\#($0)}"# }
        #expect(told == pages && seen == 700)
        #expect(SessionEvent(sequence: 7, line: Array("{}".utf8)).json == #"{"seq":7}"#)
        try store.append(lines(701...701), to: "tower", time: 1)
        #expect(try store.nextEvents(of: "tower", after: &seen).compactMap(\.sequence) == [701])
    }

    @Test(
        "An event's name is read from its line; what this program does not know has none",
        arguments: [
            (#"{"event":"task.installed","path":"a"}"#, .taskInstalled), (#"{"event":"plan"}"#, .plan),
            (#"{"event":"moon.rose"}"#, nil), (#"{"event":"plan"#, nil), (#"{"path":"a","event":"plan"}"#, nil),
            ("", nil),
        ] as [(String, EventName?)])
    func name(line: String, name: EventName?) {
        #expect(SessionEvent(sequence: 1, line: Array(line.utf8)).kind == name)
    }

    @Test("Old events go, numbers go on, and a reader is told what it has missed")
    func pruning() throws {
        let store = try store()
        for round in 0..<100 { try store.append(lines(round * 10 + 1...round * 10 + 10), to: "tower", time: 1) }
        try store.prune(eventBytes: 2_000)
        let page = try store.events(of: "tower", after: 0, limit: 10_000)
        #expect(page.prunedSequence > 0 && page.prunedSequence < 1_000)
        #expect(page.events.compactMap(\.sequence) == Array(page.prunedSequence + 1...1_000))
        #expect(page.events.reduce(0) { $0 + $1.line.count + 1 } <= 2_000)
        #expect(try store.append(lines(1_001...1_001), to: "tower", time: 3) == 1_001)
        try store.prune(eventBytes: 0)
        #expect(try store.events(of: "tower", after: 0).prunedSequence == 1_001)
        #expect(try store.append(lines(1_002...1_002), to: "tower", time: 5) == 1_002)
        #expect(try store.findings() == [])
    }

    @Test("Old runs go with their hooks, but never what is owed or open")
    func pruningRuns() throws {
        let store = try SyncStore.inMemory()
        for number in 1...30 {
            try store.begin(towerRun("r\(number)"), now: 1)
            let owed = try store.complete(bothGroups, of: "r\(number)", now: 2)
            for hook in owed where number != 3 {
                _ = try store.started(hook: hook.identifier, now: 3)
                try store.finished(hook: hook.identifier, .succeeded, ended: "exit 0", now: 4)
            }
            if number != 30 { try store.finish(run: "r\(number)", result: .ok, counts: RunCounts(), now: 5) }
        }
        try store.prune(runs: 4)
        #expect(try store.runs().map(\.identifier) == ["r30", "r29", "r28", "r27", "r3"])
        #expect(try store.hooks().count == 10)
        try store.prune(runs: 0)
        // When everything was last in place can still be told.
        #expect(try store.runs().map(\.identifier) == ["r30", "r29", "r3"])
        #expect(try store.findings() == [])
    }
}
