"""Attacks on what listens: requests that one reader takes for one thing and another for another. And on file systems as they are."""

import json
import os
import re
import socket
import stat
import subprocess

from holes_place import STRANGER, NotShown, attack, needs_root, sha, until

AMBIGUOUS = {
    "two lengths": b"GET /manifest.json HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "a length beside chunked": b"POST /v1/runs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                               b"0\r\n\r\n",
    "a space before the colon": b"GET /manifest.json HTTP/1.1\r\nHost : a\r\n\r\n",
    "no Host": b"GET /manifest.json HTTP/1.1\r\nConnection: close\r\n\r\n",
    "two Hosts": b"GET /manifest.json HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
    "a NUL in a header": b"GET /manifest.json HTTP/1.1\r\nHost: a\r\nX-A: a\0b\r\nConnection: close\r\n\r\n",
}


def answer(connect, data):
    """The status of the answer; "" for none."""
    with connect() as client:
        client.settimeout(5)
        found = b""
        try:
            client.sendall(data)
            while b"\r\n" not in found and (more := client.recv(65536)):
                found += more
        except OSError:
            pass
    return found.split(b" ", 2)[1].decode() if found.startswith(b"HTTP/") and b" " in found else ""


def judged(connect):
    taken = [f"{words} ({status})" for words, data in AMBIGUOUS.items() if (status := answer(connect, data)) not in ("", "400")]
    return ", ".join(taken) + ": taken" if taken else None


@attack("served", "ambiguous requests to 'serve'")
def ambiguous(place):
    place.publish({"a": b"1"})
    running = place.start("serve", "site", "--port", "0")
    log = running.log.name
    assert until(lambda: re.search(rb":(\d+)/", open(log, "rb").read()), 10), "serve did not start"
    with open(log, "rb") as file:
        port = int(re.search(rb":(\d+)/", file.read()).group(1))
    connect = lambda: socket.create_connection(("127.0.0.1", port), 5)
    assert answer(connect, b"GET /manifest.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") == "200"
    return judged(connect)


@attack("served", "ambiguous requests to the agent")
def ambiguous_agent(place):
    place.agent()

    def connect():
        client = socket.socket(socket.AF_UNIX)
        client.connect(place.state("agent.sock"))
        return client

    assert answer(connect, b"GET /v1/agent HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n") == "200"
    for words in list(AMBIGUOUS):
        AMBIGUOUS[words] = AMBIGUOUS[words].replace(b"/manifest.json", b"/v1/agent")
    return judged(connect)


@attack("served", "a session by the control API whose name no command takes")
def odd_session(place):
    place.publish({"a": b"1"})
    _, send = place.agent()
    for name in ("../x", "a/b", "-x", "a b", "x" * 300, "."):
        refused = place.run("pull", "site/manifest.json", "--into", "dest", "--session", name, "--dry-run").status == 64
        body = json.dumps({"manifest": place.path("site/manifest.json"), "destination": place.path("dest"), "session": name})
        got = send(f"POST /v1/runs HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                   .encode())
        taken = (got or b"").split(b" ", 2)[1:2] in ([b"200"], [b"201"], [b"202"])
        if refused and taken:
            return f"{name!r:.20} is taken by the API, and refused by the command"
    return None


@attack("places", "a file system that is mounted below the destination")
def mounted(place):
    place.publish({"a": b"1", "cache/b": b"2" * 5000, "cache/deep/c": b"3"})
    os.makedirs(place.path("dest/cache"))
    if subprocess.run(["mount", "-t", "tmpfs", "holes", place.path("dest/cache")], check=False, capture_output=True).returncode:
        raise NotShown("no mounts of its own")
    place.closing.append(lambda: subprocess.run(["umount", place.path("dest/cache")], check=False))
    done = place.pull()
    if done.status != 0:
        return None if "cache" in done.said and "mount" in done.said.lower() else str(done)
    return None if place.read("dest/cache/deep/c") == b"3" else "status 0, and a file is not there"


@attack("places", "the setgid bit of a directory below the top")
def inherited(place):
    needs_root()
    place.publish({"shared/a": b"1", "shared/new/b": b"2"})
    os.makedirs(place.path("dest/shared"))
    os.chown(place.path("dest/shared"), 0, STRANGER)
    os.chmod(place.path("dest/shared"), 0o2775)
    done = place.pull()
    if done.status != 0:
        return str(done)
    for name in ("dest/shared/a", "dest/shared/new", "dest/shared/new/b"):
        if os.lstat(place.path(name)).st_gid != STRANGER:
            return f"{name} has group {os.lstat(place.path(name)).st_gid}"
    if not os.lstat(place.path("dest/shared/new")).st_mode & stat.S_ISGID:
        return "the new directory does not hand the group on"
    return None


@attack("places", "directories without rights in a manifest, and the next pull by a user who is not root")
def closed(place):
    needs_root()
    for base in (os.path.dirname(place.root), place.root):
        os.chmod(base, 0o755)
    home = place.path("his")
    for name in ("his", "his-tree"):
        os.makedirs(place.path(name), 0o700)
        os.chown(place.path(name), STRANGER, STRANGER)
    for mode in ("000", "111", "222", "300", "444"):
        for revision in (1, 2):
            data = b"%d" % revision * 10
            place.write(data, f"site/f{revision}")
            place.manifest(
                [{"path": "shut/f", "size": len(data), "sha256": sha(data), "urls": [f"f{revision}"]}], revision=revision,
                directories=[{"path": "shut", "mode": mode}])
            done = place.run("pull", "site/manifest.json", "--into", f"his-tree/{mode}", user=STRANGER, home=home)
            if done.status == 65:
                break  # Refused by name is an answer, too.
            if done.status != 0:
                return f"mode {mode}, revision {revision}: {done}"
    return None


@attack("places", "the umask of whoever started the agent")
def masked(place):
    place.publish({"a": b"1", "d/b": b"2"})
    done = place.run("pull", "site/manifest.json", "--into", "dest", "--background", wrap=("sh", "-c", 'umask 022; exec "$@"', "sh"))
    assert done.status == 0, done
    if not until(lambda: place.read("dest/d/b") == b"2", 20):
        return "the files did not come"
    for name, wanted in (("dest/a", 0o644), ("dest/d", 0o755), ("dest/d/b", 0o644)):
        if (mode := stat.S_IMODE(os.lstat(place.path(name)).st_mode)) != wanted:
            return f"{name} has mode {mode:o}"
    return None


@attack("places", "SIGCHLD ignored by whoever started it")
def deaf(place):
    place.publish({"a": b"1"})
    hook = place.hook("hook", f"touch {place.path('ran')}")
    done = place.run("pull", "site/manifest.json", "--into", "dest", "--hook", hook,
                     wrap=("python3", "-c", "import os, signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                           "os.execv(sys.argv[1], sys.argv[1:])"))
    if not os.path.exists(place.path("ran")):
        return f"{done}: the hook did not run"
    return None if done.status == 0 else f"{done}: the hook ran"
