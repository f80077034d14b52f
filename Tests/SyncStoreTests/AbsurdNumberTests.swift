import GRDB
import SyncModel
import SyncStore
import Testing

@Suite("A store that says absurd things", .timeLimit(.minutes(10)))
struct AbsurdNumberTests {
    private func tampered(_ statements: String) throws -> (StateDirectory, SyncStore) {
        let state = StateDirectory()
        let store = try state.open()
        try store.begin(towerRun("r1"), now: 1)
        try store.append(lines(1...3), to: "tower", time: 5)
        try state.tamper(statements)
        return (state, try state.open())
    }

    private static let ends = [Int64.min, .min + 1, -1, .max - 1, .max]

    @Test("Numbers at the ends of what 64 bits hold end nobody's process [F077]", arguments: ends)
    func extremes(number: Int64) throws {
        let (_, store) = try tampered(
            """
            UPDATE sessions SET epoch = \(number), next_seq = \(number), pruned_sequence = \(number),
                limiter_raised = \(number), totals = json_set(totals, '$.received', \(number), '$.elapsed', \(number));
            UPDATE runs SET counts = json_set(counts, '$.files.total', \(number), '$.files.installed', \(number),
                '$.files.reused', \(number), '$.bytes.total', max(\(number), 0)), started = \(number),
                paused_at = \(number), deadline = \(number), state = 'paused';
            UPDATE hooks SET attempt = \(number), state = 'pending';
            UPDATE groups SET state = 'completed', changed = \(number), last_seq = \(number);
            UPDATE events SET first = \(number), time = \(number);
            """)
        // Whatever each of them says, it comes back.
        func ask(_ body: () throws -> Void) {
            do { try body() } catch {
                #expect([.damaged, .refused].contains((error as? StoreError)?.code), "\(error)")
            }
        }
        ask { _ = try store.events(of: "tower", after: 0) }
        ask { _ = try store.sequence(before: 0, of: "tower") }
        ask { try store.append(lines(4...4), to: "tower", time: 6) }
        ask {
            let run = try store.run("r1")
            let counts = run.counts.files
            #expect(counts.total >= 0 && counts.installed + counts.reused <= 2 << 40)
        }
        ask { for hook in try store.hooks() { _ = try store.started(hook: hook.identifier, now: 7) } }
        ask { for hook in try store.hooks() { _ = try store.unreported(hook, includingOwn: true) } }
        ask { try store.apply(.resumed, to: "r1", work: SessionTotals(), now: 8) }
        ask { _ = try store.recover(session: "tower", now: 9) }
        ask {
            try store.prune(eventBytes: 0)
        }
    }

    @Test(
        "Nothing where a value belongs is damage, and ends nobody's process [F077]",
        arguments: [
            ("sessions", "identifier"), ("groups", "changed"), ("sessions", "totals"), ("runs", "counts"),
            ("events", "payload"), ("events", "count"), ("runs", "identifier"), ("hooks", "group_name"),
        ])
    func missing(table: String, column: String) throws {
        // As a flipped byte in a record has it; a table takes no NULL there.
        let (_, store) = try tampered(
            """
            PRAGMA foreign_keys = OFF;
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(replace(replace(sql, 'NOT NULL', ''), 'STRICT,', ''), 'STRICT', '')
                WHERE name = '\(table)';
            PRAGMA writable_schema = RESET;
            UPDATE \(table) SET \(column) = NULL;
            """)
        let asked: [() throws -> Void] = [
            { _ = try store.sessions() }, { _ = try store.hooks() },
            { _ = try store.groups(of: "r1") }, { _ = try store.runs() }, { _ = try store.owedHooks() },
            { _ = try store.events(of: "tower", after: 0) }, { try store.prune(eventBytes: 0) },
            { _ = try store.findings() },
        ]
        for body in asked {
            do { try body() } catch {
                let code = (error as? StoreError)?.code
                #expect(code == .damaged || code == .unknown || code == .unknownSession, "\(error)")
            }
        }
    }

    @Test("A row of events that promises more than it can hold is damage", arguments: [-1, 1 << 50, .max])
    func promise(length: Int) throws {
        let (state, _) = try tampered("UPDATE events SET encoding = \(length)")
        let asked: EventCompression = (
            compress: { _ in nil },
            decompress: { _, length in
                Issue.record("\(length) bytes were asked for")
                return nil
            }
        )
        let store = try state.open(compression: asked)
        #expect(.of { _ = try store.events(of: "tower", after: 0) } == .damaged)
    }
}
