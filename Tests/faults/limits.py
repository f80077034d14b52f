"""The limits of file systems and processes, met and not simulated.

    limits.py PROGRAM [--only WORD]... [--seconds N] [--seed N] [--whole]

Started by ../faults.sh. Each trial is a story of stories.py in a place that lacks something:

    space        tmpfs of so many KiB or so many inodes for destination, state, runtime directory and output, from hardly any to
                 enough; afterwards there is room, and the next run ends well [F062 F075]
    process      RLIMIT_FSIZE, RLIMIT_NOFILE from 8 to 64, RLIMIT_AS [F081]
    on cue       a disk (forgetful.py) that from its N-th change on is read-only, full, over quota or broken, for good or for one
                 change; destination and state [F069]
    lacking      a disk without links, renameat2, syncfs or any sync, and one whose names have 143 bytes [F072 F074]
    names        paths of 4,095 bytes, names of 255
    clock        set back and forward by an hour and by ten years while it runs
    others       somebody empties staging, or puts another directory in the place of the destination, while it runs [F071 F082]

After each: what stories.py says. Without --whole as many as go into --seconds (default 60), by chance.
Exit status: 0 all held, 1 something did not, 77 nothing can be mounted here.
"""

import argparse
import collections
import ctypes
import errno
import os
import random
import resource
import signal
import shutil
import subprocess
import sys
import tempfile
import time

import place as places
import stories
from forgetful import LIBC, Forgetful

checks, Base, Place = places.checks, places.Base, places.Place
HERE = os.path.dirname(os.path.abspath(__file__))
PULLS = ("first", "update", "backup")
PUBLISHES = ("publish", "publish-new", "publish-sign")


class Limits:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.chance = random.Random(options.seed)
        self.base = Base(options.program, f"{directory}/base")
        self.disk = Forgetful(f"{directory}/disk")
        self.tally = collections.defaultdict(collections.Counter)
        self.findings = []

    # MARK: What is tried

    def trials(self):
        """Kind, words, and a function that does it and says what is wrong."""
        for where in ("dest", "state", "runtime", "out"):
            names = PUBLISHES if where == "out" else ("background",) if where == "runtime" else PULLS
            sizes = [("size", f"{kib}k") for kib in (4, 8, 16, 32, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512, 640, 768, 1024)]
            sizes += [("nr_inodes", str(count)) for count in (2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 50)]
            for name in names:
                for option, value in sizes:
                    yield "space", f"{name}: {where} {option}={value}", lambda n=name, w=where, o=f"{option}={value}": self.space(n, w, o)
        for name in (*PULLS, *PUBLISHES, "no-op", "gc", "refresh"):
            for descriptors in (8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 48, 56, 64):
                yield "process", f"{name}: RLIMIT_NOFILE {descriptors}", \
                    lambda n=name, d=descriptors: self.limited(n, resource.RLIMIT_NOFILE, d)
            for size in (0, 100, 4096, 16384, 65536, 100_000, 262_144, 400_000):
                yield "process", f"{name}: RLIMIT_FSIZE {size}", lambda n=name, s=size: self.limited(n, resource.RLIMIT_FSIZE, s)
            for mib in (200, 300, 400, 500, 600, 700, 800, 1000, 1200, 1600, 2400):
                yield "process", f"{name}: RLIMIT_AS {mib} MiB", lambda n=name, m=mib: self.limited(n, resource.RLIMIT_AS, m << 20)
        for name in (*PULLS, "no-op", "pinned", *PUBLISHES, "refresh", "gc"):
            for code in ("EROFS", "ENOSPC", "EDQUOT", "EIO"):
                for most in (1, 1 << 30):
                    for top in (b"a", b"b"):
                        for part in range(10):
                            yield "on cue", f"{name}: {code} {'once' if most == 1 else 'for good'} in {top.decode()}, part {part}", \
                                lambda n=name, c=code, m=most, t=top, p=part: self.on_cue(n, c, m, t, p)
        lacks = [("LINK", "EPERM"), ("LINK", "EOPNOTSUPP"), ("LINK", "ENOSYS"), ("RENAME2", "ENOSYS"), ("RENAME2", "EINVAL"),
                 ("SYNCFS", "ENOSYS"), ("SYNCFS", "EINVAL"), ("SYNCFS", "EOPNOTSUPP"), ("FSYNCDIR", "EINVAL"), ("FSYNCDIR", "ENOSYS"),
                 ("FSYNC", "ENOSYS"), ("FSYNC", "EINVAL"), ("STATFS", "ENOSYS"), ("SYMLINK", "EPERM")]
        for name in (*PULLS, "no-op", "pinned", *PUBLISHES, "refresh", "gc"):
            for lack, code in lacks:
                yield "lacking", f"{name}: {lack} is {code}", lambda n=name, k=lack, c=code: self.lacking(n, {k: getattr(errno, c)})
        yield "lacking", "names of 143 bytes", self.short_names
        yield "names", "paths of 4,095 bytes", self.long_paths
        for name in (*PULLS, "no-op", "pinned", "background", *PUBLISHES):
            for seconds in (-3600, 3600, -315_360_000, 315_360_000):
                for reading in (1, 3, 10, 30, 60):
                    yield "clock", f"{name}: {seconds} s at reading {reading}", \
                        lambda n=name, s=seconds, r=reading: self.clock(n, s, r)

        for name in ("first", "update"):
            for moment in range(10):
                yield "others", f"{name}: staging is emptied, {moment}", lambda n=name, m=moment: self.meddled(n, m, empty_staging)
                yield "others", f"{name}: another destination, {moment}", lambda n=name, m=moment: self.meddled(n, m, put_another)

    # MARK: How

    def story(self, name, place, wrap=("/usr/bin/env",)):
        """Tells it; what is wrong with how it ended and with what is left. The place is healed before it is judged."""
        story = stories.STORIES[name]
        done = story.act(place, list(wrap))
        place.heal()
        wrong = list(story.judge(place, done))
        self.last = done
        return wrong

    def space(self, name, where, option):
        place = Place(self.base, f"{self.directory}/p")
        place.heal = lambda: None
        story = stories.STORIES[name]
        target = {"dest": place.dest, "state": os.path.dirname(place.state), "runtime": place.homes["RUNTIME_DIR"], "out": place.out}[where]
        os.makedirs(target, exist_ok=True)
        mount(target, "size=600m")
        try:
            os.chmod(target, 0o700 if where in ("state", "runtime") else 0o755)
            story.prepare(place)
            used = os.statvfs(target)
            kind, _, value = option.partition("=")
            if kind == "size":
                have = (used.f_blocks - used.f_bfree) * used.f_frsize
                limit = f"size={have // 1024 + int(value[:-1])}k"
            else:
                limit = f"nr_inodes={used.f_files - used.f_ffree + int(value)}"
            if os.system(f"mount -o remount,{limit} {target} 2>/dev/null") != 0:
                return ["space: a tmpfs cannot be made smaller"]
            place.heal = lambda: os.system(f"mount -o remount,size=600m,nr_inodes=100000 {target}")
            return self.story(name, place)
        finally:
            LIBC.umount2(target.encode(), 2)

    def limited(self, name, limit, value):
        place = Place(self.base, f"{self.directory}/p")
        place.heal = lambda: None
        story = stories.STORIES[name]
        story.prepare(place)
        place.limit = lambda: resource.setrlimit(limit, (value, value))
        wrong = self.story(name, place)
        if limit == resource.RLIMIT_AS and self.last.status is not None and (self.last.status < 0 or self.last.status == 127):
            # The loader and the runtime of Swift end a program that has no memory.
            wrong = [line for line in wrong if not line.startswith(("signal:", "status:"))]
        if self.last.status == 127 and limit == resource.RLIMIT_NOFILE:
            wrong = [line for line in wrong if not line.startswith("status:")]
        if value < {resource.RLIMIT_NOFILE: 24, resource.RLIMIT_AS: 300 << 20}.get(limit, 0):
            # libdispatch can work with neither: the program says so, and begins nothing.
            if self.last.status not in (78, 127, -signal.SIGABRT, -signal.SIGSEGV, -signal.SIGKILL):
                wrong.append(f"status: {self.last.status} with less than the program asks for")
        return wrong

    def on_disk(self, name):
        self.disk.configure({})
        self.disk.empty()
        place = Place(self.base, f"{self.directory}/p", self.disk, f"{self.directory}/synced.so")
        place.heal = lambda: self.disk.configure({})
        stories.STORIES[name].prepare(place)
        place.told.clear()
        return place

    def on_cue(self, name, code, most, top, part):
        key = (name, top)
        if key not in self.counted:
            place = self.on_disk(name)
            self.disk.configure({"fails": (1 << 40, 1, 0, top)})
            done = stories.STORIES[name].act(place, ["watched"])
            if done.status != stories.STORIES[name].ends:
                return [f"while nothing fails: {done}"]
            self.counted[key] = self.disk.changes()
        count = self.counted[key]
        place = self.on_disk(name)
        first = 1 + int((part + self.chance.random()) * count / 10)
        self.disk.configure({"fails": (first, most, getattr(errno, code), top)})
        return [f"{line} (change {first} of {count})" for line in self.story(name, place)]

    counted = {}

    def lacking(self, name, lacks):
        # What was answered with ENOSYS once, the kernel does not ask again: each time another disk.
        self.disk.close()
        self.disk = Forgetful(f"{self.directory}/disk")
        place = self.on_disk(name)
        self.disk.configure({"lacks": lacks})
        wrong = self.story(name, place)
        self.notes[f"{'/'.join(lacks)} {errno.errorcode[list(lacks.values())[0]]}"][str(self.last.status)] += 1
        return wrong

    notes = collections.defaultdict(collections.Counter)

    def short_names(self):
        """What has a longer name fails by name, and everything else comes."""
        source, site = f"{self.directory}/long-names", f"{self.directory}/long-site"
        shutil.rmtree(source, ignore_errors=True)
        places.write_names(source, {"a" * 143: b"fits", "b" * 144: b"does not", "c/" + "d" * 200: b"does not", "e": b"fits"})
        place = self.on_disk("first")
        place.must("publish", source, "--to", site, "--project", "long")
        self.disk.configure({"name_limit": 143})
        done = place.run("pull", f"{site}/manifest.json", "--into", place.dest, "--session", "s", "--json")
        place.heal()
        found = sorted(place.files())
        if found != ["a" * 143, "e"]:
            yield f"names: there are {found}"
        failed = [event["path"] for event in done.events() if event["event"] == "task.failed"]
        if done.status not in (2, 74) or sorted(failed) != ["b" * 144, "c/" + "d" * 200]:
            yield f"names: {done}, failed: {failed}"
        again = place.run("pull", f"{site}/manifest.json", "--into", place.dest, "--session", "s", "--json")
        if again.status != 0 or len(place.files()) != 4:
            yield f"next: {again}"

    def long_paths(self):
        """A path as long as a manifest may have it, below a destination that makes it longer than PATH_MAX."""
        source, site = f"{self.directory}/deep", f"{self.directory}/deep-site"
        shutil.rmtree(source, ignore_errors=True)
        path = "/".join(["x" * 255] * 15 + ["y" * 254])
        assert len(path) == 4094
        here = os.getcwd()
        os.makedirs(source)
        try:
            os.chdir(source)
            for name in path.split("/")[:-1]:
                os.mkdir(name)
                os.chdir(name)
            with open(path.split("/")[-1], "wb") as file:
                file.write(b"deep")
        finally:
            os.chdir(here)
        place = Place(self.base, f"{self.directory}/p")
        done = place.run("publish", source, "--to", site, "--project", "deep")
        if done.status != 0:
            yield f"names: publish: {done}"
            return
        for command in (["pull", f"{site}/manifest.json", "--into", place.dest], ["verify", f"{site}/manifest.json", "--into", place.dest]):
            done = place.run(*command)
            if done.status != 0:
                yield f"names: {command[0]}: {done}"
        shutil.rmtree(source)

    def clock(self, name, seconds, reading):
        place = Place(self.base, f"{self.directory}/p")
        place.heal = lambda: None
        stories.STORIES[name].prepare(place)
        wrong = self.story(name, place, wrap=["/usr/bin/env", f"LD_PRELOAD={self.directory}/clock.so", f"CLOCK_JUMP={reading}:{seconds}"])
        if name == "publish-sign":
            # Who signs by a wrong clock is refused by those whose clock is right, until the time has come.
            wrong = [line for line in wrong if "exit 77" not in line]
        if self.last.status not in (0, 75, 77):
            wrong.append(f"clock: {self.last}")
        if self.last.status == 77 and name != "pinned":
            wrong.append(f"clock: refused: {self.last}")
        return wrong

    def meddled(self, name, moment, meddle):
        """What somebody else does on the way, once the run has said what it is about to do."""
        place = Place(self.base, f"{self.directory}/p")
        place.heal = lambda: None
        story = stories.STORIES[name]
        story.prepare(place)
        self.base.server.revision = story.after
        begun, lines = time.monotonic(), []
        with open(f"{place.root}/said", "wb+") as said:
            # Half a second for either: what comes last must not be before somebody has come.
            rate = "600K" if name == "first" else "120K"
            process = place.start(*place.pull_arguments("--limit-rate", rate), out=subprocess.PIPE, said=said)
            for line in process.stdout:
                lines.append(line.decode())
                if '"plan.ready"' in lines[-1]:
                    time.sleep(0.04 * moment)
                    meddle(place)
            done = places.Done(process.wait(), "".join(lines), said.seek(0) or said.read().decode(), time.monotonic() - begun)
        if os.path.exists(f"{place.root}/moved"):
            # The run goes on in the directory that it has opened, and must not say that what stands there now is the set.
            there = os.listdir(place.dest)
            if there != ["note"]:
                yield f"others: {done}, and in somebody else's directory is {there}"
            shutil.rmtree(place.dest)
            if moment < 6 and any(call[2] == "ok" for call in place.called()):
                yield f"hook: told ok of a directory that is somebody else's: {done}"
            os.rename(f"{place.root}/moved", place.dest)
        yield from story.judge(place, done)

    # MARK: All of them

    def run(self):
        begun = time.monotonic()
        chosen = [one for one in self.trials() if not self.options.only or any(word in f"{one[0]} {one[1]}" for word in self.options.only)]
        everything = collections.Counter(kind for kind, _, _ in chosen)
        if not self.options.whole:
            # Of each kind in turn, since there are many more of some than of others.
            self.chance.shuffle(chosen)
            turns = collections.Counter()
            order = {}
            for one in chosen:
                turns[one[0]] += 1
                order[id(one)] = turns[one[0]]
            chosen.sort(key=lambda one: order[id(one)])
        for kind, words, trial in chosen:
            if not self.options.whole and time.monotonic() - begun > self.options.seconds:
                break
            started = time.monotonic()
            wrong = list(trial() or ())
            if self.options.verbose:
                print(f"{time.monotonic() - started:6.1f} s  {kind}: {words}", flush=True)
            self.tally[kind]["trials"] += 1
            if wrong:
                self.tally[kind]["broken"] += 1
                self.findings.append(words)
                print(f"BROKEN: {kind}: {words}", flush=True)
                for line in wrong[:6]:
                    print(f"    {line[:600]}", flush=True)
        print("\n| kind | trials | of | broken |\n| --- | --- | --- | --- |")
        for kind, count in everything.items():
            print(f"| {kind} | {self.tally[kind]['trials']} | {count} | {self.tally[kind]['broken']} |")
        for what, ends in sorted(self.notes.items()):
            print(f"exit statuses where {what}: " + ", ".join(f"{status}: {count}" for status, count in sorted(ends.items())))
        trials = sum(tally["trials"] for tally in self.tally.values())
        print(f"\n{trials} trials in {time.monotonic() - begun:.0f} s: {len(self.findings)} broken; seed {self.options.seed}")
        return 1 if self.findings or not trials else 0


def empty_staging(place):
    for folder, _, names in os.walk(f"{place.dest}/.syncagent/staging"):
        for name in names:
            try:
                os.unlink(os.path.join(folder, name))
            except FileNotFoundError:
                pass


def put_another(place):
    try:
        os.rename(place.dest, f"{place.root}/moved")
        os.mkdir(place.dest)
        with open(f"{place.dest}/note", "w") as file:
            file.write("somebody else's")
    except FileNotFoundError:
        pass


def mount(target, options):
    if LIBC.mount(b"tmpfs", target.encode(), b"tmpfs", 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", action="append")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="a line for each trial")
    options = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="sa.", dir=memory) as directory:
        for name in ("synced", "clock"):
            subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", f"{directory}/{name}.so", f"{HERE}/{name}.c", "-ldl"],
                           check=True)
        try:
            limits = Limits(options, directory)
        except OSError as error:
            print(f"SKIPPED: limits of file systems: nothing may be mounted here ({error})")
            return 77
        try:
            return limits.run()
        finally:
            limits.disk.close()


if __name__ == "__main__":
    sys.exit(main())
