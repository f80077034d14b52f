extension HTML {
    /// A page's only style sheet: light and dark, wide and narrow, print.
    static let css: HTML = """
        :root{color-scheme:light dark;--page:#f6f7f8;--card:#fff;--ink:#1d2227;--soft:#57606a;--line:#dfe3e7;
        --bar:#6196dd;--last:#1d4fa8;--warn:#b45309;--warn-page:#fff6e5;--warn-line:#f2d29b;--warn-bar:#cc8c2c;--bad:#b42318;
        --bad-page:#fdeeec;--bad-line:#f3c2bc;--good:#1a7f4b;--good-page:#e8f6ee;--calm-page:#eceff2}
        @media (prefers-color-scheme:dark){:root{--page:#14171a;--card:#1c2025;--ink:#e6e9ec;--soft:#9ba5af;
        --line:#31373e;--bar:#4875b8;--last:#86b5ff;--warn:#f0b04f;--warn-page:#2e2413;--warn-line:#5d4620;--warn-bar:#b98238;
        --bad:#ff8e80;--bad-page:#361d1a;--bad-line:#6b332c;--good:#5fd098;--good-page:#163325;--calm-page:#272c32}}
        *{box-sizing:border-box}
        body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",
        Roboto,"Noto Sans","DejaVu Sans",sans-serif;-webkit-text-size-adjust:100%}
        main{max-width:1080px;margin:0 auto;padding:28px 20px 40px}
        h1{font-size:1.55rem;line-height:1.25;margin:0 0 2px;letter-spacing:-.01em}
        h2{font-size:1.2rem;line-height:1.3;margin:0;overflow-wrap:anywhere}
        h3{font-size:.8rem;margin:0 0 6px;color:var(--soft);font-weight:600;letter-spacing:.02em}
        p{margin:0}
        .soft{color:var(--soft)}
        .small{font-size:.87rem}
        code{font:.92em/1.45 ui-monospace,"Cascadia Mono",Menlo,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
        .sum{margin:14px 0 22px;font-size:1.05rem;font-weight:600}
        .sum.good{color:var(--good)}.sum.warn{color:var(--warn)}
        section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:20px 22px 22px;
        margin:0 0 18px}
        .head{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 10px}
        .badge{font-size:.78rem;font-weight:650;border-radius:999px;padding:1px 10px;white-space:nowrap;
        background:var(--calm-page);color:var(--ink)}
        .badge.failed{background:var(--bad-page);color:var(--bad)}
        .badge.attention{background:var(--warn-page);color:var(--warn)}
        .badge.ok{background:var(--good-page);color:var(--good)}
        .line{margin:2px 0 0;font-size:1.02rem;overflow-wrap:anywhere}
        .where{margin:1px 0 0;overflow-wrap:anywhere}
        .problem{border:1px solid var(--warn-line);background:var(--warn-page);border-radius:8px;
        padding:10px 14px 11px;margin:14px 0 0}
        .problem.bad{border-color:var(--bad-line);background:var(--bad-page)}
        .problem.over{border-color:var(--line);background:none;color:var(--soft)}
        .problem b{overflow-wrap:anywhere}
        .problem p+p{margin-top:3px}
        .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:1px;margin:18px 0 0;
        background:var(--line);border:1px solid var(--line);border-radius:8px;overflow:hidden}
        .tiles>div{background:var(--card);padding:10px 14px 11px}
        .tiles dt{font-size:.8rem;color:var(--soft);font-weight:600}
        .tiles dd{margin:0}
        .tiles .value{font-size:1.32rem;font-weight:650;line-height:1.3;letter-spacing:-.01em;
        font-variant-numeric:tabular-nums}
        .charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,280px),1fr));gap:18px 24px;
        margin:20px 0 0}
        figure{margin:0;min-width:0}
        figcaption{display:flex;justify-content:space-between;gap:10px;font-size:.87rem;margin:0 0 2px}
        figcaption b{font-weight:600}
        svg{display:block;width:100%;height:auto;overflow:visible}
        svg text{font:10.5px system-ui,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif;fill:var(--soft);
        font-variant-numeric:tabular-nums}
        svg .scale{text-anchor:end}
        svg .grid{stroke:var(--line);stroke-width:1}
        svg .axis{stroke:var(--soft);stroke-width:1;opacity:.55}
        svg .bar{fill:var(--bar)}svg .bar.last{fill:var(--last)}svg .bar.marked{fill:var(--warn-bar)}
        svg .mark{fill:var(--warn)}
        svg .none{fill:var(--soft);opacity:.55}
        .legend{margin:6px 0 0}.legend .mark{color:var(--warn)}
        .lists{columns:2 400px;column-gap:32px;margin:20px 0 0}
        .lists>div{break-inside:avoid;padding:0 0 20px;min-width:0}.lists>div:last-child{padding-bottom:0}
        .lists td,.lists th[scope=row]{overflow-wrap:anywhere}
        table{border-collapse:collapse;width:100%;font-size:.9rem}
        caption{text-align:left;font-size:.8rem;color:var(--soft);font-weight:600;padding:0 0 5px;letter-spacing:.02em}
        th{font-weight:600;text-align:left;color:var(--soft);font-size:.8rem;padding:2px 12px 4px 0;
        vertical-align:bottom;white-space:nowrap}
        td{padding:4px 12px 4px 0;border-top:1px solid var(--line);vertical-align:top;overflow-wrap:break-word}
        th[scope=row]{white-space:normal;color:var(--ink);font-size:inherit;font-weight:500;border-top:1px solid var(--line);
        padding:4px 12px 4px 0;vertical-align:top}
        tr>:last-child{padding-right:0}
        .n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
        .scroll{overflow-x:auto}
        .t,th.t[scope=row]{white-space:nowrap}
        details{margin:16px 0 0}
        summary{cursor:pointer;font-size:.9rem;font-weight:600;color:var(--soft)}
        summary:focus-visible,a:focus-visible{outline:2px solid var(--last);outline-offset:2px;border-radius:3px}
        details>div{margin:8px 0 0}
        a{color:inherit;text-underline-offset:2px}
        .all td:first-child{min-width:10em}.all td a{font-weight:600}
        footer{color:var(--soft);font-size:.82rem;padding:4px 2px}
        @media (max-width:560px){main{padding:18px 12px 28px}section{padding:16px 14px 18px;border-radius:8px}
        .tiles{grid-template-columns:repeat(2,1fr)}
        .all thead{display:none}.all tr{display:grid;grid-template-columns:1fr auto;gap:2px 10px;padding:8px 0 9px;
        border-top:1px solid var(--line)}.all td{border:0;padding:0}.all td:nth-child(3){grid-column:1;grid-row:2}
        .all td:nth-child(4){grid-column:2;grid-row:2}}
        @media print{body{background:none}section{break-inside:avoid;border-color:#ccc}details>div{display:block}}
        """
}
