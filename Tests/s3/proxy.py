"""Stands between a client and a bucket: counts what goes each way, and does what buckets do on a bad day.

    proxy.py PORT SERVER-PORT [--slow PERCENT] [--lost PERCENT] [--seed N]

--slow    so many of all requests are answered with 503 SlowDown, and the server does not see them
--lost    so many of all requests reach the server, and the connection is closed in place of its answer
GET /-/count    says {"requests", "sent", "received", "slow", "lost"} since the last time: bytes with headers, as the client sees them
"""

import argparse
import json
import random
import socket
import threading

options = argparse.ArgumentParser()
options.add_argument("port", type=int)
options.add_argument("server", type=int)
options.add_argument("--slow", type=float, default=0)
options.add_argument("--lost", type=float, default=0)
options.add_argument("--seed", type=int, default=1)
options = options.parse_args()
chance = random.Random(options.seed)
lock = threading.Lock()
names = ["requests", "sent", "received", "slow", "lost"]
counts = dict.fromkeys(names, 0)
SLOW = b"""<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"""


def add(name, count=1):
    with lock:
        counts[name] += count


def head(stream):
    """The lines of a head; b"" where the connection ends."""
    lines = b""
    while not lines.endswith(b"\r\n\r\n"):
        line = stream.readline(65537)
        if not line:
            return b""
        lines += line
    return lines


def field(lines, name):
    for line in lines.split(b"\r\n")[1:]:
        if line.lower().startswith(name + b":"):
            return line.split(b":", 1)[1].strip().lower()
    return b""


def body(stream, lines):
    """The pieces of a body, as they come."""
    if field(lines, b"transfer-encoding") == b"chunked":
        while True:
            size = stream.readline()
            yield size
            count = int(size.split(b";")[0], 16)
            yield stream.read(count + 2)
            if count == 0:
                return
    left = int(field(lines, b"content-length") or 0)
    while left:
        piece = stream.read(min(left, 1 << 20))
        if not piece:
            raise OSError("ended early")
        left -= len(piece)
        yield piece


def serve(client):
    server = None
    incoming = client.makefile("rb")
    try:
        while True:
            lines = head(incoming)
            if not lines:
                return
            if lines.startswith(b"GET /-/count "):
                with lock:
                    text = json.dumps(counts).encode()
                    counts.update(dict.fromkeys(names, 0))
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
                continue
            add("requests")
            add("sent", len(lines))
            if field(lines, b"expect"):
                client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                lines = b"\r\n".join(l for l in lines.split(b"\r\n") if not l.lower().startswith(b"expect:"))
            with lock:
                fate = chance.random() * 100
            isSlow = fate < options.slow
            isLost = not isSlow and fate < options.slow + options.lost
            if not isSlow:
                if server is None:
                    server = socket.create_connection(("127.0.0.1", options.server))
                    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    outgoing = server.makefile("rb")
                server.sendall(lines)
            for piece in body(incoming, lines):
                add("sent", len(piece))
                if not isSlow:
                    server.sendall(piece)
            method = lines.split(b" ", 1)[0]
            if isSlow:
                add("slow")
                answer = b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\nContent-Type: application/xml\r\n\r\n" % len(SLOW)
                client.sendall(answer + (b"" if method == b"HEAD" else SLOW))
                continue
            answer = head(outgoing)
            while answer.startswith(b"HTTP/1.1 1"):
                answer = head(outgoing)
            if not answer:
                return
            pieces = [] if method == b"HEAD" or answer[9:12] in (b"204", b"304") else body(outgoing, answer)
            if isLost:
                add("lost")
                for _ in pieces:
                    pass
                return
            add("received", len(answer))
            client.sendall(answer)
            for piece in pieces:
                add("received", len(piece))
                client.sendall(piece)
            if field(answer, b"connection") == b"close":
                return
    except (OSError, ValueError):
        pass
    finally:
        client.close()
        if server:
            server.close()


listener = socket.create_server(("127.0.0.1", options.port), backlog=128)
while True:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
