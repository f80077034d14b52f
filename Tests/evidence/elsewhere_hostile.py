"""Listings that mean harm, of every kind that is read: elsewhere_hostile.py PROGRAM DIRECTORY

Each must be refused with the status that it is given here, within 300 MiB and two minutes (seconds, on a machine without other work), with nothing at its destination and nothing
outside of it.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_MEMORY, MOST_SECONDS = 300 << 20, 120
SHA = "a" * 64
COMMIT = "c" * 40
BIG = 200 << 20


class Server(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pages = {}

    def do_GET(self):
        path = self.path.partition("?")[0]
        page = self.pages.get(path)
        if page is None:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body, headers = page if isinstance(page, tuple) else (page, {})
        pieces = [body.encode()] if isinstance(body, str) else body()
        self.send_response(200)
        if isinstance(body, str):
            self.send_header("Content-Length", str(len(pieces[0])))
        else:
            self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            for piece in pieces:
                self.wfile.write(piece)
        except ConnectionError:
            pass
        self.close_connection = not isinstance(body, str)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def repeated(first, piece, last=b""):
    """200 MB that are never in memory."""
    def pieces():
        yield first
        block = piece * max(1, (1 << 20) // len(piece))
        for _ in range(BIG // len(block)):
            yield block
        yield last
    return pieces


def numbered(first, line, last=b"", most=BIG):
    """The same with a number in each line."""
    def pieces():
        yield first
        size = number = 0
        while size < most:
            block = b"".join(line % (number + step) for step in range(4096))
            number += 4096
            size += len(block)
            yield block
        yield last
    return pieces


def metalink(files, head=""):
    return f'<?xml version="1.0"?>{head}<metalink xmlns="urn:ietf:params:xml:ns:metalink">{files}</metalink>'


def meta_file(name, digest=SHA):
    return f'<file name="{name}"><size>3</size><hash type="sha-256">{digest}</hash><url>http://127.0.0.1/x</url></file>'


def hub(entries):
    return {
        "/api/models/acme/set/revision/main": json.dumps({"sha": COMMIT}),
        f"/api/models/acme/set/tree/{COMMIT}": entries if callable(entries) else json.dumps(entries),
    }


def hub_file(path, digest=SHA):
    return {"type": "file", "oid": "b" * 40, "size": 3, "path": path, "lfs": {"oid": digest, "size": 3}}


def artifact(layers):
    body = layers if callable(layers) else json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": f"sha256:{SHA}", "size": 2}, "layers": layers})
    return {"/v2/acme/set/manifests/v1": (body, {"Content-Type": "application/vnd.oci.image.manifest.v1+json"})}


def layer(title, digest=SHA):
    return {"mediaType": "application/octet-stream", "digest": f"sha256:{digest}", "size": 3,
            "annotations": {"org.opencontainers.image.title": title}}


LAUGHS = "<!DOCTYPE x [<!ENTITY a0 'ha'>" + "".join(
    f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12)) + "]>"
OTHER = "b" * 64
# What, the source, what the server gives, the status.
ATTACKS = [
    ("a list with ../", "list", {"/SHA256SUMS": f"{SHA}  ../x\n"}, 65),
    ("a list with an absolute name", "list", {"/SHA256SUMS": f"{SHA}  /tmp/x\n"}, 65),
    ("a list with a line feed in a name", "list", {"/SHA256SUMS": f"\\{SHA}  a\\nb\n"}, 65),
    ("a list with the same name twice", "list", {"/SHA256SUMS": f"{SHA}  a\n{OTHER}  a\n"}, 65),
    ("a list of 200 MB", "list", {"/SHA256SUMS": numbered(b"", SHA.encode() + b"  file-%d\n")}, 65),
    ("a list of 120 MB", "list", {"/SHA256SUMS": numbered(b"", SHA.encode() + b"  file-%d\n", most=120 << 20)}, 65),
    ("a list that is one line of 200 MB", "list", {"/SHA256SUMS": repeated(SHA.encode() + b"  ", b"x")}, 65),
    ("a Metalink with ../", "meta", {"/set.meta4": metalink(meta_file("../x"))}, 65),
    ("a Metalink with the same name twice", "meta", {"/set.meta4": metalink(meta_file("a") + meta_file("a", OTHER))}, 65),
    ("a Metalink with a billion laughs", "meta", {"/set.meta4": metalink(meta_file("&a11;"), LAUGHS)}, 65),
    ("a Metalink with an entity from a file", "meta",
     {"/set.meta4": metalink(meta_file("&x;"), "<!DOCTYPE x [<!ENTITY x SYSTEM 'file:///etc/passwd'>]>")}, 65),
    ("a Metalink of 200 MB", "meta", {"/set.meta4": numbered(
        metalink("")[:-len("</metalink>")].encode(), meta_file("f%d").encode())}, 65),
    ("a Metalink of 120 MB", "meta", {"/set.meta4": numbered(
        metalink("")[:-len("</metalink>")].encode(), meta_file("f%d").encode(), most=120 << 20)}, 65),
    ("a Metalink in a million elements in each other", "meta", {"/set.meta4": metalink("<a>" * 1_000_000)}, 65),
    ("a hub with ../", "hf", hub([hub_file("../x")]), 65),
    ("a hub with the same name twice", "hf", hub([hub_file("a"), hub_file("a", OTHER)]), 65),
    ("a hub with a page of 200 MB", "hf", hub(numbered(b"[", json.dumps(hub_file("f%d")).encode() + b",", b"{}]")), 65),
    ("a hub with arrays in each other", "hf", hub(repeated(b"", b"[")), 65),
    ("a hub with pages without an end", "hf-endless", {}, 65),
    ("an artifact with ../", "oci", artifact([layer("../x")]), 65),
    ("an artifact with the same name twice", "oci", artifact([layer("a"), layer("a", OTHER)]), 65),
    ("an artifact of 200 MB", "oci", artifact(numbered(
        b'{"schemaVersion":2,"layers":[', json.dumps(layer("f%d")).encode() + b",")), 65),
    ("a program with ../", "program", "printf '%s' '{\"format\":\"syncagent-manifest/1\",\"project\":\"a\",\"files\":[{\"path\":\"../x\","
     f"\"size\":3,\"sha256\":\"{SHA}\",\"urls\":[\"http://127.0.0.1/x\"]}}]}}'", 65),
    ("a program that prints 200 MB", "program", "head -c 200000000 /dev/zero | tr '\\0' x", 65),
    ("a program that prints nothing", "program", "sleep 1000", 69),
    ("a repository with a file ..", "git-dots", {}, 65),
    ("a repository with the same name twice", "git-twice", {}, 65),
    ("a repository of 200 MB of names", "git-names", {}, 65),
]


def git(directory, *arguments, text=None):
    done = subprocess.run(["git", "-C", directory, *arguments], input=text, capture_output=True, check=True)
    return done.stdout.strip().decode()


def repository(directory, kind):
    """A bare repository whose tree no work tree could have."""
    path = f"{directory}/{kind}.git"
    subprocess.run(["git", "init", "-q", "--bare", path], check=True)
    blob = git(path, "hash-object", "-w", "--stdin", text=b"x")

    def entry(mode, name, digest):
        return f"{mode} ".encode() + name + b"\0" + bytes.fromhex(digest)

    def tree(entries):
        return git(path, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", text=b"".join(entries))

    if kind == "git-dots":
        inner = tree([entry("100644", b"x", blob)])
        top = tree([entry("40000", b"..", inner)])
    elif kind == "git-twice":
        other = git(path, "hash-object", "-w", "--stdin", text=b"y")
        top = tree([entry("100644", b"a", blob), entry("100644", b"a", other)])
    else:
        # A tree of trees of the same tree: nothing in the repository, 700,000 files for whoever lists it.
        deep = tree([entry("100644", b"%0200d" % number, blob) for number in range(90)])
        for _ in range(2):
            deep = tree([entry("40000", b"%0100d" % number, deep) for number in range(90)])
        top = deep
    commit = git(path, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit-tree", top, "-m", "x")
    git(path, "update-ref", "refs/heads/main", commit)
    git(path, "symbolic-ref", "HEAD", "refs/heads/main")
    return f"lfs+file://{path}"


def source(kind, given, directory, url, home):
    if kind == "program":
        plugins = f"{home}/.config/syncagent/plugins"
        os.makedirs(plugins, exist_ok=True)
        with open(f"{plugins}/syncagent-plugin-bad", "w", encoding="utf8") as file:
            file.write(f"#!/bin/sh\n{given}\n")
        os.chmod(f"{plugins}/syncagent-plugin-bad", 0o755)
        with open(f"{home}/.config/syncagent/config.json", "w", encoding="utf8") as file:
            json.dump({"plugins": {"use": [{"plugin": "bad", "point": "source", "for": ["bad:"], "timeout": "10s"}]}}, file)
        return "bad://x"
    if kind.startswith("git-"):
        return repository(directory, kind)
    Server.pages = dict(given)
    if kind == "hf-endless":
        tree = f"/api/models/acme/set/tree/{COMMIT}"
        Server.pages = {
            "/api/models/acme/set/revision/main": json.dumps({"sha": COMMIT}),
            tree: ("[]", {"Link": f"<{url}{tree}?cursor=x>; rel=\"next\""}),
        }
    host = url.removeprefix("http://")
    return {"list": f"{url}/SHA256SUMS", "meta": f"{url}/set.meta4", "oci": f"oci://{host}/acme/set:v1"}.get(kind, "hf://acme/set")


def attempt(program, directory, url, kind, given, status):
    """What was wrong; nothing where it was refused as it should be."""
    home = f"{directory}/home"
    os.makedirs(home)
    named = source(kind, given, directory, url, home)
    environment = {"HOME": home, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HF_ENDPOINT": url}
    if "LD_LIBRARY_PATH" in os.environ:
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    begin = time.monotonic()
    process = subprocess.Popen(
        [program, "pull", named, "--into", f"{directory}/place", "--patience", "5s"], env=environment, cwd=directory,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    timer = threading.Timer(MOST_SECONDS * 2, process.kill)
    timer.start()
    said = process.stdout.read().decode(errors="replace").strip()
    _, code, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(code)
    seconds, memory = time.monotonic() - begin, usage.ru_maxrss << 10
    faults = []
    if process.returncode != status:
        faults.append(f"exit {process.returncode} instead of {status}")
    if seconds > MOST_SECONDS:
        faults.append(f"{seconds:.0f} s")
    if memory > MOST_MEMORY:
        faults.append(f"{memory >> 20} MiB")
    left = [name for name in os.listdir(f"{directory}/place") if name != ".syncagent"] if os.path.isdir(f"{directory}/place") else []
    if left or os.path.exists(f"{directory}/x"):
        faults.append(f"there is something now: {left}")
    line = said.splitlines()[-1] if said else ""
    return ", ".join(faults), f"{seconds:.1f} s, {memory >> 20} MiB: {line.replace(directory, '')[:160]}"


def main(program, directory):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    open_attacks = 0
    for number, (words, kind, given, status) in enumerate(ATTACKS):
        place = f"{os.path.abspath(directory)}/{number}"
        os.makedirs(place)
        fault, told = attempt(program, place, url, kind, given, status)
        open_attacks += bool(fault)
        print(f"{'OPEN' if fault else 'ok'}: {words}: {fault + '; ' if fault else ''}{told}", flush=True)
        shutil.rmtree(place, ignore_errors=True)
    print(f"{len(ATTACKS) - open_attacks} of {len(ATTACKS)} refused")
    return 1 if open_attacks else 0


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main(*sys.argv[1:]))
