"""Attacks on serve with requests that a proxy in front of it may read in another way, and on what a process inherits."""

import os
import re
import socket
import stat

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


@attack("inherited", "a background pull after an agent that was started with another umask")
def umask(place):
    place.publish({"a": b"1" * 100})
    os.chmod(place.path("site"), 0o755)
    done = place.run("pull", "site/manifest.json", "--into", "dest", "--background",
                     wrap=("sh", "-c", 'umask 022; exec "$0" "$@"'))
    assert done.status == 0, done
    place.run("wait")
    place.run("agent", "stop")
    mode = stat.S_IMODE(os.stat(place.path("dest/a")).st_mode)
    return None if mode == 0o644 else f"dest/a has mode {mode:o}"


@attack("inherited", "a caller that ignores SIGCHLD")
def children(place):
    place.publish({"a": b"1" * 100})
    hook = place.hook("hook", "exit 0")
    done = place.run("pull", "site/manifest.json", "--into", "dest", "--hook", hook,
                     wrap=("env", "--ignore-signal=CHLD"))
    return None if done.status == 0 else f"{done}"
