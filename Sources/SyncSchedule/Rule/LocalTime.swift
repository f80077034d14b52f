import SyncModel

/// Times as people give them, by the clock on the wall. As with schedules, one that summer time leaves out is the moment at
/// which clocks are put forward, and one that comes twice is the first of the two.
extension Zone {
    /// Reads a day and a time, `2026-11-20 02:00` or `2026-11-20T02:00:30`, or a day alone, which means its midnight.
    ///
    /// - Returns: **Milliseconds** since 1970; `nil` for anything else, and for a day or an hour that there is not.
    package func moment(_ text: String) -> Int64? {
        let given = text.replacing(" ", with: "T", maxReplacements: 1)
        // What is not said is 0: a day's midnight, a minute's first second.
        guard [10, 16, 19].contains(given.utf8.count),
            let naive = parseTimestamp(given + "0000-00-00T00:00:00Z".dropFirst(given.utf8.count))
        else { return nil }
        let (day, second) = floorDivision(naive / 1_000, 86_400)
        return first(second, of: CivilDay(number: day)) * 1_000
    }

    /// The next moment at which the wall clock shows a time of day.
    ///
    /// - Parameters:
    ///   - minute: **Minutes** after midnight.
    ///   - now: **Milliseconds** since 1970.
    /// - Returns: **Milliseconds** since 1970, after `now`.
    package func next(minute: Int, after now: Int64) -> Int64 {
        var day = local(floorDivision(now, 1_000).quotient).day
        while true {
            let moment = first(Int64(minute) * 60, of: day) * 1_000
            if moment > now { return moment }
            day = day.adding(1)
        }
    }
}
