#!/usr/bin/env python3
"""Makes tables and a plot of what bench-run.py measured.

usage: bench-report.py about --commit TEXT --rounds N --scale P --link "RTT MBIT LOSS"    one JSON line about here and now
       bench-report.py report FILE [--svg FILE]                                           Markdown

A line of `about` begins a series. Of a scenario that several series have, the last counts.
"""
import argparse, json, os, platform, re, shutil, statistics, subprocess, sys, time
import plot

OURS = ("syncagent", "syncagent_cold", "before")
VERSIONS = {"curl": "--version", "rsync": "--version", "aria2c": "--version", "wget2": "--version", "rclone": "--version",
            "lftp": "--version", "zsync": "-V", "casync": "--version", "nginx": "-v", "tar": "--version", "openssl": "version"}
SETS = {"small": "20,000 files, 512 MiB", "mixed": "4,000 files, 2 GiB", "huge": "one file, 2 GiB", "tiny": "100,000 files of 1 KiB"}
PLACES = {"shm": "into memory", "tls": "TLS", "link": "over the link"}


def caption(scenario):
    """What a scenario is, from its name."""
    if scenario.startswith("again"):
        return ("1,000,000" if "million" in scenario else "100,000") + " files of 1 KiB, all there already"
    kind, *rest = scenario.split("-")
    words = [SETS.get(kind, ""), "update" if "update" in rest else "first pull"] + [PLACES[r] for r in rest if r in PLACES]
    return ", ".join(words)


def first_number(command):
    if not shutil.which(command[0]):
        return ""
    told = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = re.search(r"v?(\d+(?:\.\d+)+\S*|\b\d+\b)", told.stdout + told.stderr)
    return found[1].rstrip(",") if found else "?"


def about(a):
    with open("/proc/cpuinfo") as file:
        model = re.search(r"model name\s*: (.*)", file.read())
    with open("/proc/meminfo") as file:
        memory = int(re.search(r"MemTotal:\s*(\d+)", file.read())[1])
    versions = {name: first_number([name, option]) for name, option in VERSIONS.items()}
    ours = os.environ.get("SYNCAGENT", "syncagent")
    print(json.dumps({"about": {
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "processor": model[1].strip() if model else platform.machine(),
        "cores": os.cpu_count(), "memory_gib": round(memory / 2**20, 1), "kernel": platform.release(),
        "syncagent": f"{first_number([ours, '--version'])}, commit {a.commit}", "link": a.link, "rounds": a.rounds, "scale": a.scale,
        "versions": {n: v for n, v in versions.items() if v}}}))


def heading(told):
    rtt, rate, loss = (told["link"].split() + ["500", "0"])[:3] if len(told["link"].split()) < 3 else told["link"].split()[:3]
    print(f"Measured on {told['date']}: {told['processor']}, {told['cores']} cores, {told['memory_gib']} GiB, Linux {told['kernel']}.\n")
    print(f"syncagent {told['syncagent']}; " + ", ".join(f"{n} {v}" for n, v in told["versions"].items()) + ".\n")
    print(f"Link: {rtt} ms round trip, {rate} Mbit/s, {loss} % loss. "
          + ("" if told["scale"] == 100 else f"**Sets of {told['scale']} % of their size: a trial, not a measurement.**"))


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def mebibytes(value):
    return f"{value / 2**20:.2f}" if value < 100 * 2**20 else f"{value / 2**20:.0f}"


def table(scenario, runs):
    """Prints it; returns (contender, median, least, most) of those that came through."""
    ours = {r["round"]: r["wall"] for r in runs if r["contender"] == OURS[0] and r.get("status") == 0}
    print(f"\n### {scenario}\n\n{caption(scenario)}\n")
    print("| program | runs | seconds, median (min–max) | syncagent ÷ it, round by round | CPU s | peak MiB | requests | wire MiB | outcome |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|---|")
    bars = []
    for contender in dict.fromkeys(r["contender"] for r in runs):
        mine = [r for r in runs if r["contender"] == contender]
        if "left_out" in mine[0]:
            print(f"| {contender} | 0 | left out: {mine[0]['left_out']} | | | | | | |")
            continue
        good = [r for r in mine if r["status"] == 0]
        said = next((r["outcome"] for r in mine if "outcome" in r), "")
        if not good:
            print(f"| {contender} | {len(mine)} | failed, exit {mine[0]['status']} | | | | | | {said} |")
            continue
        walls = [r["wall"] for r in good]
        ratios = [ours[r["round"]] / r["wall"] for r in good if r["round"] in ours]
        middle = {k: statistics.median(r[k] for r in good) for k in ("cpu", "peak_mib", "requests", "wire")}
        asked = "–" if contender.startswith("rsync") else f"{middle['requests']:.0f}"
        shown = f"**{contender}**" if contender in OURS else contender
        print(f"| {shown} | {len(good)} | {spread(walls, 2 if max(walls) > 1 else 3)} | {spread(ratios, 2) if ratios and contender != OURS[0] else ''} | "
              f"{middle['cpu']:.2f} | {middle['peak_mib']:.0f} | {asked} | {mebibytes(middle['wire'])} | {said} |")
        bars.append((contender, statistics.median(walls), min(walls), max(walls), said))
    return bars


def report(a):
    series, told, last = {}, {}, {}
    with open(a.file) as file:
        for line in map(json.loads, file):
            if "about" in line:
                told = line["about"]
                started = object()
                continue
            if last.get(line["scenario"]) is not started:
                last[line["scenario"]] = started
                series[line["scenario"]] = []
            series[line["scenario"]].append(line)
    heading(told)
    panels = [(scenario, caption(scenario), sorted(table(scenario, runs), key=lambda b: b[1])) for scenario, runs in series.items()]
    if a.svg:
        with open(a.svg, "w") as file:
            file.write(plot.drawing([p for p in panels if p[2]], f"{told['date'][:10]}, {told['processor']}, {told['cores']} cores"
                                    + ("" if told["scale"] == 100 else f"; a trial with sets of {told['scale']} %")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    teller = verbs.add_parser("about")
    teller.add_argument("--commit", default="unknown")
    teller.add_argument("--link", default="40 500 0")
    teller.add_argument("--rounds", type=int, default=5)
    teller.add_argument("--scale", type=int, default=100)
    reporter = verbs.add_parser("report")
    reporter.add_argument("file")
    reporter.add_argument("--svg")
    a = parser.parse_args()
    about(a) if a.verb == "about" else report(a)


main()
