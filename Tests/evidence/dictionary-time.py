#!/usr/bin/env python3
"""How long publishing takes with and without the look for a dictionary, in turn, with the wall's clock.

usage: dictionary-time.py [--pairs N] [--before PROGRAM] NAME=DIRECTORY ...

Publishes each directory anew, N times each: with --dictionary never, with auto, and with auto by an older program where
one is named; the first run of a set is thrown away. Prints a row of Markdown for each set: medians in seconds and, pair by
pair, how often the time of never each took: the median (least-most).

Environment: SYNCAGENT, the program (default: the release build). TMPDIR, where to publish to; a disk in memory is best.
Exit status: 0 when all was published, 1 not.
"""
import argparse, json, os, shutil, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def publish(program, mode, source, work):
    """Seconds, and what the program says of it."""
    for name in ("out", "home"):
        shutil.rmtree(f"{work}/{name}", ignore_errors=True)
    environment = dict(os.environ, HOME=f"{work}/home", XDG_STATE_HOME=f"{work}/home/state", XDG_CONFIG_HOME=f"{work}/home")
    os.makedirs(f"{work}/home")
    start = time.perf_counter()
    result = subprocess.run(
        [program, "publish", source, "--to", f"{work}/out", "--project", "p", "--dictionary", mode, "--safe-links", "--json"],
        env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if result.returncode != 0:
        sys.exit(f"{source}: {result.stderr}")
    return seconds, json.loads(result.stdout.strip().splitlines()[-1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, default=6)
    arguments.add_argument("--before", help="an older program")
    arguments.add_argument("sets", nargs="+", metavar="NAME=DIRECTORY")
    given = arguments.parse_args()
    program = os.environ.get("SYNCAGENT", f"{ROOT}/.build/release/syncagent")
    ways = [(program, "never"), (program, "auto")] + ([(given.before, "auto")] if given.before else [])
    print("| set | files | raw MiB | never, s | auto, s | times |" + (" before, s | times |" if given.before else "") + " stored MiB |")
    with tempfile.TemporaryDirectory() as work:
        for item in given.sets:
            name, source = item.split("=", 1)
            publish(*ways[0], source, work)
            times, said = [[] for _ in ways], [None for _ in ways]
            for _ in range(given.pairs):
                for number, way in enumerate(ways):
                    seconds, said[number] = publish(*way, source, work)
                    times[number].append(seconds)
            cells = [name, f"{said[0]['files']:,}", f"{said[0]['bytes']['raw'] / 2**20:.0f}"]
            for number, row in enumerate(times):
                cells.append(f"{statistics.median(row):.2f}")
                if number > 0:
                    ratios = [one / never for one, never in zip(row, times[0])]
                    cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})")
            stored = [one["bytes"]["stored"] / 2**20 for one in said[:2]]
            cells.append(f"{stored[0]:.1f} → {stored[1]:.1f}")
            print("| " + " | ".join(cells) + " |", flush=True)


main()
