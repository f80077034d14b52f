"""Small published sets and destinations, made once by the program itself and copied for every case."""

import hashlib
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import threading

PROJECT = "com.example.fuzz"
STATE = "home/.local/state/syncagent"


def sha(data):
    return hashlib.sha256(data).hexdigest()


def environment(home):
    # A crash is told by the signal; taking it apart costs seconds.
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {"HOME": home, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "SWIFT_BACKTRACE": "enable=no", **kept}


class Sets:
    """`plain`, `parts`, `dictionary`: a set and nowhere to go. `update`, `parts-update`: the second revision, with a
    destination that has the first. `begun`: a destination whose pull was cut off."""

    def __init__(self, program, root, place):
        """`place`: where every case will stand, since stores and caches say where things are."""
        self.program, self.root, self.place = program, root, place
        os.makedirs(root)
        self.known = {sha(b"")}
        self._sources()
        self.names = []
        for name, arguments in [("plain", []), ("parts", ["--manifest-parts"]), ("dictionary", ["--dictionary", "always"])]:
            self._publish("one", arguments)
            self._keep(name)
        for name, arguments in [("update", []), ("parts-update", ["--manifest-parts"])]:
            self._publish("one", arguments)
            self._run("pull", "site/manifest.json", "--into", "dest")
            self._publish("two", arguments)
            self._keep(name)
        self._publish("one", [])
        self._begin()
        self._keep("begun")
        self._signed()
        self._keep("signed")
        self.names.remove("signed")  # Only for those who know what is signed.
        self._publisher()
        self._keep("publisher")
        self.names.remove("publisher")
        for path in ("one", "two", "evil"):
            shutil.rmtree(os.path.join(root, path))

    def _sources(self):
        generator = random.Random(7)
        words = ["".join(generator.choices("abcdefgh", k=6)) for _ in range(60)]
        texts = {f"d/f{n}.txt": " ".join(generator.choices(words, k=150)).encode() for n in range(6)}
        texts["e/empty"] = b""
        texts["tool.sh"] = b"#!/bin/sh\nexit 0\n"
        texts["large.bin"] = generator.randbytes(300_000)
        for revision in ("one", "two"):
            for path, data in texts.items():
                if revision == "two" and path == "d/f1.txt":
                    continue
                if revision == "two" and path in ("d/f2.txt", "large.bin"):
                    data = data[:len(data) // 2] + b"changed" + data[len(data) // 2:]
                file = os.path.join(self.root, revision, path)
                os.makedirs(os.path.dirname(file), exist_ok=True)
                with open(file, "wb") as opened:
                    opened.write(data)
                self.known.add(sha(data))
            os.chmod(os.path.join(self.root, revision, "tool.sh"), 0o755)
            os.symlink("d/f0.txt", os.path.join(self.root, revision, "latest"))
        with open(os.path.join(self.root, "two", "d", "new.txt"), "wb") as opened:
            opened.write(b"new in two")
        self.known.add(sha(b"new in two"))

    def _run(self, *arguments, check=True):
        home = os.path.join(self.place, "home")
        os.makedirs(home, exist_ok=True)
        done = subprocess.run([self.program, *arguments], env=environment(home), cwd=self.place,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
        if check and done.returncode != 0:
            raise SystemExit(f"fuzz: a set cannot be made: {done.stdout.decode(errors='replace')}")

    def _publish(self, revision, arguments):
        os.makedirs(self.place, exist_ok=True)
        self._run("publish", os.path.join(self.root, revision), "--to", "site", "--project", PROJECT,
                  "--pack-size", "64K", "--group", "docs=d/**", *arguments)
        shutil.rmtree(os.path.join(self.place, STATE, "publish"), ignore_errors=True)

    def _keep(self, name):
        self.names.append(name)
        shutil.move(self.place, os.path.join(self.root, name))

    def _signed(self):
        os.makedirs(self.place, exist_ok=True)
        for name in ("keys", "thief"):
            self._run("keys", "new", name, "--project", PROJECT)
        self._publish("one", ["--sign", "keys"])
        self._run("pull", "site/manifest.json", "--into", "dest", "--trust", "keys/1.root")
        shutil.copytree(os.path.join(self.place, "site", "trust"), os.path.join(self.place, "pool", "old"))
        self._publish("two", ["--sign", "keys"])
        shutil.copy(os.path.join(self.place, "site", "manifest.json"), os.path.join(self.place, "signed.json"))
        shutil.copytree(os.path.join(self.place, "site", "trust"), os.path.join(self.place, "pool", "new"))
        site = os.path.join(self.place, "site")
        os.rename(site, site + ".good")
        # Nobody has signed what the thief has, or only he has.
        evil = os.path.join(self.root, "evil")
        for number in range(3):
            os.makedirs(os.path.join(evil, "d"), exist_ok=True)
            with open(os.path.join(evil, "d", f"f{number}.txt"), "wb") as opened:
                opened.write(b"nobody has signed this %d" % number * 50)
        self._publish("evil", ["--sign", "thief", "--revision", "9"])
        shutil.copytree(os.path.join(site, "trust"), os.path.join(self.place, "pool", "thief"))
        shutil.copytree(site + ".good", site, dirs_exist_ok=True)
        shutil.rmtree(site + ".good")
        for name in ("keys", "thief"):
            shutil.rmtree(os.path.join(self.place, name))

    def _publisher(self):
        """Who signs: keys, what was published, what is to be published next, and what was the newest before."""
        os.makedirs(self.place, exist_ok=True)
        self._run("keys", "new", "keys", "--project", PROJECT)
        arguments = ["--to", "site", "--project", PROJECT, "--pack-size", "64K", "--group", "docs=d/**", "--sign", "keys"]
        shutil.copytree(os.path.join(self.root, "one"), os.path.join(self.place, "src"), symlinks=True)
        self._run("publish", "src", *arguments, "--channel", "beta")
        self._run("channel", "set", "site", "default", "beta", "--sign", "keys")
        shutil.copytree(os.path.join(self.place, "site"), os.path.join(self.place, "former"))
        self._text()
        for name in ("d/f3.txt", "large.bin", "d/f4.txt"):
            with open(os.path.join(self.place, "src", name), "ab") as file:
                file.write(b" and more")
            self._run("publish", "src", *arguments)
            self._text()
        # Some releases are on their way out.
        self._run("releases", "prune", "site", "--keep", "2")
        shutil.rmtree(os.path.join(self.place, "src"))
        shutil.copytree(os.path.join(self.root, "two"), os.path.join(self.place, "src"), symlinks=True)

    def _text(self):
        """Keeps the newest manifest, and its frame, below its digest: what this publisher has signed."""
        with open(os.path.join(self.place, "site", "manifest.json"), "rb") as file:
            text = file.read()
        for name, at in (("texts", "manifest.json"), ("frames", "manifest.json.zst")):
            os.makedirs(os.path.join(self.place, name), exist_ok=True)
            shutil.copy(os.path.join(self.place, "site", at), os.path.join(self.place, name, sha(text)))

    def _begin(self):
        """Cuts every pack off after most of it, so that parts stay in staging."""
        site = os.path.join(self.place, "site")
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]

        def serve():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    path = client.recv(65536).split(b" ")[1].decode()
                    data = None
                    if os.path.isfile(site + path) and not path.endswith(".zst"):
                        with open(site + path, "rb") as file:
                            data = file.read()
                    if data is None:
                        client.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
                        continue
                    head = b"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: %d\r\n\r\n" % len(data)
                    client.sendall(head + (data[:len(data) * 2 // 3] if path.endswith(".pack") else data))

        threading.Thread(target=serve, daemon=True).start()
        self._run("pull", f"http://127.0.0.1:{port}/manifest.json", "--into", "dest", "--deadline", "2s", check=False)
        listener.close()

    def copy(self, name, case):
        """Lays a set out for a case, with files outside of the destination that nothing may touch."""
        shutil.copytree(os.path.join(self.root, name), case, symlinks=True)
        os.makedirs(os.path.join(case, STATE), mode=0o700, exist_ok=True)
        canary = os.path.join(case, "canary")
        os.makedirs(os.path.join(canary, "ssh"))
        for path, data in [("secret", b"nobody may read or write this\n"), ("ssh/authorized_keys", b"key\n"),
                           ("d", b"not a directory\n")]:
            with open(os.path.join(canary, path), "wb") as file:
                file.write(data)
        renew_index(os.path.join(case, "dest"))


def renew_index(destination):
    """Gives the records of a copied index the inodes and times of the copies, so that they count."""
    path = os.path.join(destination, ".syncagent", "index")
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        data = bytearray(file.read())
    change_index(data, destination, lambda number, record: None)
    with open(path, "wb") as file:
        file.write(data)


def change_index(data, destination, change):
    """Walks the records of an index (On-disk state, "index, version 1") and seals it anew. A later stamp lets the
    records count."""
    if data[:8] != b"SAINDEX1" or len(data) < 160:
        return
    count, paths = struct.unpack_from("<QQ", data, 16)
    start = 128 + 80 * count
    if start + paths + 32 > len(data):
        return
    latest = 0
    for number in range(count):
        at = 128 + 80 * number
        offset, length = struct.unpack_from("<IH", data, at + 72)
        name = bytes(data[start + offset:start + offset + length])
        try:
            status = os.lstat(os.path.join(os.fsencode(destination), name))
        except (OSError, ValueError):
            continue
        struct.pack_into("<QQQqq", data, at, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns,
                         status.st_ctime_ns)
        latest = max(latest, status.st_ctime_ns, status.st_mtime_ns)
        record = bytearray(data[at:at + 80])
        change(number, record)
        data[at:at + 80] = record
    struct.pack_into("<Q", data, 8, latest + 1)
    data[-32:] = hashlib.sha256(bytes(data[:-32])).digest()


def manifest(case):
    path = os.path.join(case, "site", "manifest.json")
    # An earlier mutation of the case may have put something else there.
    if not os.path.isfile(path) or os.path.getsize(path) > 64 << 20:
        raise OSError(f"{path} is no small file any more")
    with open(path, "rb") as file:
        return json.loads(file.read())
