"""Attacks 6 and 14 on the agent: requests on its socket, and stopping what it works on."""

import json
import os
import socket
import time

from holes_network import deaf_hook, silent, terabyte
from holes_place import attack, until


def request(method, path, body=""):
    data = body if isinstance(body, bytes) else body.encode()
    return (f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n").encode() + data


def status(answer):
    return (answer or b"HTTP/1.1 (none)").split(b" ", 2)[1].decode()


# MARK: 6. The control API

HALVES = [b"", b"GET /v1/ag", b"POST /v1/runs HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n{"]


@attack("6", "a destination with a NUL in it: /…/dest\\u0000x")
def nul(place):
    place.manifest([place.entry("a", b"1")])
    _, send = place.agent()
    answer = send(request("POST", "/v1/runs", json.dumps({"manifest": place.path("site/manifest.json"),
                                                          "destination": place.path("dest") + "\0x"})))
    if os.path.exists(place.path("dest")) or status(answer).startswith("2"):
        return f"status {status(answer)}: it was taken for what stands before the NUL"
    return None if status(answer) == "400" else f"status {status(answer)}"


@attack("6", "a request with one key twice")
def twice(place):
    place.manifest([place.entry("a", b"1")])
    _, send = place.agent()
    body = json.dumps({"manifest": place.path("site/manifest.json"), "destination": place.path("dest")})
    body = body[:-1] + ', "destination": ' + json.dumps(place.path("outside/other")) + "}"
    answer = send(request("POST", "/v1/runs", body))
    return None if status(answer) == "400" else f"status {status(answer)}"


@attack("6", "80 connections that stay half open, and one client who asks")
def half_open(place):
    _, _ = place.agent()
    held = []
    try:
        for number in range(80):
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(5)
            held.append(client)
            try:
                client.connect(place.state("agent.sock"))
                client.sendall(HALVES[number % 3])
            except OSError:
                pass
        start = time.monotonic()
        answer = place.send(place.state("agent.sock"), request("GET", "/v1/agent"), 20)
        seconds = time.monotonic() - start
    finally:
        for client in held:
            client.close()
    if status(answer) != "200":
        return "no answer within 20 s"
    return f"the answer took {seconds:.0f} s" if seconds > 8 else None


# MARK: 14. Stopping in the background

def files_silent(place):
    url, held = silent(place)
    place.manifest([place.entry("a", b"12345", url + "/a")])
    return (), lambda _: held


def hashing(place):
    terabyte(place)
    return (), lambda running: running.has_worked(0.7)


def hooked(place):
    return ("--hook", deaf_hook(place)), lambda _: os.path.exists(place.path("on"))


STATES = (("a server does not answer for the files", files_silent), ("a file of 1 TiB is hashed", hashing),
          ("a hook does not listen", hooked))


def at_work(place, prepare):
    options, isready = prepare(place)
    running, _ = place.agent()
    queued = place.pull("--background", *options)
    assert queued.status == 0, queued
    assert until(lambda: isready(running), 15), "the agent does not come to work"
    return running


def cancelled(prepare):
    def run(place):
        at_work(place, prepare)
        done = place.run("cancel", "holes", seconds=10)
        if done.status != 0:
            return str(done)
        if done.seconds > 2:
            return f"cancel took {done.seconds:.1f} s"
        answer = []

        def isover():
            answer[:] = [place.send(place.state("agent.sock"), request("GET", "/v1/sessions/holes"))]
            return b'"state":"idle"' in (answer[0] or b"").replace(b" ", b"")

        return None if until(isover, 3) else "3 s later the session still works"
    return run


def agent_stopped(prepare):
    def run(place):
        running = at_work(place, prepare)
        done = place.run("agent", "stop", seconds=15)
        if done.status != 0:
            return str(done)
        if not until(lambda: running.process.poll() is not None, max(0.1, 3 - done.seconds)):
            return "3 s after 'agent stop' the agent is still there"
        return f"'agent stop' took {done.seconds:.1f} s" if done.seconds > 3 else None
    return run


for words, state in STATES:
    if state is not hooked:  # Hooks of what is complete run on after a cancel, as documented.
        attack("14", f"cancel while {words}")(cancelled(state))
    attack("14", f"agent stop while {words}")(agent_stopped(state))


@attack("14", "agent stop while it reads a manifest that a server does not send")
def stop_enqueue(place):
    url, held = silent(place)
    running, _ = place.agent()
    client = socket.socket(socket.AF_UNIX)
    place.closing.append(client.close)
    client.connect(place.state("agent.sock"))
    client.sendall(request("POST", "/v1/runs", json.dumps({"manifest": url + "/manifest.json",
                                                           "destination": place.path("dest")})))
    assert until(lambda: held, 10), "the agent asks nobody"
    done = place.run("agent", "stop", seconds=15)
    isgone = until(lambda: running.process.poll() is not None, max(0.1, 3 - done.seconds))
    return None if done.status == 0 and isgone else f"{done}; the agent is {'gone' if isgone else 'there after 3 s'}"
