import SyncModel

/// A bar chart of nights, as an inline SVG that is readable without colours and without a pointer.
struct BarChart {
    /// The nights: a marked one is drawn in another colour and with a symbol, one without a run as a gap on the line. The
    /// title is for the tooltip: `Nov 21: 356 MiB`.
    let bars: [(night: Night, value: Double, title: String)]
    /// The accessible name.
    let title: String
    let description: String
    /// Unique in the page.
    let identifier: String
    /// The value of the highest line, and the labels at it and at half of it.
    let scale: ChartScale

    private static let width = 336.0
    private static let height = 128.0
    private static let left = 54.0
    private static let right = 6.0
    private static let top = 14.0
    private static let bottom = 20.0
    /// With fewer nights, there is space on the left.
    private static let fewest = 6
    private static let widest = 30.0

    private var base: Double { Self.height - Self.bottom }
    private var slot: Double { (Self.width - Self.left - Self.right) / Double(max(bars.count, Self.fewest)) }

    var html: HTML {
        let grid: [HTML] = [
            line(at: scale.top, scale.topLabel), line(at: scale.top / 2, scale.halfLabel),
            """
            <line class="axis" x1="\(at: Self.left)" x2="\(at: Self.width - Self.right)" y1="\(at: base)" y2="\(at: base)"/>
            """,
        ]
        return """
            <svg viewBox="0 0 \(at: Self.width) \(at: Self.height)" role="img" \
            aria-labelledby="\(identifier)-t \(identifier)-d">\
            <title id="\(identifier)-t">\(title)</title><desc id="\(identifier)-d">\(description)</desc>\
            \(grid)\(bars.indices.map(bar))\(labels)</svg>
            """
    }

    private func center(_ index: Int) -> Double { Self.width - Self.right - (Double(bars.count - index) - 0.5) * slot }

    private func y(_ value: Double) -> Double {
        guard scale.top > 0 else { return base }
        return base - (base - Self.top) * min(1, max(0, value / scale.top))
    }

    private func line(at value: Double, _ label: String) -> HTML {
        """
        <line class="grid" x1="\(at: Self.left)" x2="\(at: Self.width - Self.right)" y1="\(at: y(value))" \
        y2="\(at: y(value))"/>\
        <text class="scale" x="\(at: Self.left - 6)" y="\(at: y(value) + 3.5)">\(label)</text>
        """
    }

    private func bar(_ index: Int) -> HTML {
        let bar = bars[index]
        let width = min(slot * 0.72, Self.widest)
        let x = center(index) - width / 2
        if bar.night.runs == 0 {
            return """
                <g><title>\(bar.title)</title><circle class="none" cx="\(at: center(index))" \
                cy="\(at: base - 4)" r="1.6"/></g>
                """
        }
        // Any value above zero is visible.
        let top = min(y(bar.value), bar.value > 0 ? base - 1.5 : base)
        let kind: HTML = bar.night.isMarked ? "bar marked" : index == bars.count - 1 ? "bar last" : "bar"
        let rect: HTML = """
            <rect class="\(kind)" x="\(at: x)" y="\(at: top)" width="\(at: width)" height="\(at: base - top)" \
            rx="\(at: min(2, width / 4))"/>
            """
        return "<g><title>\(bar.title)</title>\(rect)\(bar.night.isMarked ? mark(center(index), top - 4) : "")</g>"
    }

    private func mark(_ x: Double, _ y: Double) -> HTML {
        """
        <path class="mark" d="M\(at: x - 3.6) \(at: y)L\(at: x + 3.6) \(at: y)L\(at: x) \(at: y - 6.2)Z"/>
        """
    }

    /// At most six dates, always including the last one.
    private var labels: [HTML] {
        let step = max(1, (bars.count + 5) / 6, Int((40 / slot).rounded(.up)))
        return bars.indices.reversed().enumerated().compactMap { place, index in
            guard place % step == 0 else { return nil }
            // The last one is aligned to the end of the drawing, the others are centred.
            let isLast = place == 0
            let x = isLast ? min(center(index) + 17, Self.width - 1) : center(index)
            let anchor: HTML = isLast ? "end" : "middle"
            return """
                <text class="date" text-anchor="\(anchor)" x="\(at: x)" y="\(at: Self.height - 5)">\
                \(bars[index].night.label)</text>
                """
        }
    }
}

/// The highest line of a chart: a round number, not much above the largest value.
struct ChartScale: Equatable {
    var top: Double
    var topLabel: String
    var halfLabel: String

    /// **Bytes**, in binary units.
    static func bytes(_ largest: UInt64) -> ChartScale {
        var unit = 1.0
        while Double(largest) / unit > 1_000, unit < 0x1p50 { unit *= 1_024 }
        return ChartScale(Self.decimal(Double(max(largest, 1)) / unit) * unit) { ByteCount($0).description }
    }

    /// Whole numbers; half of the top is whole, too.
    static func count(_ largest: UInt64) -> ChartScale {
        ChartScale(decimal(Double(max(largest, 2)), [1, 2, 4, 6, 8, 10])) { Figures.grouped($0) }
    }

    /// **Milliseconds**.
    static func period(_ largest: Int64) -> ChartScale {
        let steps: [Double] = [2, 4, 10, 20, 40, 60, 120, 240, 600, 1_200, 2_400, 3_600, 7_200, 14_400, 28_800, 43_200]
        let seconds = Double(max(largest, 1)) / 1_000
        let top = steps.first { $0 >= seconds } ?? (seconds / 86_400).rounded(.up) * 86_400
        return ChartScale(top * 1_000) { Figures.period(Int64(clamping: $0)) }
    }

    private init(_ top: Double, _ label: (UInt64) -> String) {
        func words(_ value: Double) -> String { label(UInt64(exactly: value.rounded()) ?? .max) }
        (self.top, topLabel, halfLabel) = (top, words(top), words(top / 2))
    }

    /// The next product of one of the digits and a power of ten, half of which is a short number, too.
    private static func decimal(_ value: Double, _ digits: [Double] = [1, 2, 4, 5, 8, 10]) -> Double {
        var power = 1.0
        while power * 10 <= value { power *= 10 }
        return digits.map { $0 * power }.first { $0 >= value } ?? value
    }
}
