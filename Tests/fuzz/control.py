"""A running agent, and wrong requests on its socket."""

import json
import os
import signal
import socket
import subprocess
import time

import sets
from mutations import TEXTS, json_text, of_bytes, of_json

LIFE = 200  # Requests to one agent, then it must stop as asked.


class Agent:
    def __init__(self, program, directory, fixtures):
        self.directory, self.asked = directory, 0
        fixtures.copy("plain", directory)
        self.socket = os.path.join(directory, sets.STATE, "agent.sock")
        self.log = open(os.path.join(directory, "agent.out"), "wb")
        self.process = subprocess.Popen([program, "agent", "run"], cwd=directory, stdin=subprocess.DEVNULL,
                                        env=sets.environment(os.path.join(directory, "home")),
                                        stdout=self.log, stderr=self.log)
        end = time.monotonic() + 10
        while not self.answers() and time.monotonic() < end and self.process.poll() is None:
            time.sleep(0.02)

    def send(self, data, patience=10):
        """What comes back: bytes, or None for nothing within `patience`, or when there is no agent."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(patience)
            try:
                client.connect(self.socket)
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                found = b""
                while len(found) < 1 << 20:
                    more = client.recv(65536)
                    if not more:
                        break
                    found += more
                return found
            except socket.timeout:
                return None
            except OSError:
                return b""

    def answers(self):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            try:
                client.connect(self.socket)
                client.sendall(b"GET /v1/agent HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                return client.recv(4096).startswith(b"HTTP/1.1 200")
            except OSError:
                return False

    def peak(self):
        """Most memory so far, in bytes. proc_pid_status(5)"""
        try:
            with open(f"/proc/{self.process.pid}/status") as file:
                return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
        except (OSError, StopIteration):
            return 0

    def stop(self):
        """Its exit status, negative for a signal; None when it does not stop."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self.log.close()


def request(random, directory):
    """Bytes of a request, nearly right."""
    name = random.choice([sets.PROJECT, "x", "%00", "..", "%2e%2e", "a%2fb", "k" * 300, "é", "%", ""])
    routes = [("GET", "/v1/agent"), ("GET", "/v1/sessions"), ("GET", f"/v1/sessions/{name}"), ("GET", "/v1/metrics"),
              ("DELETE", f"/v1/sessions/{name}?files={random.choice('01x')}"), ("POST", f"/v1/sessions/{name}/pause"),
              ("POST", f"/v1/sessions/{name}/resume"), ("POST", f"/v1/sessions/{name}/cancel"),
              ("POST", f"/v1/sessions/{name}/prioritize"), ("GET", f"/v1/sessions/{name}/tasks"),
              ("GET", f"/v1/sessions/{name}/events?since={random.choice(['0', '-1', '9' * 30, 'x'])}"),
              ("GET", f"/v1/hooks?session={name}"), ("POST", f"/v1/hooks/{random.choice(['1', '-1', '9' * 30])}/replay")]
    body = b""
    if random.randrange(2):
        method, path = "POST", "/v1/runs"
        document = {
            "manifest": os.path.join(directory, "site/manifest.json"), "destination": os.path.join(directory, "dest"),
            "session": random.choice([sets.PROJECT, "other"]), "groups": ["docs"], "connections": 4, "limit_rate": 1000,
            "prune": True, "force": False, "not_before": "2026-11-20T02:00:00.000Z", "deadline_seconds": 60,
            "paused": random.randrange(2) == 0, "origin": "interactive", "label": "text",
            "hooks": [{"arguments": ["/bin/true"], "group": "all", "timeout": 5, "results": ["ok"], "batch": 3}],
            "conditions": {"power": True, "metered_budget": 0, "maximum_load": 1, "idle_seconds": 3, "free_space": 1,
                           "window": {"start_minute": 1, "length_minutes": 5, "time_zone": "Etc/UTC"},
                           "rates": [{"window": {"start_minute": 0, "length_minutes": 9}, "limit": 5}],
                           "plugins": ["power"]}}
        for key in random.sample(sorted(document), random.randrange(12)):
            if key not in ("manifest", "destination"):
                del document[key]

        def hostile(container, key):
            if key in ("manifest", "destination"):
                return random.choice([directory + "/\u0000x", "/tmp/\u0000x", "relative", directory + "/canary/secret",
                                      "file:///etc/passwd", "http://127.0.0.1:1/", "http://\u0000/", "k" * 9000])
            return None

        of_json(random, document, hostile)
        body = json_text(random, document)
    else:
        method, path = random.choice(routes)
        if method == "POST":
            body = json_text(random, random.choice([{}, {"paths": random.choices(TEXTS, k=3)}, {"mode": "x"}, [], 1]))
    if path == "/v1/runs" and random.randrange(3) == 0:
        # Not where the destination stands: bytes changed there would be another one.
        at = max(body.find(directory.encode() + b"/dest") + len(directory) + 6, 0)
        body = body[:at] + of_bytes(random, body[at:])
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    data = head.encode("utf-8")
    kind = random.randrange(10)
    if kind == 0:
        data = of_bytes(random, data)
    elif kind == 1:
        data = data[:random.randrange(len(data))]
    elif kind == 2:
        data = data.replace(b"Content-Length: ", random.choice([b"Content-Length: 9", b"Transfer-Encoding: chunked\r\nX: ",
                                                                 b"Content-Length: -", b"Content-Length: 99999999999"]))
    elif kind == 3:
        data = data.replace(b"\r\n\r\n", b"\r\n" + b"X: y\r\n" * random.choice([1, 2000, 50000]) + b"\r\n")
    return data + body


def ask(agent, random):
    """One case. Complaints, each with the word of the summary it counts for."""
    agent.asked += 1
    data = request(random, agent.directory)
    # A server that cannot be reached is asked for 30 s before the answer says so.
    answer = agent.send(data, 45 if b"http" in data.partition(b"\r\n\r\n")[2] else 10)
    complaints = []
    if answer and not answer.startswith(b"HTTP/1.1 "):
        complaints.append(("wrong bytes", f"an answer that is not HTTP: {answer[:80]!r}"))
    for part in (answer or b"").split(b"\r\n\r\n")[1:]:
        try:
            error = json.loads(part).get("error", {})
        except (ValueError, AttributeError):
            continue
        if isinstance(error, dict) and error.get("code") == "internal":
            complaints.append(("exit-1", f"an internal error: {error.get('message')}"))
    if answer is None:
        complaints.append(("hangs", "no answer in time"))
    if not agent.answers():
        complaints.append(("hangs" if agent.process.poll() is None else "signals", "the agent answers no more"))
    return complaints
