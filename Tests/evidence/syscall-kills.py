#!/usr/bin/env python3
"""The trials of syscall-kills.sh; started by it, which says what is checked."""
import argparse, json, os, random, re, shutil, subprocess, sys, time
from collections import Counter
import checks

CALLS = ["openat", "mkdirat", "mkdir", "write", "writev", "pwrite64", "pwritev", "ftruncate", "fallocate", "copy_file_range",
         "ioctl", "fchmod", "fchmodat", "utimensat", "futimens", "symlinkat", "linkat", "rename", "renameat", "renameat2",
         "unlink", "unlinkat", "rmdir", "fsync", "fdatasync", "syncfs", "sync_file_range", "flock", "fcntl", "close", "mmap", "msync"]
# Counted, but no point of their own: they change nothing that outlives the process.
HARMLESS = {"close", "mmap", "fcntl", "ioctl"}


class Kills:
    def __init__(self, a):
        self.a = a
        self.syncagent = os.environ["SYNCAGENT"]
        self.place = f"{a.work}/place"
        self.wanted = {n: checks.wanted(checks.load(f"{a.site}/{n}.json")) for n in ("one", "two")}
        self.violations, self.points, self.spared = [], Counter(), Counter()
        self.whole = a.atomic or a.rollback
        self.work = "back" if a.rollback else "two"
        with open(f"{a.work}/hook", "w") as hook:
            hook.write('#!/bin/sh\necho "$SYNCAGENT_RUN_ID $SYNCAGENT_ATTEMPT ${SYNCAGENT_ROLLBACK:-0}" >> ../hooks\n')
        os.chmod(f"{a.work}/hook", 0o755)

    def environment(self, place):
        return dict(os.environ, XDG_STATE_HOME=f"{place}/state")

    def command(self, place, name):
        if name == "back":
            return [self.syncagent, "rollback", "syscall.trial", "--quiet"]
        if name == "release":
            return [self.syncagent, "rollback", "syscall.trial", "--release", "--quiet"]
        whole = [f"--atomic={self.a.layout}", "--keep-for", "0", "--hook", f"{self.a.work}/hook"] if self.whole else ["--prune"]
        return [self.syncagent, "pull", f"{self.a.url}/{name}.json", "--into", f"{place}/files", *whole, "--force", "--quiet"]

    def pull(self, place, name, *prefix):
        """The prefix is a program that runs it."""
        return subprocess.run([*prefix, *self.command(place, name)], env=self.environment(place), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def fresh(self):
        """The first revision, pulled: copies would be other files, which nobody may prune."""
        shutil.rmtree(self.place, ignore_errors=True)
        os.makedirs(self.place)
        first = self.pull(self.place, "one")
        if first.returncode != 0:
            sys.exit(f"the first revision cannot be pulled: exit {first.returncode}: {first.stderr}")
        if self.a.rollback and self.pull(self.place, "two").returncode != 0:
            sys.exit("the second revision cannot be pulled")

    def seen(self):
        """What readers see."""
        return checks.describe(checks.shown(f"{self.place}/files"))

    def count(self):
        """Calls of each kind: in all, and of the thread with most."""
        self.fresh()
        trace = f"{self.a.work}/trace"
        known = ",".join("?" + call for call in CALLS)
        done = self.pull(self.place, self.work, "strace", "-f", "-qq", "-o", trace, "-e", f"trace={known}")
        if done.returncode != 0:
            sys.exit(f"the pull under strace ends with {done.returncode}: {done.stderr}")
        each = Counter()
        with open(trace, errors="replace") as file:
            for line in file:
                match = re.match(r"(\d+) +(\w+)\(", line)
                if match:
                    each[match[2], match[1]] += 1
        total, most = Counter(), Counter()
        for (call, _), count in each.items():
            total[call] += count
            most[call] = max(most[call], count)
        return total, most

    def trial(self, call, n):
        """Kills at one point; whether the run died of it."""
        self.fresh()
        done = self.pull(self.place, self.work, "strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}",
                         "-e", f"inject={call}:signal=SIGKILL:when={n}")
        where, broken = f"{call} {n}", []
        died = done.returncode not in (0, 1, 2, 3, 4, 5, 69, 73, 74, 75)
        files = f"{self.place}/files"
        if self.whole:
            seen = self.seen()
            sides = {name: checks.differences(self.wanted[name], seen) for name in ("one", "two")}
            if all(sides.values()):
                broken.append(f"neither revision is whole: {sides}")
            broken += checks.tops(files)
        for path, what in self.seen().items():
            if what not in (self.wanted["one"].get(path), self.wanted["two"].get(path)):
                broken.append(f"wrong: {path!r} is {what}")
        if self.a.rollback:
            broken += self.after_rollback()
        again = self.pull(self.place, "two")
        if again.returncode != 0:
            broken.append(f"the next pull: exit {again.returncode}: {again.stderr.strip()[-300:]}")
        broken += checks.differences(self.wanted["two"], self.seen())
        broken += checks.tops(files, exactly=True)
        doctor = subprocess.run([self.syncagent, "doctor", "--strict"], env=self.environment(self.place), stdin=subprocess.DEVNULL,
                                capture_output=True, text=True)
        if doctor.returncode != 0:
            broken.append(f"doctor --strict: exit {doctor.returncode}: {(doctor.stdout + doctor.stderr).strip()[-300:]}")
        home = f"{self.place}/.syncagent-files" if self.whole and self.a.layout == "exchange" else f"{files}/.syncagent"
        staging = f"{home}/state" if self.whole else f"{home}/staging"
        left = [f for at, _, names in os.walk(staging) for f in names if "/staging" in at]
        if self.whole:
            broken += self.hooks()
        if left:
            broken.append(f"left in staging: {left[:3]}")
        for line in broken[:5]:
            print(f"BROKEN at {where}: {line}", flush=True)
        self.violations += broken
        return died

    def after_rollback(self):
        """The old revision is shown by a second rollback, unless the killed one has done it, and stays until it is let go."""
        broken = []
        if checks.differences(self.wanted["one"], self.seen()):
            back = self.pull(self.place, "back")
            if back.returncode != 0:
                broken.append(f"the next rollback: exit {back.returncode}: {back.stderr.strip()[-300:]}")
            broken += checks.differences(self.wanted["one"], self.seen())
        held = self.pull(self.place, "two")
        if held.returncode != 77:
            broken.append(f"a held revision is pulled: exit {held.returncode}: {held.stderr.strip()[-300:]}")
        broken += checks.differences(self.wanted["one"], self.seen())
        if self.pull(self.place, "release").returncode != 0:
            broken.append("what is held cannot be let go")
        return broken

    def hooks(self):
        """Every hook on record as done has been called, and no run's hook twice for one attempt."""
        try:
            with open(f"{self.place}/hooks") as file:
                calls = [tuple(line.split()[:2]) for line in file]
        except FileNotFoundError:
            calls = []
        broken = [f"called twice: {call}" for call, count in Counter(calls).items() if count > 1]
        listed = subprocess.run([self.syncagent, "hooks", "list", "--json"], env=self.environment(self.place), stdin=subprocess.DEVNULL,
                                capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            hook = json.loads(line)
            if hook["state"] == "done" and hook["run"] not in {run for run, _ in calls}:
                broken.append(f"on record and never called: {hook['run']}")
            if hook["state"] not in ("done", "failed", "skipped"):
                broken.append(f"still {hook['state']}: {hook['run']}")
        return broken

    def run(self):
        a = self.a
        total, most = self.count()
        print("calls of the update: " + ", ".join(f"{call} {count}" for call, count in sorted(total.items())), flush=True)
        points = [(call, n) for call in CALLS if call not in HARMLESS for n in range(1, most[call] + 1)]
        everything = len(points)
        if a.sample and a.sample < everything:
            print(f"seed {a.seed}: {a.sample} of {everything} points", flush=True)
            points = sorted(random.Random(a.seed).sample(points, a.sample))
        part, parts = map(int, a.part.split("/"))
        points = [(call, n) for call, n in points if n % parts == part % parts]
        begin = time.monotonic()
        for number, (call, n) in enumerate(points, 1):
            (self.points if self.trial(call, n) else self.spared)[call] += 1
            if number % 50 == 0 or number == len(points):
                print(f"{number} of {len(points)} points, {time.monotonic() - begin:.0f} s", flush=True)
        if not a.sample and part == 1:
            for call in sorted({call for call, _ in points}):
                n = most[call]
                while self.trial(call, n + 1):      # threads shared their work differently: go on until one outlives it
                    n += 1
                    self.points[call] += 1
        print("\n| call | killed at | outlived |\n|---|--:|--:|")
        for call in sorted(self.points | self.spared):
            print(f"| {call} | {self.points[call]} | {self.spared[call]} |")
        print(f"\nkilled at {self.points.total()} of {everything} points, outlived {self.spared.total()} "
              f"(another thread had done the work): {len(self.violations)} violations")
        sys.exit(1 if self.violations else 0)


parser = argparse.ArgumentParser(description=__doc__)
for option in ("site", "url", "work"):
    parser.add_argument(f"--{option}", required=True)
parser.add_argument("--atomic", action="store_true")
parser.add_argument("--rollback", action="store_true")
parser.add_argument("--layout", choices=("exchange", "links"), default="exchange")
parser.add_argument("--sample", type=int)
parser.add_argument("--part", default="1/1")
parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
Kills(parser.parse_args()).run()
