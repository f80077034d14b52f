"""What the trials of this directory share: a set in two revisions, a server, a place for each trial, and what must hold there."""

import functools
import hashlib
import http.server
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "evidence"))
import checks  # noqa: E402
from agents import Story as EventOrder  # noqa: E402

PATIENCE = 6  # Seconds that each pull may see nothing from its server.
SLOW = 45  # A run that takes longer has forgotten its patience.
HANGS = 75  # After so many seconds nothing is waited for any more.
# Documentation/reference/Commands.md, Exit statuses. 1 is one of them, but nothing that a failing call should lead to.
DOCUMENTED = {0, 2, 5, 64, 65, 66, 69, 73, 74, 75, 77, 78, 130, 143}
HOOK = """#!/bin/sh
# What the tree is when the hook is called.
cat >/dev/null
now=$(cat "{now}" 2>/dev/null)
cd "$SYNCAGENT_DESTINATION" || exit 1
tree={calls}.$SYNCAGENT_RUN_ID.$SYNCAGENT_ATTEMPT
find -L . -path ./.syncagent -prune -o -type f -print0 | xargs -0 sha256sum >"$tree"
echo "$SYNCAGENT_RUN_ID $SYNCAGENT_ATTEMPT $SYNCAGENT_RESULT $tree ${now:-0}" >>"{calls}"
"""


def make_sets(directory):
    """Two revisions of some twenty files: in packs, of a pack's size, compressible and not, a link, a program."""
    chance = random.Random(40)

    def text(size):
        words = [bytes(chance.choices(b"abcdefghijklmnop", k=6)) for _ in range(40)]
        return b" ".join(chance.choices(words, k=size // 7 + 1))[:size]

    files = {f"sheets/{n:02}.txt": text(chance.randrange(200, 20000)) for n in range(9)}
    files |= {f"parts/{n % 3}/p{n:02}.bin": chance.randbytes(chance.randrange(100, 12000)) for n in range(8)}
    files |= {"model.ifc": text(300_000) + chance.randbytes(200_000), "empty": b"", "tools/run": b"#!/bin/sh\necho 1\n"}
    write_set(f"{directory}/set-1", files)
    for name in ("sheets/01.txt", "parts/1/p01.bin", "sheets/05.txt"):
        files[name] = text(len(files[name]) + 50)
    files["model.ifc"] = files["model.ifc"][:250_000] + b"a line more" + files["model.ifc"][250_000:]
    for name in ("sheets/02.txt", "parts/2/p05.bin", "parts/2/p02.bin"):
        del files[name]
    files |= {"sheets/new.txt": text(5000), "fresh/one.bin": chance.randbytes(3000), "fresh/two.bin": chance.randbytes(4000)}
    files["sheets/moved.txt"] = files.pop("sheets/03.txt")
    write_set(f"{directory}/set-2", files)


def write_set(directory, files):
    write_names(directory, files)
    os.chmod(f"{directory}/tools/run", 0o755)
    os.symlink("sheets/00.txt", f"{directory}/latest")


def write_names(directory, files):
    for name, data in files.items():
        path = os.path.join(directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)


def listed(tree):
    """What sha256sum(1) has written of a tree: path to digest."""
    try:
        with open(tree) as file:
            return {line[66:].rstrip("\n").removeprefix("./"): line[:64] for line in file}
    except OSError:
        return {}


class Handler(http.server.BaseHTTPRequestHandler):
    """A static server with validators and ranges; `manifest.json` is that of the revision which is served now."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def log_message(self, *_):
        pass

    def do_GET(self):
        try:
            self.reply()
        except OSError:
            self.close_connection = True

    do_HEAD = do_GET

    def reply(self):
        path = self.path.partition("?")[0].lstrip("/")
        for ending in ("", ".zst"):
            if path == "manifest.json" + ending:
                path = f"{self.server.revision}.json{ending}"
        data = self.server.read(path)
        if data is None:
            return self.answer(404, [], b"")
        tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        if self.headers.get("If-None-Match") == tag:
            return self.answer(304, [("ETag", tag)], b"")
        wanted = self.headers.get("Range", "")
        if not wanted.startswith("bytes="):
            return self.answer(200, [("ETag", tag), ("Accept-Ranges", "bytes")], data)
        first, _, last = wanted[6:].partition("-")
        first, last = int(first), min(int(last or len(data)), len(data) - 1)
        return self.answer(206, [("ETag", tag), ("Content-Range", f"bytes {first}-{last}/{len(data)}")], data[first:last + 1])

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, root):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.revision = root, "one"
        self.read = functools.cache(self.read_file)
        self.url = f"http://127.0.0.1:{self.server_port}/manifest.json"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def read_file(self, path):
        try:
            with open(os.path.join(self.root, path), "rb") as file:
                return file.read()
        except OSError:
            return None

    def handle_error(self, *_):
        pass


class Done:
    """How a command ended: its exit status, negative for a signal, None when it hung."""

    def __init__(self, status, out, said, seconds, threads=""):
        self.status, self.out, self.said, self.seconds, self.threads = status, out, said, seconds, threads

    def __str__(self):
        lines = [line for line in self.said.splitlines() if line.strip()]
        how = "hangs" if self.status is None else f"signal {-self.status}" if self.status < 0 else f"exit {self.status}"
        return how + (f" ({lines[-1][:300]})" if lines else "")

    def events(self):
        """The JSON lines on its standard output; a last one that is torn is left out."""
        for line in self.out.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def lacking(differences):
    """Without what is there and not in the set."""
    return [line for line in differences if not line.startswith("not expected")]


def waits_in(process):
    """What each thread below a process waits in, of proc_pid_stat(5) and proc_pid_syscall(5)."""
    found = []
    for pid in [process, *children(process)]:
        try:
            for thread in sorted(os.listdir(f"/proc/{pid}/task")):
                with open(f"/proc/{pid}/task/{thread}/comm") as name, open(f"/proc/{pid}/task/{thread}/syscall") as call:
                    found.append(f"{name.read().strip()}: {call.read().strip()}")
        except OSError:
            continue
    return "; ".join(found)


def has_ended(process, seconds):
    """Whether a process ends within so many seconds; without the pauses of Popen.wait."""
    descriptor = os.pidfd_open(process.pid)
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def children(process):
    try:
        with open(f"/proc/{process}/task/{process}/children") as file:
            below = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return below + [one for child in below for one in children(child)]


class Base:
    """What is made once for all trials: the sets, published and signed. What nothing is done to may be run by another build
    of the program, the `judge`: one that starts sooner."""

    def __init__(self, program, root, judge=None):
        self.program, self.root = os.path.abspath(program), root
        self.judge = os.path.abspath(judge) if judge else self.program
        os.makedirs(root)
        make_sets(root)
        place = Place(self, f"{root}/making")
        for number, name in ((1, "one"), (2, "two")):
            place.must("publish", f"{root}/set-{number}", "--to", f"{root}/site", "--project", "p", "--pack-size", "256K")
            for ending in ("", ".zst"):
                shutil.copy2(f"{root}/site/manifest.json{ending}", f"{root}/site/{name}.json{ending}")
        place.must("keys", "new", f"{root}/keys", "--project", "p")
        for number in (1, 2):
            place.must("publish", f"{root}/set-{number}", "--to", f"{root}/signed", "--project", "p", "--sign", f"{root}/keys")
            shutil.copytree(f"{root}/signed", f"{root}/signed-{number}")
            if number == 1:
                shutil.copytree(place.state, f"{root}/signed-state")
        self.wanted = {name: checks.wanted(checks.load(f"{root}/site/{name}.json")) for name in ("one", "two")}
        self.server = Server(f"{root}/site")
        place.clear()


class Place:
    """A home, a destination and what runs there, for one trial. With a `disk` (forgetful.py), destination, backup and output
    are in its directory `a`, and the state is in `b`; then what is told is written down with the moment on that disk."""

    def __init__(self, base, root, disk=None, preload=None):
        self.base, self.root, self.disk, self.preload = base, root, disk, preload
        self.clear()
        self.limit, self.told = None, []
        data, home = (f"{disk.mountpoint}/a", f"{disk.mountpoint}/b") if disk else (root, f"{root}/state")
        self.dest, self.backup, self.out, self.keys = (f"{data}/{name}" for name in ("dest", "backup", "out", "keys"))
        self.homes = {"STATE_HOME": home, "CONFIG_HOME": f"{home}/config" if disk else f"{root}/config", "RUNTIME_DIR": f"{root}/runtime"}
        self.state, self.calls = f"{home}/syncagent", f"{root}/calls"
        for path in (data, home, *self.homes.values(), f"{root}/tmp"):
            os.makedirs(path, 0o700, exist_ok=True)
        self.hook = f"{root}/hook"
        with open(self.hook, "w") as file:
            file.write(HOOK.replace("{calls}", self.calls).replace("{now}", f"{disk.mountpoint}/.now" if disk else "/dev/null"))
        os.chmod(self.hook, 0o755)

    def clear(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def environment(self, **more):
        known = {"HOME": self.root, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "SWIFT_BACKTRACE": "enable=no",
                 "TMPDIR": f"{self.root}/tmp"}
        if self.preload:
            known["LD_PRELOAD"] = self.preload
        return known | {f"XDG_{name}": path for name, path in self.homes.items()} | more

    def start(self, *arguments, wrap=(), out=None, said=None, **more):
        wrap = () if self.disk else wrap
        program = self.base.program if wrap else self.base.judge
        return subprocess.Popen([*wrap, program, *arguments], cwd=self.root, stdin=subprocess.DEVNULL, stdout=out,
                                stderr=said, env=self.environment(**more), start_new_session=True, preexec_fn=self.limit if wrap else None)

    def note(self, what):
        """Writes down that somebody was told something, and how far the disk was then."""
        if self.disk:
            self.told.append((self.disk.length(), what))

    def run(self, *arguments, wrap=(), seconds=HANGS, **more):
        """A command to its end."""
        if self.disk and wrap:
            return self.watch(*arguments, **more)
        begun = time.monotonic()
        with open(f"{self.root}.out", "wb+") as out, open(f"{self.root}.said", "wb+") as said:
            process = self.start(*arguments, wrap=wrap, out=out, said=said, **more)
            threads = ""
            if has_ended(process, seconds):
                status = process.wait()
            else:
                status, threads = None, waits_in(process.pid)
                self.end(process)
            took = time.monotonic() - begun
            out.seek(0)
            said.seek(0)
            if wrap and status is not None and status > 128 and status - 128 < 65 and status not in DOCUMENTED:
                status = 128 - status  # So does the tool that wraps it say by which signal it ended.
            return Done(status, out.read().decode(errors="replace"), said.read().decode(errors="replace"), took, threads)

    def watch(self, *arguments, **more):
        """The same, and each line is noted when it is read: a little later than it was written."""
        begun, out = time.monotonic(), []
        with open(f"{self.root}.said", "wb+") as said:
            process = self.start(*arguments, out=subprocess.PIPE, said=said, **more)
            for line in process.stdout:
                out.append(line.decode(errors="replace"))
                self.note(out[-1])
            status = process.wait()
            self.note(("exit", status))
            said.seek(0)
            return Done(status, "".join(out), said.read().decode(errors="replace"), time.monotonic() - begun)

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def must(self, *arguments, **more):
        done = self.run(*arguments, **more)
        if done.status != 0:
            raise SystemExit(f"what the trials start from cannot be made: {' '.join(arguments)}: {done}")
        return done

    def pull_arguments(self, *more):
        return ["pull", self.base.server.url, "--into", self.dest, "--session", "s", "--prune", "--force", "--json",
                "--patience", f"{PATIENCE}s", "--hook", self.hook, *more]

    def pull(self, revision, *more, **options):
        self.base.server.revision = revision
        return self.run(*self.pull_arguments(*more), **options)

    def have(self, revision):
        done = self.pull(revision)
        if done.status != 0:
            raise SystemExit(f"what the trials start from cannot be pulled: {done}")

    # What must hold

    def files(self):
        # A tree that is shown through links, since nothing could be made beside it, is looked at where they lead.
        return checks.describe(checks.shown(self.dest)) if os.path.isdir(self.dest) else {}

    def judge_end(self, done):
        """That a command ended, in time, and as Documentation/reference/Commands.md says."""
        if done.status is None:
            yield f"hangs: not over after {done.seconds:.0f} s: {done.threads}"
        elif done.status < 0:
            yield f"signal: {done}"
        elif done.status not in DOCUMENTED:
            yield f"status: {done}"
        elif done.seconds > SLOW:
            yield f"slow: {done.seconds:.0f} s, {done}"

    def judge_files(self, before, after):
        """That each visible file is old or new, and none that both have is missing."""
        old, new = self.base.wanted.get(before, {}), self.base.wanted[after]
        found = self.files()
        for path, what in found.items():
            if what not in (old.get(path), new.get(path)):
                yield f"wrong bytes: {path} is {what}"
        for path in (old.keys() & new.keys()) - found.keys():
            yield f"gone: {path}, which both revisions have"

    def is_whole(self, revision):
        return checks.differences(self.base.wanted[revision], self.files())

    def has_seen(self, tree, revision):
        """Whether a hook has seen every file of a revision."""
        seen = listed(tree)
        return all(seen.get(path) == what[2] for path, what in self.base.wanted[revision].items() if what[0] == "file")

    def judge_told(self, done, after):
        """That nothing was told that is not so: by the status, by events on standard output, by the record."""
        missing = self.is_whole(after)
        if done.status == 0 and missing:
            yield f"lie: exit 0, and {missing[0]}"
        # A result is about the files of the set; that others could not be removed is in the exit status.
        missing = lacking(missing)
        yield from self.judge_events(done.events(), missing, after, "standard output")
        results = [event for event in done.events() if event["event"] == "pull.finished"]
        if done.status == 0 and results and results[-1]["result"] != "ok":
            yield f"lie: exit 0, and pull.finished says {results[-1]['result']}"
        yield from self.judge_record(missing, after)

    def judge_record(self, missing, after):
        missing = lacking(missing)
        # Where everything is there, nobody can say so wrongly.
        if missing:
            yield from self.judge_shown(missing, after)
        events = self.run("events", "s", "--json")
        if events.status not in (0, 66):
            yield f"events: {events}"
        order = EventOrder()
        for event in events.events():
            if wrong := order.take(event):
                yield f"events: {wrong}"
        yield from self.judge_events(events.events(), missing, after, "events")

    def judge_shown(self, missing, after):
        shown = self.run("status", "s", "--json")
        if shown.status not in (0, 66):
            yield f"status: {shown}"
        for run in [one["run"] for one in shown.events() if one.get("run")]:
            if run.get("result") == "ok" and run["manifest_sha256"] == self.digest(after):
                yield f"lie: status says ok, and {missing[0]}"
        report = self.run("report", "--json")
        if report.status != 0:
            yield f"report: {report}"
        for run in [run for one in report.events() for session in one.get("sessions", []) for run in session["runs"]]:
            if run.get("result") == "ok" and run.get("manifest_sha256") == self.digest(after):
                yield f"lie: report says ok, and {missing[0]}"

    def digest(self, revision):
        return checks.sha256(f"{self.base.root}/site/{revision}.json")

    def judge_events(self, events, missing, after, where):
        ours, installed, found = None, {}, self.files()
        for event in events:
            if event["event"] == "run.started":
                ours = event["run"] if event["manifest_sha256"] == self.digest(after) else None
            if event.get("run") != ours or ours is None:
                continue
            if event["event"] == "task.installed":
                installed[event["path"]] = event
            if event["event"] in ("group.completed", "pull.finished") and event["result"] == "ok" and missing:
                yield f"lie: {where} says that {event['event']} is ok, and {missing[0]}"
        for path, event in installed.items():
            if path not in found or event.get("sha256") and found[path][2] != event["sha256"]:
                yield f"lie: {where} says that {path} is installed, and it is {found.get(path)}"

    def called(self):
        try:
            with open(self.calls) as file:
                return [line.split() for line in file]
        except FileNotFoundError:
            return []

    def judge_hooks(self, after):
        """That hooks which were told ok have seen the whole set, and none has the same attempt twice."""
        known = set()
        for run, attempt, result, tree, _ in self.called():
            if result == "ok" and not any(self.has_seen(tree, revision) for revision in self.base.wanted):
                yield "hook: told ok, and the set was not whole"
            if (run, attempt) in known:
                yield f"hook: attempt {attempt} of run {run} was made twice"
            known.add((run, attempt))

    def judge_next(self, revision):
        """That the next pull is whole, its hook is called, nothing is left over, and doctor is content."""
        done = self.pull(revision)
        if done.status != 0:
            yield f"next: the next pull: {done}"
        yield from (f"next: after the next pull {line}" for line in self.is_whole(revision)[:3])
        ours = [event["run"] for event in done.events() if event["event"] == "run.started"]
        if done.status == 0 and not any(
            call[0] in ours and call[2] == "ok" and self.has_seen(call[3], revision) for call in self.called()
        ):
            yield "next: the hook of the next pull was not called with the whole set"
        doctor = self.run("doctor", "--strict")
        if doctor.status != 0:
            found = [line for line in doctor.out.splitlines() if not line.startswith("note")]
            yield f"next: doctor --strict: exit {doctor.status}: {' '.join(found)[:400]} {doctor.said.strip()[-300:]}"
        left = [name for _, _, names in os.walk(f"{self.dest}/.syncagent/staging") for name in names]
        if left:
            yield f"next: left in staging: {left[:3]}"
        owed = [hook for hook in self.run("hooks", "list", "--json").events() if hook.get("state") in ("pending", "running")]
        if owed:
            yield f"next: hooks that are still owed: {owed[0]}"
