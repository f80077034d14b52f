#!/usr/bin/env python3
"""The trials of kill.sh; started by it, which says what is checked."""
import argparse, json, os, random, re, shutil, subprocess, sys, time, urllib.request
from collections import defaultdict
import checks

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20


class Trials:
    def __init__(self, a):
        self.a, self.random = a, random.Random(a.seed)
        self.syncagent = os.environ["SYNCAGENT"]
        self.place, self.output = f"{a.work}/trial", f"{a.work}/events.jsonl"
        self.destination, self.state = f"{self.place}/destination", f"{a.work}/trial-state"
        self.manifests = {n: checks.load(f"{a.site}/{n}.json") for n in ("one", "two")}
        self.wanted = {n: checks.wanted(m) for n, m in self.manifests.items()}
        self.blobs = {n: {e["path"]: list(checks.blobs(m, e)) for e in m["files"]} for n, m in self.manifests.items()}
        self.violations, self.rows, self.again = [], defaultdict(list), 0

    def start(self, name, rate=None):
        command = [self.syncagent, "pull", f"{self.a.url}/{name}.json", "--into", self.destination, "--prune", "--json"]
        if rate:
            command += ["--limit-rate", str(rate)]
        with open(self.output, "wb") as out, open(f"{self.a.work}/stderr", "wb") as err:
            return subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                    env=dict(os.environ, XDG_STATE_HOME=self.state))

    def pull(self, name, rate=None):
        """A pull that nobody disturbs: (exit status, last event)."""
        status = self.start(name, rate).wait()
        events = self.events()
        return status, events[-1] if events else {}

    def events(self):
        with open(self.output, errors="replace") as file:
            whole = [line for line in file if line.endswith("\n")]      # the kill may have cut the last one
        return [json.loads(line) for line in whole]

    def fresh(self, updating):
        shutil.rmtree(self.state, ignore_errors=True)
        if self.a.image:
            subprocess.run([f"{HERE}/fresh-disk.sh", "mount", self.a.image, self.place, "4"], check=True)
        else:
            shutil.rmtree(self.place, ignore_errors=True)
            os.makedirs(self.place)
        if updating:
            status, _ = self.pull("one")
            if status != 0:
                sys.exit(f"the first revision cannot be pulled: exit {status}\n{self.errors()}")

    def errors(self):
        with open(f"{self.a.work}/stderr", errors="replace") as file:
            return file.read()[-2000:]

    def idle(self):
        """Waits until nginx has no connection but this one: its log is then complete."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for _ in range(250):
            with opener.open(f"{self.a.url}/-/status") as page:
                if b"Active connections: 1 " in page.read():
                    return
            time.sleep(0.02)
        print("note: nginx still has connections open", file=sys.stderr)

    def look(self, updating):
        """What is visible: (paths in place, paths still old, violations)."""
        if not os.path.isdir(self.destination):
            return set(), set(), []
        new, old, bad = set(), set(), []
        for path, what in checks.describe(self.destination).items():
            if self.wanted["two"].get(path) == what:
                new.add(path)
            elif updating and self.wanted["one"].get(path) == what:
                old.add(path)
            else:
                bad.append(f"{path!r} is {what}, which no manifest says")
        return new, old, bad

    def left(self, new, old):
        """Stored bytes that the files not in place need and no file in place holds."""
        held = {digest for path in new for _, _, digest in self.blobs["two"][path]}
        held |= {digest for path in old for _, _, digest in self.blobs["one"][path]}
        need = {digest: stored for path, blobs in self.blobs["two"].items() if path not in new
                for _, stored, digest in blobs if digest not in held}
        return sum(need.values())

    def phase(self, process_ended, new, events, packs_asked):
        names = [e["event"] for e in events]
        staging = f"{self.destination}/.syncagent/staging"
        staged = os.path.isdir(staging) and any(os.scandir(staging))
        told = {e.get("path") for e in events if e["event"] == "task.installed"}
        if process_ended or "pull.finished" in names:
            return "8 finished"
        if not os.path.isdir(f"{self.destination}/.syncagent"):
            return "1 before the destination exists"
        if not packs_asked and "plan.ready" not in names:
            return "2 manifest, inventory"
        if not packs_asked:
            return "3 planned, nothing fetched"
        if len(new) == len(self.wanted["two"]):
            return "7 all in place, not finished"
        if not new - self.before:
            return "4 fetching, nothing visible yet"
        return "6 fetching, a batch visible and not yet told" if told and new - self.before - told else "5 fetching, some visible"

    def trial(self, number, updating, run_time):
        kind = "update" if updating else "fresh"
        self.fresh(updating)
        self.before = self.look(updating)[0] if updating else set()
        moment = self.random.uniform(0, 1.1 * run_time)
        self.idle()
        mark = os.path.getsize(self.a.log)
        process = self.start("two", self.rate[updating])
        try:
            process.wait(moment)
            ended = True
        except subprocess.TimeoutExpired:
            process.kill()
            ended = process.wait() != -9
        self.idle()
        events = self.events()
        first = checks.counted(self.a.log, mark)
        new, old, bad = self.look(updating)
        left = self.left(new, old)
        phase = self.phase(ended, new, events, first["pack_requests"] > 0)
        mark = os.path.getsize(self.a.log)
        status, last = self.pull("two")
        self.idle()
        second = checks.counted(self.a.log, mark)
        broken = [f"wrong: {b}" for b in bad]
        if status != 0:
            broken.append(f"next pull: exit {status}: {self.errors().strip()[-500:]}")
        bound = 1.1 * left + 16 * MIB
        if second["total_bytes"] > bound:
            broken.append(f"next pull received {second['total_bytes']} bytes, bound {bound:.0f} (left {left})")
        if last.get("requests") != second["requests"]:
            broken.append(f"next pull says {last.get('requests')} requests, nginx {second['requests']}")
        broken += [f"after the next pull: {d}" for d in checks.differences(self.wanted["two"], checks.describe(self.destination))]
        verify = subprocess.run([self.syncagent, "verify", f"{self.a.url}/two.json", "--into", self.destination, "--quiet"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ, XDG_STATE_HOME=self.state))
        if verify.returncode != 0:
            broken.append(f"verify: exit {verify.returncode}")
        self.rows[kind, phase].append((len(new), left, second["total_bytes"]))
        # Stored bytes that nginx sent twice over both pulls, those in the dead process' socket buffers included.
        twice = max(0, first["pack_bytes"] + second["pack_bytes"] - self.whole[updating])
        self.again = max(self.again, twice)
        print(f"{number + 1:3} {kind:6} {moment:6.2f} s  {phase:46} in place {len(new):6}  left {left / MIB:6.1f}  "
              f"received {second['total_bytes'] / MIB:6.1f}  twice {twice / MIB:5.1f} MiB  {'BROKEN' if broken else 'ok'}", flush=True)
        for line in broken[:10]:
            print(f"      {line}", flush=True)
        self.violations += [(number, line) for line in broken]

    def run(self):
        a = self.a
        print(f"seed {a.seed} (--seed {a.seed} repeats the moments)", flush=True)
        self.whole = {False: sum(checks.all_blobs(self.manifests["two"]).values()),
                      True: checks.changed(self.manifests["one"], self.manifests["two"])["changed_bytes"]}
        self.rate = {u: max(64 << 10, int(self.whole[u] / a.seconds)) for u in (False, True)}
        run_time = {}
        for updating in (False, True):
            self.fresh(updating)
            start = time.monotonic()
            status, _ = self.pull("two", self.rate[updating])
            run_time[updating] = time.monotonic() - start
            if status != 0:
                sys.exit(f"an undisturbed pull ends with {status}:\n{self.errors()}")
            print(f"undisturbed {'update' if updating else 'fresh'} pull of {self.whole[updating] / MIB:.1f} MiB at "
                  f"{self.rate[updating]} bytes/s: {run_time[updating]:.2f} s", flush=True)
        for number in range(a.count):
            updating = number % 2 == 1
            self.trial(number, updating, run_time[updating])
        self.summary()

    def summary(self):
        print("\n| pull | killed while | kills | files in place | left, MiB | next pull received, MiB |\n|---|---|--:|--:|--:|--:|")
        for (kind, phase), rows in sorted(self.rows.items()):
            spans = [f"{min(c):.{d}f}–{max(c):.{d}f}" for c, d in
                     (([r[0] for r in rows], 0), ([r[1] / MIB for r in rows], 1), ([r[2] / MIB for r in rows], 1))]
            print(f"| {kind} | {re.sub('^[0-9] ', '', phase)} | {len(rows)} | {' | '.join(spans)} |")
        wrong = sum(line.startswith("wrong") for _, line in self.violations)
        print(f"\n{self.a.count} kills: wrong {wrong}, other violations {len(self.violations) - wrong}; "
              f"most that nginx sent twice {self.again / MIB:.1f} MiB; seed {self.a.seed}")
        sys.exit(1 if self.violations else 0)


parser = argparse.ArgumentParser(description=__doc__)
for option in ("site", "url", "log", "work"):
    parser.add_argument(f"--{option}", required=True)
parser.add_argument("--count", type=int, default=50)
parser.add_argument("--seconds", type=float, default=4)
parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
parser.add_argument("--image", help="for a fresh file system in each trial")
Trials(parser.parse_args()).run()
