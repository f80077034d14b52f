"""Attacks 1, 3, 4, 5: what is planted in the destination, in the state and in the configuration."""

import os
import shutil
import signal
import socket
import threading

from holes_place import STRANGER, attack, needs_root, sha, until

FILES = {f"d/f{number}": b"small file %d\n" % number for number in range(6)}


def directory_key(path):
    """What a new directory is called in staging: FNV-1a of its path."""
    key = 0xCBF29CE484222325
    for byte in path.encode():
        key = (key ^ byte) * 0x100000001B3 % 2**64
    return f"dir-{key:016x}"


# MARK: 1. Staged directories

@attack("1", "a link where a staged directory goes: .syncagent/staging/dir-KEY")
def staged_link(place):
    place.publish(FILES)
    os.symlink(place.path("outside"), place.own("staging", directory_key("d")))
    place.pull()
    if os.path.islink(place.path("dest/d")):
        return "the link was moved into the tree"
    return place.outside_is()


@attack("1", "a staged directory with somebody's files and links in it")
def staged_directory(place):
    place.publish(FILES)
    planted = place.own("staging", directory_key("d"))
    os.makedirs(planted, 0o700)
    os.symlink(place.path("outside/file"), os.path.join(planted, "f0"))
    place.write(b"foreign", os.path.join(planted, "foreign"))
    place.pull()
    if os.path.exists(place.path("dest/d/foreign")):
        return "a foreign file came into the tree"
    return place.outside_is()


@attack("1", "staged directories swapped for links while they are filled, 10 s")
def staged_race(place):
    names = [f"n{number}" for number in range(300)]
    place.publish({f"{name}/{leaf}": name.encode() * 9 for name in names for leaf in ("a", "b")})
    paths = [place.path("dest/.syncagent/staging", directory_key(name)) for name in names]
    isover = threading.Event()

    def race():
        while not isover.is_set():
            for path in paths:
                try:
                    os.rename(path, path + ".moved")
                    os.symlink(place.path("outside"), path)
                    os.unlink(path)
                    os.rename(path + ".moved", path)
                except OSError:
                    pass

    racer = threading.Thread(target=race)
    racer.start()
    try:
        stop = threading.Event()
        threading.Timer(10, stop.set).start()
        while not stop.is_set() and not place.outside_is():
            place.pull()
            if any(os.path.islink(place.path("dest", name)) for name in names):
                return "a link was moved into the tree"
            shutil.rmtree(place.path("dest"), ignore_errors=True)
    finally:
        isover.set()
        racer.join()
    return place.outside_is()


@attack("1", "a .syncagent that another user owns")
def foreign_own(place):
    needs_root()
    place.publish(FILES)
    os.chown(os.path.dirname(place.own("x")), STRANGER, STRANGER)
    done = place.pull()
    return None if done.status == 73 else str(done)


@attack("1", "a .syncagent that others may write to")
def open_own(place):
    place.publish(FILES)
    os.chmod(os.path.dirname(place.own("x")), 0o777)
    done = place.pull()
    return None if done.status == 73 else str(done)


# MARK: 3. Hard links

def hard_link(name):
    def run(place):
        big = bytes(range(256)) * 20_000
        place.publish({**FILES, "big": big})
        os.link(place.path("outside/file"), place.own(*name.format(sha=sha(big)).split("/")))
        place.pull()
        return place.outside_is()
    return run


for planted_name in ("index.new", "index.log", "lock", "chunks.new", "staging/0/{sha}.part"):
    attack("3", f"a hard link to a file of ours as .syncagent/{planted_name.format(sha='SHA')}")(hard_link(planted_name))


# MARK: 4. FIFOs and monsters

def fifo(name):
    def run(place):
        place.publish(FILES)
        os.mkfifo(place.own(name))
        done = place.pull(seconds=8)
        return str(done) if done.status is None or done.status not in (0, 73) else None
    return run


for planted_name in ("index", "index.log", "chunks", "lock"):
    attack("4", f"a FIFO as .syncagent/{planted_name}")(fifo(planted_name))


@attack("4", "a FIFO in place of a cached manifest")
def fifo_cache(place):
    place.publish(FILES)
    url = place.server().url + "/manifest.json"
    assert place.pull(manifest=url).status == 0
    directory = place.state("manifests")
    cached = [name for name in os.listdir(directory) if name.endswith((".json", ".zst"))]
    assert cached
    for name in cached:
        os.remove(os.path.join(directory, name))
        os.mkfifo(os.path.join(directory, name), 0o600)
    done = place.pull(manifest=url, seconds=8)
    return None if done.status == 0 else str(done)


@attack("4", "a FIFO as credentials file")
def fifo_credentials(place):
    place.publish(FILES)
    os.mkfifo(place.path("fifo"), 0o600)
    done = place.pull("--credentials", "fifo", seconds=8)
    return None if done.status == 78 else str(done)


@attack("4", "a FIFO and a device as sources of a local manifest")
def fifo_source(place):
    place.manifest([place.entry("a", b"12345", "a")])
    for make in (lambda path: os.mkfifo(path), lambda path: os.symlink("/dev/zero", path)):
        os.remove(place.path("site/a"))
        make(place.path("site/a"))
        done = place.pull("--deadline", "5s", seconds=10)
        if done.status != 2:
            return str(done)
    return None


def monster(name, head):
    def run(place):
        place.publish(FILES)
        place.own("x")
        place.sparse("dest/.syncagent/" + name, 1 << 40, head)
        return refused_by_name(place.pull(seconds=10), name)
    return run


def refused_by_name(done, name):
    """The file that is too long is named with what to do: taken for none, --prune would forget what it lists."""
    if done.mib > 300:
        return f"it took {done.mib:.0f} MiB"
    # An older form of it is nobody's.
    if done.status == 0 and name == "chunks" or done.status in (73, 74) and f"/{name}: " in done.said and "Remove it" in done.said:
        return None
    return f"{done}, {done.mib:.0f} MiB"


for planted_name, magic in (("index", b"SAINDEX1"), ("index.log", b"SAIL"), ("chunks", b"SACHUNK1")):
    attack("4", f"a sparse .syncagent/{planted_name} of 1 TiB")(monster(planted_name, magic))


@attack("4", "a sparse .syncagent/index of 4 GiB")
def middling(place):
    place.publish(FILES)
    place.own("x")
    place.sparse("dest/.syncagent/index", 4 << 30, b"SAINDEX1")
    return refused_by_name(place.pull(seconds=15), "index")


# MARK: 5. Another user's state

def strangers_home(place):
    needs_root()
    for base in (os.path.dirname(place.root), place.root):
        os.chmod(base, 0o755)
    home = place.path("his")
    os.makedirs(home, 0o700)
    os.makedirs(place.path("his-tree"))
    for name in ("his", "his-tree"):
        os.chown(place.path(name), STRANGER, STRANGER)
    place.manifest([place.entry("a", b"1")])
    return home


@attack("5", "root with another user's HOME (sudo -E): his state is not used")
def foreign_state(place):
    home = strangers_home(place)
    first = place.run("pull", "site/manifest.json", "--into", "his-tree", user=STRANGER, home=home)
    assert first.status == 0, first
    done = place.pull("--session", "mine", home=home)
    return None if done.status == 73 else f"a pull in his state: {done}"


@attack("5", "root with another user's HOME: no hook of his database runs as root")
def foreign_hook(place):
    home = strangers_home(place)
    # His pull is killed while its hook runs: the next one owes it.
    hook = place.hook("hook.sh", f"id -u >> {place.path('his-tree', 'ran')}\ntest $(id -u) = 0 || sleep 3\n")
    words = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
    pull = ("pull", "site/manifest.json", "--into", "his-tree")
    first = place.start(*pull, "--hook", hook, home=home, wrap=words)
    assert until(lambda: place.read("his-tree/ran"), 10), "his hook is not called"
    first.ends(signal.SIGKILL, 5)
    place.run(*pull, home=home)
    return "his hook ran as root" if b"0" in (place.read("his-tree/ran") or b"").split() else None


@attack("5", "another user listens at the agent's socket: nothing is sent to him")
def foreign_socket(place):
    needs_root()
    os.makedirs(place.state(), 0o700)
    listener = socket.socket(socket.AF_UNIX)
    # SO_PEERCRED tells who called listen(2).
    got, ready = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            listener.bind(place.state("agent.sock"))
            os.setuid(STRANGER)
            listener.listen(4)
            os.write(ready, b".")
            listener.settimeout(8)
            client = listener.accept()[0]
            client.settimeout(3)
            os.write(ready, client.recv(4096)[:60])
        except OSError:
            pass
        os._exit(0)
    try:
        listener.close()
        os.close(ready)
        os.read(got, 1)
        done = place.run("agent", "status", seconds=6)
        os.set_blocking(got, False)
        try:
            said = os.read(got, 100)
        except BlockingIOError:
            said = b""
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(got)
    if said:
        return f"he got {said.split(b'HTTP')[0].decode(errors='replace').strip()}"
    return None if done.status == 77 else str(done)


@attack("5", "a hook that everybody may change")
def open_hook(place):
    place.manifest([place.entry("a", b"1")])
    hook = place.hook("hook.sh", f"touch {place.path('ran')}\n")
    os.chmod(hook, 0o777)
    done = place.pull("--hook", hook)
    if os.path.exists(place.path("ran")):
        return "it was run"
    return None if done.status == 77 else str(done)


@attack("5", "a configuration file in a directory that everybody may change")
def open_configuration(place):
    place.manifest([place.entry("a", b"1")])
    place.configure("{}")
    os.chmod(place.path("home/.config/syncagent"), 0o777)
    done = place.pull()
    return None if done.status == 78 else str(done)


@attack("5", "a sessions/ directory of the state that is a link to somewhere else")
def sessions_link(place):
    place.manifest([place.entry("a", b"1")])
    os.makedirs(place.state(), 0o700)
    os.symlink(place.path("outside"), place.state("sessions"))
    place.pull()
    return place.outside_is()


@attack("5", "an agent.log of the state with a second name")
def log_link(place):
    place.manifest([place.entry("a", b"1")])
    os.makedirs(place.state(), 0o700)
    os.link(place.path("outside/file"), place.state("agent.log"))
    place.pull("--background")
    place.run("wait", "--timeout", "5s")
    place.run("agent", "stop")
    until(lambda: not os.path.exists(place.state("agent.sock")), 3)
    return place.outside_is()
