import SyncModel

// Bytes, requests and time per night, as charts and as the underlying table.
extension SessionSection {
    private var nights: [Night] { session.nights }

    var nightCharts: HTML {
        guard nights.contains(where: { $0.runs > 0 }) else { return "" }
        let legend: HTML =
            nights.contains(where: \.isMarked)
            ? """
            <p class="legend small soft"><span class="mark" aria-hidden="true">&#9652;</span> \
            a night that ended incomplete, failed or was stopped</p>

            """ : ""
        return """
            <div class="charts">\(charts)</div>
            \(legend)\(table)
            """
    }

    private var charts: [HTML] {
        [
            figure("Received", "b", \.received, ChartScale.bytes) { ByteCount($0).description },
            figure("Requests", "r", \.requests, ChartScale.count) { Figures.grouped($0) },
            figure("Time", "t", \.elapsed, ChartScale.period) { Figures.period($0) },
        ]
    }

    private func figure<Amount: BinaryInteger>(
        _ name: String, _ suffix: String, _ amount: KeyPath<Amounts, Amount>, _ scale: (Amount) -> ChartScale,
        _ written: (Amount) -> String
    ) -> HTML {
        func value(_ night: Night) -> Double { Double(night.amounts[keyPath: amount]) }
        func words(_ night: Night) -> String { written(night.amounts[keyPath: amount]) }
        let bars = nights.map { night in
            let mark = night.isMarked ? ", \(Self.word(night))" : ""
            let title = "\(night.label): \(night.runs == 0 ? "no run" : words(night))\(mark)"
            return (night: night, value: value(night), title: title)
        }
        let worked = nights.filter { $0.runs > 0 }
        let last = worked.last.map { "\($0.label): \(words($0))" } ?? ""
        let largest = worked.max { value($0) < value($1) }.map { "; most \(words($0)) on \($0.label)" } ?? ""
        let chart = BarChart(
            bars: bars, title: "\(name) per night of \(session.session)",
            description: "\(Figures.count(nights.count, "night")); \(last)\(largest). The table below has them all.",
            identifier: "\(anchor)\(suffix)", scale: scale(nights.map { $0.amounts[keyPath: amount] }.max() ?? 0))
        return """
            <figure><figcaption><b>\(name)</b><span class="soft">\(last)</span></figcaption>\(chart.html)</figure>

            """
    }

    private static func word(_ night: Night) -> String {
        if night.isStopped { return "stopped, continues" }
        return night.result == .partial ? "incomplete" : night.result?.rawValue ?? ""
    }

    /// The newest night first.
    private var table: HTML {
        let rows: [HTML] = nights.reversed().map { night in
            guard night.runs > 0 else {
                return """
                    <tr><th scope="row" class="t">\(night.date)</th><td colspan="6" class="soft">no run</td></tr>
                    """
            }
            let mark: HTML = night.isMarked ? "<span class=\"mark\" aria-hidden=\"true\">&#9652;</span> " : ""
            return """
                <tr><th scope="row" class="t">\(night.date)</th>\
                <td class="legend">\(mark)\(Self.word(night))</td>\
                <td class="n">\(night.runs)</td><td class="n">\(Figures.grouped(night.amounts.placed))</td>\
                <td class="n">\(ByteCount(night.amounts.received).description)</td>\
                <td class="n">\(Figures.grouped(night.amounts.requests))</td>\
                <td class="n">\(Figures.period(night.amounts.elapsed))</td></tr>
                """
        }
        return """
            <details><summary>Night by night</summary><div class="scroll"><table>\
            <thead><tr><th scope="col">Night</th><th scope="col">Result</th>\
            <th scope="col" class="n">Runs</th><th scope="col" class="n">Files</th>\
            <th scope="col" class="n">Received</th><th scope="col" class="n">Requests</th>\
            <th scope="col" class="n">Time</th></tr></thead><tbody>\(rows)</tbody></table></div></details>
            """
    }
}
