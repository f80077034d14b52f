"""A small HTTP server on loopback for one worker: ranges, and answers that are wrong in a way a case asks for."""

import os
import re
import socket
import threading

LIMIT = 500 << 20  # Bytes of an answer without an end.


class Server:
    def __init__(self, port):
        self.root = "/nonexistent"
        self.fault = None  # Called with the path, the file's bytes and the range; may return an answer's chunks.
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(128)
        self.port = port
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        client.settimeout(30)
        try:
            pending = b""
            while True:
                while b"\r\n\r\n" not in pending:
                    more = client.recv(65536)
                    if not more or len(pending) > 1 << 20:
                        return
                    pending += more
                head, pending = pending.split(b"\r\n\r\n", 1)
                if not self._answer(client, head.decode("latin-1")):
                    return
        except (OSError, ValueError):
            pass
        finally:
            client.close()

    def _answer(self, client, head):
        lines = head.split("\r\n")
        method, target = lines[0].split(" ")[:2]
        path = re.sub(r"^https?://[^/]*", "", target).split("?")[0]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        file = os.path.normpath(self.root + "/" + path)
        data = None
        if file.startswith(self.root + "/") and os.path.isfile(file):
            with open(file, "rb") as opened:
                data = opened.read()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        span = None
        if data is not None and wanted:
            first, last = int(wanted[1]), int(wanted[2] or len(data) - 1)
            span = (first, min(last, len(data) - 1)) if first < len(data) else None
        if self.fault:
            answer = self.fault(path, data, span)
            if answer is not None:
                for chunk in answer:
                    client.sendall(chunk)
                return False
        client.sendall(plain(data, span, bool(wanted), method))
        return True


def plain(data, span, is_range=False, method="GET"):
    """The answer of a good server."""
    if data is None:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    if is_range and span is None:
        return (f"HTTP/1.1 416 No\r\nContent-Range: bytes */{len(data)}\r\nContent-Length: 0\r\n\r\n").encode()
    if span is None:
        head, body = f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n", data
    else:
        body = data[span[0]:span[1] + 1]
        head = (f"HTTP/1.1 206 Partial\r\nContent-Range: bytes {span[0]}-{span[1]}/{len(data)}\r\n"
                f"Content-Length: {len(body)}\r\n")
    head += 'Accept-Ranges: bytes\r\nETag: "e"\r\n\r\n'
    return head.encode() + (b"" if method == "HEAD" else body)


def faults(random, port):
    """One way for a server to be wrong, for the paths that it is wrong for."""
    only = random.choice([r"", r"\.json$", r"\.pack$"])
    kind = random.randrange(12)
    number = random.choice([0, 1, 5, 1000, 2**31, 2**63, -1])
    location = random.choice([
        "/manifest.json", "file:///etc/passwd", f"http://127.0.0.1:{port}/manifest.json", "//", "x%0d%0aA: b", "../..",
        f"http://localhost:{port}/", "ftp://127.0.0.1/", "http://[::1]:1/", "http://0/", "a" * 9000, "\x01", "?", "",
        "http://169.254.169.254/latest/", "http://user:word@127.0.0.1:1/", "gopher://127.0.0.1/"])

    def fault(path, data, span):
        if not re.search(only, path) or data is None:
            return None
        good = plain(data, span, span is not None)
        head, _, body = good.partition(b"\r\n\r\n")
        if kind == 0:
            return [good[:random.randrange(len(good))]]
        if kind == 1:
            return [re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % number, head) + b"\r\n\r\n" + body]
        if kind == 2:
            return [re.sub(rb"bytes \d+-", b"bytes %d-" % number, head) + b"\r\n\r\n" + body]
        if kind == 3:
            return [plain(data, None)]
        if kind == 4:
            status = random.choice([100, 199, 204, 206, 226, 300, 304, 401, 403, 408, 410, 413, 429, 500, 503, 999])
            return [b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nRetry-After: %d\r\n\r\n" % (status, number)]
        if kind == 5:
            code = random.choice([301, 302, 303, 307, 308, 305])
            return [f"HTTP/1.1 {code} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")]
        if kind == 6:
            return [head, b"\r\nContent-Encoding: " + random.choice([b"gzip", b"zstd", b"br", b"x"]), b"\r\n\r\n", body]
        if kind == 7:
            return [b"HTTP/1.1 200 OK\r\n"] + [b"X-%d: " % n + b"y" * 1000 + b"\r\n" for n in range(1000)]
        if kind == 8:
            block = body[:4096] or b" " * 4096
            return [b"HTTP/1.1 200 OK\r\n\r\n"] + [block * 64] * (LIMIT // max(1, len(block) * 64))
        if kind == 9:
            return [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"%x\r\n" % abs(number), body]
        if kind == 10:
            from mutations import of_bytes
            return [of_bytes(random, head), b"\r\n\r\n", body]
        return [head + b"\r\n\r\n" + body[::-1]]

    return fault
