"""What the attacks of holes.sh share: a place of its own for each, the program, servers, manifests."""

import functools
import hashlib
import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time

STRANGER = 4242  # A user that nobody is.
PUBLIC = "203.0.113.1"  # A public address (RFC 5737), which is this machine in holes.sh's namespace.
ATTACKS = []


class NotShown(Exception):
    """This machine cannot show it."""


def attack(item, words):
    """Puts a function on the list. It gets a `Place`, and returns what went wrong, or None."""
    def register(function):
        ATTACKS.append((item, words, function))
        return function
    return register


def sha(data):
    return hashlib.sha256(data).hexdigest()


def zstd_bomb(blocks, window=27, byte=0x20):
    """A zstd frame (RFC 8878) of `blocks` times 128 KiB of one byte, with a window of 2^window bytes."""
    parts = [b"\x28\xb5\x2f\xfd\x00", bytes([(window - 10) << 3])]
    for number in range(blocks):
        parts.append((131072 << 3 | 1 << 1 | (number == blocks - 1)).to_bytes(3, "little") + bytes([byte]))
    return b"".join(parts)


def until(condition, seconds):
    """Waits for a condition; whether it came."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Done:
    def __init__(self, status, out, said, seconds, mib):
        self.status, self.out, self.said, self.seconds, self.mib = status, out, said, seconds, mib

    @property
    def lacks_option(self):
        return self.status == 64 and "Unknown option" in self.said

    def __str__(self):
        if self.status is None:
            return f"not over after {self.seconds:.0f} s"
        last = (self.said.strip() or self.out.strip()).splitlines()[-1:]
        return f"exit {self.status}" + (f" ({last[0][:160]})" if last else "")


class Running:
    """A program that goes on while others do something."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    @property
    def pid(self):
        return self.process.pid

    def status_line(self, field):
        """A number in KiB of proc_pid_status(5), in MiB."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith(field + ":"))

    def has_worked(self, seconds):
        """Whether it has used so much of a processor. proc_pid_stat(5)"""
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > seconds

    def ends(self, number, within):
        """Sends a signal. Exit status (negative: by a signal; None: not within so many seconds), and how long it took."""
        start = time.monotonic()
        self.process.send_signal(number)
        try:
            return self.process.wait(within), time.monotonic() - start
        except subprocess.TimeoutExpired:
            return None, within

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, headers=(), body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        self.server.hits.append((self.path, dict(self.headers.items())))
        try:
            self.server.reply(self)
        except OSError:
            pass

    do_HEAD = do_POST = do_GET

    def file(self, directory):
        """A file with validator and range, as static servers answer."""
        try:
            with open(os.path.join(directory, self.path.partition("?")[0].lstrip("/")), "rb") as file:
                data = file.read()
        except OSError:
            return self.answer(404)
        tag = f'"{sha(data)[:16]}"'
        if self.headers.get("If-None-Match") == tag:
            return self.answer(304, [("ETag", tag)])
        wanted = self.headers.get("Range", "")
        if not wanted.startswith("bytes="):
            return self.answer(200, [("ETag", tag)], data)
        first, _, last = wanted[6:].partition("-")
        first, last = int(first), min(int(last or len(data)), len(data) - 1)
        span = ("Content-Range", f"bytes {first}-{last}/{len(data)}")
        return self.answer(206, [("ETag", tag), span], data[first:last + 1])


class Place:
    """A directory with a home, a server's root and a destination, and whatever runs there."""

    def __init__(self, program, root):
        self.program, self.root, self.closing = program, root, []
        for name in ("home", "site", "outside"):
            os.makedirs(self.path(name))
        os.chmod(self.path("home"), 0o700)
        self.write(b"untouched", "outside/file")

    def close(self):
        for close in reversed(self.closing):
            close()
        subprocess.run(["rm", "-rf", "--", self.root], check=False)

    def path(self, *names):
        return os.path.join(self.root, *names)

    def write(self, data, name, mode=0o644):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        os.chmod(path, mode)
        return path

    def sparse(self, name, size, head=b""):
        path = self.write(head, name)
        os.truncate(path, size)
        return path

    def read(self, name):
        try:
            with open(self.path(name), "rb") as file:
                return file.read(1 << 20)
        except OSError:
            return None

    def outside_is(self):
        """What is wrong with the directory that nobody may touch."""
        if os.listdir(self.path("outside")) != ["file"]:
            return f"outside of the destination now stand {', '.join(sorted(os.listdir(self.path('outside'))))}"
        if self.read("outside/file") != b"untouched":
            return "a file outside of the destination was written to"
        return None

    # MARK: Manifests

    def manifest(self, files, name="site/manifest.json", key="files", **more):
        document = {"format": "syncagent-manifest/1", "project": "holes", **more}
        document[key] = files
        return self.write(json.dumps(document), name)

    def entry(self, path, data, url=None):
        """A file of the site, and its entry."""
        url = url or path
        if "://" not in url:
            self.write(data, os.path.join("site", url))
        return {"path": path, "size": len(data), "sha256": sha(data), "urls": [url]}

    def publish(self, files):
        for name, data in files.items():
            self.write(data, os.path.join("source", name))
        done = self.run("publish", "source", "--to", "site", "--project", "holes", "--quiet")
        assert done.status == 0, done
        return "site/manifest.json"

    def state(self, *names):
        return self.path("home/.local/state/syncagent", *names)

    def own(self, *names):
        """A path in the destination's .syncagent, with its directories."""
        path = self.path("dest/.syncagent", *names)
        directory = os.path.dirname(path)
        while not os.path.isdir(directory):
            os.makedirs(directory, exist_ok=True)
        for base in (self.path("dest/.syncagent"), directory):
            if os.path.isdir(base):
                os.chmod(base, 0o700)
        return path

    # MARK: The program

    def environment(self, home=None):
        return {"HOME": home or self.path("home"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                "SWIFT_BACKTRACE": "enable=no"}

    def run(self, *arguments, seconds=20, user=None, home=None, wrap=(), **variables):
        start = time.monotonic()
        with open(self.path("out"), "wb+") as out, open(self.path("said"), "wb+") as said:
            process = subprocess.Popen([*wrap, self.program, *arguments], cwd=self.root, stdin=subprocess.DEVNULL,
                                       stdout=out, stderr=said, env=dict(self.environment(home), **variables),
                                       start_new_session=True, user=user, group=user,
                                       extra_groups=None if user is None else [])
            status = usage = None
            while usage is None and time.monotonic() - start < seconds:
                ended, code, usage_now = os.wait4(process.pid, os.WNOHANG)
                if ended:
                    status, usage = os.waitstatus_to_exitcode(code), usage_now
                else:
                    time.sleep(0.005)
            if usage is None:
                os.killpg(process.pid, signal.SIGKILL)
                usage = os.wait4(process.pid, 0)[2]
            process.returncode = 0  # It has been waited for.
            seconds = time.monotonic() - start
            out.seek(0)
            said.seek(0)
            return Done(status, out.read(1 << 20).decode(errors="replace"), said.read(1 << 20).decode(errors="replace"),
                        seconds, usage.ru_maxrss / 1024)

    def start(self, *arguments, home=None, wrap=()):
        log = open(self.path(f"log{len(self.closing)}"), "wb+")
        process = subprocess.Popen([*wrap, self.program, *arguments], cwd=self.root, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=log, env=self.environment(home), start_new_session=True)
        running = Running(process, log)
        self.closing.append(running.close)
        return running

    def pull(self, *more, manifest="site/manifest.json", **options):
        return self.run("pull", manifest, "--into", "dest", *more, **options)

    def agent(self):
        """An agent that runs, and a function that sends bytes to its socket and gives the answer."""
        running = self.start("agent", "run")
        socket_path = self.state("agent.sock")
        assert until(lambda: os.path.exists(socket_path), 10), "no agent"
        return running, functools.partial(self.send, socket_path)

    @staticmethod
    def send(path, data, seconds=10):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(seconds)
            try:
                client.connect(path)
                client.sendall(data)
                found = b""
                while more := client.recv(65536):
                    found += more
                return found
            except OSError:
                return None

    # MARK: Others

    def server(self, reply=None, address="127.0.0.1", port=0, certificate=None):
        """An HTTP server. `reply` gets the handler; without it the site's files are served. It knows what it got: `hits`."""
        try:
            server = http.server.ThreadingHTTPServer((address, port), Handler)
        except OSError as error:
            raise NotShown(f"no server at {address} here ({error.strerror})") from error
        server.daemon_threads, server.hits = True, []
        server.reply = reply or (lambda handler: handler.file(self.path("site")))
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket, scheme = context.wrap_socket(server.socket, server_side=True), "https"
        server.url = f"{scheme}://{address}:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.closing += [server.server_close, server.shutdown]
        return server

    def certificate(self, address):
        path = self.path("tls.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=holes",
                        "-addext", f"subjectAltName=IP:{address}", "-keyout", path + ".key", "-out", path + ".crt"],
                       check=True, capture_output=True)
        with open(path, "wb") as file:
            for part in (".key", ".crt"):
                with open(path + part, "rb") as opened:
                    shutil.copyfileobj(opened, file)
        return path

    def plugin(self, name, point, body):
        """A plugin in Python. `body` defines answer(method, params)."""
        return self.write(f"""#!/usr/bin/python3
import json, os, sys
{body}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "initialize":
        result = {{"protocol": 1, "name": "{name}", "version": "1", "points": ["{point}"]}}
    else:
        result = None if message["method"] == "shutdown" else answer(message["method"], message["params"])
    print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], "result": result}}), flush=True)
""", f"home/.config/syncagent/plugins/syncagent-plugin-{name}", 0o755)

    def configure(self, text):
        self.write(text, "home/.config/syncagent/config.json", 0o600)
        for name in ("home/.config", "home/.config/syncagent"):
            os.chmod(self.path(name), 0o700)

    def hook(self, name, script):
        return self.write("#!/bin/sh\n" + script, name, 0o755)


def needs_root():
    """Two users, and files to give away."""
    if os.geteuid() != 0:
        raise NotShown("only root can be two users")
    with open("/proc/self/uid_map") as file:
        if int(file.read().split()[2]) <= STRANGER:
            raise NotShown("only root can be two users, and this one is root in its namespace alone")
