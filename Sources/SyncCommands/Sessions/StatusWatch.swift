import Foundation
import SyncAgent
import SyncModel
import SyncStore
import SyncSystem

// `syncagent status --watch`: the same, repeatedly.
extension StatusCommand {
    /// The interval between two refreshes.
    private static let interval = Duration.seconds(1)

    func showAgain(_ access: StateAccess) async throws {
        let output = access.output
        try await StopSignals.ending(within: StopSignals.onlooker, atOnce: { output.clearProgress() }) {
            defer { output.clearProgress() }
            try await refresh(access)
        }
    }

    private func refresh(_ access: StateAccess) async throws {
        let isDrawn =
            !format.json && isTerminal(STDOUT_FILENO) && isTerminal(STDERR_FILENO)
            && EnvironmentPaths.ofProcess.hasCapableTerminal
        var followers: [String: SessionFollower] = [:]
        var shown: [String]?
        var store: SyncStore?
        while true {
            var lines: [String] = []
            // There may be no state yet.
            if store == nil { store = try access.existingStore() }
            if let store {
                let known = try await sessions(in: store, access)
                for status in known.all where status.state != .idle || status.owedHooks > 0 {
                    try await followers[status.session, default: SessionFollower(access)].update(with: status)
                }
                lines = try self.lines(known, in: store)
            }
            if isDrawn {
                access.output.drawProgress(ProgressDisplay.fitting(lines.isEmpty ? ["No sessions."] : lines))
            } else if lines != shown {
                for line in lines where !format.json || shown?.contains(line) != true {
                    access.output.line(line)
                }
                shown = lines
            }
            // Nobody looks on.
            guard !access.output.isBroken else { return }
            try await Task.sleep(for: Self.interval)
        }
    }

    private func lines(_ known: Known, in store: SyncStore) throws -> [String] {
        guard requests else { return try lines(known) }
        // Without a name: all running transfers, in whatever process.
        let names = known.all.filter { session.session != nil || $0.state == .running }.map(\.session)
        return try names.flatMap { try requestLines($0, in: store) }
    }
}
