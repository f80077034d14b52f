"""The power goes: at every sync and at moments by chance, on disks that keep more or less of what was not synced. [F088 G2]

    powercut.py PROGRAM [--story NAME]... [--cuts N] [--looks N] [--seconds N] [--seed N] [--together]

Started by ../faults.sh. A story runs once on forgetful.py, which writes down every change; what is told meanwhile is noted with
the moment. Then the disk is made what it may be after a cut, --cuts times (default 60) for each story or until --seconds have gone, and
--looks times (default 40) it is only looked at:
half of the cuts right before or after a sync, the others anywhere. Destination and state are on disks of their own, with
--together on one. After each cut:

    - no name shows bytes that are not those of one of the two revisions, and none that both have is gone
    - what was told is so: files called installed are there, a hook that was called had the whole set, exit 0 means the new revision
    - the next run ends well with no other step; nothing is owed then, and `doctor --strict` is content
    - no hook is lost, and none is called twice with the same attempt
    - a pin is not below what was accepted; of a publish readers get one release whole

Exit status: 0 all held, 1 something did not, 77 nothing can be mounted here.
"""

import argparse
import collections
import hashlib
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import tempfile
import time

import place as places
import stories
from forgetful import Forgetful

checks, Base, Place = places.checks, places.Base, places.Place

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("lost", "ordered", "unordered", "kept")
NAMES = ("first", "update", "no-op", "backup", "pinned", "publish", "publish-new", "publish-sign", "refresh", "rotate", "publish-retain",
         "prune", "restore", "gc", "background", "schedule", "atomic", "atomic-first", "rollback")


def described(found, top):
    """What a disk shows below a directory, as checks.describe has it."""
    result = {}
    for path, (kind, mode, data) in found.items():
        if not path.startswith(top + "/") or kind == stat.S_IFDIR or path.startswith(f"{top}/.syncagent/"):
            continue
        name = path[len(top) + 1:]
        if kind == stat.S_IFLNK:
            result[name] = ("link", os.fsdecode(data))
        elif kind == stat.S_IFREG:
            result[name] = ("file", len(data), hashlib.sha256(data).hexdigest(), bool(mode & 0o100))
        else:
            result[name] = ("other",)
    return result


class Cuts:
    def __init__(self, options, directory):
        self.options, self.directory = options, directory
        self.chance = random.Random(options.seed)
        self.base = Base(options.program, f"{directory}/base")
        self.tally = collections.defaultdict(collections.Counter)
        self.findings = []

    def run(self):
        begun = time.monotonic()
        names = self.options.story or self.chance.sample(NAMES, len(NAMES))
        for number, name in enumerate(names):
            if number and time.monotonic() - begun > self.options.seconds:
                break
            share = (self.options.seconds - (time.monotonic() - begun)) / (len(names) - number)
            disk = Forgetful(f"{self.directory}/disk", apart=not self.options.together)
            try:
                self.cut_story(name, disk, time.monotonic() + share)
            finally:
                disk.close()
        print("\n| story | changes | syncs | looked at | run on | broken |\n| --- | --- | --- | --- | --- | --- |")
        for name, tally in self.tally.items():
            print(f"| {name} | {tally['changes']} | {tally['syncs']} | {tally['looks']} | {tally['cuts']} | {tally['broken']} |")
        cuts = sum(tally["cuts"] for tally in self.tally.values())
        looks = sum(tally["looks"] for tally in self.tally.values())
        print(f"\n{looks} cuts looked at and {cuts} run on in {time.monotonic() - begun:.0f} s: {len(self.findings)} broken; seed {self.options.seed}")
        return 1 if self.findings or not cuts else 0

    def cut_story(self, name, disk, end):
        story, tally = stories.STORIES[name], self.tally[name]
        place = Place(self.base, f"{self.directory}/p", disk, f"{self.directory}/synced.so")
        story.prepare(place)
        place.told.clear()
        disk.base_is_now()
        before = disk.look(0, "kept", 0)
        done = story.act(place, ["watched"])
        if done.status != 0:
            raise SystemExit(f"{name}: while the power is on: {done}")
        length, syncs = disk.length(), disk.syncs()
        after = disk.look(length, "kept", 0)
        calls, told = place.called(), list(place.told)
        tally["changes"], tally["syncs"] = length, len(syncs)
        # What the disk shows is seen at once; what a run makes of it takes a second. So many more are looked at than run on.
        # The end is among them always: what was told by then must hold on every disk.
        ends = [(length, kind) for kind in KINDS]
        for _ in range(self.options.looks):
            moment, kind = ends.pop() if ends else (self.chance.randrange(length + 1), self.chance.choice(KINDS))
            seed = self.chance.randrange(1 << 31)
            with open(place.calls, "w") as file:
                file.writelines(" ".join(call) + "\n" for call in calls if int(call[4]) <= moment)
            known = [what for at, what in told if at <= moment]
            self.note(name, f"look {moment} of {length}, {kind}, seed {seed}",
                      list(self.look(name, place, disk.look(moment, kind, seed), known, before, after)))
            tally["looks"] += 1
        moments = [at for sync in syncs for at in (sync, sync + 1)]
        self.chance.shuffle(moments)
        for number in range(self.options.cuts):
            if number >= 4 and time.monotonic() > end:
                break
            moment = moments.pop() if number % 2 == 0 and moments else self.chance.randrange(length + 1)
            kind = KINDS[number % 3] if number % 10 else "kept"
            seed = self.chance.randrange(1 << 31)
            known = [what for at, what in told if at <= moment]
            with open(place.calls, "w") as file:
                file.writelines(" ".join(call) + "\n" for call in calls if int(call[4]) <= moment)
            wrong = list(self.look(name, place, disk.look(moment, kind, seed), known, before, after))
            disk.cut(moment, kind, seed)
            for path in (f"{place.root}/reader", f"{place.root}/other"):
                shutil.rmtree(path, ignore_errors=True)
            try:
                wrong += self.judge(name, story, place, known)
            finally:
                disk.rewind()
            tally["cuts"] += 1
            self.note(name, f"cut {moment} of {length}, {kind}, seed {seed}", wrong)

    def note(self, name, words, wrong):
        if wrong:
            self.tally[name]["broken"] += 1
            self.findings.append(name)
            print(f"BROKEN: {name}: {words}", flush=True)
            for line in wrong[:6]:
                print(f"    {line}", flush=True)

    def look(self, name, place, found, known, before, after):
        """What is wrong with what the disk shows, before anything runs."""
        if name == "rotate":
            return
        if isinstance(stories.STORIES[name], stories.Publish):
            for path in ("a/out/manifest.json", "a/out/manifest.json.zst", "a/out/trust/fresh"):
                if path in found and found[path][2] not in (before.get(path, (0, 0, None))[2], after.get(path, (0, 0, None))[2]):
                    yield f"published: {path} is neither the old one nor the new one: {len(found[path][2])} bytes"
                if path not in found and path in before:
                    yield f"published: {path} is gone"
                if ("exit", 0) in known and path in after and found.get(path, (0, 0, None))[2] != after[path][2]:
                    yield f"lie: exit 0, and after the cut {path} is not the new one"
            return
        story = stories.STORIES[name]
        old, new = self.base.wanted.get(story.before, {}), self.base.wanted[story.after]
        files = described(found, "a/dest")
        if isinstance(story, stories.Whole):
            yield from story.judge_seen(files, place)
        for path, what in files.items():
            if what not in (old.get(path), new.get(path)):
                yield f"wrong bytes: {path} is {what}"
        for path in (old.keys() & new.keys()) - files.keys():
            yield f"gone: {path}, which both revisions have"
        if name == "backup":
            kept = list(files.values()) + list(described(found, "a/backup").values())
            yield from (f"gone: what {path} was is neither here nor in the backup" for path, what in old.items() if what not in kept)
        missing = checks.differences(new, files)
        if ("exit", 0) in known and missing:
            yield f"lie: exit 0, and {missing[0]}"
        missing = places.lacking(missing)
        for line in known:
            if isinstance(line, str) and line.startswith("{"):
                event = json.loads(line)
                # Where readers see the whole at once, it is in the tree that they are to see.
                is_seen = not isinstance(story, stories.Whole) or not missing
                if is_seen and event["event"] == "task.installed" and (event["path"] not in files or files[event["path"]] != new[event["path"]]):
                    yield f"lie: it was told that {event['path']} is installed, and it is {files.get(event['path'])}"
                if event["event"] in ("group.completed", "pull.finished") and event["result"] == "ok" and missing:
                    yield f"lie: {event['event']} was told ok, and {missing[0]}"
        if any(call[2] == "ok" for call in place.called()) and missing:
            yield f"lie: the hook was called, and {missing[0]}"

    def judge(self, name, story, place, known):
        """What is wrong with what comes afterwards."""
        place.told.clear()
        if isinstance(story, (stories.Refresh, stories.Rotate)):
            yield from story.judge_readers(place)
        elif isinstance(story, stories.Publish):
            yield from story.judge_readers(place, ("exit", 0) in known)
        elif name == "pinned":
            if ("exit", 0) in known:
                old = place.run(*story.arguments(place, "signed-1"))
                if old.status != 77:
                    yield f"trust: revision 2 was accepted, and after the cut 1 again: {old}"
            yield from story.judge_again(place)
        else:
            if "promised" in known:
                waited = place.run("wait", "s", "--timeout", "60s", "--quiet")
                if waited.status != 0:
                    yield f"lost: a run was promised, and after the cut waiting for it ends so: {waited}"
                elif not any(call[2] == "ok" for call in place.called()):
                    yield "lost: a run was promised, and its hook was not called"
            if isinstance(story, stories.Agent):
                story.settle(place)
            if isinstance(story, stories.Whole):
                yield from story.judge_next(place)
            else:
                yield from place.judge_next(story.after)
                yield from place.judge_hooks(story.after)
            if isinstance(story, stories.Agent):
                place.run("agent", "stop")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--story", action="append", choices=NAMES)
    parser.add_argument("--cuts", type=int, default=60)
    parser.add_argument("--looks", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument("--together", action="store_true")
    options = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="sa.", dir=memory) as directory:
        try:
            Forgetful(f"{directory}/try").close()
        except OSError as error:
            print(f"SKIPPED: power cuts: no file system may be mounted here ({error})")
            return 77
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", f"{directory}/synced.so", f"{HERE}/synced.c", "-ldl"], check=True)
        return Cuts(options, directory).run()


if __name__ == "__main__":
    sys.exit(main())
