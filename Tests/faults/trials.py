"""One call fails, once: a program runs through the stories of stories.py again and again, and each time another call fails.
[F063 F064 F065 F066 F067 F068 G6 S156]

    trials.py PROGRAM [--story NAME]... [--seconds N] [--seed N] [--places [--part I/N] | --whole | --repeat WORDS] [--record FILE]
              [--judge PROGRAM]

Started by ../faults.sh, which says what is checked. A count run of each story tells all its calls and where in the program
they are made: a place is a call with its callers. Then:

    (default)   places and errors by chance, as many as go into --seconds (default 60), stories in turn
    --places    each error of each call at each place of the program, once, in the first story that passes it; places are told
                apart by the last three callers in the program, and what the loader and the runtimes call by themselves is left
                out. Hours; --part 1/2 and --part 2/2 beside each other are half of it each
    --whole     each error of each call each time; days
    --repeat    one trial: STORY CALL ERROR POSITION
    --judge     another build of the program, which does all but the command that is looked at: one that has Swift's libraries
                in it starts in half the time, but must not be PROGRAM, where it would be told apart from them
"""

import argparse
import bisect
import collections
import errno
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import zlib

import calls
from place import Base, Place
from stories import CUT, STORIES

HERE = os.path.dirname(os.path.abspath(__file__))


def build(directory):
    """The tool that makes one call fail; None where it cannot be made or used here."""
    if os.uname().machine != "x86_64":
        return "numbers of system calls are known for x86-64 only"
    for compiler in ("cc", "clang", "gcc"):
        try:
            done = subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", f"{directory}/onecall", f"{HERE}/onecall.c"],
                                  capture_output=True, text=True)
        except FileNotFoundError:
            continue
        if done.returncode != 0:
            sys.exit(f"onecall.c: {done.stderr}")
        tried = subprocess.run([f"{directory}/onecall", "/dev/null", "count", "0", "/bin/true"], capture_output=True, text=True)
        return None if tried.returncode == 0 else f"no process may be traced here: {tried.stderr.strip()}"
    return "there is no compiler for C"


# What has been broken once, by the function that made the call, as nm(1) names it: tried first in each sample.
ONCE_BROKEN = (
    # An index that could not be looked at passed for none, and what earlier pulls had installed was never removed.
    ("update", "newfstatat", "EIO", "9StatIndexV7examine"),
    # That an open file is not there passed for the same.
    ("update", "newfstatat", "ENOENT", "9StatIndexV7examine"),
    ("update", "pread64", "EIO", "9StatIndexV4load"),
    # What had begun as directories that change places was begun again with links.
    ("atomic-first", "renameat", "EPERM", "8TreeHomeC6gather"),
    # A former revision that could not be looked at was forgotten.
    ("rollback", "newfstatat", "EACCES", "8TreeHomeC9nameTrees"),
    # The link to what readers see passed for none, and the tree that it leads to was removed.
    ("links", "readlinkat", "EACCES", "8TreeHomeC9reconcile"),
    # Trees that could not be looked at passed for none, and a first record took the place of theirs.
    ("atomic", "newfstatat", "EACCES", "8TreeHomeC4make"),
    # The index was left behind in what readers see.
    ("atomic-first", "newfstatat", "EACCES", "8TreeHomeC6gather"),
    # An index that could not be opened passed for a link that somebody has put there.
    ("update", "openat", "ELOOP", "9StatIndexV4load"),
    # A switch that was made, and said to have failed.
    ("rollback", "renameat2", "after:EIO", "8TreeHomeC4show"),
    # A manifest that was in place, and said not to be: its packs were taken away again.
    ("publish", "renameat", "after:EIO", "placeManifest"),
    # A directory of which it was once said that it is not there was passed over, and what --prune should have removed forgotten.
    ("update", "openat2", "ENOENT", "7RemovalV11isReachable"),
    # What could not be read was left where it is, as somebody else's.
    ("backup", "newfstatat", "EACCES", "11PlaceReaderV4read"),
    # An agent that could not look at its state directory once signed for none, and nobody found it.
    ("background", "newfstatat", "ENOENT", "PlaceV5claim"),
)


class Trials:
    def __init__(self, options, directory):
        self.options, self.tool = options, f"{directory}/onecall"
        self.base = Base(options.program, f"{directory}/base", options.judge)
        self.root = f"{directory}/p"
        self.chance = random.Random(options.seed)
        self.tally = collections.defaultdict(collections.Counter)
        self.seen = collections.defaultdict(set)
        self.planned = set()
        self.findings = []

    def tell(self, name, wrap_of):
        """One story in a place of its own: how it ended, what was wrong, and the record of the tool."""
        record = f"{self.root}.record"
        if os.path.exists(record):
            os.unlink(record)
        place = Place(self.base, self.root)
        story = STORIES[name]
        story.prepare(place)
        done = story.act(place, [self.tool, record, *wrap_of])
        wrong = list(story.judge(place, done))
        try:
            with open(record) as file:
                return done, wrong, file.read().splitlines()
        except FileNotFoundError:
            return done, wrong, []

    def count(self, name):
        """All calls of a story: for each the call, which of its kind it is, and its place."""
        numbers = ",".join(str(number) for number, _ in calls.CALLS.values())
        done, wrong, lines = self.tell(name, ["count", numbers])
        if wrong or done.status != STORIES[name].ends:
            sys.exit(f"{name}: while nothing fails: {done}: {wrong}")
        each, found = collections.Counter(), []
        for line in lines:
            number, _, *where = line.split(" ")
            call = calls.NAMES[int(number)]
            each[call] += 1
            found.append((call, each[call], " ".join(where)))
        return found

    def trial(self, name, call, error, position):
        number, _ = calls.CALLS[call]
        how, _, code = error.rpartition(":")
        if code == "short":
            how, value = "short", 0
        else:
            how, value = how or "instead", getattr(errno, code)
        done, wrong, lines = self.tell(name, [str(number), str(position), str(value), how])
        if call == "write" and code == "EPIPE":
            wrong = [each for each in wrong if each != CUT]
        reached = bool(lines)
        where = lines[-1].split(" ")[2:] if lines else []
        guessed = [one[1:] for one in where if one.startswith("~")]
        where = [one for one in where if not one.startswith("~")]
        # [F098] What ends by a signal has told nothing that is not so, either, and the next run goes on.
        if done.status is not None and done.status < 0 and (call in calls.MEMORY or is_loading(where) or self.is_runtime(where, guessed)):
            # Neither the C library nor the runtime of Swift goes on without memory, threads or queues.
            kept = [line for line in wrong if not line.startswith("signal:")]
            self.tally[name]["ended by the loader or the runtime"] += len(kept) < len(wrong)
            wrong = kept
        if where and is_loading(where):
            # The loader says 127 when it cannot load.
            wrong = [line for line in wrong if not (line.startswith("status:") and done.status == 127)]
        tally = self.tally[name]
        tally["trials"] += 1
        tally["not reached"] += not reached
        tally["internal errors"] += any(line.startswith("status: exit 1") for line in wrong)
        tally["ended 0" if done.status == 0 else "refused" if done.status else "other ends"] += 1
        tally["broken"] += bool(wrong)
        self.seen[name].add((call, error, " ".join(where)))
        if wrong:
            self.findings.append((name, call, error, position, wrong))
            print(f"BROKEN: {name} {call} {error} {position}", flush=True)
            for line in wrong[:6]:
                print(f"    {line}", flush=True)
            print(f"    at {' '.join(self.symbols(where)[:9])}; perhaps from {' '.join(self.symbols(guessed))}", flush=True)
        if self.options.record:
            with open(self.options.record, "a") as file:
                print(json.dumps([name, call, error, position, str(done), round(done.seconds, 2), wrong, where]), file=file)
        return reached

    def is_runtime(self, where, guessed):
        """Whether a call is made by libdispatch or the runtime of Swift, which end the program when it fails."""
        callers = [one for one in self.symbols(where) if not one.startswith("libc.so")] or self.symbols(guessed[:1])
        return bool(callers) and callers[0].lstrip("_").startswith(("libdispatch", "libswift", "dispatch_", "swift_", "libFoundation"))

    def symbols(self, where):
        return [symbol(self.base.program, one) for one in where]

    def try_what_was_broken(self):
        for name, call, error, function in ONCE_BROKEN:
            if self.options.story and name not in self.options.story:
                continue
            found = [position for made, position, where in self.count(name)
                     if made == call and any(function in raw_symbol(self.base.program, one) for one in where.split())]
            if not found:
                print(f"FAILED: {name} makes no {call} in {function} any more: trials.py must say how it is tried now")
                self.findings.append(name)
            for position in found[:1]:
                self.trial(name, call, error, position)

    def plan(self, name):
        counted = self.count(name)
        places = collections.defaultdict(list)
        for call, position, where in counted:
            places[call, where].append(position)
        errors = {call: calls.CALLS[call][1].split() for call, _, _ in counted}
        self.tally[name]["calls"] = len(counted)
        self.tally[name]["kinds"] = len(errors)
        self.tally[name]["places"] = len(places)
        self.tally[name]["whole"] = sum(len(errors[call]) for call, _, _ in counted)
        if self.options.whole:
            return [(call, error, position) for call, position, _ in counted for error in errors[call]]
        module = os.path.basename(self.base.program) + "+"
        if self.options.places:
            part, parts = (int(word) for word in self.options.part.split("/"))
            chosen = []
            for (call, where), positions in places.items():
                own = tuple([one for one in where.split() if one.startswith(module)][:3])
                if not own or call in calls.MEMORY or (call, own) in self.planned:
                    continue
                self.planned.add((call, own))
                # Which part a place belongs to is the same in each process.
                if zlib.crc32(" ".join((call, *own)).encode()) % parts == part - 1:
                    chosen += [(call, error, positions[0]) for error in errors[call]]
            return chosen
        # For each a place by chance, and not a call: the loader makes the most calls, all at one place.
        chosen = [(call, error, self.chance.choice(positions), module in where)
                  for (call, where), positions in places.items() for error in errors[call]]
        self.chance.shuffle(chosen)
        # Most of what the loader, the runtime and libraries ask for by themselves comes last, above all memory: little of it is
        # the program's to decide.
        chosen.sort(key=lambda one: (one[0] in calls.MEMORY or not one[3]) and self.chance.random() > 0.2)
        return [one[:3] for one in chosen]

    def run(self):
        options = self.options
        begun = time.monotonic()
        if options.repeat:
            name, call, error, position = options.repeat
            self.trial(name, call, error, int(position))
            return self.summary(begun)
        print(f"seed {options.seed}", flush=True)
        all_of_them = options.whole or options.places
        names = options.story or (list(STORIES) if all_of_them else self.chance.sample(list(STORIES), len(STORIES)))
        plans, told = {}, 0
        if not all_of_them:
            self.try_what_was_broken()
        # Some of each in turn, so that a short time has some of several stories.
        while not plans or any(plans.values()):
            for name in names:
                # A busy machine takes longer for the few that show something.
                spent, done = time.monotonic() - begun, sum(tally["trials"] for tally in self.tally.values())
                if not all_of_them and spent > options.seconds and (done >= 10 or spent > 8 * options.seconds):
                    return self.summary(begun)
                if name not in plans:
                    plans[name] = self.plan(name)
                for _ in range(8):
                    if plans[name]:
                        self.trial(name, *plans[name].pop(0))
                done = sum(tally["trials"] for tally in self.tally.values())
                if done >= told + 500:
                    print(f"{done} trials, {time.monotonic() - begun:.0f} s", flush=True)
                    told = done
        return self.summary(begun)

    def summary(self, begun):
        columns = ("calls", "kinds", "places", "whole", "trials", "ended 0", "refused", "ended by the loader or the runtime",
                   "not reached", "broken")
        print("\n| story | calls | kinds | places | calls × errors | trials | ended 0 | refused | ended by the loader or runtime "
              "| not reached | broken |\n|" + " --- |" * (len(columns) + 1))
        for name, tally in self.tally.items():
            print(f"| {name} | " + " | ".join(str(tally[column]) for column in columns) + " |")
        trials = sum(tally["trials"] for tally in self.tally.values())
        print(f"\n{trials} trials in {time.monotonic() - begun:.0f} s: {len(self.findings)} broken; seed {self.options.seed}")
        if not self.options.repeat and trials < 10:
            print("FAILED: so few trials show too little")
            return 1
        return 1 if self.findings else 0


def is_loading(where):
    """Whether a call was made before the program began, by the loader that maps its libraries."""
    return bool(where) and all(one.startswith("ld-linux") or one.startswith("?") for one in where[:1])


def symbol(program, place):
    """The name of a function of the program, for people, where nm(1) and the demangler are here."""
    raw = raw_symbol(program, place)
    if raw == place:
        return place
    demangled = subprocess.run(["swift", "demangle", "--simplified", "--compact", raw], capture_output=True, text=True)
    return (demangled.stdout.strip() or raw)[:110].replace(" ", "_")


def raw_symbol(program, place, known={}):
    """The name of a function of the program as nm(1) gives it; of other places what they are."""
    module, _, offset = place.rpartition("+")
    if module != os.path.basename(program):
        return place
    if not known:
        try:
            headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True).stdout
            known["loads"] = [[int(word, 16) for word in line.split()[1:3]] for line in headers.splitlines() if "LOAD" in line]
            lines = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True).stdout.splitlines()
            known["names"] = sorted((int(line.split()[0], 16), line.split()[2]) for line in lines if line.split()[1] in "tT")
        except OSError:
            known["names"] = []
    shift = max((virtual - start for start, virtual in known.get("loads", []) if start <= int(offset, 16)), default=0)
    found = bisect.bisect_right(known["names"], (int(offset, 16) + shift, "\uffff"))
    return known["names"][found - 1][1] if found else place


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--story", action="append", choices=list(STORIES))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--places", action="store_true")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--repeat", nargs=4, metavar=("STORY", "CALL", "ERROR", "POSITION"))
    parser.add_argument("--judge")
    parser.add_argument("--record", help="a file that gets a JSON line for each trial")
    options = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="sa.", dir=memory) as directory:
        if reason := build(directory):
            print(f"SKIPPED: calls that fail: {reason}")
            return 77
        return Trials(options, directory).run()


if __name__ == "__main__":
    sys.exit(main())
