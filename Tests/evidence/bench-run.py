#!/usr/bin/env python3
"""Runs contenders in turn, A B C A B C, and reports; started by bench.sh.

usage: bench-run.py run SCENARIO CONTENDER,… --set NAME --sets DIR --url URL --rsync URL --work DIR --out FILE
                    [--log FILE] [--netns NAME] [--ca FILE] [--where disk|shm] [--again] [--rounds N] [--parallel N]
       bench-run.py report FILE [--svg FILE]

One JSON line for each run: seconds on the wall, CPU of the process tree, peak memory of its largest process (GNU time),
requests and body bytes by nginx's log, and, after the first run of each contender, whether every file is right.
"""
import argparse, html, json, os, shutil, statistics, subprocess, sys, time
import checks

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = "syncagent"
PATIENCE = 30           # seconds; a contender that needs more runs twice at most
LIMIT = 300             # seconds for one run


def make_lists(files, a, destination, lists):
    os.makedirs(lists, exist_ok=True)
    texts = {name: [] for name in ("curl", "aria2", "urls", "expected", "half.0", "half.1")}
    sizes = [0, 0]
    for path, (_, size, digest, _) in sorted(files.items(), key=lambda f: -f[1][1]):
        url = f"{a.url}/raw/{a.set}/{path}"
        texts["curl"].append(f'url = "{url}"\noutput = "{destination}/{path}"\n')
        texts["aria2"].append(f"{url}\n dir={destination}\n out={path}\n checksum=sha-256={digest}\n")
        texts["urls"].append(url + "\n")
        texts["expected"].append(f"{digest} *{path}\n")
        half = sizes.index(min(sizes))                 # two halves of equal work for two hashing processes
        texts[f"half.{half}"].append(path + "\n")
        sizes[half] += size + 4096
    for name, lines in texts.items():
        with open(f"{lists}/{name}", "w") as file:
            file.writelines(sorted(lines))


def lists_of(a, contender):
    return f"{a.work}/lists-{a.scenario}-{contender}"


def fresh(a):
    """A destination without history; where that is a disk, a new file system (fresh-disk.sh says why)."""
    place = "/dev/shm/" + os.path.basename(a.work) if a.where == "shm" else f"{a.work}/destination"
    if a.where == "shm":
        shutil.rmtree(place, ignore_errors=True)
    elif subprocess.run([f"{HERE}/fresh-disk.sh", "possible"]).returncode == 0:
        subprocess.run([f"{HERE}/fresh-disk.sh", "mount", f"{a.work}/destination.img", place, "8"], check=True)
    else:
        shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place, exist_ok=True)
    return place


def one(a, contender, destination, again):
    lists, state = lists_of(a, contender), f"{a.work}/state-{contender}"
    if not again:
        shutil.rmtree(state, ignore_errors=True)
    os.makedirs(destination, exist_ok=True)
    os.makedirs(state, exist_ok=True)
    if not os.path.isdir(lists):
        make_lists(a.files, a, destination, lists)
    environment = dict(os.environ, URL=a.url, RSYNC=a.rsync, SET=a.set, DST=destination, STATE=state, LISTS=lists,
                       AGAIN="1" if again else "", N=str(a.parallel))
    command = ["/usr/bin/time", "-q", "-o", f"{a.work}/time", "-f", "%U %S %M", "timeout", "-k", "5", str(LIMIT), f"{HERE}/peers.sh", contender]
    if a.ca:                                           # every program trusts the trial's authority, none needs an option
        command = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/ssl/certs/ca-certificates.crt && exec "$@"', a.ca] + command
    if a.netns:
        command = ["ip", "netns", "exec", a.netns] + command
    os.sync()
    time.sleep(0.5)
    mark = os.path.getsize(a.log)
    with open(f"{a.work}/stderr", "w+") as errors:
        start = time.perf_counter()
        status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors).returncode
        wall = time.perf_counter() - start
        errors.seek(0)
        message = errors.read()[-300:].strip()
    with open(f"{a.work}/time") as file:
        user, system, kib = map(float, file.read().split()[-3:])
    time.sleep(0.3)
    seen = checks.counted(a.log, mark)
    return dict(contender=contender, status=status, wall=round(wall, 3), cpu=round(user + system, 2), peak_mib=round(kib / 1024, 1),
                requests=seen["requests"], received=seen["total_bytes"], message=message if status else "")


def outcome(a, destination):
    have = {p: w[:3] for p, w in checks.describe(destination).items()}
    want = {p: w[:3] for p, w in a.files.items()}      # bytes only: not every program can carry the executable bit
    wrong = sum(have.get(p) != w for p, w in want.items())
    return "right" if not wrong and len(have) == len(want) else f"{wrong} wrong or missing, {len(have.keys() - want.keys())} more"


def run(a):
    a.files = checks.describe(f"{a.sets}/{a.set}")     # also brings what is served into memory
    times, failed = {}, set()
    place = fresh(a)
    if a.again:                                        # each has its own copy, made by itself
        for contender in a.contenders:
            maker = {"floor_stat": "floor_tar", "floor_rehash": "floor_tar", "rsync_checksum": "rsync"}.get(contender, contender)
            make_lists(a.files, a, f"{place}/{contender}", lists_of(a, contender))
            first = one(a, maker, f"{place}/{contender}", False)
            if first["status"]:
                print(f"{contender}: cannot be prepared: {first['message']}", file=sys.stderr)
                failed.add(contender)
    for number in range(a.rounds):
        for contender in a.contenders:
            done = times.setdefault(contender, [])
            if contender in failed or (len(done) >= 2 and max(done) > PATIENCE):
                continue
            destination = f"{place}/{contender}"
            if not a.again:
                fresh(a)
            result = one(a, contender, destination, a.again)
            if number == 0:
                result["outcome"] = outcome(a, destination)
            if result["status"]:
                failed.add(contender)
            done.append(result["wall"])
            result.update(scenario=a.scenario, round=number)
            print(f"{a.scenario} {number + 1} {contender:15} {result['wall']:8.3f} s  cpu {result['cpu']:6.2f}  peak {result['peak_mib']:6.1f} MiB  "
                  f"{result['requests']:6} requests  {result.get('outcome', '')} {result['message']}", file=sys.stderr, flush=True)
            with open(a.out, "a") as file:
                file.write(json.dumps(result) + "\n")


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def report(a):
    with open(a.out) as file:
        runs = [json.loads(line) for line in file]
    panels = []
    for scenario in dict.fromkeys(r["scenario"] for r in runs):
        here = [r for r in runs if r["scenario"] == scenario]
        ours = {r["round"]: r["wall"] for r in here if r["contender"] == OURS and r["status"] == 0}
        print(f"\n### {scenario}\n\n| program | runs | seconds, median (min–max) | syncagent ÷ it, round by round | CPU s | peak MiB | requests | received MiB | outcome |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|---|")
        bars = []
        for contender in dict.fromkeys(r["contender"] for r in here):
            mine = [r for r in here if r["contender"] == contender]
            good = [r for r in mine if r["status"] == 0]
            said = next((r["outcome"] for r in mine if "outcome" in r), "")
            if not good:
                print(f"| {contender} | {len(mine)} | failed, exit {mine[0]['status']} | | | | | | {said} |")
                continue
            walls = [r["wall"] for r in good]
            ratios = [ours[r["round"]] / r["wall"] for r in good if r["round"] in ours]
            middle = {k: statistics.median(r[k] for r in good) for k in ("cpu", "peak_mib", "requests", "received")}
            asked = ("–", "–") if contender.startswith("rsync") else (f"{middle['requests']:.0f}", f"{middle['received'] / 2**20:.1f}")
            print(f"| {contender} | {len(good)} | {spread(walls, 2 if max(walls) > 1 else 3)} | {spread(ratios, 2) if ratios and contender != OURS else ''} | "
                  f"{middle['cpu']:.2f} | {middle['peak_mib']:.0f} | {asked[0]} | {asked[1]} | {said} |")
            bars.append((contender, statistics.median(walls), min(walls), max(walls)))
        panels.append((scenario, sorted(bars, key=lambda b: b[1])))
    if a.svg:
        with open(a.svg, "w") as file:
            file.write(plot(panels))


def plot(panels):
    """Bars of medians with a line from the fastest to the slowest run; one panel for each scenario."""
    left, width, row, y, parts = 150, 480, 20, 10, []
    for title, bars in panels:
        scale = width / max([b[3] for b in bars], default=1)
        parts.append(f'<text x="10" y="{y + 14}" font-weight="bold">{html.escape(title)}, seconds</text>')
        y += 22
        for name, median, low, high in bars:
            colour = "#0a7" if name == OURS else "#bbb" if name.startswith("floor") else "#69c"
            middle = y + row / 2
            parts.append(f'<text x="{left - 8}" y="{middle + 4}" text-anchor="end">{html.escape(name)}</text>'
                         f'<rect x="{left}" y="{y + 3}" width="{median * scale:.1f}" height="{row - 6}" fill="{colour}"/>'
                         f'<path d="M{left + low * scale:.1f} {middle}H{left + high * scale:.1f}" stroke="#333"/>'
                         f'<text x="{left + high * scale + 6:.1f}" y="{middle + 4}">{median:.2f}</text>')
            y += row
        y += 14
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{y}" font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    runner = verbs.add_parser("run")
    runner.add_argument("scenario")
    runner.add_argument("contenders", type=lambda text: [c for c in text.replace(",", " ").split()])
    for option in ("set", "sets", "url", "rsync", "work", "out", "log"):
        runner.add_argument(f"--{option}", required=True)
    for option in ("netns", "ca"):
        runner.add_argument(f"--{option}", default="")
    runner.add_argument("--where", choices=["disk", "shm"], default="disk")
    runner.add_argument("--again", action="store_true")
    runner.add_argument("--rounds", type=int, default=5)
    runner.add_argument("--parallel", type=int, default=32)
    reporter = verbs.add_parser("report")
    reporter.add_argument("out")
    reporter.add_argument("--svg")
    a = parser.parse_args()
    run(a) if a.verb == "run" else report(a)


main()
