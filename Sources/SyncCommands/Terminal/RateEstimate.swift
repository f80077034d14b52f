import Foundation

/// How fast a count grows: an exponentially weighted moving average of its rate.
///
/// The weight of a second falls to 1/e after ``timeConstant``; a young average is corrected for the time it has
/// not seen, as in Kingma and Ba, "Adam", §3.
struct RateEstimate: Sendable, Equatable {
    /// In **seconds**: long enough to calm the display, short enough to show a stall.
    let timeConstant: Double
    private var average = 0.0
    private var firstTime: Double?
    private var lastCount: UInt64 = 0
    private var lastTime = 0.0
    private var phase = ""

    init(timeConstant: Double = 5) { self.timeConstant = timeConstant }

    /// Takes the count at `time`, in **seconds** of a clock that does not go back.
    ///
    /// - Parameter phase: What is counted. A new phase starts over, since it is other work.
    mutating func add(count: UInt64, of phase: String = "", at time: Double) {
        if phase != self.phase {
            self = RateEstimate(timeConstant: timeConstant)
            self.phase = phase
        }
        guard firstTime != nil else {
            (firstTime, lastTime, lastCount) = (time, time, count)
            return
        }
        let interval = time - lastTime
        guard interval > 0 else { return }
        // A retry may take back the count of a failed attempt.
        let grown = count >= lastCount ? Double(count - lastCount) : 0
        average += (1 - exp(-interval / timeConstant)) * (grown / interval - average)
        (lastTime, lastCount) = (time, count)
    }

    /// Units a **second**, or `nil` before two counts have come.
    var perSecond: Double? {
        guard let firstTime, lastTime > firstTime else { return nil }
        return average / (1 - exp(-(lastTime - firstTime) / timeConstant))
    }
}
