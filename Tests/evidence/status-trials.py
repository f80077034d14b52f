#!/usr/bin/env python3
"""The trials of status-kills.sh; started by it, which says what is checked."""
import argparse, hashlib, http.server, json, os, random, shutil, signal, socketserver, subprocess, sys, threading, time
from datetime import datetime

CANARY = "canary-signature"


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

    def handle_error(self, *_):
        """A client that was killed is no news."""


class Origin(http.server.BaseHTTPRequestHandler):
    """Files of the site; packs are redirected to the other port, where they are slow and break off now and then."""
    protocol_version = "HTTP/1.1"
    site, edge, redirects, random, rate = "", 0, 0, random.Random(1), 2 << 20
    lock = threading.Lock()

    def do_GET(self):
        path = self.path.split("?")[0]
        if self.server.server_port != Origin.edge and path.startswith("/packs/"):
            with Origin.lock:
                Origin.redirects += 1
            self.answer(302, b"", {"Location": f"http://127.0.0.1:{Origin.edge}{path}?X={CANARY}&Expires={int(time.time()) + 3600}"})
            return
        try:
            with open(Origin.site + path, "rb") as file:
                data = file.read()
        except OSError:
            self.answer(404, b"")
            return
        first, last = 0, len(data) - 1
        status, fields = 200, {"ETag": '"%s"' % hashlib.md5(data).hexdigest(), "Accept-Ranges": "bytes"}
        if self.headers.get("Range", "").startswith("bytes="):
            start, _, end = self.headers["Range"][6:].partition("-")
            first, last = int(start), min(int(end) if end else last, last)
            status, fields["Content-Range"] = 206, f"bytes {first}-{last}/{len(data)}"
        self.answer(status, data[first:last + 1], fields, slow=self.server.server_port == Origin.edge)

    def answer(self, status, body, fields={}, slow=False):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        breaks = slow and Origin.random.random() < 0.1
        size = 64 << 10
        for at in range(0, len(body), size):
            try:
                self.wfile.write(body[at:at + size])
            except OSError:
                self.close_connection = True
                return
            if slow:
                time.sleep(size / Origin.rate)
            if breaks and at > len(body) // 2:
                self.close_connection = True
                self.connection.close()
                return

    def log_message(self, *_):
        pass


class Trials:
    def __init__(self, a):
        self.a, self.violations = a, []
        self.random = random.Random(a.seed)
        self.syncagent = os.environ["SYNCAGENT"]
        self.state = f"{a.work}/state"
        with open(f"{a.site}/manifest.json") as file:
            self.files = {e["path"]: e for e in json.load(file)["files"]}
        self.environment = dict(os.environ, XDG_STATE_HOME=self.state, XDG_CONFIG_HOME=f"{a.work}/config")

    def ask(self, *arguments):
        found = subprocess.run([self.syncagent, *arguments, "--json"], env=self.environment, capture_output=True, text=True)
        return [json.loads(line) for line in found.stdout.splitlines()] if found.returncode == 0 else []

    def pull(self, name, output):
        command = [self.syncagent, "pull", f"{self.a.url}/manifest.json", "--into", f"{self.a.work}/{name}", "--session", name,
                   "--json", "--connections", "2"]
        with open(output, "wb") as out:
            return subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=self.environment)

    def events(self, output):
        with open(output, errors="replace") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def is_right(self, name, path):
        place, entry = f"{self.a.work}/{name}/{path}", self.files[path]
        try:
            if "link" in entry:
                return os.readlink(place) == entry["link"]
            with open(place, "rb") as file:
                return hashlib.sha256(file.read()).hexdigest() == entry["sha256"]
        except OSError:
            return False

    def complain(self, name, what):
        self.violations.append(f"{name}: {what}")
        print(f"VIOLATION {name}: {what}", flush=True)

    def trial(self, number, whole):
        name, output = f"trial{number}", f"{self.a.work}/events.jsonl"
        process = self.pull(name, output)
        # Half of the moments while bytes flow, the others anywhere.
        time.sleep(self.random.uniform(0, 1.1 * whole))
        killed_at = time.time()
        process.kill()
        process.wait()
        told = self.events(output)
        session = self.ask("status", name)
        if not session:
            if any(e["event"] == "run.started" for e in told):
                self.complain(name, "the run has started, and there is no session")
            states, was_open = {}, False
        else:
            was_open = session[0]["state"] != "idle"
            tasks, requests = self.ask("status", name, "--tasks"), self.ask("status", name, "--requests")
            states = {t["path"]: t["state"] for t in tasks}
            self.look(name, states, requests, session[0], told, killed_at, was_open)
        status = self.pull(name, output).wait()
        after = self.events(output)
        if status != 0:
            self.complain(name, f"the next run ends with {status}")
        brought = {e["path"] for e in after if e["event"] == "task.installed" and e.get("source") == "network"}
        for path, state in states.items():
            if state in ("installed", "unchanged") and path in brought:
                self.complain(name, f"{path} was called {state}, and the next run brings it again")
        now = {t["path"]: t["state"] for t in self.ask("status", name, "--tasks")}
        if set(now) != set(self.files) or not set(now.values()) <= {"installed", "unchanged"}:
            self.complain(name, f"after the next run tasks are {sorted(set(now.values()))}, {len(now)} of {len(self.files)}")
        if self.ask("status", name, "--requests"):
            self.complain(name, "after the end something is on the wire")
        shutil.rmtree(f"{self.a.work}/{name}", ignore_errors=True)
        return states

    def look(self, name, states, requests, session, told, killed_at, was_open):
        for path, state in states.items():
            if state not in ("waiting", "installed", "unchanged"):
                self.complain(name, f"{path} is {state}, and nobody works on it")
            if state in ("installed", "unchanged") and not self.is_right(name, path):
                self.complain(name, f"{path} is called {state}, and is not there")
        if was_open and states and set(states) != set(self.files):
            self.complain(name, f"{len(states)} tasks of {len(self.files)}")
        for request in requests:
            if request["state"] != "waiting":
                self.complain(name, f"a request is {request['state']}, and nobody works on it")
            if "?" in request["original"] + request["current"]:
                self.complain(name, "a query is shown")
        files = session["run"]["files"]
        there = sum(self.is_right(name, path) for path in self.files)
        if files["installed"] + files["unchanged"] + files["reused"] > there:
            self.complain(name, f"{files} are counted, and {there} are there")
        recorded = {(e["event"], e["time"], e.get("path")) for e in self.ask("events", name)}
        for event in told:
            moment = datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()
            if "run" in event and moment < killed_at - 1.5 and (event["event"], event["time"], event.get("path")) not in recorded:
                self.complain(name, f"{event['event']} was told {killed_at - moment:.1f} s before the kill and is not on record")
        for directory, _, names in os.walk(self.state):
            for entry in names:
                with open(os.path.join(directory, entry), "rb") as file:
                    if entry != "links" and CANARY.encode() in file.read():
                        self.complain(name, f"{entry} has a signature")

    def run(self):
        start = time.time()
        if self.pull("whole", f"{self.a.work}/events.jsonl").wait() != 0:
            sys.exit("the set cannot be pulled")
        whole, first = time.time() - start, Origin.redirects
        print(f"seed {self.a.seed}: {self.a.count} kills of a pull of {whole:.1f} s, {len(self.files)} files", flush=True)
        seen = {"waiting": 0, "installed": 0, "unchanged": 0}
        for number in range(self.a.count):
            for state in self.trial(number, whole).values():
                seen[state] = seen.get(state, 0) + 1
        print(f"after the kills tasks were called {seen}; {first} redirects in the first pull, "
              f"{Origin.redirects - first} in the {2 * self.a.count} after it")
        if Origin.redirects - first >= self.a.count:
            self.complain("all", "redirects are not remembered")
        print(f"{len(self.violations)} violations")
        return 1 if self.violations else 0


parser = argparse.ArgumentParser()
parser.add_argument("--site", required=True)
parser.add_argument("--work", required=True)
parser.add_argument("--count", type=int, default=200)
parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
a = parser.parse_args()
Origin.site = a.site
servers = [Server(("127.0.0.1", 0), Origin) for _ in range(2)]
Origin.edge = servers[1].server_port
for server in servers:
    threading.Thread(target=server.serve_forever, daemon=True).start()
a.url = f"http://127.0.0.1:{servers[0].server_port}"
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
sys.exit(Trials(a).run())
