#!/usr/bin/env python3
"""The table of what can happen to a task (S98 to S110), by pulls of the real program: retries, cancels, pause and resume,
kill -9, wrong bytes, redirects, duplicates, a full disk, put-off requests, a plugin's cancel.

usage: tasks.py PROGRAM [CLAIM...]

Each rule prints a line: its name, "held" or "FAILED", and what was seen. In the end no step of any run was one that the
table refuses, and each thing that can happen to a task has happened. Exit status: 0 all held, 1 one did not.
"""
import hashlib, json, os, shutil, signal, subprocess, sys, time

sys.argv, arguments = sys.argv[:1], sys.argv[1:]
from live import Day

INPUTS = {"started", "delayed", "released", "paused", "resumed", "installed", "unchanged", "lost", "failed", "cancelled",
          "retried"}
PLUGIN = """#!/usr/bin/python3
import json, sys
def answer(request):
    if "small07" in request["url"]: return {"disposition": "cancel", "reason": "not here"}
    return {"disposition": "continue"}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    result = None
    if message["method"] == "initialize": result = {"protocol": 1, "name": "no", "version": "1", "points": ["resolver"]}
    elif message["method"] == "resolver.resolve": result = {"dispositions": [answer(r) for r in message["params"]["requests"]]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


class Tasks(Day):
    """Counts what the runs of a day say of their tasks."""

    def __init__(self, program):
        super().__init__(program)
        self.steps, self.refused, self.runs = {}, 0, 0

    def url(self, project, part="small"):
        return self.origin.url("%s-%s.json" % (project, part))

    def start(self, project, part="small", *more):
        return subprocess.Popen([self.program, "pull", self.url(project, part), "--into", project, "--quiet", *more],
                                env=self.environment, cwd=self.root, stderr=subprocess.DEVNULL)

    def again(self, project, part="small", *more):
        return self.run("pull", self.url(project, part), "--into", project, "--json", *more)

    def states(self, project):
        found = self.run("status", project, "--tasks", "--json")
        return {task["path"]: task["state"] for task in found.events} if found.returncode == 0 else {}

    def until(self, project, wanted, limit=30):
        """Looks until the counts of states are as wanted."""
        end, counts = time.time() + limit, {}
        while time.time() < end:
            counts = {}
            for state in self.states(project).values():
                counts[state] = counts.get(state, 0) + 1
            if all(counts.get(state, 0) >= least for state, least in wanted.items()):
                return counts
            time.sleep(0.05)
        raise TimeoutError("%s: %s, not %s" % (project, counts, wanted))

    def paused_halfway(self):
        """A background pull of one large file that is paused in the middle of it."""
        self.origin.fresh(rate=400_000)
        project = self.where()
        self.run("pull", self.url(project, "huge"), "--into", project, "--background", "--connections", "1")
        self.until(project, {"running": 1})
        time.sleep(2)
        self.run("pause", project)
        return project

    def place(self, *path):
        return os.path.join(self.root, *path)

    def add_up(self):
        for session in self.run("status", "--json").events:
            for event in self.run("events", session["session"], "--json").events:
                if event["event"] != "run.summary":
                    continue
                self.runs += 1
                for name, count in event.get("tasks", {}).items():
                    if name == "refused":
                        self.refused += count
                    else:
                        self.steps[name] = self.steps.get(name, 0) + count


RULES = []


def rule(function):
    RULES.append((function.__name__.replace("_", " "), function))
    return function


@rule
def S98_and_S99_a_killed_one_goes_on_with_what_has_come(day):
    day.origin.fresh(rate=600_000)
    project = day.where()
    child = day.start(project, "", "--connections", "2")
    counts = day.until(project, {"installed": 1, "running": 1})
    child.kill()
    child.wait()
    left = set(day.states(project).values())
    parts = [n for _, _, names in os.walk(day.place(project, ".syncagent/staging")) for n in names]
    day.origin.fresh()
    done = day.again(project, "")
    after = [n for _, _, names in os.walk(day.place(project, ".syncagent/staging")) for n in names]
    good = done.returncode == 0 and left <= {"waiting", "installed"} and not after
    return good, "%s; killed: %s, %d files staged; afterwards %d" % (counts, sorted(left), len(parts), len(after))


@rule
def S100_a_pause_keeps_every_byte(day):
    project = day.paused_halfway()
    paused, before = day.states(project), day.origin.requests
    time.sleep(1)
    quiet = day.origin.requests == before
    day.origin.fresh()
    day.run("resume", project)
    wait = day.run("wait", project)
    end = json.loads(day.run("status", project, "--json").stdout)["run"]
    received = end.get("bytes", {}).get("received", 0)
    # Of its last process, the one after the pause: some 800,000 had come before, and come no more.
    good = set(paused.values()) == {"paused"} and quiet and wait.returncode == 0 and received <= 5_500_000
    return good, "paused %s; %s bytes of 6,000,000 after the pause" % (paused, received)


@rule
def S101_what_changes_on_the_server_during_a_pause_is_noticed(day):
    project = day.paused_halfway()
    day.origin.fresh()
    right = day.origin.objects["huge.bin"]
    day.origin.altered["huge.bin"] = right[:-1000] + bytes(1000)
    day.run("resume", project)
    wait = day.run("wait", project)
    seen = os.path.exists(day.place(project, "huge.bin"))
    day.origin.altered.clear()
    done = day.again(project, "huge")
    with open(day.place(project, "huge.bin"), "rb") as file:
        good = wait.returncode == 2 and not seen and done.returncode == 0 and file.read() == right
    return good, "with other bytes wait ended with %d, with the right ones the next pull with %d" % (wait.returncode, done.returncode)


@rule
def S102_and_S106_cancel_is_final_and_may_be_repeated(day):
    day.origin.fresh(rate=300_000)
    project = day.where()
    day.run("pull", day.url(project, ""), "--into", project, "--background", "--connections", "2")
    day.until(project, {"installed": 2, "running": 1})
    found = [day.run("cancel", project).returncode for _ in range(3)]
    states = day.states(project)
    kept = [p for p, s in states.items() if s == "installed" and not os.path.exists(day.place(project, p))]
    good = found[0] == 0 and not kept and set(states.values()) <= {"installed", "cancelled"}
    return good, "ends %s, %d installed, all in place" % (found, list(states.values()).count("installed"))


@rule
def S103_remove_spares_what_somebody_has_changed(day):
    day.origin.fresh()
    project = day.where()
    day.again(project)
    with open(day.place(project, "small00.bin"), "ab") as file:
        file.write(b"mine")
    done = day.run("rm", project, "--files")
    left = [n for n in os.listdir(day.place(project)) if n.startswith("small")]
    return done.returncode == 0 and left == ["small00.bin"], "left: %s" % left


@rule
def S104_wrong_bytes_are_asked_for_again_and_fail_in_the_end(day):
    day.origin.fresh("right")
    project = day.where()
    right = day.origin.objects["small03.bin"]
    manifest = day.origin.manifest
    frozen = manifest("small", project)
    day.origin.manifest = lambda only, name: frozen if name == project else manifest(only, name)
    day.origin.objects["small03.bin"] = right[:-1] + b"x"
    try:
        done = day.again(project)
        states = day.states(project)
    finally:
        day.origin.objects["small03.bin"] = right
    again = day.again(project)
    day.origin.manifest = manifest
    good = done.returncode == 2 and states["small03.bin"] == "failed" and again.returncode == 0
    return good, "exit %d, then %d; %s" % (done.returncode, again.returncode, states["small03.bin"])


@rule
def S105_no_state_rests_that_must_be_left(day):
    seen = set()
    for moment in [0.5, 1, 1.5, 2, 3]:
        day.origin.fresh(rate=300_000)
        project = day.where()
        child = day.start(project, "")
        time.sleep(moment)
        child.kill()
        child.wait()
        seen |= set(day.states(project).values())
        day.origin.fresh()
        if day.again(project, "").returncode != 0:
            return False, "the next run fails"
    return seen <= {"waiting", "installed"}, "after kill -9: %s" % sorted(seen)


@rule
def S107_what_waits_starts_by_itself(day):
    day.origin.fresh()
    project = day.where()
    day.run("pull", day.url(project), "--into", project, "--background")
    counts = day.until(project, {"installed": 41})
    return True, "nobody waited, %s" % counts


@rule
def S108_a_pause_does_not_use_up_the_deadline(day):
    day.origin.fresh(rate=600_000)
    project = day.where()
    day.run("pull", day.url(project, "huge"), "--into", project, "--background", "--deadline", "12s")
    day.until(project, {"running": 1})
    day.run("pause", project)
    time.sleep(1)
    day.origin.fresh()
    day.run("resume", project)
    wait = day.run("wait", project)
    return wait.returncode == 0, "wait ended with %d" % wait.returncode


@rule
def S109_what_is_there_is_looked_at(day):
    day.origin.fresh()
    project = day.where()
    day.again(project)
    os.remove(day.place(project, "small00.bin"))
    with open(day.place(project, "small01.bin"), "r+b") as file:
        file.truncate(100)
    name = day.place(project, "small02.bin")
    status = os.stat(name)
    with open(name, "r+b") as file:
        file.write(b"xyz")
    os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns))
    done = day.again(project)
    files = done.events[-1]["files"]
    good = done.returncode == 0 and files["installed"] == 3 and files["unchanged"] == 38
    return good, "deleted, cut, altered with its old time: %s" % files


@rule
def S109_also_in_a_run_that_goes_on(day):
    day.origin.fresh(rate=600_000)
    project = day.where()
    os.makedirs(day.place(project, "small05.bin/mine"))
    child = day.start(project, "")
    day.until(project, {"installed": 3, "failed": 1, "running": 1})
    child.kill()
    child.wait()
    here = [p for p, s in day.states(project).items() if s == "installed"]
    os.remove(day.place(project, here[0]))
    shutil.rmtree(day.place(project, "small05.bin"))
    day.origin.fresh()
    done = day.again(project, "")
    tasks = [e for e in done.events if e["event"] == "run.summary"][-1]["tasks"]
    good = done.returncode == 0 and tasks.get("lost") == 1 and tasks.get("retried") == 1
    return good, "removed meanwhile: lost %s; failed before: retried %s" % (tasks.get("lost"), tasks.get("retried"))


@rule
def S110_installed_is_in_its_place(day):
    day.origin.fresh()
    project = day.where()
    os.makedirs(day.place(project, "small05.bin/mine"))
    done = day.again(project)
    state = day.states(project)["small05.bin"]
    os.rmdir(day.place(project, "small05.bin/mine"))
    os.rmdir(day.place(project, "small05.bin"))
    again = day.again(project)
    good = done.returncode != 0 and state == "failed" and again.returncode == 0
    return good, "a directory in its place: exit %d, %s; then %d" % (done.returncode, state, again.returncode)


@rule
def S110_also_on_a_full_disk(day):
    day.origin.fresh()
    project, mount = day.where(), day.place("disk")
    os.makedirs(mount)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", mount]).returncode != 0:
        return True, "not looked at: no mount here"
    try:
        done = day.run("pull", day.url(project), "--into", mount + "/d", "--json")
        states = day.states(project)
        wrong = [p for p, s in states.items() if (s == "installed") != os.path.exists(mount + "/d/" + p)]
    finally:
        subprocess.run(["umount", mount])
    return done.returncode == 74 and not wrong, "exit %d, %d tasks" % (done.returncode, len(states))


@rule
def retries_and_put_off_requests(day):
    found = []
    for mode in ["breaks", "later", "redirect"]:
        day.origin.fresh(mode)
        found.append(day.again(day.where()).returncode)
    return found == [0, 0, 0], "exits %s" % found


@rule
def a_server_that_is_away_for_a_while(day):
    day.origin.fresh("login")
    project = day.where()
    child = day.start(project)
    time.sleep(3)
    day.origin.fresh()
    return child.wait() == 0, "exit %d" % child.returncode


@rule
def an_interrupted_one_goes_on(day):
    # Slow enough that it is far from its end when the first task is seen.
    day.origin.fresh(rate=100_000)
    project = day.where()
    child = day.start(project, "")
    day.until(project, {"running": 1})
    child.send_signal(signal.SIGINT)
    status = child.wait()
    day.origin.fresh()
    again = day.again(project, "")
    return status == 130 and again.returncode == 0, "exits %d, %d" % (status, again.returncode)


@rule
def duplicates_are_one_request(day):
    day.origin.fresh()
    project = day.where()
    data = day.origin.objects["small09.bin"]
    files = [{"path": "copy%d" % n, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(),
              "urls": ["o/small09.bin"]} for n in range(5)]
    with open(day.place("m.json"), "w") as file:
        base = {"format": "syncagent-manifest/1", "project": project}
        json.dump(dict(base, files=[dict(f, urls=[day.origin.url(f["urls"][0])]) for f in files]), file)
    done = day.run("pull", day.place("m.json"), "--into", project, "--json")
    return done.returncode == 0 and day.origin.requests == 1, "%d requests for 5 files" % day.origin.requests


@rule
def a_plugin_cancels(day):
    day.origin.fresh()
    project, directory = day.where(), day.place("config/syncagent/plugins")
    os.makedirs(directory, 0o700, exist_ok=True)
    program = os.path.join(directory, "syncagent-plugin-no")
    with open(program, "w") as file:
        file.write(PLUGIN)
    os.chmod(program, 0o755)
    with open(day.place("c.json"), "w") as file:
        json.dump({"plugins": {"directory": directory, "use": [{"plugin": "no", "point": "resolver", "for": ["http:"]}]}}, file)
    done = day.again(project, "small", "--config", day.place("c.json"))
    state = day.states(project)["small07.bin"]
    again = day.again(project)
    return state == "cancelled" and again.returncode == 0, "exit %d, %s; without it %d" % (
        done.returncode, state, again.returncode)


def main():
    if not arguments:
        sys.exit(__doc__)
    day, failed = Tasks(arguments[0]), 0
    try:
        for name, function in RULES:
            if arguments[1:] and not any(word in name for word in arguments[1:]):
                continue
            try:
                good, words = function(day)
            except Exception as error:  # What cannot be checked is not held.
                good, words = False, "%s: %s" % (type(error).__name__, error)
            failed += not good
            print("%-8s %s: %s" % ("held" if good else "FAILED", name, words), flush=True)
        day.add_up()
        missing = INPUTS - set(day.steps)
        print("%d runs took %d steps by the table: %s" % (
            day.runs, sum(day.steps.values()), " ".join("%s %d" % one for one in sorted(day.steps.items()))))
        print("refused: %d; never happened: %s" % (day.refused, " ".join(sorted(missing)) or "nothing"))
        failed += day.refused > 0 or bool(missing) and not arguments[1:]
    finally:
        day.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
