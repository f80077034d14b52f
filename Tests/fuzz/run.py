"""Runs cases: see Tests/fuzz.sh."""

import collections
import ctypes
import hashlib
import json
import multiprocessing
import os
import random
import resource
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
import traceback

import areas
import cases
import control
import served
import sets
from server import Server

WORK = "/run/fuzz"
# Where each worker has a directory of its own, by a mount that only it sees: paths are the same in every run.
HERE = WORK + "/here"
# A copy: the one that was built may be built anew meanwhile.
PROGRAM = WORK + "/syncagent"
LIBC = ctypes.CDLL(None, use_errno=True)
STATUSES = {0, 2, 5, 64, 65, 66, 69, 73, 74, 75, 77, 78, 130, 143}
TIME_LIMIT = 10
MEMORY_LIMIT = 300 << 20
COUNTED = ["signals", "hangs", "exit-1", "statuses", "escapes", "wrong bytes", "foreign signed", "lost", "memory"]


def mount(source, target, kind, flags, options=None):
    return LIBC.mount(source, target, kind, flags, options)


def isolate():
    """Loopback up, everything read-only but a tmpfs. The namespaces are made already."""
    import fcntl
    import socket
    import struct
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control_socket:
        fcntl.ioctl(control_socket, 0x8914, struct.pack("16sh14x", b"lo", 1 | 64))  # SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
    place = b"/run"
    if mount(b"fuzz", place, b"tmpfs", 0, b"size=2g,mode=0755") != 0:
        raise SystemExit(f"fuzz: no tmpfs: {os.strerror(ctypes.get_errno())}")
    os.makedirs(HERE)
    shutil.copy(os.environ["SYNCAGENT"], PROGRAM)
    with open("/proc/self/mounts", "rb") as file:
        targets = [line.split(b" ")[1].replace(b"\\040", b" ") for line in file]
    for target in targets:
        if target != place and not target.startswith((b"/proc", b"/dev")):
            mount(None, target, None, 1 | 32 | 4096)  # MS_RDONLY | MS_REMOUNT | MS_BIND
    try:
        with open("/writable-after-all", "w"):
            raise SystemExit("fuzz: the machine's files cannot be made read-only here")
    except OSError:
        pass


# os.walk calls itself once for each directory on the way down, and a path can have two thousand.
sys.setrecursionlimit(20_000)


def remove(directory):
    """All of a directory, also where it is deeper than shutil can follow."""
    subprocess.run(["rm", "-rf", "--", directory], check=False)


def snapshot(directory, left_out):
    """Everything below a directory: type, mode, size, time, bytes or target."""
    found = {}
    stack = [directory]
    while stack:
        base = stack.pop()
        for entry in os.scandir(base):
            if entry.path in left_out:
                continue
            status = entry.stat(follow_symlinks=False)
            extra = None
            if stat.S_ISLNK(status.st_mode):
                extra = os.readlink(entry.path)
            elif stat.S_ISREG(status.st_mode) and status.st_size < 1 << 20:
                with open(entry.path, "rb") as file:
                    extra = hashlib.sha256(file.read()).digest()
            elif stat.S_ISDIR(status.st_mode):
                stack.append(entry.path)
            found[entry.path] = (status.st_mode, status.st_size, status.st_mtime_ns, extra)
    return found


def run(arguments, directory):
    """Exit status or negative signal, or None for a hang; peak memory; what was said."""
    log = os.path.join(directory, "said")
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
               (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
               (os.POSIX_SPAWN_DUP2, 1, 2)]
    here = os.getcwd()
    os.chdir(directory)
    try:
        child = os.posix_spawn(PROGRAM, ["syncagent", *arguments], sets.environment(os.path.join(directory, "home")),
                               file_actions=actions, setpgroup=0)
    finally:
        os.chdir(here)
    isover = []

    def late(number, frame):
        isover.append(True)
        os.killpg(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, late)
    signal.alarm(TIME_LIMIT)
    _, status, usage = os.wait4(child, 0)
    signal.alarm(0)
    with open(log, "rb") as file:
        said = file.read(100_000)
    code = None if isover else os.waitstatus_to_exitcode(status)
    # A child begins with what its parent has had. getrusage(2)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return code, usage.ru_maxrss << 10 if usage.ru_maxrss > own or own << 10 < MEMORY_LIMIT else 0, said


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def judge_tree(case, before):
    """What stands in the destination that must not."""
    destination = os.path.join(case.directory, "dest")
    own = os.path.join(destination, ".syncagent")
    complaints = []
    for base, directories, names in os.walk(destination):
        if base == destination and ".syncagent" in directories:
            directories.remove(".syncagent")
        for name in names + directories:
            path = os.path.join(base, name)
            if path == own:
                continue
            status = os.lstat(path)
            earlier = before.get(path, (None,) * 4)
            if stat.S_ISLNK(status.st_mode):
                # Of two revisions, each may make a link that leads out with the other's. What was planted may lead
                # anywhere; what leads through it is judged by its words.
                if case.planted and earlier[3] == os.readlink(path):
                    continue
                resolved = os.path.normpath(os.path.join(base, os.readlink(path))) if case.planted \
                    else os.path.realpath(path)
                if resolved != destination and not resolved.startswith(destination + "/"):
                    complaints.append(("escapes", f"{path} leads to {resolved}"))
                elif (resolved + "/").startswith(own + "/"):
                    complaints.append(("escapes", f"{path} leads into .syncagent"))
            elif earlier[:3] == (status.st_mode, status.st_size, status.st_mtime_ns):
                continue
            elif stat.S_ISREG(status.st_mode) and digest(path) not in case.digests:
                complaints.append(("wrong bytes", f"{path} has bytes that nobody asked for"))
            elif stat.S_ISREG(status.st_mode) and status.st_mode & 0o7000:
                complaints.append(("escapes", f"{path} has mode {status.st_mode:o}"))
    return complaints


def judge_whole(case):
    """After status 0 of a pull: every file of the manifest has the bytes that the manifest says."""
    document = case.wanted
    if document == "text":
        try:
            document = json.loads(case.read("site", "manifest.json").decode("utf-8"))
        except ValueError:
            return [("wrong bytes", "status 0 for a manifest that is no JSON")]
    if not isinstance(document, dict) or not isinstance(document.get("files"), list):
        return []
    complaints = []
    for entry in document["files"]:
        try:
            path = os.path.join(case.directory, "dest", entry["path"])
            if "link" in entry:
                isright = os.readlink(path) == entry["link"]
            else:
                status = os.lstat(path)
                isright = stat.S_ISREG(status.st_mode) and status.st_size == entry["size"] \
                    and digest(path) == entry["sha256"].lower()
        except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            isright = f"{error!r}"
        if isright is not True:
            complaints.append(("wrong bytes", f"status 0 and {entry!r:.200} is not there: {isright}"))
    return complaints


def unlocked(directory):
    """Gives back what a case took, so that it can be removed."""
    for base, directories, _ in os.walk(directory):
        for name in directories:
            path = os.path.join(base, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)


class Worker:
    def __init__(self, number, fixtures, only=None):
        self.place, self.fixtures, self.only = HERE, fixtures, only
        own = f"{WORK}/{number}"
        os.makedirs(own)
        # CLONE_NEWNS, MS_BIND
        if LIBC.unshare(0x20000) != 0 or mount(own.encode(), HERE.encode(), None, 4096) != 0:
            raise SystemExit(f"fuzz: no mounts of a worker's own: {os.strerror(ctypes.get_errno())}")
        self.server = Server(40000 + number)
        self.agent = None
        self.peak = 0

    def generator(self, seed, number):
        return random.Random(f"{seed}:{number}")

    def area(self, generator):
        functions, weights = zip(*areas.AREAS)
        chosen = generator.choices(functions, weights)[0]
        return self.only or chosen

    def case(self, seed, number, keeps=False):
        """Complaints about one case, and a line about what it was."""
        generator = self.generator(seed, number)
        area = self.area(generator)
        if area == "control":
            return self.control(generator, keeps)
        directory = os.path.join(self.place, "case")
        remove(directory)
        case = cases.Case(directory, generator, self.fixtures, self.server)
        self.server.fault = None
        area(case)
        case.digests |= {hashlib.sha256(b"foreign").hexdigest()}
        complaints, said = self.judged(case)
        second = getattr(case, "second", None)
        if second is not None:
            case.write(json.dumps(second).encode(), "site", "manifest.json")
            more, words = self.judged(case)
            complaints, said = complaints + more, said + words
        words = f"{area.__name__} {case.set}: {' '.join(case.arguments)}"
        if keeps:
            print(f"{words}\n{said.decode(errors='replace')}\nkept in {directory}", flush=True)
        else:
            unlocked(directory)
            remove(directory)
        return complaints, words

    def judged(self, case):
        directory = case.directory
        if case.arguments[0] == "pull" and "--deadline" not in case.arguments:
            # Who does not answer is waited for, without it.
            case.arguments += ["--deadline", "2s"]
        destination, state = os.path.join(directory, "dest"), os.path.join(directory, sets.STATE)
        said_here = os.path.join(directory, "said")
        metrics = os.path.join(directory, "home/.config/syncagent/m.prom")
        left_out = {destination, state, said_here, metrics, os.path.join(directory, "kept")}
        output = os.path.join(directory, case.output)
        before = snapshot(output, ()) if case.judges_output and os.path.isdir(output) else {}
        if case.judges_output:
            left_out.add(output)
        outside = snapshot(directory, left_out)
        # Its time changes with the file of metrics.
        outside.pop(os.path.dirname(metrics), None)
        inside = snapshot(destination, {os.path.join(destination, ".syncagent")}) if os.path.isdir(destination) else {}
        status, peak, said = run(case.arguments, directory)
        self.peak = max(self.peak, peak)
        complaints = []
        if status is None:
            complaints.append(("hangs", f"not over after {TIME_LIMIT} s"))
        elif status < 0:
            complaints.append(("signals", f"signal {-status}: {said[-600:].decode(errors='replace').strip()}"))
        elif status == 1:
            complaints.append(("exit-1", said[-300:].decode(errors="replace").strip()))
        elif status not in STATUSES:
            complaints.append(("statuses", f"exit status {status}"))
        if peak > MEMORY_LIMIT:
            complaints.append(("memory", f"{peak >> 20} MiB"))
        after = snapshot(directory, left_out)
        after.pop(os.path.dirname(metrics), None)
        for path in sorted(set(outside) | set(after)):
            if outside.get(path) != after.get(path):
                complaints.append(("escapes", f"{path} is not what it was"))
        if os.path.isdir(destination) and not os.path.islink(destination):
            complaints += judge_tree(case, inside)
        if case.judges_output:
            complaints += served.judge(case, status, before, snapshot(output, ()) if os.path.isdir(output) else {})
        options = set(case.arguments)
        if status == 0 and case.arguments[0] == "pull" and not options & {"--group", "--dry-run"}:
            complaints += judge_whole(case)
        return complaints, said

    def control(self, generator, keeps):
        if self.agent is None:
            directory = os.path.join(self.place, "agent")
            remove(directory)
            self.agent = control.Agent(PROGRAM, directory, self.fixtures)
            self.outside = snapshot(os.path.join(directory, "canary"), ())
        complaints = control.ask(self.agent, generator)
        if self.agent.asked >= control.LIFE or complaints or keeps:
            complaints += self.end_agent(keeps)
        return complaints, "control"

    def end_agent(self, keeps=False):
        agent, self.agent = self.agent, None
        if agent is None:
            return []
        peak = agent.peak()
        self.peak = max(self.peak, peak)
        status = agent.stop()
        complaints = []
        if status is None:
            complaints.append(("hangs", "the agent does not stop"))
        elif status < 0:
            complaints.append(("signals", f"the agent ended by signal {-status}"))
        elif status not in STATUSES:
            complaints.append(("exit-1" if status == 1 else "statuses", f"the agent's exit status is {status}"))
        if peak > MEMORY_LIMIT:
            complaints.append(("memory", f"the agent: {peak >> 20} MiB"))
        if snapshot(os.path.join(agent.directory, "canary"), ()) != self.outside:
            complaints.append(("escapes", "the agent has changed what is outside"))
        if keeps:
            with open(os.path.join(agent.directory, "agent.out"), errors="replace") as file:
                print(file.read(), flush=True)
        return complaints


def work(own, fixtures, only, seed, numbers, results):
    worker = Worker(own, fixtures, only)
    while True:
        with numbers.get_lock():
            number, numbers.value = numbers.value, numbers.value + 1
        if number >= results.total:
            break
        try:
            complaints, words = worker.case(seed, number)
        except Exception as error:  # A fault of the harness is one, too: nothing is passed over in silence.
            complaints, words = [("statuses", f"the harness: {traceback.format_exc()[-400:]}")], repr(error)
        results.queue.put((number, complaints, words, worker.peak))
    results.queue.put((results.total, worker.end_agent(), "control", worker.peak))
    results.queue.put(None)


class Results:
    def __init__(self, total):
        self.total, self.queue = total, multiprocessing.Queue()


def main(arguments):
    only = None
    if arguments[0] == "--case":
        only, arguments = int(arguments[1]), arguments[2:] or [""]
        seed, total = arguments[0], 1
    else:
        total = int(arguments[0])
        arguments = arguments[1:] or [secrets.token_hex(4)]
        seed = arguments[0]
    area = None
    if len(arguments) > 1:
        names = {getattr(function, "__name__", function): function for function, _ in areas.AREAS}
        if arguments[1] not in names:
            raise SystemExit(f"fuzz: no such area; there are {', '.join(names)}")
        area = names[arguments[1]]
    isolate()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    fixtures = sets.Sets(PROGRAM, os.path.join(WORK, "sets"), os.path.join(HERE, "case"))
    if only is not None:
        worker = Worker(0, fixtures, area)
        complaints, words = worker.case(seed, only, keeps=True)
        for kind, detail in complaints:
            print(f"{kind}: {detail}")
        if sys.stdin.isatty():
            os.chdir(worker.place)
            os.system("bash")
        return 1 if complaints else 0

    started, results, numbers = time.monotonic(), Results(total), multiprocessing.Value("q", 0)
    workers = [multiprocessing.Process(target=work, args=(n, fixtures, area, seed, numbers, results))
               for n in range(int(os.environ.get("WORKERS", "2")))]
    for worker in workers:
        worker.start()
    counts, peak, done, running = collections.Counter(), 0, 0, len(workers)
    while running:
        message = results.queue.get()
        if message is None:
            running -= 1
            continue
        number, complaints, words, highest = message
        peak, done = max(peak, highest), done + (number < total)
        for kind in {kind for kind, _ in complaints}:
            counts[kind] += 1
        for kind, detail in complaints[:3]:
            print(f"case {number}: {kind}: {detail} ({words})", flush=True)
        if done % 1000 == 0 and number < total:
            print(f"{done} cases, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(f"seed {seed}: {done} cases, " + ", ".join(f"{counts[kind]} {kind}" for kind in COUNTED)
          + f", peak {peak / (1 << 20):.0f} MiB, {time.monotonic() - started:.0f} s")
    return 1 if sum(counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
