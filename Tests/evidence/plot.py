"""Draws what bench-report.py has computed: a panel for each scenario, a bar for each contender. And what nights.py has: a line for each
kind of bytes."""
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


def over_nights(rows, kept):
    """An SVG of what is published over time: rows of (night, bytes, newest, changes of the nights kept)."""
    width, height, left, top = 720, 320, 58, 40
    most = max(max(size, 1.5 * (newest + changes)) for _, size, newest, changes in rows) / 2**20
    step = next(s for s in (5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if most / s <= 8)
    x = lambda night: left + (width - left - 20) * (night - rows[0][0]) / max(1, rows[-1][0] - rows[0][0])
    y = lambda size: top + (height - top - 40) * (1 - size / 2**20 / most)

    def line(name, values):
        points = " ".join(f"{x(night):.1f},{y(value):.1f}" for night, value in values)
        return f'<polyline class="line {name}" points="{points}"/>'

    parts = [f'<text class="title" x="{left}" y="18">What is published over {len(rows)} nights, of which {kept} are kept (MiB)</text>']
    for mark in range(0, int(most) + 1, step):
        at = y(mark * 2**20)
        parts.append(f'<path class="rule" d="M{left} {at:.1f}H{width - 20}"/>'
                     f'<text class="value" x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{mark}</text>')
    for night in [rows[0][0]] + [row[0] for row in rows if row[0] % 10 == 0]:
        parts.append(f'<text class="value" x="{x(night):.1f}" y="{height - 22}" text-anchor="middle">{night}</text>')
    series = [("size", "what is there", [(n, size) for n, size, _, _ in rows]),
              ("newest", "the newest release", [(n, a) for n, _, a, _ in rows]),
              ("needed", "with the changes of the nights kept", [(n, a + b) for n, _, a, b in rows]),
              ("limit", "1.5 times that", [(n, 1.5 * (a + b)) for n, _, a, b in rows])]
    at = left
    for name, title, values in series:
        parts.append(line(name, values))
        parts.append(f'<path class="line {name}" d="M{at} {height - 6}h14"/><text class="value" x="{at + 19}" y="{height - 2}">{title}</text>')
        at += 40 + 5.4 * len(title)
    style = STYLE.replace("</style>", "") + """
.line { fill: none; stroke-width: 1.6 } .size { stroke: #0a7f5a; stroke-width: 2.4 } .limit { stroke: #cf222e; stroke-dasharray: 5 4 }
.needed { stroke: #6f9bd1 } .newest { stroke: #b6bcc4 }
@media (prefers-color-scheme: dark) { .size { stroke: #2fc08d } .limit { stroke: #ff7b72 } .newest { stroke: #4d5661 } }
"""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 6}" width="{width}" height="{height + 6}">'
            f'<style>{style}</style><rect class="page" width="{width}" height="{height + 6}"/>{"".join(parts)}</svg>\n')
