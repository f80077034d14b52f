import Foundation
import SyncEngine
import SyncModel
import SyncReport

/// Progress as one line of text. Pure.
enum ProgressText {
    /// The rates and times shown beside the counts.
    struct Pace: Sendable, Equatable {
        /// **Bytes** a second as they are received.
        var rate: Double?
        /// **Bytes** a second by which ``ProgressSnapshot/bytesDone`` grows, over a longer time. The time left is based
        /// on it.
        var growth: Double?
        /// **Seconds** since anything was received.
        var silence = 0
        /// **Seconds** until the end of the present wait.
        var wait = 0
    }

    /// **Seconds** without a byte after which the silence is shown in place of the rate.
    static let longSilence = 5

    /// The progress line. Parts are left out, the least useful first, until it fits.
    ///
    /// - Parameter width: The most columns.
    static func line(_ progress: ProgressSnapshot, _ pace: Pace, width: Int = .max, hasColour: Bool = false) -> String {
        let files = counted(progress.filesDone, of: progress.filesTotal) + " files"
        // A phase that does not count bytes shows none.
        let hasBytes = progress.bytesDone > 0 || progress.bytesTotal != nil
        var bytes = hasBytes ? ByteCount(progress.bytesDone).description : nil
        if let total = progress.bytesTotal { bytes?.append("/\(ByteCount(total))") }
        let isMoving = progress.bytesTotal.map { progress.bytesDone < $0 } ?? hasBytes
        let speed = isMoving ? pace.rate.flatMap(ByteCount.init(perSecond:)).map { "\($0)/s" } : nil
        let remaining = eta(progress, rate: pace.growth ?? pace.rate).map { "ETA \($0)" }
        let share = percent(progress)

        if let silence = silence(progress, pace) {
            let count = progress.unit == .files ? [share, files] : [progress.unit == .bytes ? bytes : nil]
            let before = ([progress.phase] + count).compactMap(\.self).joined(separator: "  ")
            let short = share ?? progress.phase
            let (long, brief) = silence
            for (start, end) in [(before, long), (short, long), (short, brief), ("", brief)] {
                let text = start.isEmpty ? end : start + "  " + end
                guard text.count <= width else { continue }
                let shown = hasColour ? "\u{1B}[33m\(end)\u{1B}[m" : end
                return start.isEmpty ? shown : start + "  " + shown
            }
            return String(brief.prefix(max(0, width)))
        }
        // The parts left out first are those missed least: the phase, the rate, the bytes, the time left, the files.
        let candidates: [[String?]] =
            switch progress.unit {
            case .nothing: [[progress.phase]]
            case .bytes: [[progress.phase, bytes, speed], [progress.phase]]
            case .files:
                [
                    [progress.phase, share, files, bytes, speed, remaining], [share, files, bytes, speed, remaining],
                    [share, files, bytes, remaining], [share, files, remaining], [share, files], [files],
                ]
            }
        let lines = candidates.map { $0.compactMap(\.self).joined(separator: "  ") }
        guard let line = lines.first(where: { $0.count <= width }) else {
            return String((lines.last ?? "").prefix(max(0, width)))
        }
        guard hasColour, let share, let place = line.range(of: share) else { return line }
        return line.replacingCharacters(in: place, with: "\u{1B}[1m\(share)\u{1B}[m")
    }

    /// The long and the short text for a silence; `nil` if bytes arrive, or none are expected.
    private static func silence(_ progress: ProgressSnapshot, _ pace: Pace) -> (String, String)? {
        guard progress.isTransferring, pace.silence >= longSilence else { return nil }
        let brief = "no data for \(pace.silence) s"
        guard let wait = progress.wait else { return (brief, brief) }
        var why = wait.host
        if let attempt = wait.attempt, let attempts = wait.attempts {
            why += ", retry \(attempt - 1) of \(attempts - 1)"
        } else {
            why += ", tried again"
        }
        if pace.wait > 0 { why += " in \(pace.wait) s" }
        return ("\(brief) (\(why))", brief)
    }

    /// `58 %`; 100 % only when every file is in place.
    private static func percent(_ progress: ProgressSnapshot) -> String? {
        guard let total = progress.bytesTotal, total > 0, let files = progress.filesTotal else { return nil }
        let share = Int(Double(min(progress.bytesDone, total)) / Double(total) * 100)
        return "\(progress.filesDone < files ? min(share, 99) : share) %"
    }

    /// The time until the end at `rate`; `nil` if it is not known.
    static func eta(_ progress: ProgressSnapshot, rate: Double?) -> String? {
        guard let total = progress.bytesTotal, total > progress.bytesDone, let rate, rate >= 1 else { return nil }
        let seconds = (Double(total - progress.bytesDone) / rate).rounded(.up)
        // A month means "never" as well as any longer time.
        guard seconds < 31 * 86_400 else { return nil }
        return Figures.period(Int64(seconds) * 1_000)
    }

    private static func counted(_ done: Int, of total: Int?) -> String {
        guard let total else { return Figures.grouped(done) }
        return "\(Figures.grouped(done))/\(Figures.grouped(total))"
    }

}

extension ByteCount {
    /// A rate for display; `nil` for one that cannot be shown.
    fileprivate init?(perSecond rate: Double) {
        guard rate.isFinite, let bytes = UInt64(exactly: rate.rounded()) else { return nil }
        self.init(bytes)
    }
}
