import SyncModel
import SyncReport

/// How far a command has come, as the engine tells it.
package struct ProgressSnapshot: Sendable, Equatable {
    /// What goes on: `Checking`, `Fetching`, `Packing`.
    package var phase: String
    /// Files that are finished.
    package var filesDone: Int
    /// Files there are; `nil` before that is known.
    package var filesTotal: Int?
    /// **Bytes** that are finished.
    package var bytesDone: UInt64
    /// **Bytes** there are; `nil` before that is known.
    package var bytesTotal: UInt64?

    package init(
        phase: String,
        filesDone: Int = 0,
        filesTotal: Int? = nil,
        bytesDone: UInt64 = 0,
        bytesTotal: UInt64? = nil
    ) {
        self.phase = phase
        self.filesDone = filesDone
        self.filesTotal = filesTotal
        self.bytesDone = bytesDone
        self.bytesTotal = bytesTotal
    }
}

/// Progress as one line of text. Pure.
enum ProgressText {
    /// Makes the line. The rate is in **bytes** a second; the width is the most columns, and parts are left
    /// out, the least telling first, until the line fits.
    static func line(_ progress: ProgressSnapshot, rate: Double?, width: Int = .max) -> String {
        let files = counted(progress.filesDone, of: progress.filesTotal) + " files"
        // A phase that is not about bytes says nothing of them.
        let hasBytes = progress.bytesDone > 0 || progress.bytesTotal != nil
        var bytes = hasBytes ? ByteCount(progress.bytesDone).description : nil
        if let total = progress.bytesTotal { bytes?.append("/\(ByteCount(total))") }
        let isMoving = progress.bytesTotal.map { progress.bytesDone < $0 } ?? hasBytes
        let speed = isMoving ? rate.flatMap(ByteCount.init(perSecond:)).map { "\($0)/s" } : nil
        let remaining = eta(progress, rate: rate).map { "ETA \($0)" }

        // By what one misses least: the phase, the rate, the bytes, the time left, the files.
        let candidates: [[String?]] = [
            [progress.phase, files, bytes, speed, remaining],
            [files, bytes, speed, remaining],
            [files, bytes, remaining],
            [files, remaining],
            [files],
        ]
        let lines = candidates.map { $0.compactMap(\.self).joined(separator: "  ") }
        return lines.first { $0.count <= width } ?? String(files.prefix(max(0, width)))
    }

    /// The time until the end at `rate`, or `nil` when nobody can say.
    static func eta(_ progress: ProgressSnapshot, rate: Double?) -> String? {
        guard let total = progress.bytesTotal, total > progress.bytesDone, let rate, rate >= 1 else {
            return nil
        }
        let seconds = (Double(total - progress.bytesDone) / rate).rounded(.up)
        // A month says "never" as well as anything longer.
        guard seconds < 31 * 86_400 else { return nil }
        return duration(seconds: Int(seconds))
    }

    /// `0:07`, `12:34`, `1:02:03`, `2d 03h`.
    static func duration(seconds: Int) -> String {
        let (minutes, second) = seconds.quotientAndRemainder(dividingBy: 60)
        let (hours, minute) = minutes.quotientAndRemainder(dividingBy: 60)
        if hours >= 24 { return "\(hours / 24)d \(twoDigits(hours % 24))h" }
        if hours > 0 { return "\(hours):\(twoDigits(minute)):\(twoDigits(second))" }
        return "\(minute):\(twoDigits(second))"
    }

    /// Seconds with one decimal, two below ten: `0.42`, `73.1`.
    static func seconds(milliseconds: Int64) -> String {
        let clamped = max(0, milliseconds)
        guard clamped < 10_000 else { return "\(clamped / 1000).\(clamped / 100 % 10)" }
        return "\(clamped / 1000).\(twoDigits(Int(clamped / 10 % 100)))"
    }

    private static func counted(_ done: Int, of total: Int?) -> String {
        guard let total else { return Figures.grouped(done) }
        return "\(Figures.grouped(done))/\(Figures.grouped(total))"
    }

    private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : String(number) }
}

extension ByteCount {
    /// A rate fit for display; `nil` for one no display can hold.
    fileprivate init?(perSecond rate: Double) {
        guard rate.isFinite, let bytes = UInt64(exactly: rate.rounded()) else { return nil }
        self.init(bytes)
    }
}
