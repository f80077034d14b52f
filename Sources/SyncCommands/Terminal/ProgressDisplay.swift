import Foundation
import SyncEngine
import SyncSystem

/// Shows progress: on a terminal lines that are redrawn, elsewhere one line a minute, or nothing.
package final class ProgressDisplay: Sendable {
    package enum Style: Sendable, Equatable {
        /// Lines that are redrawn in place.
        case terminal
        /// A line now and then, for logs.
        case lines
        case none
    }

    private struct State {
        var snapshot: ProgressSnapshot?
        /// Lines below the progress line.
        var details: [String] = []
        var rate = RateEstimate()
        /// The rate of finished bytes; steadier, because the time left depends on it.
        var growth = RateEstimate(timeConstant: 20)
        var movedAt = 0.0
        var lastDraw = -Double.infinity
        var isFinished = false
    }

    private let state = Mutex(State())
    private let output: Output
    private let style: Style
    private let columns: @Sendable () -> Int
    private let hasColour: Bool
    private let start = ContinuousClock.now

    /// In **seconds**: a terminal is redrawn at most ten times a second, a log gets a line a minute, which cron may
    /// mail.
    private let drawInterval: Double

    /// A display on `output`; `columns` returns the terminal's present width.
    package init(
        output: Output, style: Style, hasColour: Bool = false, drawInterval: Double? = nil,
        columns: @escaping @Sendable () -> Int = ProgressDisplay.terminalColumns
    ) {
        self.output = output
        self.style = style
        self.drawInterval = drawInterval ?? (style == .terminal ? 0.1 : 60)
        self.hasColour = hasColour
        self.columns = columns
    }

    /// The style for a command: nothing when quiet, or when JSON lines go to a terminal.
    static func style(quiet: Bool, json: Bool, environment: EnvironmentPaths) -> Style {
        if quiet || (json && isTerminal(STDOUT_FILENO)) { return .none }
        return isTerminal(STDERR_FILENO) && environment.hasCapableTerminal ? .terminal : .lines
    }

    /// The width of the terminal on standard error; 80 if it has none.
    @Sendable package static func terminalColumns() -> Int { terminalSize(STDERR_FILENO)?.columns ?? 80 }

    /// Lines cut to the size of the terminal on standard error.
    static func fitting(_ lines: [String]) -> [String] {
        let rows = max(1, (terminalSize(STDERR_FILENO)?.rows ?? 24) - 1)
        let width = max(20, terminalColumns()) - 1
        let shown = lines.count > rows ? lines.prefix(rows - 1) + ["… \(lines.count - rows + 1) more"] : lines[...]
        let isPlain = PlainText.isWanted(on: STDERR_FILENO)
        return shown.map { String((isPlain ? PlainText.of($0) : $0).prefix(width)) }
    }

    /// Takes the current progress. Cheap; may be called from any thread, at any rate.
    package func report(_ snapshot: ProgressSnapshot) {
        let now = (ContinuousClock.now - start) / .seconds(1)
        state.withLock { state in
            if state.snapshot.map({ snapshot.hasMoved(since: $0) }) ?? true { state.movedAt = now }
            state.snapshot = snapshot
        }
        draw()
    }

    /// Takes lines to show below the progress line, only on a terminal; long lines are cut.
    package func show(details: () -> [String]) {
        guard style == .terminal else { return }
        let details = details()
        state.withLock { $0.details = details }
        draw()
    }

    /// Runs `body`, updates the display and flushes JSON lines while it runs, and removes the display at its end.
    package func whileRunning<R: Sendable>(_ body: @Sendable () async throws -> R) async throws -> R {
        async let _: Void = tick()
        defer { finish() }
        return try await body()  // Leaving the scope cancels the ticking and waits for its end.
    }

    private func tick() async {
        // The sleep fails only if cancelled, which is the end.
        while (try? await Task.sleep(for: .milliseconds(100))) != nil {
            draw()
            output.flush()
        }
    }

    private func draw() {
        let now = (ContinuousClock.now - start) / .seconds(1)
        let lines: [String]? = state.withLock { state in
            let first = state.lastDraw == -.infinity
            guard style != .none, !state.isFinished, let snapshot = state.snapshot else { return nil }
            // In a log, a phase without numbers is not worth a line.
            if style == .lines, snapshot.unit == .nothing { return nil }
            // The first line of a log comes after one interval: a short run needs none.
            if first, style == .lines { state.lastDraw = 0 }
            guard now - state.lastDraw >= drawInterval else { return nil }
            state.lastDraw = now
            state.rate.add(count: snapshot.received ?? snapshot.bytesDone, of: snapshot.phase, at: now)
            state.growth.add(count: snapshot.bytesDone, of: snapshot.phase, at: now)
            var pace = ProgressText.Pace(rate: state.rate.perSecond, growth: state.growth.perSecond)
            pace.silence = Int(now - state.movedAt)
            let left = snapshot.wait.map { $0.until - SystemTime.milliseconds() } ?? 0
            pace.wait = Int(max(0, left + 999) / 1_000)
            let width = width()
            let line = ProgressText.line(snapshot, pace, width: width, hasColour: hasColour)
            let isPlain = PlainText.isWanted(on: STDERR_FILENO)
            return [line] + state.details.map { String((isPlain ? PlainText.of($0) : $0).prefix(width)) }
        }
        guard let lines else { return }
        if style == .terminal { output.drawProgress(lines) } else { lines.forEach(output.message) }
    }

    /// One column stays free: writing into the last one makes some terminals wrap.
    private func width() -> Int { style == .terminal ? max(20, columns()) - 1 : .max }

    private func finish() {
        state.withLock { $0.isFinished = true }
        output.clearProgress()
        output.flush()
    }
}
