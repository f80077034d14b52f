#!/usr/bin/env python3
"""What it costs to show a set as a whole: updates with --atomic against updates in place, in turn.

usage: whole-cost.py PROGRAM DIRECTORY [--files N] [--change SHARE] [--rounds N]

A set of --files files (default 100,000, of 1 to 4 KiB) is published in two revisions that differ in --change of them (default 0.01),
below DIRECTORY, which is on the file system that counts. Two destinations there, one that changes file by file and one that changes as
a whole, are brought from one revision to the other and back, in turn, --rounds times (default 5); before that, once for each revision,
so that the second tree is there. Printed: seconds of each kind, the median and each; the bytes received; how long the exchange took;
what a second revision takes on the disk, by du(1), against the bytes that changed; the first update, which makes a name for each file;
rollbacks, with the same set.

The set is read from files: no network and no server is in what is measured. Exit status: 0.
"""
import argparse, json, os, random, shutil, statistics, subprocess, sys, time


class Cost:
    def __init__(self, a):
        self.a, self.root = a, f"{a.directory}/whole-cost"
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(f"{self.root}/home", 0o700)
        home = f"{self.root}/home"
        self.environment = {"HOME": home, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "XDG_STATE_HOME": f"{home}/state"}
        self.program = os.path.abspath(a.program)
        self.places = {"in place": f"{self.root}/files", "as a whole": f"{self.root}/tower"}

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
        chance, changed = random.Random(41), 0
        for number in range(self.a.files):
            path = f"d{number // 1000:03}/{number % 1000:03}"
            data = chance.randbytes(chance.randrange(1024, 4096))
            new = chance.random() < self.a.change
            other = chance.randbytes(len(data)) if new else data
            changed += len(data) if new else 0
            for revision, content in (("one", data), ("two", other)):
                full = f"{self.root}/set-{revision}/{path}"
                if number % 1000 == 0:
                    os.makedirs(os.path.dirname(full))
                with open(full, "wb") as file:
                    file.write(content)
        for revision in ("one", "two"):
            self.run("publish", f"set-{revision}", "--to", f"site-{revision}", "--project", "cost")
        return changed

    def pull(self, kind, revision):
        more = ["--atomic", "--keep-for", "0"] if kind == "as a whole" else ["--prune"]
        took, events = self.run("pull", f"site-{revision}/manifest.json", "--into", self.places[kind], "--session", kind.replace(" ", "."),
                                "--allow-older", "--force", "--json", *more)
        gaps = [event["gap_us"] for event in events if event["event"] == "tree.switched"]
        return took, events[-1], gaps[0] if gaps else None

    def disk(self, *paths):
        """Bytes that they take together; what two have in common counts once."""
        paths = [path for path in paths if os.path.exists(path)]
        out = subprocess.run(["du", "-s", "-c", "--block-size=1", *paths], capture_output=True, text=True, check=True).stdout
        return int(out.splitlines()[-1].split()[0])

    def measure(self):
        changed = self.publish()
        print(f"{self.a.files} files; {changed} bytes of {self.a.change:.0%} of them change; {self.program}")
        first = {kind: self.pull(kind, "one")[0] for kind in self.places}
        second = {kind: self.pull(kind, "two")[0] for kind in self.places}
        for kind in self.places:
            self.pull(kind, "one")
            print(f"{kind}: from nothing {first[kind]:.2f} s, first update {second[kind]:.2f} s")
        times, gaps, last = {kind: [] for kind in self.places}, [], {}
        for number in range(self.a.rounds):
            for kind in self.places:
                took, last[kind], gap = self.pull(kind, ("two", "one")[number % 2])
                times[kind].append(took)
                gaps += [gap] if gap is not None else []
        for kind, found in times.items():
            end = last[kind]
            print(f"{kind}: update {statistics.median(found):.2f} s ({', '.join(f'{one:.2f}' for one in found)}); "
                  f"{end['files']['installed'] + end['files']['reused']} files, {end['bytes']['received']} bytes received")
        ratio = statistics.median(times["as a whole"]) / statistics.median(times["in place"])
        print(f"as a whole against in place: {ratio:.2f}; exchange {statistics.median(gaps):.0f} µs, longest {max(gaps)} µs")
        one, home = self.places["as a whole"], f"{self.root}/.syncagent-tower"
        alone, both = self.disk(one), self.disk(one, f"{home}/rev")
        index = self.disk(f"{home}/state")
        names = sum(os.lstat(at).st_blocks * 512 for at, _, _ in os.walk(f"{home}/rev"))
        print(f"disk: one revision {alone} bytes, both {both}, so the second {both - alone}, of which {names} are its directories; "
              f"what is kept of both {index}; changed {changed}")
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
Cost(parser.parse_args()).measure()
