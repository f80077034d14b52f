"""Attacks on the engine's own rules: whose limit holds, who is blamed, what one thread waits for, what is done again."""

import json
import os
import signal
import sqlite3
import threading
import time

from holes_agent import request, status
from holes_place import attack, sha, until


# MARK: The tightest limit

def asked_for(place, server, **options):
    """A run by the control API."""
    _, send = place.agent()
    body = {"manifest": server.url + "/manifest.json", "destination": place.path("dest"), **options}
    answer = send(request("POST", "/v1/runs", json.dumps(body)))
    assert status(answer) == "201", answer


def most_at_once(place, **options):
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
    place.manifest([place.entry(f"f{number}", b"%d" % number * 100) for number in range(40)])
    asked_for(place, server, **options)
    done = place.run("wait", "holes", "--timeout", "20s", seconds=30)
    assert done.status == 0, done
    return most[0]


@attack("engine", "a run that asks for two connections, and a file of the agent that permits twelve")
def connections(place):
    place.configure("{connections: 12, connections_per_host: 12}")
    found = most_at_once(place, connections=2)
    return f"{found} requests at a time" if found > 2 else None


@attack("engine", "a run that asks for 300 kB/s, and a file of the agent that permits 50 MB/s")
def rate(place):
    place.configure('{limit_rate: "50M"}')
    data = os.urandom(3 << 20)
    place.manifest([place.entry("a", data)])
    start = time.monotonic()
    asked_for(place, place.server(), limit_rate=300_000)
    done = place.run("wait", "holes", "--timeout", "5s", seconds=10)
    return f"{len(data) >> 20} MiB came within {time.monotonic() - start:.0f} s" if done.status == 0 else None


@attack("engine", "the end of a time of day that has a rate of its own: the usual rate of the agent's file holds again")
def window(place):
    place.configure('{limit_rate: "200K"}')
    place.manifest([place.entry("a", os.urandom(24 << 20))])
    now = time.time()
    if now % 60 > 54:
        time.sleep(60 - now % 60)
        now = time.time()
    end = (now // 60 + 1) * 60
    minute = time.gmtime(now)
    rates = [{"window": {"start_minute": minute.tm_hour * 60 + minute.tm_min, "length_minutes": 1, "time_zone": "Etc/UTC"},
              "limit": 100_000}]
    asked_for(place, place.server(), conditions={"rates": rates})
    time.sleep(end + 8 - time.time())
    found = json.loads(place.run("status", "holes", "--json").out.splitlines()[-1])["run"]["bytes"]["received"]
    return f"{found >> 20} MiB came, most of them within 8 s of its end" if found > 12 << 20 else None


# MARK: Blame

def blamed(place, isfirst):
    place.publish({f"f{number}.bin": os.urandom(50_000) for number in range(12)})
    document = json.loads(place.read("site/manifest.json"))
    asked = {"liar": 0, "honest": 0}

    def reply(handler):
        who, _, name = handler.path.lstrip("/").partition("/")
        if who not in asked:
            return handler.file(place.path("site"))
        asked[who] += 1
        if who == "liar" and asked[who] > 1 or who == "honest" and asked[who] == 1 and not isfirst:
            return handler.answer(404)
        handler.path = "/" + name
        if who == "honest":
            return handler.file(place.path("site"))
        # It breaks off behind the byte that is wrong, and has nothing more to say.
        data = bytearray(place.read("site/" + name))
        data[20_000] ^= 1
        first = int(handler.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
        if "Range" in handler.headers:
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        else:
            handler.send_response(200)
        handler.send_header("ETag", f'"{sha(place.read("site/" + name))[:16]}"')
        handler.send_header("Content-Length", str(len(data) - first))
        handler.end_headers()
        handler.wfile.write(data[first:300_000])
        handler.close_connection = True

    server = place.server(reply)
    order = ("liar", "honest") if isfirst else ("honest", "liar")
    for pack in document["packs"]:
        name = pack.pop("url")
        pack["urls"] = [f"{server.url}/{who}/{name}" for who in order]
    place.write(json.dumps(document), "site/manifest.json")
    os.remove(place.path("site/manifest.json.zst"))
    done = place.pull("--deadline", "20s", "--json", manifest=server.url + "/manifest.json")
    sources = [json.loads(line).get("source", "") for line in done.out.splitlines() if '"source.wrong_bytes"' in line]
    wrong = [source for source in sources if "/honest/" in source]
    if wrong:
        return "the honest mirror is blamed"
    return None if sources else f"{done}: nobody is blamed"


@attack("engine", "a mirror that lies and breaks off, asked before an honest one")
def liar_first(place):
    return blamed(place, True)


@attack("engine", "a mirror that lies and breaks off, asked after an honest one")
def liar_last(place):
    return blamed(place, False)


# MARK: What waits for what

@attack("engine", "a database that somebody locks for five seconds while a redirect is to be recorded: other transfers go on")
def locked(place):
    size, gaps = 160 << 20, []
    place.sparse("site/large", size)
    with open(place.path("site/large"), "rb") as file:
        digest = sha(file.read())
    place.manifest([{"path": "large", "size": size, "sha256": digest, "urls": ["large"]}, place.entry("small", b"12345", "there")])
    document = json.loads(place.read("site/manifest.json"))
    document["files"][1]["urls"] = ["hop"]
    place.write(json.dumps(document), "site/manifest.json")
    begun, islocked = threading.Event(), threading.Event()

    def reply(handler):
        if handler.path == "/large":
            handler.send_response(200)
            handler.send_header("Content-Length", str(size))
            handler.end_headers()
            begun.set()
            last = time.monotonic()
            for _ in range(size >> 18):
                handler.wfile.write(bytes(1 << 18))
                now = time.monotonic()
                if islocked.is_set():
                    gaps.append(now - last)
                last = now
                time.sleep(0.01)
            return None
        if handler.path == "/hop":
            begun.wait(5)
            base = sqlite3.connect(place.state("syncagent.sqlite"), timeout=5, isolation_level=None)
            base.execute("BEGIN IMMEDIATE")
            islocked.set()
            handler.answer(302, [("Location", "/there")])
            time.sleep(5)
            base.execute("ROLLBACK")
            base.close()
            return None
        return handler.file(place.path("site"))

    done = place.pull("--connections", "4", manifest=place.server(reply).url + "/manifest.json", seconds=40)
    if not islocked.is_set() or not gaps:
        return f"the attack did not happen: {done}"
    if done.status != 0:
        return str(done)
    return f"nothing was taken for {max(gaps):.1f} s" if max(gaps) > 2 else None


# MARK: What is done again

def read_by(place, *arguments):
    """How many bytes a program has read, by proc_pid_io(5)."""
    running = place.start(*arguments)
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    with open(f"/proc/{running.pid}/io") as file:
        found = next(int(line.split()[1]) for line in file if line.startswith("rchar:"))
    return running.process.wait(), found


@attack("engine", "SIGKILL after most of a set is in place: what was in place is not hashed again")
def killed(place):
    go = threading.Event()
    count, size = 160, 1 << 20

    def reply(handler):
        if handler.path == "/last":
            go.wait(30)
        return handler.file(place.path("site"))

    server = place.server(reply)
    place.manifest([place.entry(f"f{number:03}", os.urandom(size)) for number in range(count)] + [place.entry("last", b"12345")])
    running = place.start("pull", server.url + "/manifest.json", "--into", "dest")
    there = lambda: sum(os.path.exists(place.path(f"dest/f{number:03}")) for number in range(count)) == count
    if not until(there, 40):
        go.set()
        return "the attack did not happen: the files are not in place"
    time.sleep(3)
    running.ends(signal.SIGKILL, 5)
    go.set()
    status, found = read_by(place, "pull", server.url + "/manifest.json", "--into", "dest")
    if status != 0:
        return f"exit {status}"
    return f"{found >> 20} MiB of {count * size >> 20} were read again" if found > count * size // 2 else None
