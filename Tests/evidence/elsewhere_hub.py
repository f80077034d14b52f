"""A hub as Hugging Face's answers, with the same repository under every name: elsewhere_hub.py DIRECTORY [OPTION…]

DIRECTORY/main names the commit that the branch is at, as a file of any other name does for a tag; DIRECTORY/COMMIT/ has the files of one. Files that end with .bin are in LFS:
where they are is a redirect to --cdn URL, which has them as URL/SHA256, or to another port of this server.

  --cdn URL           where large files are
  --limit N/SECONDS   so many resolves in a window of that length; beyond them 429
  --address ADDRESS   where to listen (default 127.0.0.1)
  --log FILE          a line for each request: STATUS BYTES METHOD PATH
  --delay SECONDS     before each answer

Prints its URL. GET /-/counts answers with what was asked so far, as JSON, and forgets it.
"""

import argparse
import asyncio
import hashlib
import json
import os
import sys
import time
import urllib.parse

KINDS = ("models", "datasets", "spaces")
PAGE = 1000


class Repository:
    """The commits below a directory, each read once."""

    def __init__(self, directory):
        self.directory = directory
        self.commits = {}
        self.large = {}

    def commit(self, revision):
        """What a branch, a tag or a commit is."""
        place = f"{self.directory}/{revision}"
        if "/" in revision or not os.path.isfile(place):
            return revision
        with open(place, encoding="utf8") as file:
            return file.read().strip()

    def files(self, commit):
        """By path: size, git's name, and the SHA-256 of what is in LFS."""
        if commit not in self.commits:
            root = f"{self.directory}/{commit}"
            if "/" in commit or not os.path.isdir(root):
                return None
            found = {}
            for directory, _, names in os.walk(root):
                for name in names:
                    place = f"{directory}/{name}"
                    found[os.path.relpath(place, root)] = self.describe(place)
            self.commits[commit] = dict(sorted(found.items()))
        return self.commits[commit]

    def describe(self, place):
        size = os.path.getsize(place)
        if not place.endswith(".bin"):
            with open(place, "rb") as file:
                data = file.read()
            return size, hashlib.sha1(b"blob %d\0" % size + data).hexdigest(), None, data
        digest = hashlib.sha256()
        with open(place, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
        digest = digest.hexdigest()
        self.large[digest] = place
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n".encode()
        return size, hashlib.sha1(b"blob %d\0" % len(pointer) + pointer).hexdigest(), digest, None


class Hub:
    def __init__(self, options):
        self.options = options
        self.repository = Repository(options.directory)
        self.url = self.cdn = ""
        self.window = (0.0, 0)
        self.counts = {}
        self.log = open(options.log, "a", encoding="utf8", buffering=1) if options.log else None

    def count(self, what, number=1):
        self.counts[what] = self.counts.get(what, 0) + number

    def answer(self, method, target, headers):
        """Status, headers, and the body: bytes, or a file with a range."""
        path, _, query = target.partition("?")
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        if path == "/-/counts":
            counts, self.counts = self.counts, {}
            return 200, {"Content-Type": "application/json"}, json.dumps(counts).encode()
        if parts[:1] == ["cdn"] and len(parts) == 2:
            self.count("cdn")
            return self.ranged(self.repository.large.get(parts[1]), headers)
        if parts[0] == "api" and len(parts) > 3 and parts[1] in KINDS:
            self.count("api")
            return self.api("/".join(parts[2:4]), path, parts[4:], urllib.parse.parse_qs(query))
        if parts[0] in KINDS:
            del parts[0]
        if parts[2:3] == ["resolve"] and len(parts) > 4:
            self.count("resolve")
            return self.resolve(parts[3], "/".join(parts[4:]), headers)
        return 404, {}, b"{}"

    def api(self, name, place, rest, query):
        kind = {"Content-Type": "application/json"}
        commit = self.repository.commit(rest[1] if len(rest) > 1 else "main")
        files = self.repository.files(commit)
        if files is None:
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        if not rest or rest[0] == "revision":
            told = {"_id": "1", "id": name, "modelId": name, "sha": commit, "private": False, "tags": [], "downloads": 0,
                    "likes": 0, "siblings": [{"rfilename": path} for path in files]}
            return 200, kind, json.dumps(told).encode()
        if rest[0] != "tree":
            return 404, {}, b"{}"
        first = int(query.get("cursor", ["0"])[0])
        page = []
        for path, (size, oid, digest, _) in list(files.items())[first:first + PAGE]:
            entry = {"type": "file", "oid": oid, "size": size, "path": path}
            if digest:
                entry["lfs"] = {"oid": digest, "size": size, "pointerSize": 134}
            page.append(entry)
        if first + PAGE < len(files):
            kind["Link"] = f'<{self.url}{place}?recursive=true&cursor={first + PAGE}>; rel="next"'
        return 200, kind, json.dumps(page).encode()

    def resolve(self, revision, path, headers):
        commit = self.repository.commit(revision)
        found = (self.repository.files(commit) or {}).get(path)
        if found is None:
            return 404, {"X-Error-Code": "EntryNotFound"}, b""
        size, oid, digest, data = found
        told = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        if self.options.limit:
            most, seconds = self.options.limit
            now = time.monotonic()
            if now >= self.window[0]:
                self.window = (now + seconds, 0)
            told["RateLimit-Policy"] = f'"fixed window";"resolvers";q={most};w={max(1, round(seconds))}'
            end, used = self.window
            rest = max(1, int(end - now + 0.999))
            if used >= most:
                self.count("refused")
                told["RateLimit"] = f'"resolvers";r=0;t={rest}'
                return 429, told, b""
            self.window = (end, used + 1)
            told["RateLimit"] = f'"resolvers";r={most - used - 1};t={rest}'
        if digest is None:
            told["ETag"] = f'"{oid}"'
            return self.ranged(data, headers, told)
        told["X-Linked-Size"], told["X-Linked-ETag"] = str(size), f'"{digest}"'
        told["Location"] = f"{self.cdn}/{digest}"
        return 302, told, b""

    def ranged(self, what, headers, told=None):
        """Bytes, or a file by its name; the part of it that `Range` says."""
        if what is None:
            return 404, {}, b""
        told = dict(told or {"Accept-Ranges": "bytes"})
        size = len(what) if isinstance(what, bytes) else os.path.getsize(what)
        span = headers.get("range", "")
        if not span.startswith("bytes=") or "," in span or "if-range" in headers and headers["if-range"] != told.get("ETag"):
            return 200, told, what if isinstance(what, bytes) else (what, 0, size)
        first, _, last = span[6:].partition("-")
        first = int(first) if first else max(0, size - int(last))
        last = min(int(last), size - 1) if last and span[6] != "-" else size - 1
        if first > last:
            told["Content-Range"] = f"bytes */{size}"
            return 416, told, b""
        told["Content-Range"] = f"bytes {first}-{last}/{size}"
        return 206, told, what[first:last + 1] if isinstance(what, bytes) else (what, first, last - first + 1)

    async def serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
                method, target, _ = head[0].split(" ", 2)
                headers = {}
                for line in head[1:]:
                    name, _, value = line.partition(":")
                    headers[name.lower()] = value.strip()
                if self.options.delay:
                    await asyncio.sleep(self.options.delay)
                await self.send(writer, method, target, *self.answer(method, target, headers))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            writer.close()

    async def send(self, writer, method, target, status, headers, body):
        length = body[2] if isinstance(body, tuple) else len(body)
        # Before anything is sent: whoever has all of it may ask for the counts at once.
        if target != "/-/counts":
            self.count("requests")
            self.count(f"{method} {status}")
        lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {length}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join(lines).encode("latin1") + b"\r\n\r\n")
        if method != "HEAD":
            if isinstance(body, tuple):
                with open(body[0], "rb") as file:
                    file.seek(body[1])
                    left = length
                    while left:
                        piece = file.read(min(left, 1 << 18))
                        self.count("bytes", len(piece))
                        writer.write(piece)
                        left -= len(piece)
                        await writer.drain()
            else:
                writer.write(body)
                if target != "/-/counts":
                    self.count("bytes", length)
        if target == "/-/counts":
            return await writer.drain()
        if self.log:
            self.log.write(f"{status} {length} {method} {target}\n")
        await writer.drain()

    async def run(self):
        servers, urls = [], []
        for port in (self.options.port, 0):
            server = await asyncio.start_server(self.serve, self.options.address, port, limit=1 << 16, backlog=1024)
            host, port = server.sockets[0].getsockname()[:2]
            servers.append(server)
            urls.append(f"http://{host}:{port}")
        self.url, self.cdn = urls[0], self.options.cdn or urls[1] + "/cdn"
        self.repository.files(self.repository.commit("main"))
        print(self.url, flush=True)
        await asyncio.gather(*(server.serve_forever() for server in servers))


def limit(text):
    most, seconds = text.split("/")
    return int(most), float(seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--cdn")
    parser.add_argument("--limit", type=limit)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log")
    parser.add_argument("--delay", type=float, default=0)
    options = parser.parse_args()
    try:
        asyncio.run(Hub(options).run())
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
