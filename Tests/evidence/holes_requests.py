"""Attacks on serve with requests that a proxy in front of it may read in another way."""

import json
import re
import socket

from holes_place import attack, until

HOST = b"Host: h\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
AMBIGUOUS = {
    "two lengths": b"GET /a HTTP/1.1\r\n" + HOST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "a length and chunked": b"GET /a HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n",
    "a blank before the colon": b"GET /a HTTP/1.1\r\n" + HOST + b"Content-Length : 0\r\n\r\n",
    "no host": b"GET /a HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /a HTTP/1.1\r\n" + HOST + b"Host: g\r\n\r\n",
    "a NUL in the target": b"GET /a\0b HTTP/1.1\r\n" + HOST + b"\r\n",
    "a NUL in a field": b"GET /a HTTP/1.1\r\nHost: h\0g\r\n\r\n",
    "a CR alone": b"GET /a HTTP/1.1\r\nHost: h\rX: y\r\n\r\n",
    "a folded line": b"GET /a HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n",
}


@attack("requests", "requests to serve that can be read in two ways")
def ambiguous(place):
    place.write("12345", "site/a")
    running = place.start("serve", "site", "--port", "0")

    def port():
        with open(running.log.name) as file:
            return re.search(r"http://127\.0\.0\.1:(\d+)", file.read())

    assert until(port, 10), "serve does not start"
    taken = []
    for words, request in AMBIGUOUS.items():
        with socket.create_connection(("127.0.0.1", int(port()[1])), 5) as client:
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
            said = b""
            try:
                while piece := client.recv(65_536):
                    said += piece
            except OSError:
                pass
        if b" 200 " in said.split(b"\r\n")[0]:
            taken.append(words)
    return "answered as if it were clear: " + ", ".join(taken) if taken else None


@attack("requests", "requests to the agent that can be read in two ways")
def ambiguous_agent(place):
    _, send = place.agent()
    assert b" 200 " in (send(b"GET /v1/agent HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n") or b"").split(b"\r\n")[0]
    taken = []
    for words, request in AMBIGUOUS.items():
        said = send(request.replace(b" /a", b" /v1/agent").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1), 5)
        if b" 200 " in (said or b"").split(b"\r\n")[0]:
            taken.append(words)
    return "answered as if it were clear: " + ", ".join(taken) if taken else None


@attack("requests", "a session by the control API whose name no command takes")
def odd_session(place):
    place.publish({"a": b"1"})
    _, send = place.agent()
    for name in ("../x", "a/b", "-x", "a b", "x" * 300, "."):
        refused = place.run("pull", "site/manifest.json", "--into", "dest", "--session", name, "--dry-run").status == 64
        body = json.dumps({"manifest": place.path("site/manifest.json"), "destination": place.path("dest"), "session": name})
        said = send(f"POST /v1/runs HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                    .encode())
        if refused and (said or b"").split(b" ", 2)[1:2] in ([b"200"], [b"201"], [b"202"]):
            return f"{name!r:.20} is taken by the API, and refused by the command"
    return None
