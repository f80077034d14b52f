"""An agent and its clients, looked at from outside; shared by crash-trials.py and agent-trials.py."""
import http.client, json, os, signal, socket, sqlite3, subprocess, sys, time

PATIENCE = 60           # seconds until something that should come to rest is reported as stuck
OPEN = ("waiting", "running", "paused")


class Store:
    """Looks at the state beside the agent; no code of syncagent."""

    def __init__(self, path):
        self.path = path

    def rows(self, sql, *arguments):
        try:
            db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10)
            try:
                db.row_factory = sqlite3.Row
                return [dict(row) for row in db.execute(sql, arguments)]
            finally:
                db.close()
        except sqlite3.OperationalError as error:
            if "unable to open" in str(error) or "no such table" in str(error):
                return []
            raise

    def runs(self):
        return self.rows("SELECT number, identifier AS id, session, manifest, state, reason, result, losses FROM runs ORDER BY number")

    def hooks(self):
        return self.rows("SELECT id, run, state, attempt, ended FROM hooks")

    def groups(self, run):
        return self.rows("SELECT name, state FROM groups WHERE run = ?", run)

    def rest(self):
        """None while anything may still move by itself; else whether something is paused."""
        open_runs = [r for r in self.runs() if r["state"] in OPEN]
        paused = {r["id"] for r in open_runs if r["state"] == "paused"}
        owed = [h for h in self.hooks() if h["state"] in ("pending", "running")]
        if len(paused) == len(open_runs) and all(h["run"] in paused for h in owed):
            return "paused" if paused else "idle"
        return None


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Place:
    """One user's state, and the agent that works on it."""

    def __init__(self, work):
        self.syncagent = os.environ["SYNCAGENT"]
        self.work = work
        self.state = os.environ["XDG_STATE_HOME"] + "/syncagent"
        self.runtime = os.environ["XDG_RUNTIME_DIR"] + "/syncagent"
        self.socket = self.runtime + "/agent.sock"
        self.store = Store(self.state + "/syncagent.sqlite")
        self.agent = None
        self.foreign = 0        # agents killed that a client had started

    def start_agent(self, *arguments, wrapper=()):
        log = open(f"{self.work}/agent.log", "ab")
        self.agent = subprocess.Popen([*wrapper, self.syncagent, "agent", "run", *arguments], stdin=subprocess.DEVNULL,
                                      stdout=log, stderr=log, start_new_session=True)
        log.close()

    def wait_agent(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with socket.socket(socket.AF_UNIX) as s:
                try:
                    s.connect(self.socket)
                    return
                except OSError:
                    if self.agent.poll() is not None:
                        self.start_agent()
                    time.sleep(0.01)
        sys.exit("the agent does not answer")

    def kill_agent(self):
        """SIGKILL for whoever is the agent now: the one started here, or one that a client started meanwhile."""
        self.agent.kill()
        self.agent.wait()
        try:
            with open(self.state + "/agent.lock") as file:
                other = int(file.read().split()[0])
            with open(f"/proc/{other}/cmdline") as file:
                if "agent\0run" not in file.read():
                    return
            self.foreign += 1
            os.kill(other, signal.SIGKILL)
            # Until its locks are free: the kernel closes files before it calls a process a zombie.
            while self.stat_of(other) not in ("Z", "X"):
                time.sleep(0.001)
        except (OSError, ValueError, IndexError):
            pass        # there is none, or it has gone

    @staticmethod
    def stat_of(process):
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0]

    def client(self, *arguments, **options):
        return subprocess.Popen([self.syncagent, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **options)

    def ask(self, *arguments):
        """A command to its end: (exit status, last JSON line or None, standard error)."""
        process = self.client(*arguments)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            err += f"\n(not ended after {PATIENCE} s)"
        lines = [line for line in out.splitlines() if line.startswith("{")]
        return process.returncode, json.loads(lines[-1]) if lines else None, err

    def request(self, connection, method, target, body=None):
        """One request on the socket: (status, JSON or None)."""
        connection.request(method, target, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else None

    def until_rest(self):
        """`idle`, `paused`, or `stuck`."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if rest := self.store.rest():
                return rest
            time.sleep(0.005)
        return "stuck"

    def doctor(self):
        """What `doctor --strict` finds wrong, in a list."""
        done = subprocess.run([self.syncagent, "doctor", "--strict"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return [f"doctor --strict: exit {done.returncode}: {(done.stdout + done.stderr).strip()[-600:]}"] if done.returncode else []


class Story:
    """The order of events (S29 to S31) and their numbers, without the checker of syncagent."""

    def __init__(self):
        self.sequence, self.runs = 0, {}

    def take(self, event):
        """What is wrong about the next event; None when nothing is."""
        wrong = None
        if "seq" in event:
            if event["seq"] != self.sequence + 1:
                wrong = f"event {event['seq']} after {self.sequence}"
            self.sequence = event["seq"]
        name = event["event"]
        run = self.runs.setdefault(event.get("run", ""), dict(installed=set(), groups=set(), attempt=0, finished=False))
        broken = False
        if name == "task.installed":
            broken = event["path"] in run["installed"] or "all" in run["groups"]
            run["installed"].add(event["path"])
        elif name == "group.completed":
            broken = event["group"] in run["groups"]
            run["groups"].add(event["group"])
        elif name == "hook.started":
            broken = event["group"] not in run["groups"] or event["attempt"] <= run["attempt"]
            run["attempt"] = event["attempt"]
        elif name in ("pull.finished", "run.started"):
            broken = run["finished"]
            run["finished"] = run["finished"] or name == "pull.finished"
        return wrong or (f"order: {json.dumps(event)[:200]}" if broken else None)
