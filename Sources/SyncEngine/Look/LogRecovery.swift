import SyncFiles
import SyncManifest
import SyncModel
import SyncStore

extension PullRun {
    /// Takes over what a killed process of this same run put in place: those files count as installed by the run, and
    /// the events it had no time for are recorded now (S25), before their group is complete (S30).
    func takeUp(_ survey: Survey, _ files: inout RunFiles) throws(EngineError) {
        guard isTakenUp, !survey.logged.isEmpty else { return }
        let table = files.manifest.files
        let placed = files.rows.filter { row in
            survey.inventory.records.has(row) && table.withPath(row) { survey.logged.contains(Array($0)) }
        }
        guard !placed.isEmpty else { return }
        do throws(StoreError) {
            let told = try toldPaths(atMost: files.rows.count)
            for row in placed {
                files.states[row] = .installed
                guard !told.contains(InstalledEvents.path(table.path(row))) else { continue }
                journal.installed(row, of: files.manifest, from: .unknown)
            }
            // Only then is the log no longer needed: another kill must lose nothing.
            try environment.events.flush()
        } catch {
            throw EngineError(error)
        }
    }

    /// Paths with a recorded `task.installed` of the run, as spelled in the events.
    private func toldPaths(atMost count: Int) throws(StoreError) -> Set<[UInt8]> {
        let end = try environment.store.session(session)?.lastSequence ?? 0
        // Its files, each with events that may precede it: hops, waits, failures.
        var seen = max(0, end - Int64(count) * 3 - 20_000)
        let events = InstalledEvents(run: report.run)
        var told: Set<[UInt8]> = []
        while true {
            let page = try environment.store.events(of: session, after: seen, limit: 1_000)
            guard let last = page.events.last else { return told }
            seen = last.sequence
            for event in page.events {
                if let path = events.path(in: event.line) { told.insert(path) }
            }
        }
    }
}

/// Finds the paths in a run's `task.installed` events. Paths stay in their JSON spelling, to be compared with the same.
struct InstalledEvents {
    private let run: [UInt8]
    private static let start = Array("{\"event\":\"\(EventName.taskInstalled.rawValue)\"".utf8)
    private static let key = Array(#""path":""#.utf8)

    init(run: String) { self.run = Array(#""run":"\#(run)""#.utf8) }

    /// A path in its JSON spelling, without quotes.
    static func path(_ text: String) -> [UInt8] {
        Array(JSONLine.object { $0.field("path", text) }.bytes.dropFirst(key.count + 1).dropLast(2))
    }

    /// The path of an event, without quotes; `nil` for another event or another run's.
    ///
    /// Quotes inside strings are escaped, so a key is never found there.
    func path(in event: [UInt8]) -> [UInt8]? {
        guard event.starts(with: Self.start), Self.end(of: run, in: event) != nil,
            let start = Self.end(of: Self.key, in: event)
        else { return nil }
        var end = start
        while end < event.count, event[end] != UInt8(ascii: "\"") {
            end += event[end] == UInt8(ascii: "\\") ? 2 : 1
        }
        return end < event.count ? Array(event[start..<end]) : nil
    }

    /// Where the first occurrence of `wanted` ends.
    private static func end(of wanted: [UInt8], in event: [UInt8]) -> Int? {
        guard event.count >= wanted.count else { return nil }
        for start in 0...(event.count - wanted.count) where event[start] == wanted[0] {
            if event[start..<(start + wanted.count)].elementsEqual(wanted) { return start + wanted.count }
        }
        return nil
    }
}
