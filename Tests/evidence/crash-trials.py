#!/usr/bin/env python3
"""The trials of crash.sh; started by it, which says what is checked."""
import argparse, json, os, random, signal, subprocess, sys, threading, time
from collections import Counter
import checks
from agents import Place, Story

MIB = 1 << 20
SESSION = "crash"


class Trials(Place):
    def __init__(self, a):
        super().__init__(a.work)
        self.a, self.random = a, random.Random(a.seed)
        self.destination, self.calls = f"{a.work}/destination", f"{a.work}/calls"
        self.revisions = [f"r{n}" for n in range(1, 7)]
        manifests = {r: checks.load(f"{a.site}/{r}.json") for r in self.revisions}
        self.wanted = {r: checks.wanted(m) for r, m in manifests.items()}
        self.blobs = {r: checks.all_blobs(m) for r, m in manifests.items()}
        self.digest = {checks.sha256(f"{a.site}/{r}.json"): r for r in self.revisions}
        self.violations, self.tally, self.phases = [], Counter(), Counter()
        self.stops = []             # moments at which commands that stop a hook were asked, and ended
        self.kills = []             # moments at which an agent was killed
        self.current = None         # the revision that is in place, once a run has finished
        self.mixed = set()          # revisions of which files may be in place besides
        self.promised = {}          # run id -> what was acknowledged of it: enqueued, cancelled
        self.twice, self.fetched, self.needed = [], 0, 0
        self.ended, self.story = set(), Story()
        hook = f"{a.work}/hook.sh"
        with open(hook, "w") as file:
            # Begin and end of every call, with the time; a line at a time is written at once, write(2) with O_APPEND.
            file.write(f'#!/bin/sh\necho "begin $SYNCAGENT_RUN_ID $SYNCAGENT_ATTEMPT $(date +%s.%N)" >>{self.calls}\n'
                       f'sleep {a.seconds * 0.3:.3f}\n'
                       f'echo "end $SYNCAGENT_RUN_ID $SYNCAGENT_ATTEMPT $(date +%s.%N)" >>{self.calls}\n')
        os.chmod(hook, 0o755)
        self.hook = hook
        open(self.calls, "w").close()

    def kill_agent(self):
        self.kills.append(time.time())
        super().kill_agent()

    # What a look has begun to read stays as it was for longer than the look takes.
    @property
    def how(self):
        return [f"--atomic={self.a.layout}", "--keep-for", "20s"] if self.a.atomic else ["--prune"]

    def pull(self, revision):
        rate = ["--limit-rate", str(self.rate)] if self.rate else []
        return ["pull", f"{self.a.url}/{revision}.json", "--background", "--session", SESSION, "--into", self.destination,
                *self.how, "--force", "--allow-older", "--hook", self.hook, "--json", *rate]

    # One trial

    def trial(self, number):
        revision = self.random.choice([r for r in self.revisions if r != self.current])
        mark = os.path.getsize(self.a.log)
        before = self.store.runs()
        self.last = before[-1]["number"] if before else 0
        moment = self.random.uniform(0, 1.1 * self.run_time)
        victim = self.random.choices(["agent", "both", "client"], [75, 15, 10])[0]
        commands = []
        if self.random.random() < 0.35:
            commands = sorted((self.random.uniform(0, self.run_time), self.random.choice(["pause", "pause", "cancel", "resume", "second"]))
                              for _ in range(self.random.choice([1, 1, 2])))
        self.acknowledged, self.flying, self.asked, dead = [], None, {revision}, threading.Event()
        begin = time.monotonic()
        self.running = self.client(*self.pull(revision))
        talk = threading.Thread(target=self.talk, args=(begin, revision, commands, dead))
        talk.start()
        time.sleep(max(0, begin + moment - time.monotonic()))
        phase = self.phase()
        dead.set()
        if victim in ("agent", "both"):
            self.kill_agent()
        if victim in ("client", "both"):
            self.running.kill()
        talk.join()
        self.tally[f"killed: {victim}"] += 1
        self.phases[phase] += 1
        self.mixed |= self.asked
        broken = []
        if victim != "client":
            broken += self.look("after the kill", None)
            self.check_promises(broken, "on record at the kill")
            self.start_agent()
            if self.random.random() < 0.15:     # and once more, while it recovers
                time.sleep(self.random.uniform(0, 0.6 * self.run_time))
                self.kill_agent()
                self.tally["killed: next agent"] += 1
                self.start_agent()
        self.wait_agent()
        self.settle(broken)
        self.after(broken, mark, victim, commands)
        for line in broken[:10]:
            print(f"      {line}", flush=True)
        if broken or (number + 1) % self.a.every == 0:
            print(f"{number + 1:5} {victim:6} at {moment:5.2f} s  {phase:22} {' '.join(w for _, w in commands):14} "
                  f"{'BROKEN' if broken else 'ok'}", flush=True)
        self.violations += [(number + 1, line) for line in broken]

    def talk(self, begin, revision, commands, dead):
        """The clients of a trial, one after the other; what is acknowledged counts."""
        out, _ = self.running.communicate()
        self.note("pull", revision, self.running.returncode, out)
        for moment, word in commands:
            if dead.wait(max(0, begin + moment - time.monotonic())):
                return
            if word == "second":
                target = self.random.choice(self.revisions)
                self.asked.add(target)
                arguments = self.pull(target)
            else:
                target, arguments = None, [word, SESSION, "--json"]
            self.flying, asked = word, time.time()
            self.running = self.client(*arguments)
            out, _ = self.running.communicate()
            self.note(word, target, self.running.returncode, out, asked)

    def note(self, word, revision, status, out, begin=0.0):
        self.stops += [begin, time.time()] if word in ("pause", "second") else []
        if status != 0:
            self.tally[f"{word}: not acknowledged"] += 1
            return
        self.flying = None
        reply = json.loads(out.splitlines()[-1])
        if revision:
            self.promised[reply["run"]] = "enqueued"
        elif word == "cancel" and (reply.get("run") or {}).get("state") == "cancelled":
            self.promised[reply["run"]["run"]] = "cancelled"
        self.acknowledged.append((word, reply))
        self.tally[f"{word}: acknowledged"] += 1

    def phase(self):
        runs = [r for r in self.store.runs() if r["number"] > self.last]
        if not runs:
            return "1 not yet enqueued"
        run = runs[-1]
        if run["state"] in ("paused", "cancelled"):
            return f"6 {run['state']}"
        if run["state"] == "waiting":
            return "2 waiting"
        if run["state"] == "finished":
            return "5 finished"
        done = any(g["state"] == "completed" for g in self.store.groups(run["id"]))
        return "4 hook" if done else "3 fetching, placing"

    def settle(self, broken):
        """Until everything is at rest with nobody asking; then what is paused is resumed."""
        rest = self.until_rest(broken, "without a command")
        last = [w for w, r in self.acknowledged if w in ("pause", "resume", "cancel", "pull", "second")][-1:]
        word, reply = self.acknowledged[-1] if self.acknowledged else (None, {})
        may_pause = self.flying in ("pause",) or last == ["pause"]
        must_pause = last == ["pause"] and self.flying is None and reply.get("state") == "paused"
        if rest == "paused" and not may_pause:
            broken.append(f"paused, and nobody asked for it: {self.store.runs()[-1]}")
        if must_pause and rest != "paused":
            broken.append(f"a pause was acknowledged and is lost: {self.store.runs()[-1]}")
        if rest == "paused":
            self.tally["rested paused"] += 1
            status, _, err = self.ask("resume", SESSION, "--json")
            if status != 0:
                broken.append(f"resume: exit {status}: {err.strip()[-300:]}")
            if self.until_rest(broken, "after resume") == "paused":
                broken.append("paused after resume")

    def until_rest(self, broken, when):
        rest = super().until_rest()
        if rest == "stuck":
            broken.append(f"not at rest {when}: {[r for r in self.store.runs() if r['state'] != 'finished'][-3:]}")
        return rest

    # What must hold

    def look(self, when, exactly):
        """What is wrong with the visible files; `exactly` is the revision that must be in place, if one must."""
        if not os.path.isdir(self.destination):
            return []
        tops = [f"wrong {when}: {line}" for line in checks.tops(self.destination)]
        if tops:
            return tops
        found = self.described()
        if exactly:
            return [f"wrong {when}: {line}" for line in checks.differences(self.wanted[exactly], found)]
        may = [self.wanted[r] for r in self.mixed | ({self.current} if self.current else set())]
        if self.a.atomic and found not in may:
            sides = [checks.differences(one, found)[0] for one in may]
            return [f"wrong {when}: no revision is whole: {sides[:3]}"]
        return [f"wrong {when}: {path!r} is {what}, which no manifest says"
                for path, what in found.items() if all(m.get(path) != what for m in may)]

    def described(self):
        """What one directory has, whatever takes its place meanwhile."""
        directory = os.open(checks.shown(self.destination), os.O_RDONLY | os.O_DIRECTORY)
        try:
            return checks.describe(f"/proc/self/fd/{directory}")
        finally:
            os.close(directory)

    def check_promises(self, broken, when):
        states = {r["id"]: r["state"] for r in self.store.runs()}
        for run, promise in list(self.promised.items()):
            if run not in states:
                broken.append(f"lost {when}: run {run} was acknowledged ({promise}) and is not there")
            elif promise == "cancelled" and states[run] != "cancelled":
                broken.append(f"lost {when}: run {run} was cancelled and is {states[run]}")

    def after(self, broken, mark, victim, commands):
        runs = [r for r in self.store.runs() if r["number"] > self.last]
        self.check_promises(broken, "at rest")
        finished = [r for r in runs if r["state"] == "finished"]
        for run in finished:
            if run["result"] != "ok":
                broken.append(f"run {run['id']} ended {run['result']}")
        # Files: those of the newest finished run, unless a later one was given up half way.
        if finished:
            self.current = self.digest[finished[-1]["manifest"]]
            self.mixed = {self.digest[r["manifest"]] for r in runs if r["number"] > finished[-1]["number"]}
        broken += self.look("at rest", self.current if not self.mixed else None)
        self.check_hooks(broken, finished)
        self.check_events(broken)
        broken += self.doctor()
        if len(runs) == 1 and finished and not commands:
            self.count_bytes(mark)
        # Acknowledged and ended: nothing more is promised of them, old runs may be pruned.
        self.promised = {}

    def check_hooks(self, broken, finished):
        calls = {}
        with open(self.calls) as file:
            for line in file:
                word, run, attempt, moment = line.split()
                calls.setdefault(run, []).append((word, int(attempt), float(moment)))
        owed = {h["run"]: h for h in self.store.hooks()}
        for run in finished:
            hook = owed.get(run["id"])
            if hook is None or hook["state"] != "done":
                broken.append(f"missed: the hook of {run['id']} is {hook and hook['state']}")
        for run, lines in calls.items():
            if run in self.ended:
                continue
            self.ended.add(run)
            begins = [(attempt, moment) for word, attempt, moment in lines if word == "begin"]
            ends = {attempt: moment for word, attempt, moment in lines if word == "end"}
            self.tally["hook: runs"] += 1
            self.tally["hook: calls"] += len(begins)
            if not ends and run in {r["id"] for r in finished}:
                broken.append(f"missed: no call of the hook of {run} came to its end")
            attempts = [attempt for attempt, _ in begins]
            if attempts != sorted(set(attempts)):
                broken.append(f"duplicate: attempts of the hook of {run}: {attempts}")
            for attempt, moment in begins[:-1]:
                self.tally["hook: called again"] += 1
                # Inside: from its start until its end was on record, which takes a moment.
                last = ends.get(attempt, begins[-1][1]) + 0.25
                # A pause or another request stops a hook, too; it is called again when the run goes on.
                if any(moment - 0.25 <= asked <= last for asked in self.stops):
                    self.tally["hook: called again after a command had stopped it"] += 1
                elif not any(moment - 0.25 <= kill <= last for kill in self.kills):
                    broken.append(f"duplicate: the hook of {run} was called after attempt {attempt}, which no kill interrupted")
        for run in finished:
            if not any(word == "end" for word, _, _ in calls.get(run["id"], [])):
                broken.append(f"missed: the hook of {run['id']} has left no line")

    def check_events(self, broken):
        done = subprocess.run([self.syncagent, "events", SESSION, "--json", "--since", str(self.story.sequence)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            broken.append(f"events: exit {done.returncode}: {done.stderr.strip()[-300:]}")
        broken += [wrong for line in done.stdout.splitlines() if (wrong := self.story.take(json.loads(line)))]

    def count_bytes(self, mark):
        end = time.monotonic() + 2
        sent = checks.counted(self.a.log, mark)["pack_bytes"]
        while time.monotonic() < end:       # nginx writes the line of a broken connection when it notices
            time.sleep(0.02)
            again = checks.counted(self.a.log, mark)["pack_bytes"]
            if again == sent:
                break
            sent = again
        if self.previous and self.current != self.previous:
            have = self.blobs[self.previous]
            need = sum(size for place, size in self.blobs[self.current].items() if place not in have)
            self.twice.append(max(0, sent - need))
            self.fetched += sent
            self.needed += need

    # All of them

    def run(self):
        a = self.a
        print(f"seed {a.seed} (--seed {a.seed} repeats the choices)", flush=True)
        self.rate, self.previous = None, None
        self.start_agent()
        self.wait_agent()
        self.undisturbed("r1")
        size = sum(size for place, size in self.blobs["r2"].items() if place not in self.blobs["r1"])
        self.rate = max(64 << 10, int(size / (a.seconds * 0.5)))
        self.run_time = self.undisturbed("r2")
        print(f"an undisturbed run of {size / MIB:.1f} MiB with its hook: {self.run_time:.2f} s", flush=True)
        begin = time.monotonic()
        self.done, self.enough = 0, False
        signal.signal(signal.SIGUSR1, lambda *_: setattr(self, "enough", True))     # end after this trial
        for number in range(2 * a.count):
            if self.enough or number >= a.count and not self.shows_too_little():
                break
            if self.shows_too_little():
                # The machine has become slower than it was for the undisturbed run.
                self.run_time *= 1.2
            self.done += 1
            self.previous = self.current if not self.mixed else None
            self.trial(number)
        self.seconds = time.monotonic() - begin
        self.agent.terminate()
        self.agent.wait()
        self.summary()

    def shows_too_little(self):
        """Pulls that are refused, for a reason of these trials' own, would find nothing wrong."""
        return self.done >= 10 and self.phases["1 not yet enqueued"] * 2 > self.done

    def undisturbed(self, revision):
        begin = time.monotonic()
        status, reply, err = self.ask(*self.pull(revision))
        broken = []
        if status == 0:
            self.until_rest(broken, "undisturbed")
        took = time.monotonic() - begin
        self.current, self.mixed = revision, set()
        broken += self.look("undisturbed", revision)
        if status != 0 or broken:
            sys.exit(f"an undisturbed run: exit {status}\n{err}\n" + "\n".join(broken))
        return took

    def summary(self):
        a, tally = self.a, self.tally
        print("\n| killed while | trials |\n|---|--:|")
        for phase, count in sorted(self.phases.items()):
            print(f"| {phase[2:]} | {count} |")
        tally["killed: agents that a client had started"] = self.foreign
        print("\n| | |\n|---|--:|")
        for what, count in sorted(tally.items()):
            print(f"| {what} | {count} |")
        count = lambda word: sum(line.startswith(word) for _, line in self.violations)
        known = ("wrong", "lost", "missed", "duplicate")
        print(f"| wrong visible files | {count('wrong')} |\n| lost acknowledged commands | {count('lost')} |\n"
              f"| missed hooks | {count('missed')} |\n| duplicate hooks without a kill inside | {count('duplicate')} |\n"
              f"| other violations | {sum(not line.startswith(known) for _, line in self.violations)} |")
        twice = sorted(self.twice) or [0]
        print(f"| trials whose bytes were counted | {len(self.twice)} |\n| needed, MiB | {self.needed / MIB:.1f} |\n"
              f"| sent by nginx, MiB | {self.fetched / MIB:.1f} |\n"
              f"| sent twice, MiB: median, most | {twice[len(twice) // 2] / MIB:.2f}, {twice[-1] / MIB:.2f} |")
        print(f"\n{self.done} trials in {self.seconds:.0f} s, {len(self.kills)} agents killed: "
              f"{len(self.violations)} violations; seed {a.seed}")
        if self.shows_too_little():
            idle = self.phases["1 not yet enqueued"]
            sys.exit(f"{idle} of the trials killed nothing that had begun: this shows too little")
        sys.exit(1 if self.violations else 0)


parser = argparse.ArgumentParser(description=__doc__)
for option in ("site", "url", "log", "work"):
    parser.add_argument(f"--{option}", required=True)
parser.add_argument("--atomic", action="store_true")
parser.add_argument("--layout", choices=("exchange", "links"), default="exchange")
parser.add_argument("--count", type=int, default=200)
parser.add_argument("--seconds", type=float, default=0.5)
parser.add_argument("--every", type=int, default=20, help="print a line for every so many trials")
parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
trials = Trials(parser.parse_args())
try:
    trials.run()
finally:
    if trials.agent and trials.agent.poll() is None:
        trials.agent.kill()
