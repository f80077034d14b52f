import GRDB
package import SyncModel

/// A row of `groups`.
package struct StoredGroup: Codable, Sendable, Equatable {
    private(set) var run: String
    package private(set) var name: String
    package private(set) var state = GroupState.open
    /// The result, once the group is complete.
    package private(set) var result: RunResult?
    package private(set) var changed = 0
    /// The last event that was recorded when the group was complete.
    private(set) var lastSeq: Int64?
    private(set) var completed: Int64?

    /// Changes the group's state; nothing else does.
    ///
    /// - Returns: Whether it changed.
    /// - Throws: ``StoreError`` with code `refused`.
    private mutating func move(_ input: GroupInput) throws -> Bool {
        try state.move(input, state.after(input), "Group '\(escaped(name))'")
    }
}

extension StoredGroup: StoreRecord {
    static let databaseTableName = "groups"

    static func all(of run: String, _ db: Database) throws -> [StoredGroup] {
        try read("group", by: "name", "SELECT * FROM groups WHERE run = \(run) ORDER BY name", db)
    }

    static func named(_ name: String, of run: String, _ db: Database) throws -> StoredGroup? {
        try read("group", by: "name", "SELECT * FROM groups WHERE run = \(run) AND name = \(name)", db).first
    }

    /// Completes a group, whose tasks have all ended: its hooks are now owed, or will not run.
    static func complete(_ group: CompletedGroup, of run: String, after lastSeq: Int64, now: Int64, _ db: Database)
        throws
    {
        guard var found = try named(group.name, of: run, db) else {
            throw StoreError(.unknown, "The run has no group '\(escaped(group.name))'.")
        }
        var isNew = false
        try found.updateChanges(db) { found in
            isNew = try found.move(.settled)
            guard isNew else { return }
            (found.result, found.changed) = (group.result, group.changed)
            (found.lastSeq, found.completed) = (lastSeq, now)
        }
        guard isNew else { return }
        for var hook in try StoredHook.all(of: run, group: group.name, db) {
            try hook.move(hook.results.contains(group.result) ? .groupCompleted : .dropped, db)
        }
    }

    /// Cancels the open groups of a run; their hooks will not run.
    static func cancelOpen(of run: String, _ db: Database) throws {
        for var group in try all(of: run, db) where group.state == .open {
            try group.updateChanges(db) { _ = try $0.move(.cancelled) }
            for var hook in try StoredHook.all(of: run, group: group.name, db) { try hook.move(.dropped, db) }
        }
    }

    /// The last event that was recorded when a group of a run was complete; `nil` if it was not.
    static func lastEvent(of name: String, in run: String, _ db: Database) throws -> Int64? {
        try SQLRequest("SELECT last_seq FROM groups WHERE run = \(run) AND name = \(name)").fetchOne(db)
    }
}

/// A group whose tasks have all ended.
package struct CompletedGroup: Sendable, Equatable {
    package var name: String
    package var result: RunResult
    package var changed: Int

    package init(name: String, result: RunResult, changed: Int) {
        (self.name, self.result, self.changed) = (name, result, changed)
    }
}

extension SyncStore {
    /// The groups of a run, by name.
    ///
    /// - Throws: ``StoreError``; `unknown` if there is no such run.
    package func groups(of run: String) throws(StoreError) -> [StoredGroup] {
        try read { db in try StoredGroup.all(of: StoredRun.named(run, db).identifier, db) }
    }

    /// Records that groups are complete, with their last events, in one transaction. Their hooks are owed from then on.
    ///
    /// - Parameters:
    ///   - events: The groups' last events; they come after every task event of the groups.
    ///   - counts: The run's counts so far, for the process that finishes it.
    /// - Returns: The hooks that are owed now, in the order of the request.
    package func complete(
        _ groups: [CompletedGroup], of run: String, events: [[UInt8]] = [], counts: RunCounts? = nil, now: Int64
    ) throws(StoreError) -> [StoredHook] {
        let hasHooks = try !hooks(run: run, limit: 1).isEmpty
        return try write(hasHooks ? .synced : .eventual) { db in
            var found = try StoredRun.named(run, db)
            var session = try StoredSession.named(found.session, db)
            for group in groups { try StoredGroup.complete(group, of: run, after: session.lastSequence, now: now, db) }
            if let counts { try found.updateChanges(db) { $0.counts = counts } }
            try self.append(events, to: &session, time: now, db)
            let owed: SQL = "hooks.run = \(run) AND hooks.state = \(HookRunState.pending.rawValue)"
            return try StoredHook.all(where: owed, db)
        }
    }
}
