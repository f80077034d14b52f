"""Draws what bench-report.py has computed: a panel for each scenario, a bar for each contender."""
import html

OURS = ("syncagent", "syncagent_cold")
COLUMN, LABEL, BAR, ROW, GAP = 480, 112, 220, 19, 26
LONGEST = 6              # a bar that is longer than so many times ours is cut, with a mark

STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.page { fill: #ffffff } .title { font-size: 13px; font-weight: 600 } .value, .note { fill: #57606a; font-size: 11px; font-weight: 400 }
.ours { fill: #0a7f5a } .cold { fill: #6bbf9f } .floor { fill: #b6bcc4 } .peer { fill: #6f9bd1 }
.label-ours { font-weight: 600 } .spread { stroke: #24292f; stroke-width: 1.2; fill: none } .cut { stroke: #ffffff; stroke-width: 3 }
.rule { stroke: #d0d7de }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #0d1117 } .value, .note { fill: #9aa4af }
.ours { fill: #2fc08d } .cold { fill: #1d7d5c } .floor { fill: #4d5661 } .peer { fill: #3f6fae }
.spread { stroke: #e6edf3 } .cut { stroke: #0d1117 } .rule { stroke: #30363d }
}
"""


def kind(name):
    return "ours" if name == OURS[0] else "cold" if name == OURS[1] else "floor" if name.startswith("floor") else "peer"


def seconds(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def panel(title, caption, bars, x, y):
    ours = next((b[1] for b in bars if b[0] == OURS[0]), None)
    most = max(b[3] for b in bars)
    if ours:
        most = min(most, LONGEST * ours)
    scale = BAR / max(most, 1e-9)
    left = x + LABEL
    parts = [f'<text class="title" x="{x}" y="{y + 12}">{html.escape(title)}'
             f'<tspan class="note" font-weight="400" dx="8">{html.escape(caption)}</tspan></text>',
             f'<path class="rule" d="M{left} {y + 20}V{y + 22 + ROW * len(bars)}"/>']
    y += 21
    for name, median, low, high, _ in bars:
        middle, end = y + ROW / 2, min(high, most)
        length = min(median, most) * scale
        label = ' class="label-ours"' if name in OURS else ""
        parts.append(f'<text{label} x="{left - 7}" y="{middle + 4}" text-anchor="end">{html.escape(name)}</text>'
                     f'<rect class="{kind(name)}" x="{left}" y="{y + 3}" width="{max(length, 1):.1f}" height="{ROW - 6}" rx="1.5"/>')
        if median > most:
            at = left + BAR - 16
            parts.append(f'<path class="cut" d="M{at} {y + ROW}L{at + 6} {y}"/><path class="cut" d="M{at + 6} {y + ROW}L{at + 12} {y}"/>')
        elif high > low:
            a, b = left + low * scale, left + end * scale
            parts.append(f'<path class="spread" d="M{a:.1f} {middle - 3}v6M{a:.1f} {middle}H{b:.1f}m0 -3v6"/>')
        text = f"{seconds(median)} s" + (f" ({seconds(low)}–{seconds(high)})" if high > low else "")
        parts.append(f'<text class="value" x="{left + max(length, end * scale) + 6:.1f}" y="{middle + 4}">{text}</text>')
        y += ROW
    return "".join(parts)


def drawing(panels, note):
    """An SVG of two columns; the next panel goes where there is more room."""
    heights, parts = [46, 46], []
    for title, caption, bars in panels:
        column = heights.index(min(heights))
        parts.append(panel(title, caption, bars, 14 + column * COLUMN, heights[column]))
        heights[column] += 21 + ROW * len(bars) + GAP
    width, height = (1 if len(panels) < 2 else 2) * COLUMN + 14, max(heights)
    legend = ('<text class="title" x="14" y="22">Seconds, median of the runs; the line from the fastest to the slowest</text>'
              f'<text class="note" x="14" y="38">green: syncagent; grey: floors, which verify nothing or know the answer; blue: other programs. {html.escape(note)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="Seconds of syncagent, floors and other programs"><style>{STYLE}</style>'
            f'<rect class="page" width="100%" height="100%"/>{legend}{"".join(parts)}</svg>\n')
