import SyncModel

/// When a schedule wants to run, as a person says it.
package struct ScheduleTiming: Sendable, Equatable {
    /// The rule by which it comes again.
    package var recurrence: Recurrence
    /// **Minutes** from the beginning after which nothing is transferred any more; `nil` without end.
    package var window: Int?
    /// **Minutes** after midnight by which everything is to be in place; a window that ends earlier counts.
    package var readyBy: Int?
    /// Most **seconds** that this machine may begin later than others.
    package var jitter: Int = 0
    /// An IANA name; `nil` for the machine's zone, wherever it goes.
    package var timeZone: String?
    /// Whether a machine that was off or asleep runs later what it has missed.
    package var catchesUp = true

    /// By a rule; see the properties.
    package init(_ recurrence: Recurrence) { self.recurrence = recurrence }

    /// Checks what one value says about another.
    ///
    /// - Throws: ``ScheduleError`` with code `invalid`; options are named as on the command line.
    package func check() throws(ScheduleError) {
        func invalid(_ text: String) -> ScheduleError { ScheduleError(.invalid, text) }
        try recurrence.check()
        if recurrence.onlyTime == nil, window != nil || readyBy != nil {
            throw invalid(
                "\(window == nil ? "--ready-by" : "--window") is for a rule with one time a day: "
                    + "this one has \(recurrence.times.count), and what is left of one goes on until it is done."
            )
        }
        if let window, !(1...1440).contains(window) {
            throw invalid("--window takes 1 minute to 24 hours.")
        }
        guard (0...43_200).contains(jitter) else { throw invalid("--jitter takes at most 12 hours.") }
        if let window, jitter >= window * 60 {
            throw invalid(
                "--jitter \(Self.length(seconds: jitter)) leaves nothing of --window "
                    + "\(Self.length(seconds: window * 60)): make the window longer or the jitter smaller."
            )
        }
        let gap = recurrence.shortestGap
        guard jitter < gap * 60 else {
            throw invalid(
                "--jitter has to be shorter than the \(Self.length(seconds: gap * 60)) between two runs."
            )
        }
        let days = recurrence.days
        if !days.monthDays.isEmpty || !days.months.isEmpty, let last = recurrence.times.last,
            last * 60 + jitter >= 86_400
        {
            throw invalid(
                "--jitter leads past midnight, and so from one day of the month into the next, which no timer can "
                    + "say: make it smaller, or the time earlier."
            )
        }
        if let readyBy {
            guard (0..<1440).contains(readyBy), readyBy != recurrence.onlyTime else {
                throw invalid("--ready-by takes 00:00 to 23:59, and another time than --nightly.")
            }
            let span = min(untilReady(readyBy), window ?? 1440)
            if jitter >= span * 60 {
                throw invalid("--jitter leaves no time until --ready-by \(Self.time(readyBy)).")
            }
        }
        _ = try Zone.of(timeZone)
    }

    /// **Minutes** on the clock from the beginning until `readyBy`.
    func untilReady(_ readyBy: Int) -> Int { (readyBy - (recurrence.onlyTime ?? 0) + 1440) % 1440 }

    /// Reads `02:00` or `7:30`, 24 hours; **minutes** after midnight, or `nil`.
    package static func minutes(_ text: String) -> Int? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let isDigits = parts.allSatisfy { $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }
        guard parts.count == 2, isDigits, (1...2).contains(parts[0].count), parts[1].count == 2,
            let hour = Int(parts[0]), let minute = Int(parts[1]), hour < 24, minute < 60
        else { return nil }
        return hour * 60 + minute
    }

    /// `02:00`.
    package static func time(_ minutes: Int) -> String {
        "\(padded(minutes / 60 % 24, 2)):\(padded(minutes % 60, 2))"
    }

    /// `4h`, `1h30m`, `17m24s`.
    package static func length(seconds: Int) -> String {
        let parts = [(seconds / 3_600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")]
        let text = parts.filter { $0.0 > 0 }.map { "\($0.0)\($0.1)" }.joined()
        return text.isEmpty ? "0s" : text
    }
}
