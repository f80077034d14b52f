#!/usr/bin/env python3
"""The readers of switches.sh, which starts it and says what is checked."""
import argparse, json, mmap, multiprocessing, os, random, statistics, subprocess, sys, time
from collections import Counter

COMMON = [f"both/d{number % 3}/{number:02}.txt" for number in range(16)]
CHANGING = [f"each/d{number % 4}/{number:02}.txt" for number in range(20)]
TREES_ARE_KEPT = 4.0  # Seconds, a little less than what is asked for.


def own(revision):
    """Files that only one revision has."""
    return [f"only/{revision}/{number}.txt" for number in range(4)]


def content(revision, path):
    """What a file has, longer than a page, every line with the revision in it."""
    word = "both" if path in COMMON else revision
    line = f"{word} {path}\n".encode()
    return line * (1 + (hash_of(path) % 9_000) // len(line))


def hash_of(path):
    return sum(position * letter for position, letter in enumerate(path.encode(), 1)) * 37


CONTENT = {revision: {path: content(revision, path) for path in COMMON + CHANGING + own(revision)} for revision in ("one", "two")}
EITHER = {path: {CONTENT[revision][path] for revision in CONTENT} for path in COMMON + CHANGING}


def whole(directory, path):
    """A file below an open directory, or by its path."""
    descriptor = os.open(path, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(descriptor, 1 << 20)
    finally:
        os.close(descriptor)


def by_path(top, chance):
    for path in chance.sample(sorted(EITHER), 12):
        if whole(None, f"{top}/{path}") not in EITHER[path]:
            yield "mixed", f"{path}, read whole, is of neither revision"


def by_listing(top, chance):
    # Of a destination of links: what is not the set's is left alone.
    found = sorted(set(os.listdir(top)) - {".syncagent", "lost+found"})
    if found != ["both", "each", "only"]:
        yield "mixed", f"the destination has {found}"
    if (found := os.listdir(f"{top}/only")) not in (["one"], ["two"]):
        yield "mixed", f"only/ has {found}"


def by_descriptor(top, chance):
    now = f"{top}/.syncagent/now"
    directory = os.open(now if os.path.islink(now) else top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        begun = time.monotonic()
        seen = {path: whole(directory, path) for path in CHANGING + COMMON}
        only = os.open("only", os.O_RDONLY | os.O_DIRECTORY, dir_fd=directory)
        try:
            names = os.listdir(only)
        finally:
            os.close(only)
        revision = next((name for name in CONTENT if names == [name]), None)
        if revision:
            seen |= {path: whole(directory, path) for path in own(revision)}
        if time.monotonic() - begun > TREES_ARE_KEPT:
            return
        wrong = [path for path, found in seen.items() if found != CONTENT.get(revision, {}).get(path)]
        if wrong:
            yield "mixed", f"beside only/{names}: {wrong[:3]}"
    finally:
        os.close(directory)


def by_map(top, chance):
    mapped = {}
    for path in chance.sample(CHANGING, 6):
        descriptor = os.open(f"{top}/{path}", os.O_RDONLY)
        mapped[path] = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        os.close(descriptor)
    first = {path: bytes(one) for path, one in mapped.items()}
    time.sleep(chance.random() * 0.3)
    for path, one in mapped.items():
        if first[path] not in EITHER[path]:
            yield "mixed", f"{path}, mapped, is of neither revision"
        if bytes(one) != first[path]:
            yield "mixed", f"{path}, mapped, has changed"
        one.close()


def read(how, top, stop, results):
    chance, rounds, count, told = random.Random(how.__name__), 0, Counter(), []
    os.nice(10)  # Whoever switches comes first: it is switches that are counted.
    while not stop.is_set():
        try:
            for kind, line in how(top, chance):
                count[kind] += 1
                told.append(line)
        except FileNotFoundError as error:
            count["missing"] += 1
            told.append(f"{error.filename} is not there")
        rounds += 1
    results.put((how.__name__.replace("_", " "), rounds, count, told[:5]))


class Switches:
    def __init__(self, a):
        # A mount point can only be of links, and is so by itself.
        is_mount = a.layout == "links" and os.path.ismount(a.place)
        self.a, self.top = a, a.place if is_mount else f"{a.place}/tower"
        self.atomic = "--atomic" if is_mount else f"--atomic={a.layout}"
        os.makedirs(a.home, 0o700)
        self.environment = {"HOME": a.home, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": f"{a.home}/state"}

    def run(self, *arguments):
        done = subprocess.run([self.a.program, *arguments], env=self.environment, cwd=self.a.home, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def publish(self, revision):
        for path, data in CONTENT[revision].items():
            full = f"{self.a.home}/{revision}/{path}"
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(data)
        self.run("publish", revision, "--to", f"site-{revision}", "--project", "switches")

    def pull(self, revision):
        """How long the exchange took, in microseconds; None where there was none."""
        out = self.run("pull", f"site-{revision}/manifest.json", "--into", self.top, self.atomic, "--keep-for", "5s", "--allow-older",
                       "--force", "--json")
        gaps = [event["gap_us"] for event in map(json.loads, out.splitlines()) if event["event"] == "tree.switched"]
        return gaps[0] if gaps else None

    def measure(self):
        for revision in CONTENT:
            self.publish(revision)
        self.pull("one")
        stop, results = multiprocessing.Event(), multiprocessing.Queue()
        readers = [multiprocessing.Process(target=read, args=(how, self.top, stop, results), daemon=True)
                   for how in (by_path, by_listing, by_descriptor, by_map)]
        for reader in readers:
            reader.start()
        begun, gaps, unmoved = time.monotonic(), [], 0
        while len(gaps) + unmoved < self.a.switches and time.monotonic() - begun < self.a.seconds:
            gap = self.pull("two" if len(gaps) % 2 == 0 else "one")
            if gap is None:
                unmoved += 1
            else:
                gaps.append(gap)
        stop.set()
        took = time.monotonic() - begun
        found = [results.get(timeout=60) for _ in readers]
        count = sum((count for _, _, count, _ in found), Counter())
        for name, _, _, told in found:
            for line in told:
                print(f"BROKEN: {self.a.name}: {name}: {line}")
        if unmoved:
            print(f"BROKEN: {self.a.name}: {unmoved} pulls have switched nothing")
        home = f"{self.top}/.syncagent" if self.a.layout == "links" else f"{self.a.place}/.syncagent-tower"
        with open(f"{home}/ledger") as file:
            ledger = json.load(file)
        sharing = ledger["sharing"]
        if ledger["layout"] != self.a.layout:
            print(f"BROKEN: {self.a.name}: the layout is {ledger['layout']}")
            unmoved += 1
        gaps.sort()
        print(f"{self.a.name} ({self.a.layout}, files by {sharing}): {len(gaps)} switches in {took:.0f} s; rounds: "
              + ", ".join(f"{name} {rounds}" for name, rounds, _, _ in sorted(found))
              + f"; missing {count['missing']}, mixed {count['mixed']}; exchange {statistics.median(gaps):.0f} µs, 99 % "
              f"{gaps[len(gaps) * 99 // 100]} µs, longest {gaps[-1]} µs", flush=True)
        if min(rounds for _, rounds, _, _ in found) < 3:
            print("FAILED: readers who read so little show too little")
            return 1
        return 1 if count.total() or unmoved else 0


parser = argparse.ArgumentParser(description=__doc__)
for name in ("program", "name", "place", "home"):
    parser.add_argument(name)
parser.add_argument("--layout", choices=("exchange", "links"), default="exchange")
parser.add_argument("--switches", type=int, default=1000)
parser.add_argument("--seconds", type=float, default=1e9)
sys.exit(Switches(parser.parse_args()).measure())
