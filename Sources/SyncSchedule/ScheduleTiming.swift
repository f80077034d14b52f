package import SyncModel

/// When a schedule wants to run, as a person says it.
package struct ScheduleTiming: Sendable, Equatable {
    /// **Minutes** after midnight, 0...1439: when the night begins.
    package var nightly: Int
    /// Only nights that begin on these days; empty for all.
    package var days: Set<Weekday> = []
    /// **Minutes** from the beginning of the night after which nothing is transferred any more; `nil` without end.
    package var window: Int?
    /// **Minutes** after midnight by which everything is to be in place; a window that ends earlier counts.
    package var readyBy: Int?
    /// Most **seconds** that this machine may begin later than others.
    package var jitter: Int = 0
    /// An IANA name; `nil` for the machine's zone, wherever it goes.
    package var timeZone: String?

    /// Every night at so many **minutes** after midnight.
    package init(nightly: Int) { self.nightly = nightly }

    /// Checks what one value says about another.
    ///
    /// - Throws: ``ScheduleError`` with code `invalid`; options are named as on the command line.
    package func check() throws(ScheduleError) {
        func invalid(_ text: String) -> ScheduleError { ScheduleError(.invalid, text) }
        guard (0..<1440).contains(nightly) else { throw invalid("--nightly takes 00:00 to 23:59.") }
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
        if let readyBy {
            guard (0..<1440).contains(readyBy), readyBy != nightly else {
                throw invalid("--ready-by takes 00:00 to 23:59, and another time than --nightly.")
            }
            let span = min(untilReady(readyBy), window ?? 1440)
            if jitter >= span * 60 {
                throw invalid("--jitter leaves no time until --ready-by \(Self.time(readyBy)).")
            }
        }
        _ = try Zone.of(timeZone)
    }

    /// **Minutes** on the clock from the beginning of a night until `readyBy`.
    func untilReady(_ readyBy: Int) -> Int { (readyBy - nightly + 1440) % 1440 }

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
