#!/usr/bin/env python3
"""What it costs to show a set as a whole: updates with --atomic against updates in place and against OSTree, in turn.

usage: whole-cost.py PROGRAM DIRECTORY [--files N] [--change SHARE] [--rounds N] [--layout exchange|links]

A set of --files files (default 100,000, of 1 to 4 KiB) is published below DIRECTORY, which is on the file system that counts. Night
after night --change of them (default 0.01), any as likely as another, get new contents, and the set is published again. After each
night, in an order that turns, too, the same update is made

  in place     in a destination that changes file by file
  as a whole   in one that changes with --atomic
  by OSTree    with `ostree pull` of a commit of the same set and `ostree checkout` beside the last one, the links exchanged and the
               tree of two nights before removed; skipped, with a line that says so, where there is no ostree(1)

The two nights before the --rounds (default 5) that are measured are not: the second tree, and the first names of its files, are made
then. Printed: seconds of each kind, the median and each; the bytes received; how long the exchange took; what a second revision takes
on the disk, by du(1), against the bytes that changed; rollbacks of the same set.

Both come over http from loopback, from `PROGRAM serve`; OSTree's first commit is copied from the disk beside it, since it would be a
request for each file. Exit status: 0.
"""
import argparse, json, os, random, re, shutil, statistics, subprocess, sys, time


class Cost:
    def __init__(self, a):
        self.a, self.root = a, f"{a.directory}/whole-cost"
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(f"{self.root}/home", 0o700)
        home = f"{self.root}/home"
        self.environment = {"HOME": home, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": f"{home}/state"}
        self.program = os.path.abspath(a.program)
        self.places = {"in place": f"{self.root}/files", "as a whole": f"{self.root}/tower"}
        self.kinds = {"in place": self.pull, "as a whole": self.pull}
        self.chance, self.night = random.Random(41), 0
        os.makedirs(f"{self.root}/served")
        self.server = subprocess.Popen([self.program, "serve", "served", "--port", "0"], cwd=self.root, env=self.environment, text=True,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.url = self.server.stdout.readline().strip()
        if shutil.which("ostree"):
            self.kinds["by OSTree"] = self.ostree
            self.begin_ostree()
        else:
            print("SKIPPED: by OSTree: there is no ostree(1) here")

    def run(self, *arguments):
        """Its seconds, and what it said."""
        begun = time.monotonic()
        done = subprocess.run([self.program, *arguments], env=self.environment, cwd=self.root, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True)
        took = time.monotonic() - begun
        if done.returncode != 0:
            sys.exit(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        return took, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def publish(self):
        """Another night: the bytes that have changed."""
        changed = 0
        for number in range(self.a.files):
            path = f"{self.root}/set/d{number // 1000:03}/{number % 1000:03}"
            if self.night and self.chance.random() >= self.a.change:
                continue
            data = self.chance.randbytes(self.chance.randrange(1024, 4096))
            if number % 1000 == 0 and not self.night:
                os.makedirs(os.path.dirname(path))
            with open(path, "wb") as file:
                file.write(data)
            changed += len(data)
        self.night += 1
        self.run("publish", "set", "--to", "served/site", "--project", "cost")
        if "by OSTree" in self.kinds:
            self.call("ostree", "--repo=served/upstream", "commit", "--branch=cost", "--canonical-permissions", "--tree=dir=set")
        # What was written just now is nobody's cost.
        os.sync()
        return changed

    def pull(self, kind):
        """Its seconds, the bytes received, and how long the exchange took in microseconds."""
        atomic = "--atomic" + (f"={self.a.layout}" if self.a.layout else "")
        more = [atomic, "--keep-for", "0"] if kind == "as a whole" else ["--prune"]
        took, events = self.run("pull", f"{self.url}site/manifest.json", "--into", self.places[kind], "--session", kind.replace(" ", "."), "--json", *more)
        gaps = [event["gap_us"] for event in events if event["event"] == "tree.switched"]
        return took, events[-1]["bytes"]["received"], gaps[0] if gaps else None

    # OSTree

    def call(self, *arguments):
        done = subprocess.run(arguments, cwd=self.root, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def begin_ostree(self):
        # An archive, as one that is served; a bare one of this user's files, whose checkouts share them by links.
        self.call("ostree", "--repo=served/upstream", "init", "--mode=archive")
        self.call("ostree", "--repo=local", "init", "--mode=bare-user-only")
        self.call("ostree", "--repo=local", "remote", "add", "--no-gpg-verify", "origin", f"{self.url}upstream")

    def ostree(self, kind):
        begun = time.monotonic()
        if self.night == 1:
            said = self.call("ostree", "--repo=local", "pull-local", "--remote=origin", "served/upstream", "cost")
        else:
            said = self.call("ostree", "--repo=local", "pull", "origin", "cost")
        found = re.search(r"([0-9.]+)\s(bytes|[KMG]iB) transferred", said)
        received = float(found[1]) * {"b": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found[2][0]] if found else 0
        self.call("ostree", "--repo=local", "checkout", "--user-mode", "--require-hardlinks", "origin:cost", f"checkout-{self.night}")
        shown = time.monotonic()
        os.symlink(f"checkout-{self.night}", f"{self.root}/now.new")
        os.rename(f"{self.root}/now.new", f"{self.root}/now")
        gap = (time.monotonic() - shown) * 1e6
        shutil.rmtree(f"{self.root}/checkout-{self.night - 2}", ignore_errors=True)
        self.call("ostree", "--repo=local", "prune", "--refs-only", "--depth=1")
        return time.monotonic() - begun, received, gap

    # All of it

    def disk(self, *paths):
        """Bytes that they take together; what two have in common counts once."""
        paths = [path for path in paths if os.path.exists(path)]
        out = subprocess.run(["du", "-s", "-c", "--block-size=1", *paths], capture_output=True, text=True, check=True).stdout
        return int(out.splitlines()[-1].split()[0])

    def measure(self):
        print(f"{self.a.files} files, {self.publish()} bytes; {self.program}", flush=True)
        first = {kind: make(kind)[0] for kind, make in self.kinds.items()}
        print(f"{self.publish()} bytes, of {self.a.change:.0%} of the files, change each night")
        second = {kind: make(kind)[0] for kind, make in self.kinds.items()}
        for kind in self.kinds:
            print(f"{kind}: from nothing {first[kind]:.2f} s, first update {second[kind]:.2f} s", flush=True)
        times, received, gaps = ({kind: [] for kind in self.kinds} for _ in range(3))
        for number in range(-1, self.a.rounds):
            changed = self.publish()
            order = list(self.kinds)
            for kind in order[number % len(order):] + order[:number % len(order)]:
                took, bytes_, gap = self.kinds[kind](kind)
                if number >= 0:
                    times[kind].append(took)
                    received[kind].append(bytes_)
                    gaps[kind] += [gap] if gap is not None else []
        base = statistics.median(times["in place"])
        for kind, found in times.items():
            gap = f"; shown in {statistics.median(gaps[kind]):.0f} µs, longest {max(gaps[kind]):.0f} µs" if gaps[kind] else ""
            print(f"{kind}: update {statistics.median(found):.2f} s ({', '.join(f'{one:.2f}' for one in found)}), "
                  f"{statistics.median(found) / base:.2f} of in place; {statistics.median(received[kind]):.0f} bytes received{gap}")
        one, home = self.places["as a whole"], f"{self.root}/.syncagent-tower"
        if self.a.layout == "links":
            home = f"{one}/.syncagent"
            now = os.path.realpath(f"{home}/now")
            alone, both = self.disk(now), self.disk(f"{home}/rev")
        else:
            alone, both = self.disk(one), self.disk(one, f"{home}/rev")
        names = sum(os.lstat(at).st_blocks * 512 for at, _, _ in os.walk(f"{home}/rev"))
        print(f"disk: one revision {alone} bytes, both {both}, so the second {both - alone}, of which {names} are directories below rev/; "
              f"what is kept of both {self.disk(f'{home}/state')}; changed {changed}")
        if "by OSTree" in self.kinds:
            checkout = f"{self.root}/checkout-{self.night}"
            former = f"{self.root}/checkout-{self.night - 1}"
            local = f"{self.root}/local"
            print(f"disk, OSTree: repository and one checkout {self.disk(local, checkout)} bytes, with the former one "
                  f"{self.disk(local, checkout, former)}, the repository alone {self.disk(local)}")
        back = []
        for _ in range(self.a.rounds):
            back.append(self.run("rollback", "as.a.whole", "--json")[0])
        print(f"rollback: {statistics.median(back):.2f} s ({', '.join(f'{one:.2f}' for one in back)})")
        shutil.rmtree(self.root, ignore_errors=True)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
parser.add_argument("directory")
parser.add_argument("--files", type=int, default=100_000)
parser.add_argument("--change", type=float, default=0.01)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--layout", choices=("exchange", "links"))
cost = Cost(parser.parse_args())
try:
    cost.measure()
finally:
    cost.server.terminate()
