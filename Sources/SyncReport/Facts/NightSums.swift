import SyncModel
import SyncStore

/// Puts the work of runs into nights.
struct NightSums {
    let clock: ReportClock

    private struct Sum {
        var amounts = Amounts()
        var runs: Set<String> = []
        var results: Set<RunResult> = []
    }

    /// The nights from the first with work to this one, thirty at most; none when there was no work at all.
    func nights(_ runs: [StoredRun], _ work: [String: [WorkPiece]]) -> [Night] {
        let tonight = clock.night(of: clock.now)
        let earliest = tonight - Int64(ReportReader.nightLimit) + 1
        var sums: [Int64: Sum] = [:]
        for run in runs {
            for piece in WorkPieces.of(run, work) {
                // Work that goes on over noon belongs to the night in which it ended.
                let night = clock.night(of: piece.ended)
                sums[night, default: Sum()].amounts += piece.amounts
                sums[night, default: Sum()].runs.insert(run.identifier)
            }
            if let finished = run.finished, let result = run.result {
                sums[clock.night(of: finished), default: Sum()].results.insert(result)
                sums[clock.night(of: finished), default: Sum()].runs.insert(run.identifier)
            }
        }
        guard let first = sums.keys.filter({ $0 >= earliest && $0 <= tonight }).min(),
            let last = sums.keys.filter({ $0 <= tonight }).max()
        else { return [] }
        // An evening in which nothing has happened yet is no night without work.
        let end = last == tonight || !isMorning ? last : tonight
        return (first...max(first, end)).map { night in
            let sum = sums[night]
            let result = [RunResult.failed, .partial, .ok].first { sum?.results.contains($0) == true }
            return Night(
                date: ReportClock.date(night: night), label: ReportClock.shortDate(night: night),
                runs: sum?.runs.count ?? 0, result: result.map { NightResult($0) } ?? (sum == nil ? nil : .stopped),
                amounts: sum?.amounts ?? Amounts())
        }
    }

    private var isMorning: Bool { clock.timeOfDay(clock.now) < "12:00" }
}
