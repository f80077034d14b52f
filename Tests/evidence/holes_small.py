"""Attacks on what the issue calls smaller, as far as it shows from outside."""

import json
import os
import signal
import subprocess
import threading
import time

from holes_agent import request, status
from holes_network import TOKEN
from holes_place import STRANGER, NotShown, attack, needs_root, until


@attack("small", "few threads are to be had (RLIMIT_NPROC): errors, no hang")
def threads(place):
    # With fewer than seven the Swift runtime's own dispatcher waits for one, a second at a time, before our code runs.
    needs_root()
    place.publish({f"d/{number}": bytes([number]) * 3_000 for number in range(20)})
    for base in (os.path.dirname(place.root), place.root):
        os.chmod(base, 0o755)
    home = place.path("his")
    os.makedirs(home, 0o700)
    for name in ("his", "his-tree"):
        os.makedirs(place.path(name), exist_ok=True)
        os.chown(place.path(name), STRANGER, STRANGER)
    for most in range(7, 16):
        done = place.run("pull", "site/manifest.json", "--into", "his-tree/dest", "--deadline", "5s", user=STRANGER,
                         home=home, wrap=("prlimit", f"--nproc={most}"), seconds=10)
        if done.status is None or done.status < 0:
            return f"with {most} threads: {done}"
    return None


@attack("small", "local sets below '/set #2/', '/set?x/', '/%41/'")
def odd_names(place):
    place.publish({"a": b"1" * 100, "b": b"2" * 100})
    for name in ("set #2", "set?x", "%41"):
        os.rename(place.path("site"), place.path("moved"))
        os.makedirs(place.path("data"), exist_ok=True)
        os.rename(place.path("moved"), place.path("data", name))
        done = place.run("pull", f"data/{name}/manifest.json", "--into", "dest-" + name.replace("?", ""))
        os.rename(place.path("data", name), place.path("site"))
        if done.status != 0:
            return f"{name}: {done}"
    return None


@attack("small", "a percent-encoded URL in a local manifest")
def percent(place):
    entry = place.entry("a", b"12345", "a b")
    entry["urls"] = ["a%20b"]
    place.manifest([entry])
    done = place.pull("--deadline", "5s")
    return None if done.status == 0 else str(done)


@attack("small", "schedule remove for root, when the definition cannot be read")
def removal(place):
    needs_root()
    if os.environ.get("HOLES_ISOLATED") != "1":
        raise NotShown("no mounts of its own to put before /etc/cron.d")
    for directory in ("/etc/cron.d", "/etc/systemd/system"):
        os.makedirs(directory, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "holes", directory], check=True)
        place.closing.append(lambda directory=directory: subprocess.run(["umount", directory], check=False))
    place.manifest([place.entry("a", b"1")])
    added = place.run("schedule", "add", place.path("site/manifest.json"), "--into", place.path("dest"), "--nightly", "02:00",
                      "--backend", "cron", "--system", "--name", "night")
    if not os.listdir("/etc/cron.d"):
        raise NotShown(f"no schedule by cron can be added: {added}")
    definition = "home/.config/syncagent/schedules/night.json"
    assert place.read(definition)
    place.write("{ unreadable", definition, 0o600)
    place.run("schedule", "remove", "night")
    left = os.listdir("/etc/cron.d")
    return f"{left[0]} is still in /etc/cron.d" if left else None


@attack("small", "\"connections\": 4 in a request to the agent means four")
def connections(place):
    lock, now, most = threading.Lock(), [0], [0]

    def reply(handler):
        if handler.path == "/manifest.json":
            return handler.file(place.path("site"))
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.1)
        with lock:
            now[0] -= 1
        return handler.file(place.path("site"))

    server = place.server(reply)
    place.manifest([place.entry(f"f{number}", b"%d" % number * 100) for number in range(80)])
    _, send = place.agent()
    answer = send(request("POST", "/v1/runs", json.dumps({"manifest": server.url + "/manifest.json", "connections": 4,
                                                          "destination": place.path("dest")})))
    assert status(answer) == "201", answer
    done = place.run("wait", "holes", "--timeout", "15s")
    assert done.status == 0, done
    return f"{most[0]} requests at a time" if most[0] > 4 else None


@attack("small", "a hook that a lost agent owes is called with the settings of its own run")
def owed(place):
    place.manifest([place.entry("a", b"1")])
    place.plugin("marker", "hook", f"""
import time
def answer(method, params):
    attempt = params["environment"]["SYNCAGENT_ATTEMPT"]
    with open({place.path('calls')!r}, "a") as file:
        file.write(attempt)
    if attempt == "1":
        time.sleep(30)
    return {{"status": 0}}
""")
    os.rename(place.path("home/.config/syncagent/plugins"), place.path("home/other"))
    config = place.write('{plugins: {directory: "other", use: [{plugin: "marker", point: "hook"}]}}', "home/own.json", 0o600)
    running, _ = place.agent()
    queued = place.pull("--background", "--hook", "plugin:marker", "--config", config)
    assert queued.status == 0, queued
    assert until(lambda: place.read("calls") == b"1", 15), "the hook is not called"
    running.ends(signal.SIGKILL, 5)
    place.agent()
    return None if until(lambda: place.read("calls") == b"12", 20) else "it is not called again"


@attack("small", "pull --dry-run and the file of metrics")
def dry_run(place):
    place.manifest([place.entry("a", b"1")])
    place.configure('{metrics: {textfile: "%s"}}' % place.path("m.prom"))
    assert place.pull().status == 0
    before = place.read("m.prom")
    assert before
    done = place.pull("--dry-run")
    assert done.status == 0, done
    return None if place.read("m.prom") == before else "it is not what it was"


@attack("small", "plan, verify and schedule add use the configured plugins")
def everywhere(place):
    def reply(handler):
        if handler.headers.get("Authorization") != "Bearer s3cret":
            return handler.answer(401)
        return handler.file(place.path("site"))

    server = place.server(reply)
    place.publish({"a": b"1" * 100})
    place.plugin("token", "credential", TOKEN)
    place.configure('{plugins: {use: [{plugin: "token", point: "credential", for: ["%s"]}]}}' % server.url)
    manifest = server.url + "/manifest.json"
    assert place.pull(manifest=manifest).status == 0
    for command in (("plan", manifest), ("verify", manifest),
                    ("schedule", "add", manifest, "--nightly", "02:00", "--backend", "agent", "--name", "night")):
        done = place.run(*command, "--into", "dest", seconds=10)
        if done.status != 0:
            return f"{command[0]}: {done}"
    return None


@attack("small", "a webhook that is told events goes through the configured proxy")
def observer_proxy(place):
    proxy = place.server(lambda handler: handler.answer(204) if handler.path == "http://hooks.example/hook"
                         else handler.file(place.path("site")))
    place.manifest([place.entry("a", b"1")])
    place.configure("""{proxy: {url: "%s"}, plugins: {use: [{plugin: "webhook", point: "observer", events: ["pull.finished"],
        settings: {url: "http://hooks.example/hook"}}]}}""" % proxy.url)
    done = place.pull()
    assert done.status == 0, done
    return None if any(path == "http://hooks.example/hook" for path, _ in proxy.hits) else "the proxy was not asked"


@attack("small", "without /proc it says so, and does nothing")
def no_proc(place):
    if os.environ.get("HOLES_ISOLATED") != "1":
        raise NotShown("no mounts of its own to put before /proc")
    place.manifest([place.entry("a", b"1")])
    done = place.pull(wrap=("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"))
    return None if done.status == 78 and not os.path.exists(place.path("dest")) else str(done)


@attack("small", "report --output does not replace a pipe")
def report_pipe(place):
    place.manifest([place.entry("a", b"1")])
    assert place.pull().status == 0
    os.mkfifo(place.path("pipe"))
    place.run("report", "--output", "pipe", seconds=5)
    return None if not os.path.isfile(place.path("pipe")) else "it was replaced"


for words, reason in (("of three mirrors the one that lied is blamed", "who is blamed is in no event"),
                      ("events.pruned has one form", "it takes 16 MiB of events"),
                      ("history under an agent that stays", "it is pruned every hour")):
    def unseen(place, reason=reason):
        raise NotShown(f"{reason}; a test in the project shows it")
    attack("small", words)(unseen)
