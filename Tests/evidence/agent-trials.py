#!/usr/bin/env python3
"""The parts of agents.sh; started by it, which says what each shows."""
import argparse, fcntl, glob, json, os, random, shutil, signal, socket, sqlite3, statistics, struct, subprocess, sys, threading, time, uuid
from collections import Counter, deque
import checks
from agents import PATIENCE, Place, Story, UnixConnection

MIB = 1 << 20
STORM, TALKERS, WINDOW = 4000, 8, 16    # requests, connections, requests on their way on each
RATE = int(os.environ.get("SYNCAGENT_STORM_RATE", "0"))     # least requests a second; the checks of every change set none
REST = 30               # seconds for which an agent at rest is looked at


class Parts(Place):
    def __init__(self, a):
        super().__init__(a.work)
        self.a, self.broken = a, []
        self.wanted = {r: checks.wanted(checks.load(f"{a.site}/{r}.json")) for r in ("r1", "r2")}
        # Every part begins with nothing.
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.rmtree(f"{a.work}/files", ignore_errors=True)

    def hold(self, what, is_so):
        print(f"{'ok' if is_so else 'BROKEN'}: {what}", flush=True)
        if not is_so:
            self.broken.append(what)

    def into(self, name):
        return f"{self.a.work}/files/{name}"

    def pull(self, name, revision="r1", *more):
        return ["pull", f"{self.a.url}/{revision}.json", "--session", name, "--into", self.into(name), "--prune", "--force", *more]

    def background(self, name, revision="r1", *more):
        status, reply, err = self.ask(*self.pull(name, revision, "--background", "--json", *more))
        if status != 0:
            sys.exit(f"{name}: exit {status}: {err}")
        return reply["run"]

    def fresh_agent(self, *arguments):
        self.start_agent(*arguments)
        self.wait_agent()

    def end_agent(self):
        self.agent.terminate()
        self.agent.wait()

    def states(self):
        return {run["session"]: run["state"] for run in self.store.runs()}

    def until(self, condition, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return True
            time.sleep(0.01)
        return False

    def right(self, name, revision="r1"):
        return checks.differences(self.wanted[revision], checks.describe(self.into(name)))

    # Parts

    def restart(self):
        calls, child = f"{self.a.work}/restart-calls", f"{self.a.work}/restart-child"
        hook = f"{self.a.work}/restart-hook.sh"
        with open(hook, "w") as file:
            file.write(f'#!/bin/sh\necho $$ >{child}\necho "begin $SYNCAGENT_RUN_ID $SYNCAGENT_ATTEMPT" >>{calls}\n'
                       # Longer the first time than it takes a busy machine to get to the kill.
                       f'[ "$SYNCAGENT_ATTEMPT" = 1 ] && sleep 45 || sleep 1\n'
                       f'echo "end $SYNCAGENT_RUN_ID $SYNCAGENT_ATTEMPT" >>{calls}\n')
        os.chmod(hook, 0o755)
        self.fresh_agent("--jobs", "3")
        self.background("in-hook", "r1", "--hook", hook)
        self.until(lambda: os.path.exists(calls))
        self.background("running", "r1", "--limit-rate", "1M")
        self.background("running-too", "r1", "--limit-rate", "1M")
        self.background("queued")
        self.background("later", "r1", "--not-before", "4s")
        self.background("paused", "r1", "--paused")
        self.until(lambda: self.states().get("running-too") == "running")
        before = self.states()
        print(f"killed while: {before}", flush=True)
        self.kill_agent()
        with open(child) as file:
            os.kill(int(file.read()), signal.SIGKILL)
        shutil.rmtree(self.runtime, ignore_errors=True)
        leases = glob.glob(self.state + "/sessions/*.lock")
        self.hold(f"nobody is at work: {len(leases)} leases and the agent's lock are free, the runtime directory is gone",
                  leases and not any(map(self.is_locked, leases + [self.state + "/agent.lock"])) and not os.path.exists(self.runtime))
        wrapper = self.other_boot()
        if wrapper:
            # A restart can number file systems anew, too.
            self.renumber(1)
        self.start_agent(wrapper=wrapper)
        done = self.until(lambda: all(s in ("finished", "paused") for s in self.states().values()) and self.store.rest())
        after = self.states()
        self.hold(f"everything went on with no command: {after}", done and
                  {n for n, s in after.items() if s != "finished"} == {"paused"} and after["paused"] == "paused")
        with open(calls) as file:
            lines = [line.split() for line in file]
        self.hold(f"the hook was called again, same run, next attempt: {[(w, n) for w, _, n in lines]}",
                  [(w, n) for w, _, n in lines] == [("begin", "1"), ("begin", "2"), ("end", "2")] and len({r for _, r, _ in lines}) == 1)
        for name, state in after.items():
            if state == "finished":
                self.hold(f"{name}: every file is right", not self.right(name))
        if wrapper:
            self.renumber(-1)       # doctor asks whether it is the right directory
        self.broken += self.doctor()
        self.hold("the agent stops", self.ask("agent", "stop")[0] == 0)
        self.agent.wait()

    def renumber(self, step):
        """Makes the store believe that destinations were on file systems with other numbers."""
        db = sqlite3.connect(self.store.path, timeout=PATIENCE)
        with db:
            db.execute("UPDATE sessions SET device = device + ?", (step,))
        db.close()

    @staticmethod
    def is_locked(path):
        with open(path, "rb+") as file:
            try:        # F_OFD_SETLK: seen by whoever uses such locks, in this process and in others
                fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
                return False
            except OSError:
                return True

    def other_boot(self):
        """What to put before a command so that it sees another boot id and process ids from 1; nothing where that cannot be."""
        with open("/proc/sys/kernel/random/boot_id") as file:
            before = file.read().strip()
        path = f"{self.a.work}/boot-id"
        with open(path, "w") as file:
            file.write(str(uuid.uuid4()) + "\n")
        wrapper = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c",
                   f'mount --bind {path} /proc/sys/kernel/random/boot_id && exec "$@"', "sh"]
        try:
            seen = subprocess.run(wrapper + ["cat", "/proc/sys/kernel/random/boot_id"], capture_output=True, text=True)
        except OSError:
            seen = None
        if seen is None or seen.returncode or seen.stdout.strip() == before:
            print("not root: the next agent sees the same boot id", flush=True)
            return []
        print(f"boot id {before} before, {seen.stdout.strip()} after; process ids begin anew", flush=True)
        return wrapper

    def race(self):
        mark = os.path.getsize(self.a.log)
        clients = [self.client(*self.pull("raced", "r1", "--limit-rate", "400K", "--quiet")) for _ in range(50)]
        statuses = Counter()
        said = set()
        for client in clients:
            _, err = client.communicate()
            statuses[client.returncode] += 1
            said |= {"busy" in err or "at work" in err} if client.returncode == 75 else set()
            if client.returncode not in (0, 75):
                print(f"exit {client.returncode}: {err.strip()[-400:]}", flush=True)
        self.hold(f"50 pulls at once: exit statuses {dict(statuses)}", statuses == {0: 1, 75: 49})
        self.hold("those that did not get it say so", said == {True})
        self.hold("every file is right", not self.right("raced"))
        whole = sum(checks.all_blobs(checks.load(f"{self.a.site}/r1.json")).values())
        sent = checks.counted(self.a.log, mark)["pack_bytes"]
        self.hold(f"{sent / MIB:.2f} MiB were sent, the set has {whole / MIB:.2f}", sent <= whole * 1.01)
        self.broken += self.doctor()

        clients = [self.client(*self.pull("raced", "r2", "--background", "--json")) for _ in range(50)]
        runs, statuses = Counter(), Counter()
        for client in clients:
            out, err = client.communicate()
            statuses[client.returncode] += 1
            if client.returncode == 0:
                runs[json.loads(out.splitlines()[-1])["run"]] += 1
            elif statuses[client.returncode] < 3:
                print(err.strip()[-300:])
        self.hold(f"50 background pulls at once with no agent: exit statuses {dict(statuses)}", statuses == {0: 50})
        rest = self.until_rest()
        # Who comes after the run has ended begins another, which finds nothing to do.
        print(f"runs they were given: {sorted(runs.values(), reverse=True)}")
        self.hold("at rest, every file is right", rest == "idle" and not self.right("raced", "r2"))
        self.broken += self.doctor()
        self.hold("the agent stops", self.ask("agent", "stop")[0] == 0)

    def storm(self):
        self.fresh_agent()
        self.background("storm", "r1", "--limit-rate", "500K")
        answers, errors, lock = Counter(), [], threading.Lock()
        request = {"manifest": f"{self.a.url}/r1.json", "destination": self.into("storm"), "session": "storm", "prune": True}

        def asked(verb, choose):
            if verb == "enqueue":
                body = dict(request, manifest=f"{self.a.url}/{choose.choice(['r1', 'r2'])}.json", limit_rate=500_000,
                            allow_older=True)
                return "/v1/runs", json.dumps(body)
            return f"/v1/sessions/storm/{verb}", "{}"

        def talk(number):
            """One connection that stays open, with up to WINDOW requests on their way."""
            choose, sent, rest = random.Random(number), deque(), STORM // TALKERS
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.settimeout(PATIENCE)
                    s.connect(self.socket)
                    reader = s.makefile("rb")
                    while rest or sent:
                        burst = b""
                        while rest and len(sent) < WINDOW:
                            verb = choose.choices(["pause", "resume", "cancel", "enqueue"], [47, 47, 3, 3])[0]
                            target, body = asked(verb, choose)
                            burst += (f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                      f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
                            sent.append(verb)
                            rest -= 1
                        if burst:
                            s.sendall(burst)
                        status, text = answer(reader)
                        verb = sent.popleft()
                        with lock:
                            answers[verb, status] += 1
                            if status >= 400:
                                errors.append((verb, status, text.decode()[:300]))
            except (OSError, ValueError) as error:
                with lock:
                    errors.append((sent[0] if sent else "connect", 0, str(error)))

        def answer(reader):
            status, length = int(reader.readline().split()[1]), 0
            while (line := reader.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            return status, reader.read(length)

        begin = time.monotonic()
        talkers = [threading.Thread(target=talk, args=(n,)) for n in range(TALKERS)]
        for talker in talkers: talker.start()
        for talker in talkers: talker.join()
        took = time.monotonic() - begin
        print(f"{STORM} requests on {TALKERS} connections in {took:.2f} s, {STORM / took:.0f} a second: {dict(sorted(answers.items()))}")
        for error in errors[:5]:
            print(f"  {error}")
        self.hold("every request was answered, and none with an internal error",
                  sum(answers.values()) == STORM and not any(status >= 500 for _, status in answers))
        if RATE:
            self.hold(f"at least {RATE} a second", STORM / took >= RATE)
        self.broken += self.doctor()
        self.ask("resume", "storm")
        rest = self.until_rest()
        self.hold(f"at rest: {rest}, {Counter(r['state'] for r in self.store.runs())}", rest == "idle")
        run = self.background("storm", "r2")
        self.until(lambda: self.store.rest() == "idle")
        self.hold("the next run ends with every file", self.states()["storm"] == "finished" and not self.right("storm", "r2"))
        self.story("storm")
        self.broken += self.doctor()
        self.end_agent()

    def story(self, name):
        done = subprocess.run([self.syncagent, "events", name, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        story = Story()
        complaints = [wrong for line in done.stdout.splitlines() if (wrong := story.take(json.loads(line)))]
        self.hold(f"{story.sequence} events in order {complaints[:3]}", not complaints and story.sequence > 0)

    def followers(self):
        """`events --follow` and `attach`, each killed 100 times, while runs come and go."""
        self.fresh_agent()
        self.background("followed")
        over = threading.Event()

        def work():
            turn = 0
            while not over.is_set():
                turn += 1
                self.background("followed", f"r{turn % 2 + 1}", "--limit-rate", "20M")
                self.until(lambda: self.store.rest() == "idle")

        worker = threading.Thread(target=work)
        worker.start()
        try:
            followed = self.kill_readers(lambda seen: ("events", "followed", "--follow", "--json", "--since", str(seen)))
            attached = self.kill_readers(lambda seen: ("attach", "followed", "--json", "--since", str(seen)))
        finally:
            over.set()
            worker.join()
        for kind, (got, cut, progress) in (("events --follow", followed), ("attach", attached)):
            done = subprocess.run([self.syncagent, "events", "followed", "--json", "--since", str(got[-1] if got else 0)],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True)
            rest = [json.loads(line)["seq"] for line in done.stdout.splitlines()]
            self.hold(f"{kind}: 100 readers killed ({cut} in the middle of a line) saw {len(got)} events and {progress} lines of "
                      f"progress, the rest is {len(rest)}; no gap, no repeat",
                      got + rest == list(range(1, len(got + rest) + 1)) and len(got) > 0)
        self.story("followed")
        self.end_agent()

    def kill_readers(self, command):
        """Kills 100 readers one after the other, each at a random moment; the next one goes on where the last was."""
        choose, got, cut, progress, killed = random.Random(1), [], 0, 0, 0
        while killed < 100:
            client = self.client(*command(got[-1] if got else 0))
            # Killed at a random moment of its life: nothing is waited for.
            try:
                client.wait(choose.uniform(0, 0.25))
            except subprocess.TimeoutExpired:
                killed += 1         # one that ends because its run does is none
                client.kill()
            out, _ = client.communicate()
            lines = out.split("\n")
            cut += lines[-1] != ""
            for line in lines[:-1]:
                event = json.loads(line)
                if "seq" in event:
                    got.append(event["seq"])
                else:
                    progress += 1
        return got, cut, progress

    def sessions(self, count):
        self.fresh_agent()
        for number in range(count):
            self.background(f"s{number:02}", "r1", *(["--paused"] if number % 4 == 0 else []))
        self.until(lambda: self.store.rest())
        self.end_agent()

    def cost(self):
        """CPU seconds, voluntary context switches of all threads, KiB."""
        pid = self.agent.pid
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        switches = 0
        for path in glob.glob(f"/proc/{pid}/task/*/status"):
            with open(path) as file:
                switches += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))
        with open(f"/proc/{pid}/status") as file:
            rss = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), switches, rss

    def rest(self):
        self.sessions(20)
        self.fresh_agent()
        self.background("s01")          # an agent that has worked, then has nothing to do
        self.until(lambda: self.store.rest())
        time.sleep(5)                   # part of what is measured: whatever follows work must be over by then
        cpu, switches, _ = self.cost()
        time.sleep(REST)                # the interval that is measured
        cpu_after, switches_after, rss = self.cost()
        woken = switches_after - switches
        print(f"at rest with 20 sessions, over {REST} s: CPU {(cpu_after - cpu) / REST * 100:.3f} %, {woken} wake-ups of all threads "
              f"(voluntary context switches), {rss / 1024:.1f} MiB, {len(os.listdir(f'/proc/{self.agent.pid}/task'))} threads, "
              f"{len(os.listdir(f'/proc/{self.agent.pid}/fd'))} descriptors")
        self.hold("CPU under 0.1 %", cpu_after - cpu < REST / 1000)
        self.hold(f"at most three wake-ups a second: {woken} of {3 * REST}", woken <= 3 * REST)
        self.end_agent()

    def list(self):
        self.sessions(20)
        whole, first = [], []
        for _ in range(10):
            begin = time.monotonic()
            self.start_agent()
            while True:
                try:
                    connected = time.monotonic()
                    status, reply = self.request(UnixConnection(self.socket), "GET", "/v1/sessions")
                    break
                except OSError:
                    time.sleep(0.001)
            whole.append((time.monotonic() - begin) * 1000)
            first.append((time.monotonic() - connected) * 1000)
            if len(reply["sessions"]) != 20:
                self.hold(f"{len(reply['sessions'])} of 20 sessions in the first answer", False)
            self.end_agent()
        print(f"20 sessions are listed {statistics.median(whole):.0f} ms after the start of the process (most {max(whole):.0f}), "
              f"{statistics.median(first):.0f} ms after the socket answers")
        self.hold("within 100 ms", statistics.median(whole) <= 100)

    def enqueue(self):
        empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        files = [{"path": f"d{n % 100:02}/f{n:06}", "size": 0, "sha256": empty} for n in range(100_000)]
        files.sort(key=lambda file: file["path"])
        with open(f"{self.a.site}/many.json", "w") as file:
            json.dump({"format": "syncagent-manifest/1", "project": "agent.many", "files": files}, file)
        self.fresh_agent()
        times = []
        for number in range(3):
            begin = time.monotonic()
            self.background(f"many{number}", "many", "--paused")
            times.append(time.monotonic() - begin)
        tables = {t: self.store.rows(f"SELECT count(*) AS n FROM {t}")[0]["n"] for t in ("sessions", "runs", "groups", "hooks", "tasks")}
        size = sum(os.path.getsize(self.store.path + s) for s in ("", "-wal") if os.path.exists(self.store.path + s))
        print(f"100,000 files enqueued in {', '.join(f'{t:.2f}' for t in times)} s; rows of three such runs {tables}; "
              f"the store has {size / 1024:.0f} KiB")
        self.hold("at most 5 s", max(times) <= 5)
        self.end_agent()

    def store_cost(self):
        memory = f"/dev/shm/syncagent-{os.getpid()}"
        times = {"disk": [], "memory": []}
        try:
            for turn in range(12):
                kind = ("disk", "memory")[turn % 2]
                state = f"{self.a.work}/cost-state" if kind == "disk" else memory
                shutil.rmtree(state, ignore_errors=True)
                os.makedirs(state, 0o700)
                subprocess.run(["sync"])        # a new place each time: after a mass delete ext4 is slow for minutes
                begin = time.monotonic()
                done = subprocess.run([self.syncagent, "pull", f"{self.a.url}/large/manifest.json", "--into", self.into(f"cost{turn}"), "--quiet"],
                                      env=dict(os.environ, XDG_STATE_HOME=state), stdin=subprocess.DEVNULL)
                took = time.monotonic() - begin
                if done.returncode:
                    sys.exit(f"exit {done.returncode}")
                if turn > 1:        # the first of each warms up
                    times[kind].append(took)
        finally:
            shutil.rmtree(memory, ignore_errors=True)
        disk, ram = statistics.median(times["disk"]), statistics.median(times["memory"])
        for kind, list_ in times.items():
            print(f"state {'on the ' if kind == 'disk' else 'in '}{kind}: " + " ".join(f"{t:.2f}" for t in sorted(list_)))
        print(f"fresh pull of 20,000 files: median {disk:.2f} s with the state on the disk, {ram:.2f} s with it in memory: "
              f"{(disk / ram - 1) * 100:+.1f} %")
        self.hold("at most 10 %", disk <= ram * 1.1)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("part")
for option in ("site", "url", "log", "work"):
    parser.add_argument(f"--{option}", required=True)
arguments = parser.parse_args()
parts = Parts(arguments)
print(f"\n{arguments.part}:", flush=True)
try:
    getattr(parts, "store_cost" if arguments.part == "store" else arguments.part)()
finally:
    if parts.agent and parts.agent.poll() is None:
        parts.agent.kill()
for line in parts.broken:
    print(f"BROKEN: {line}")
sys.exit(1 if parts.broken else 0)
