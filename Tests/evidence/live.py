#!/usr/bin/env python3
"""A day of pulls against an origin that is slow, redirects, falls silent, breaks off and dies: what the screen of a
pseudo-terminal, the JSON lines and the state say meanwhile, and how long it takes to end.

usage: live.py PROGRAM [--short] [CLAIM...]

Each claim prints a line: its name, "held" or "FAILED", and what was measured. Exit status: 0 all held, 1 one did not.
"""
import fcntl, hashlib, http.server, json, os, pty, random, re, select, shutil, signal, socket, struct
import subprocess, sys, tempfile, termios, threading, time, urllib.parse

SMALL = 41


class Origin(http.server.ThreadingHTTPServer):
    """Serves a hand-written manifest, 41 files of 30 kB and one of 6 MB, in the way that ``mode`` says."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        noise = random.Random(42)
        self.objects = {"small%02d.bin" % n: noise.randbytes(30_000) for n in range(SMALL)}
        self.objects["huge.bin"] = noise.randbytes(6_000_000)
        self.altered = {}  # what is served in place of an object that the manifest has right
        self.mode, self.rate, self.stall = "right", None, None
        self.requests, self.seen, self.lock = 0, {}, threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self, path):
        return "http://127.0.0.1:%d/%s" % (self.server_address[1], path)

    def handle_error(self, request, address):
        pass

    def manifest(self, only, project):
        files = [
            {"path": name, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "urls": ["o/" + urllib.parse.quote(name)]}
            for name, data in sorted(self.objects.items()) if only in name
        ]
        return json.dumps({"format": "syncagent-manifest/1", "project": project, "files": files}).encode()

    def count(self, path):
        with self.lock:
            self.requests += 1
            self.seen[path] = self.seen.get(path, 0) + 1
            return self.seen[path]

    def fresh(self, mode="right", rate=None, stall=None):
        with self.lock:
            self.mode, self.rate, self.stall, self.requests, self.seen = mode, rate, stall, 0, {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", *headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        origin, path = self.server, self.path.lstrip("/")
        nth = origin.count(path)
        if origin.mode == "silent":
            time.sleep(60)
            return
        if origin.mode == "broken":
            return self.answer(500)
        if origin.mode == "gone":
            return self.answer(404)
        if origin.mode == "later forever":
            return self.answer(503, b"", ("Retry-After", "30"))
        if path.endswith(".json"):  # PROJECT-PART.json
            project, only = path[:-5].split("-")
            return self.answer(200, origin.manifest(only, project))
        if path.startswith("o/") and origin.mode == "redirect":
            return self.answer(302, b"", ("Location", origin.url("cdn/" + path[2:])))
        name = urllib.parse.unquote(path.split("/")[-1])
        data = origin.altered.get(name, origin.objects.get(name))
        if data is None:
            return self.answer(404)
        if origin.mode == "login":
            return self.answer(200, b"<html>Please log in</html>", ("Content-Type", "text/html"))
        if origin.mode == "later" and nth <= 2:
            return self.answer(429, b"", ("Retry-After", "1"))
        self.body(origin, data, 10_000 if origin.mode == "breaks" and nth <= 2 else None)

    def body(self, origin, data, cut):
        first, total = 0, len(data)
        asked = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            first = int(asked[1])
            data = data[first : int(asked[2]) + 1 if asked[2] else None]
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (first, first + len(data) - 1, total))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if cut:
            self.wfile.write(data[:cut])
            self.close_connection = True
            return
        step = 20_000
        for place in range(0, len(data), step):
            if origin.stall and place >= len(data) // 3:
                time.sleep(max(0, origin.stall - time.time()))
            self.wfile.write(data[place : place + step])
            if origin.rate:
                time.sleep(step / origin.rate)


class Screen:
    """A program at a pseudo-terminal; what it draws, with the time of each piece."""

    def __init__(self, day, *arguments, width=110, **variables):
        self.pieces, self.start = [], time.time()
        self.process, self.terminal = None, None
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        environment = dict(day.environment, **dict({"TERM": "xterm", "LANG": "C.UTF-8"}, **variables))
        self.process = subprocess.Popen(
            [day.program, *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=day.root,
            start_new_session=True)
        os.close(slave)
        self.terminal = master

    def until(self, text=None, limit=60):
        """Reads until `text` is drawn, or the program has ended."""
        end = time.time() + limit
        while time.time() < end:
            if not select.select([self.terminal], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                data = b""
            if not data:
                self.process.wait()
                break
            self.pieces.append((time.time() - self.start, data.decode("utf-8", "replace")))
            if text and text in self.text:
                return self
        else:
            self.process.kill()
            self.process.wait()
        self.took = time.time() - self.start
        return self

    @property
    def text(self):
        return "".join(piece for _, piece in self.pieces)

    @property
    def frames(self):
        """What stood on the progress line, with the times."""
        return [(at, re.sub(r"\x1b\[[0-9;]*[mK]", "", line)) for at, piece in self.pieces
                for line in re.split(r"[\r\n]+", piece) if "Fetching" in line or " % " in line or "no data" in line]


class Day:
    def __init__(self, program):
        # What was started in the background by a shell ignores SIGINT, and hands that on to the programs that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self.program = os.path.abspath(program)
        self.root = tempfile.mkdtemp(prefix="live")
        for name in ["state", "config", "run"]:
            os.mkdir(os.path.join(self.root, name), 0o700)
        self.environment = dict(
            os.environ, HOME=self.root, XDG_STATE_HOME=self.root + "/state", XDG_CONFIG_HOME=self.root + "/config",
            XDG_RUNTIME_DIR=self.root + "/run")
        for name in ["NO_COLOR", "LC_ALL", "http_proxy", "https_proxy"]:
            self.environment.pop(name, None)
        self.origin = Origin()
        self.number = 0

    def where(self):
        """A project and a destination that nobody has used."""
        self.number += 1
        return "p%d" % self.number

    def run(self, *arguments, limit=90, **variables):
        start = time.time()
        done = subprocess.run([self.program, *arguments], env=dict(self.environment, **variables), cwd=self.root,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit)
        done.took = time.time() - start
        done.err = done.stderr.decode()
        done.events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
        return done

    def pull(self, part, *arguments, **more):
        project = self.where()
        return self.run("pull", self.origin.url("%s-%s.json" % (project, part)), "--into", project, *arguments, **more)

    def screen(self, part, *arguments, **more):
        project = self.where()
        url = self.origin.url("%s-%s.json" % (project, part))
        return Screen(self, "pull", url, "--into", project, *arguments, **more)

    def close(self):
        self.run("agent", "stop")
        self.origin.shutdown()
        shutil.rmtree(self.root, ignore_errors=True)


CLAIMS = []


def claim(short=False):
    def keep(function):
        CLAIMS.append((function.__name__.replace("_", " "), function, short))
        return function
    return keep


@claim(short=True)
def bytes_count_as_they_come_within_one_file(day):
    day.origin.fresh(rate=1_000_000)
    seen = day.screen("huge").until()
    sizes = [size for _, line in seen.frames for size in re.findall(r"([\d.]+ [KM]iB)/5\.72 MiB", line)]
    times = [at for at, _ in seen.frames]
    gap = max((b - a for a, b in zip(times, times[1:])), default=99)
    distinct = len(set(sizes))
    percents = [int(p) for _, line in seen.frames for p in re.findall(r"(\d+) %", line)]
    good = seen.process.returncode == 0 and distinct >= 5 and percents == sorted(percents) and gap < 1
    return good, "%d different sizes, longest time without a draw %.2f s, %.1f s" % (distinct, gap, seen.took)


@claim()
def the_time_left_neither_swings_nor_grows(day):
    day.origin.fresh(rate=200_000)
    seen = day.screen("huge", "--connections", "1").until()
    left = [(at, int(m or 0) * 60 + int(s or 0)) for at, line in seen.frames for m, s in re.findall(r"ETA (?:(\d+) min ?)?(?:(\d+) s)?", line)]
    ends = [at + rest for at, rest in left if at > 4]  # When it said that it would end.
    spread = (max(ends) - min(ends)) / seen.took if ends else 9
    return spread < 0.35, "it foretold its end between %.0f and %.0f s, and took %.1f s" % (
        min(ends, default=0), max(ends, default=0), seen.took)


@claim()
def silence_is_told_in_place_of_the_rate(day):
    day.origin.fresh(rate=2_000_000, stall=time.time() + 9)
    seen = day.screen("huge", "--connections", "1").until()
    told = [line for _, line in seen.frames if re.search(r"no data for [5-9] s", line)]
    after = [line for _, line in seen.frames if "/s" in line]
    return seen.process.returncode == 0 and bool(told and after), told[0].strip() if told else "nothing told"


@claim(short=True)
def a_dead_server_is_tried_until_a_time_that_is_told(day):
    dead = socket.socket()
    dead.bind(("127.0.0.1", 0))
    url = "http://127.0.0.1:%d/m.json" % dead.getsockname()[1]
    seen = Screen(day, "pull", url, "--into", "dead", width=200).until()
    lines = [line for line in seen.text.splitlines() if "waiting for" in line]
    good = (seen.process.returncode == 69 and len(lines) == 1 and 9.5 < seen.took < 12
            and re.search(r"trying until \d\d:\d\d:\d\d, Ctrl-C stops", lines[0])
            and "nothing came from " + url[:-7] + " for 10 s" in seen.text)
    return bool(good), "exit %d after %.1f s" % (seen.process.returncode, seen.took)


@claim(short=True)
def a_log_in_page_is_told_once_and_ends_within_the_patience(day):
    day.origin.fresh("login")
    done = day.pull("", "--patience", "3s")
    told = [line for line in done.err.splitlines() if "waiting for" in line and "web page" in line]
    good = done.returncode in (2, 69) and len(told) == 1 and done.took < 5
    return good, "exit %d after %.1f s, %d requests, told %d times" % (
        done.returncode, done.took, day.origin.requests, len(told))


@claim(short=True)
def a_log_in_page_is_no_progress(day):
    day.origin.fresh("login")
    seen = day.screen("", "--patience", "9s").until()
    odd = [line for _, line in seen.frames if "ETA" in line or re.search(r"[1-9]\d* %|[1-9][\d.]* [KM]?i?B/\d", line)]
    told = [line for _, line in seen.frames if "no data for" in line]
    good = seen.process.returncode in (2, 69) and told and not odd
    return bool(good), (odd or told or ["nothing told"])[-1].strip()


@claim(short=True)
def files_whose_connections_break_twice_take_ten_seconds_at_most(day):
    day.origin.fresh("breaks")
    done = day.pull("small", "--json")
    good = done.returncode == 0 and done.took <= 10
    return good, "%d files, exit %d, %.1f s, %d requests" % (SMALL, done.returncode, done.took, day.origin.requests)


@claim()
def files_put_off_twice_for_a_second_take_fifteen_at_most(day):
    # One that has broken connections minutes ago would be asked with fewer at a time: that is remembered.
    used, day.origin = day.origin, Origin()
    day.origin.fresh("later")
    done = day.pull("small", "--json")
    day.origin, used = used, day.origin
    used.shutdown()
    good = done.returncode == 0 and done.took <= 15
    return good, "%d files, exit %d, %.1f s, %d requests" % (SMALL, done.returncode, done.took, used.requests)


@claim()
def redirects_cost_one_request_for_a_directory(day):
    day.origin.fresh("redirect")
    done = day.pull("small", "--json")
    moves = sum(event["event"] == "task.redirected" and event["reason"] == "redirect" for event in done.events)
    return done.returncode == 0, "%d requests for %d files, %d redirects told" % (day.origin.requests, SMALL, moves)


def states(day):
    """Where a pull can stand still: what to start, and when it stands."""
    dead = socket.socket()
    dead.bind(("127.0.0.1", 0))
    day.dead = dead
    hook = os.path.join(day.root, "hook")
    with open(hook, "w") as file:
        file.write("#!/bin/sh\nsleep 60\n")
    os.chmod(hook, 0o755)
    yield "dead server", "right", ["http://127.0.0.1:%d/m.json" % dead.getsockname()[1]], {}
    yield "silent server", "silent", [day.origin.url("%s-.json" % day.where())], {}
    yield "Retry-After", "later forever", [day.origin.url("%s-.json" % day.where())], {}
    yield "hook", "right", [day.origin.url("%s-small.json" % day.where()), "--hook", hook], {}
    yield "backoff", "login", [day.origin.url("%s-small.json" % day.where())], {}
    compiler = shutil.which("cc") or shutil.which("clang") or shutil.which("gcc")
    if compiler:
        library, source = os.path.join(day.root, "silent.so"), os.path.join(day.root, "silent.c")
        with open(source, "w") as file:
            file.write("#include <unistd.h>\nint getaddrinfo(void *a, void *b, void *c, void *d)"
                       "{ sleep(60); return -3; }\n")
        if subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, source]).returncode == 0:
            yield "name server", "right", ["http://nowhere.example/m.json"], {"LD_PRELOAD": library}


def ends(day, name, mode, arguments, variables, deadline):
    day.origin.fresh(mode)
    into = os.path.join(day.root, "d-%s-%s" % (name.replace(" ", "-"), deadline))
    command = [day.program, "pull", *arguments, "--into", into, "--session", os.path.basename(into)]
    if deadline:
        command += ["--deadline", "2s"]
    start = time.time()
    child = subprocess.Popen(command, env=dict(day.environment, **variables), cwd=day.root,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not deadline:
        time.sleep(2)
        child.send_signal(signal.SIGTERM)
    try:
        child.wait(30)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    return child.returncode, time.time() - start - 2


@claim(short=True)
def a_deadline_ends_it_within_a_second_in_every_state(day):
    # The time counts from when the work begins: reading the command line, half a second in a debug build, comes on top.
    started = time.time()
    subprocess.run([day.program, "pull", os.path.join(day.root, "nowhere.json"), "--into", os.path.join(day.root, "d-none")],
                   env=day.environment, cwd=day.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    start = time.time() - started
    found = [(name, *ends(day, name, mode, arguments, variables, True))
             for name, mode, arguments, variables in states(day)]
    good = all(status in (2, 5, 69) and late - start < 1 for _, status, late in found)
    return good, "; ".join("%s: %d after %.2f s" % one for one in found) + "; %.2f s of it to start" % start


@claim(short=True)
def a_signal_ends_it_within_a_second_in_every_state(day):
    found = [(name, *ends(day, name, mode, arguments, variables, False))
             for name, mode, arguments, variables in states(day)]
    # While a hook runs everything is in place: the hook is owed.
    good = all(status == (5 if name == "hook" else 143) and late < 1 for name, status, late in found)
    return good, "; ".join("%s: %d after %.2f s" % one for one in found)


@claim(short=True)
def colours_only_where_they_are_wanted(day):
    day.origin.fresh(rate=3_000_000)
    usual = day.screen("huge").until().text
    none = day.screen("huge", NO_COLOR="1").until().text
    colour = re.compile(r"\x1b\[\d+m")
    good = bool(colour.search(usual)) and not colour.search(none) and "\x1b[K" in none
    return good, "with colours: %s, NO_COLOR: %s" % (
        bool(colour.search(usual)), bool(colour.search(none)))


@claim(short=True)
def nothing_but_ascii_where_the_terminal_knows_no_more(day):
    day.origin.fresh(rate=3_000_000)
    name = "stra\u00dfe-\u5e73\u9762-" + "x" * 60 + ".bin"
    day.origin.objects[name] = b"a name that is long and not in ASCII"
    manifest = day.origin.manifest
    project = day.where()
    url = day.origin.url("%s-.json" % project)
    here = os.path.join(day.root, "m.json")
    with open(here, "wb") as file:
        file.write(b'{"format":"syncagent-manifest/1","project":"p","files":[{"path":"a#b","size":1,"sha256":"x"}]}')
    lines = [
        ["pull", url, "--into", project], ["status"], ["status", project], ["status", project, "--tasks"], ["status", project, "--requests"],
        ["report"], ["plan", url, "--into", project + "b", "-v"], ["ls", url], ["verify", url, "--into", project],
        ["pull", here], ["plul"], ["pull", "--nope"], ["schedule"], ["schedule", "add", "--help"], ["pull", "--help"], ["wait", "--help"],
        ["keys", "--help"], ["plugins", "list"], ["doctor"], ["events", project], ["hooks", "list"], ["hooks", "replay", "7"],
        ["publish", "--group", "x"], ["plugins", "check", "webhook"], ["schedule", "list"], ["metrics"],
    ]
    odd = []
    for width in [110, 60]:
        for line in lines:
            text = Screen(day, *line, width=width, LANG="C").until(limit=30).text
            if not text.isascii():
                odd.append(" ".join(line) + " " + repr(re.findall(r".{0,20}[^\x00-\x7f].{0,5}", text)[:2]))
    # Paths are shown whole; tables are cut.
    wide = [line for line in Screen(day, "status", width=60, LANG="C").until(limit=30).text.splitlines() if len(line) > 60]
    usual = Screen(day, "status", project, "--tasks", width=200).until(limit=30).text
    del day.origin.objects[name]
    day.origin.manifest = manifest
    return not odd and not wide and "stra\u00dfe" in usual, "%d commands at two widths; not ASCII: %s; too wide: %s" % (
        len(lines), odd or "none", wide or "none")


@claim(short=True)
def whoever_attaches_to_a_pull_in_the_foreground_sees_it_move(day):
    day.origin.fresh(rate=600_000)
    project = day.where()
    child = subprocess.Popen([day.program, "pull", day.origin.url(project + "-huge.json"), "--into", project, "--quiet",
                              "--connections", "1"], env=day.environment, cwd=day.root, stderr=subprocess.DEVNULL)
    time.sleep(2)
    attached = Screen(day, "attach", project)
    attached.until("huge.bin: ", limit=15)
    attached.until(limit=30)
    child.wait()
    percents = {int(p) for _, line in attached.frames for p in re.findall(r"(\d+) %", line)}
    good = attached.process.returncode == 0 and len(percents) >= 4 and "huge.bin: " in attached.text
    return good, "%d different percents, ended with %s" % (len(percents), attached.process.returncode)


REQUEST = {"transfer", "tasks", "original", "current", "hops", "range", "received", "rate", "source", "state", "since", "attempt"}


@claim(short=True)
def requests_and_tasks_are_spelt_as_promised(day):
    day.origin.fresh("redirect", rate=200_000)
    project = day.where()
    child = subprocess.Popen([day.program, "pull", day.origin.url(project + "-.json"), "--into", project, "--quiet"],
                             env=day.environment, cwd=day.root, stderr=subprocess.DEVNULL)
    end, requests = time.time() + 15, []
    while time.time() < end and not any(r["received"] for r in requests):
        requests = day.run("status", project, "--requests", "--json").events
    tasks = day.run("status", project, "--tasks", "--json").events
    child.kill()
    child.wait()
    lacking = [REQUEST - set(r) for r in requests if REQUEST - set(r) or not ("path" in r or "object" in r)]
    states = {r["state"] for r in requests} | {t["state"] for t in tasks}
    hops = {tuple(sorted(hop)) for r in requests for hop in r["hops"]}
    queries = any("?" in r["current"] + r["original"] for r in requests)
    known = {"queued", "resolving", "connecting", "receiving", "stalled", "waiting", "running", "installed"}
    good = (requests and not lacking and not queries and states <= known and hops == {("from", "reason", "to")}
            and all({"path", "sha256", "size", "state"} <= set(t) for t in tasks)
            and {t.get("transfer") for t in tasks} >= {r["transfer"] for r in requests})
    return bool(good), "%d requests, %d tasks, states %s, lacking %s" % (len(requests), len(tasks), sorted(states), lacking)


@claim(short=True)
def how_sources_stand_is_on_disk_within_a_second_and_outlives_kill_9(day):
    day.origin.fresh(rate=300_000)
    bad, project = Origin(), day.where()
    bad.fresh("broken")  # What it does not have would say nothing about it.
    data = {name: body for name, body in day.origin.objects.items() if name != "huge.bin"}
    files = [{"path": n, "size": len(b), "sha256": hashlib.sha256(b).hexdigest(), "urls": [bad.url("o/" + n), day.origin.url("o/" + n)]}
             for n, b in sorted(data.items())]
    with open(os.path.join(day.root, "two.json"), "w") as file:
        json.dump({"format": "syncagent-manifest/1", "project": project, "files": files}, file)
    pull = ["pull", "two.json", "--into", project, "--connections", "2"]
    path = os.path.join(day.root, "state/syncagent/sources")
    child = subprocess.Popen([day.program, *pull], env=day.environment, cwd=day.root, stderr=subprocess.DEVNULL)
    while not bad.requests:
        time.sleep(0.01)
    first = time.time()
    while time.time() < first + 10 and not (os.path.exists(path) and bad.url("o/") in open(path).read()):
        time.sleep(0.01)
    late = time.time() - first
    time.sleep(1)
    child.kill()
    child.wait()
    asked = bad.requests
    day.origin.fresh()
    bad.fresh()
    again = day.run(*pull)
    more = bad.requests
    bad.shutdown()
    good = again.returncode == 0 and late < 1.2 and more == 0
    return good, "%d requests to the bad one, on disk after %.2f s; after kill -9 %d more" % (asked, late, more)


@claim(short=True)
def a_lost_agent_is_replaced_while_somebody_waits(day):
    day.origin.fresh(rate=400_000)
    project = day.where()
    day.run("pull", day.origin.url(project + "-huge.json"), "--into", project, "--background")
    deadline, process = time.time() + 20, None
    while process is None and time.time() < deadline:
        status = json.loads(day.run("status", project, "--json").stdout)
        process = status.get("holder")
        time.sleep(0.1)
    time.sleep(0.5)
    os.kill(process, signal.SIGKILL)
    day.origin.fresh(rate=4_000_000)
    wait = day.run("wait", project)
    status = json.loads(day.run("status", project, "--json").stdout)
    good = wait.returncode == 0 and status["run"]["result"] == "ok"
    return good, "killed agent %s; wait ended with %d after %.1f s" % (process, wait.returncode, wait.took)


@claim(short=True)
def whoever_looks_on_sees_the_transfers_and_brings_an_agent_up(day):
    day.origin.fresh(rate=600_000)
    project = day.where()
    day.run("pull", day.origin.url(project + "-huge.json"), "--into", project, "--background", "--connections", "1")
    attached = Screen(day, "attach", project)
    attached.until("huge.bin: ", limit=15).process.kill()
    holder = json.loads(day.run("status", project, "--json").stdout)["holder"]
    os.kill(holder, signal.SIGKILL)
    looking = Screen(day, "status", project, "--watch", "--requests")
    looking.until("#", limit=20)
    shown = looking.process.poll() is None  # Else it was killed: no transfer was seen in time.
    # The last transfers known are shown before the new agent has taken the run up.
    successor, end = None, time.time() + 10
    while successor in (None, holder) and time.time() < end:
        successor = json.loads(day.run("status", project, "--json").stdout).get("holder")
    looking.process.send_signal(signal.SIGINT)
    asked = time.time()
    looking.until(limit=5)
    ended = time.time() - asked
    wait = day.run("wait", project)
    good = "huge.bin: " in attached.text and successor not in (None, holder) and wait.returncode == 0
    return good and shown and looking.process.returncode == 130, (
        "agent %s became %s; transfers seen: %s; the watching ended with %s, %.2f s after it was asked to" % (
            holder, successor, shown, looking.process.returncode, ended))


@claim(short=True)
def waiting_for_what_a_person_must_move_ends_with_75(day):
    day.origin.fresh()
    project = day.where()
    day.run("pull", day.origin.url(project + "-small.json"), "--into", project, "--background", "--paused")
    wait = day.run("wait", project)
    good = wait.returncode == 75 and "syncagent resume %s" % project in wait.err
    return good, "exit %d: %s" % (wait.returncode, wait.err.strip())


@claim()
def hooks_take_no_turn(day):
    day.origin.fresh()
    hook = os.path.join(day.root, "slow-hook")
    with open(hook, "w") as file:
        file.write("#!/bin/sh\nsleep 30\n")
    os.chmod(hook, 0o755)
    busy = [day.where() for _ in range(3)]
    for project in busy:
        day.run("pull", day.origin.url(project + "-small.json"), "--into", project, "--background", "--hook", hook)
    deadline = time.time() + 15
    while time.time() < deadline:
        states = [json.loads(day.run("status", project, "--json").stdout) for project in busy]
        if all(os.path.exists(os.path.join(day.root, project, "small40.bin")) for project in busy):
            break
        time.sleep(0.2)
    project = day.where()
    day.run("pull", day.origin.url(project + "-small.json"), "--into", project, "--background")
    wait = day.run("wait", project, "--timeout", "20s")
    for other in busy:
        day.run("cancel", other)
    return wait.returncode == 0 and len(states) == 3, "beside three hooks of 30 s a pull took %.1f s" % wait.took


@claim()
def one_rate_for_all_runs_of_the_agent(day):
    day.run("agent", "stop")
    os.makedirs(os.path.join(day.root, "config/syncagent"), 0o700, exist_ok=True)
    with open(os.path.join(day.root, "config/syncagent/config.json"), "w") as file:
        file.write('{ agent_limit_rate: "2MB" }')
    day.origin.fresh()
    projects, start = [day.where(), day.where()], time.time()
    for project in projects:
        day.run("pull", day.origin.url(project + "-huge.json"), "--into", project, "--background")
    for project in projects:
        day.run("wait", project)
    took = time.time() - start
    os.remove(os.path.join(day.root, "config/syncagent/config.json"))
    day.run("agent", "stop")
    return 4 < took < 12, "12 MB by two runs under 2 MB/s together: %.1f s" % took


@claim()
def after_kill_9_the_next_run_goes_on_and_status_was_true(day):
    picks, wrong = random.Random(7), []
    for trial in range(10):
        day.origin.fresh(rate=1_500_000)
        project = day.where()
        url = day.origin.url(project + "-.json")
        child = subprocess.Popen([day.program, "pull", url, "--into", project, "--quiet"], env=day.environment,
                                 cwd=day.root, stderr=subprocess.DEVNULL)
        time.sleep(picks.uniform(0.05, 2))
        child.kill()
        child.wait()
        found = day.run("status", project, "--json")
        state = json.loads(found.stdout)["state"] if found.stdout else "none"
        day.origin.fresh()
        again = day.run("pull", url, "--into", project, "--json")
        end = json.loads(day.run("status", project, "--json").stdout)
        if again.returncode != 0 or end["run"]["result"] != "ok" or state == "idle" and again.events[-1]["requests"] > 3:
            wrong.append((trial, state, again.returncode))
    return not wrong, "10 moments, %d wrong %s" % (len(wrong), wrong or "")


def main():
    arguments = [word for word in sys.argv[1:] if word != "--short"]
    if not arguments:
        sys.exit(__doc__)
    day, failed = Day(arguments[0]), 0
    try:
        for name, function, is_short in CLAIMS:
            if "--short" in sys.argv and not is_short or arguments[1:] and not any(a in name for a in arguments[1:]):
                continue
            try:
                good, words = function(day)
            except Exception as error:  # A claim that cannot be checked is not held.
                good, words = False, "%s: %s" % (type(error).__name__, error)
            failed += not good
            print("%-8s %s: %s" % ("held" if good else "FAILED", name, words), flush=True)
    finally:
        day.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
