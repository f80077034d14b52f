"""What is mutated in a case, and which command then meets it."""

import builtins
import json
import os
import re
import socket
import sqlite3
import stat

import sets
from mutations import json_text, of_bytes, of_json
from server import faults

UNREACHABLE = ["http://[::1]:1/", "http://169.254.169.254/"]
PULL = ["pull", "site/manifest.json", "--into", "dest"]
LARGEST = 64 << 20


def open(path, mode="r", **options):
    """As the built-in one, but only for what is a small file or nothing yet: an earlier mutation of the same case may have put a
    FIFO, a device or gigabytes of holes in a file's place."""
    if os.path.lexists(path):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise OSError(f"{path} is no small file any more")
    return builtins.open(path, mode, **options)


class Case:
    """What a case has laid out. `wanted` is the manifest whose files must be there after status 0; `None` where only
    the digests are known."""

    def __init__(self, directory, random, fixtures, server):
        self.directory, self.random, self.sets, self.server = directory, random, fixtures, server
        self.arguments = list(PULL)
        self.wanted = None
        self.digests = set(fixtures.known)
        self.planted = set()
        self.set = None
        self.judges_output = self.served_keys = False
        self.output = "site"

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def lay(self, name):
        self.set = name
        self.sets.copy(name, self.directory)

    def any_set(self, *names):
        self.lay(self.random.choice(names or self.sets.names))

    def read(self, *parts):
        with open(self.path(*parts), "rb") as file:
            return file.read()

    def write(self, data, *parts):
        os.makedirs(os.path.dirname(self.path(*parts)), exist_ok=True)
        with open(self.path(*parts), "wb") as file:
            file.write(data)

    def over_http(self, fault=None):
        self.server.root, self.server.fault = self.path("site"), fault
        at = self.arguments.index("site/manifest.json")
        self.arguments[at] = f"http://127.0.0.1:{self.server.port}/manifest.json"
        compressed = self.path("site", "manifest.json.zst")
        if fault is None and os.path.exists(compressed):
            os.remove(compressed)

    def files(self, *parts):
        """Regular files below a directory, in order."""
        found = []
        for base, directories, names in os.walk(self.path(*parts)):
            directories.sort()
            found += [os.path.join(base, name) for name in sorted(names)
                      if stat.S_ISREG(os.lstat(os.path.join(base, name)).st_mode)]
        return found

    def vary(self):
        """Another command, or options of this one."""
        kind = self.random.randrange(16)
        if kind < 2:
            # Neither has a deadline, and each rightly waits a minute for a server that does not answer.
            text = self.read("site", "manifest.json")
            for place in UNREACHABLE:
                text = text.replace(place.encode(), b"packs/none")
            self.write(text, "site", "manifest.json")
        if kind == 0:
            self.arguments[0] = "plan"
        elif kind == 1:
            self.arguments[0] = "verify"
        elif kind == 2:
            self.arguments += ["--prune"] + self.random.choice([[], ["--force"]])
        elif kind == 3:
            self.arguments += ["--group", "docs"]
        elif kind == 4:
            self.arguments += ["--hook", "/bin/true", "--json"]
        elif kind == 5:
            self.arguments += ["--dry-run"]
        elif kind == 6:
            self.arguments += ["--prune", "--max-delete", str(self.random.randrange(4))]
        elif kind == 7:
            self.arguments += ["--prune", "--backup-dir", "kept"]
            if self.random.randrange(3) == 0:
                os.makedirs(self.path("kept"))
                plant(self, "kept", self.random.choice(["d", "d/f1.txt", "d/f2.txt", "large.bin"]))


def hostile(case):
    """Values for places of a manifest that are worse than nonsense."""
    random = case.random
    secret = "canary/secret"
    outside = [f"../{secret}", case.path(secret), f"d/../../{secret}", "a/../x", ".syncagent/x", ".SyncAgent/index", "d",
               "d/f0.txt/x", "latest/x", "d/./x", "//x", "x/", "D/F0.TXT", "e\u0301/x", "é/x", ".syncagent", "large.bin"]
    links = [f"../{secret}", "/etc/passwd", "d/../../canary", "..", "d/f0.txt/..", "a/b/../../..", ".syncagent/index",
             "latest", "./.", "d/" * 300, "x" * 5000, ""]
    port = case.server.port
    urls = [f"file://{case.path(secret)}", f"../{secret}", "packs/../../canary/secret", f"http://127.0.0.1:{port}/x",
            f"//127.0.0.1:{port}/", "packs/%2e%2e/%2e%2e/canary/secret", "ftp://127.0.0.1/", "data:,x", "?", "#", "",
            "http://127.0.0.1:99999/", "http://", "packs/x y", "packs/%00", "a" * 20000,
            "manifest.json", "/dev/zero", "file:///dev/zero", *UNREACHABLE]
    globs = ["**", "**/**/**/**/**/*a", "[", "[!", "{a,b}", "*" * 60 + "a", "a" * 5000, "\\", "**/" * 400, "d/" + "?" * 200]
    digests = sorted(case.digests)

    def value(container, key):
        if key in ("path",):
            return random.choice(outside)
        if key == "link":
            return random.choice(links)
        if key in ("url", "urls"):
            return random.choice(urls) if key == "url" else random.choices(urls, k=random.choice([1, 2, 300]))
        if key in ("include", "exclude"):
            return random.choices(globs, k=random.choice([1, 3, 200]))
        if key in ("sha256", "base"):
            return random.choice(digests + ["0" * 64, "Z" * 64, "A" * 64, "0" * 63])
        if key == "hooks":
            return random.choice([["none"], ["none"] * 500, [f"n{n}" for n in range(1000)]])
        if key == "format":
            return f"syncagent-manifest/{random.choice([0, 1, 2, 99])}"
        if key == "executable":
            return random.choice([True, False, 1])
        if isinstance(container, list) and isinstance(key, int) and isinstance(container[key], dict) \
                and "path" in container[key] and random.randrange(3) == 0:
            return {"path": f"z/link{random.randrange(3)}", "link": random.choice(links)}
        return None

    return value


def some(random, found):
    """One or two of what was found."""
    return random.sample(found, min(len(found), random.choice([1, 1, 2])))


# MARK: What others bring

def manifest_values(case):
    case.any_set()
    document = sets.manifest(case.directory)
    of_json(case.random, document, hostile(case))
    note_digests(case, document)
    case.write(json_text(case.random, document), "site", "manifest.json")
    case.wanted = document
    case.vary()
    if case.random.randrange(8) == 0:
        case.over_http()


def note_digests(case, document):
    files = document.get("files") if isinstance(document, dict) else None
    for entry in files if isinstance(files, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("sha256"), str):
            case.digests.add(entry["sha256"].lower())


def manifest_bytes(case):
    case.any_set()
    data = of_bytes(case.random, case.read("site", "manifest.json"))
    for word in re.findall(rb"[0-9a-fA-F]{64}", data):
        case.digests.add(word.decode().lower())
    case.write(data, "site", "manifest.json")
    case.wanted = "text"
    case.vary()


def compressed_manifest(case):
    case.any_set()
    case.write(of_bytes(case.random, case.read("site", "manifest.json.zst")), "site", "manifest.json.zst")
    case.over_http(lambda path, data, span: None)


def frame(length, window, byte=0x20):
    """A zstd frame of one byte again and again, RFC 8878: 4 bytes for every 128 KiB, and a window of its own choice."""
    parts = [b"\x28\xb5\x2f\xfd\x00", bytes([(window - 10) << 3])]
    left = length
    while True:
        size = min(left, 1 << 17)
        left -= size
        parts.append((size << 3 | 1 << 1 | (left == 0)).to_bytes(3, "little") + bytes([byte]))
        if left == 0:
            return b"".join(parts)


def bombs(case):
    """Little that becomes much: manifests, parts and blobs whose frames are long, or have large windows."""
    random = case.random
    case.lay("plain")
    window = random.choice([10, 17, 20, 23, 26, 27, 28, 31])
    document = sets.manifest(case.directory)
    kind = random.randrange(4)
    if kind == 0:
        case.write(frame(random.choice([1 << 20, 1 << 24, 1 << 29, 1 << 30]), window), "site", "manifest.json.zst")
        return case.over_http(lambda path, data, span: None)
    if kind == 1:
        length = random.choice([1 << 20, 1 << 26, 1_000 << 20])
        data = frame(length, window)
        case.write(data, "site", "packs", "bomb.pack")
        part = {"blob": [0, 0, len(data), length, "zstd", sets.sha(b"x")], "first": "a", "last": "z", "files": 3, "size": 9}
        with open(os.path.join(case.sets.root, "parts", "site", "manifest.json"), "rb") as file:
            model = json.loads(file.read())
        if model.get("parts"):
            part = dict(model["parts"][0])
            for key, value in part.items():
                if isinstance(value, list):
                    part[key] = [0, 0, len(data), length, "zstd"] + ([sets.sha(b"x")] if len(value) > 5 else [])
        document = dict(model, parts=[part], packs=[{"url": "packs/bomb.pack", "size": len(data), "sha256": sets.sha(data)}])
    elif kind == 2:
        count, length = random.choice([(32, 1 << 20), (2, 1 << 26), (64, 1000)])
        document["packs"], document["files"] = [], []
        for number in range(count):
            data = frame(length, window, 0x30 + number)
            case.write(data, "site", "packs", f"{number}.pack")
            document["packs"].append({"url": f"packs/{number}.pack", "size": len(data), "sha256": sets.sha(data)})
            digest = sets.sha(bytes([0x30 + number]) * length) if random.randrange(4) else "0" * 64
            case.digests.add(digest)
            document["files"].append({"path": f"b/{number}", "size": length, "sha256": digest,
                                      "blobs": [[number, 0, len(data), length, "zstd"]]})
        case.wanted = document
    else:
        text = json.dumps(document)
        filler = random.choice([" " * (16 << 20), '"x-a":' + "[" * 60 + "]" * 60 + ",",
                                "".join(f'"x-{n}":0,' for n in range(300_000)),
                                '"x-b":[' + "0," * 1_000_000 + "0],"])
        case.write((text[0] + filler + text[1:]).encode(), "site", "manifest.json")
        if random.randrange(2):
            case.over_http()
        return None
    case.write(json.dumps(document).encode(), "site", "manifest.json")
    if random.randrange(2):
        case.over_http()
    return None


def packs(case):
    """Of what `parts` and `dictionary` have in packs are also parts of a manifest and the dictionary."""
    case.any_set()
    for file in some(case.random, case.files("site", "packs")):
        with open(file, "rb") as opened:
            data = of_bytes(case.random, opened.read())
        with open(file, "wb") as opened:
            opened.write(data)
    case.wanted = sets.manifest(case.directory)
    case.vary()
    if case.random.randrange(10) == 0:
        case.over_http()


def parts(case):
    case.any_set("parts", "parts-update", "dictionary")
    document = sets.manifest(case.directory)
    for _ in range(case.random.choice([1, 2])):
        chosen = [key for key in ("parts", "dictionary", "packs") if key in document]
        part = {key: document[key] for key in chosen}
        of_json(case.random, part, hostile(case))
        document.update(part)
    case.write(json_text(case.random, document), "site", "manifest.json")
    case.vary()


def answers(case):
    case.any_set("plain", "update", "parts")
    case.wanted = sets.manifest(case.directory)
    case.over_http(faults(case.random, case.server.port))


# MARK: What is in the destination

def own_files(case):
    case.any_set("update", "parts-update", "begun")
    case.wanted = sets.manifest(case.directory)
    found = case.files("dest", ".syncagent")
    log = case.path("dest", ".syncagent", "index.log")
    if case.random.randrange(4) == 0:
        payload = b"\x01\x08\x00" + b"\x07" * 32 + b"d/f0.txt"
        case.write(b"SAIL" + len(payload).to_bytes(4, "little") + payload
                   + bytes.fromhex(sets.sha(payload))[:8], "dest", ".syncagent", "index.log")
        found.append(log)
    for file in some(case.random, found):
        with open(file, "rb") as opened:
            data = opened.read()
        data = of_bytes(case.random, data)
        if os.path.basename(file) == "index" and case.random.randrange(2):
            data = bytearray(data)
            sets.change_index(data, case.path("dest"), lambda number, record: None)
        with open(file, "wb") as opened:
            opened.write(data)
    case.vary()


def index_values(case):
    """Wrong numbers in an index that is sealed rightly. What it says of a file that nobody touched is believed."""
    case.any_set("update", "parts-update")
    random, file = case.random, case.path("dest", ".syncagent", "index")
    with open(file, "rb") as opened:
        data = bytearray(opened.read())

    def change(number, record):
        if random.randrange(3) == 0:
            at = random.choice([72, 73, 74, 75, 76, 77, 78, 79, 0, 8, 16, 40])
            record[at] = random.randrange(256)

    if random.randrange(2):
        at = random.choice([8, 16, 24, 32, 40, 48, 120])
        data[at:at + 8] = random.choice([0, 1, 2, 2**20, 2**31, 2**58, 2**63, 2**64 - 1]).to_bytes(8, "little")
        data[-32:] = bytes.fromhex(sets.sha(bytes(data[:-32])))
    else:
        sets.change_index(data, case.path("dest"), change)
    with open(file, "wb") as opened:
        opened.write(data)
    case.vary()


def planted(case):
    """Things that are no files of ours, where files of ours are, or will be."""
    case.any_set()
    random = case.random
    case.wanted = sets.manifest(case.directory)
    keys = sorted(case.digests)
    ours = [".syncagent/" + name for name in
            ("index", "index.new", "index.log", "lock", "chunks", "chunks.new", "receipts", "staging", "staging/0",
             "staging/1", f"staging/0/{random.choice(keys)}.0", f"staging/0/{random.choice(keys)}.0.part",
             f"staging/1/{random.choice(keys)}.part", "staging/0/x", "staging/dir-x", "backup")]
    ours += [f".syncagent/staging/dir-{directory_key(name):016x}" for name in ("d", "e")] * 2 + [".syncagent"]
    tree = ["d", "d/f0.txt", "d/f1.txt", "e", "e/empty", "large.bin", "latest", "tool.sh", "d/new.txt", "other"]
    state = ["syncagent.sqlite", "syncagent.sqlite-wal", "syncagent.sqlite-shm", "syncagent.sqlite.lock", "manifests",
             "sessions", f"sessions/{sets.PROJECT}.lock"]
    state += [os.path.relpath(file, case.path(sets.STATE)) for file in case.files(sets.STATE, "manifests")]
    for _ in range(random.choice([1, 1, 2, 3])):
        place = random.randrange(5)
        if place < 3:
            plant(case, "dest", random.choice(ours))
        elif place == 3:
            plant(case, "dest", random.choice(tree))
        else:
            plant(case, sets.STATE, random.choice(state))
    case.vary()


def directory_key(path):
    """What a new directory is called in staging: FNV-1a of its path."""
    key = 0xCBF29CE484222325
    for byte in path.encode():
        key = (key ^ byte) * 0x100000001B3 % 2**64
    return key


def plant(case, base, name):
    random, path = case.random, case.path(base, name)
    canary = random.choice(["canary/secret", "canary/ssh", "canary/ssh/authorized_keys", "canary", "canary/new"])
    parent = os.path.dirname(path)
    try:
        os.makedirs(parent, exist_ok=True)
    except OSError:
        return
    if os.path.realpath(parent) != parent:
        return  # Nothing is planted behind what was planted before.
    if os.path.isdir(path) and not os.path.islink(path):
        os.rename(path, f"{path}.was{random.randrange(1000)}")
    elif os.path.lexists(path):
        os.remove(path)
    kind = random.randrange(10)
    target = case.path(canary)
    if kind < 4:
        os.symlink(random.choice([target, os.path.relpath(target, parent)]), path)
    elif kind == 4:
        os.link(case.path(random.choice(["canary/secret", "canary/ssh/authorized_keys"])), path)
    elif kind == 5:
        os.mkfifo(path)
    elif kind == 6:
        with open(path, "wb") as file:
            file.truncate(random.choice([1 << 20, 1 << 33, 1 << 40]))
    elif kind == 7:
        os.mkdir(path)
        os.symlink(target, os.path.join(path, "f0.txt"))
        with open(os.path.join(path, "foreign"), "wb") as file:
            file.write(b"foreign")
    elif kind == 8:
        bound = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        try:
            os.chdir(parent)
            bound.bind(os.path.basename(path)[:100])
        except OSError:
            pass
        finally:
            os.chdir(here)
            bound.close()
    else:
        with open(path, "wb") as file:
            file.write(b"foreign")
        os.chmod(path, random.choice([0, 0o444, 0o4755, 0o666]))
    if base == "dest":
        case.planted.add(name)


def composed(case):
    """Links of two revisions that are harmless alone. The second pull keeps what the first has brought."""
    random = case.random
    case.lay("plain")
    letters = "abc"[:random.randint(1, 3)]
    tail = random.choice(["canary/secret", "canary", "canary/ssh/authorized_keys", ""])
    up = "/".join([".."] * (len(letters) + random.choice([0, 0, 0, 1])))
    way = "/".join(letters)
    document = sets.manifest(case.directory)
    text = [entry for entry in document["files"] if entry["path"].startswith("d/")]
    # A target may go up from a directory of the manifest only: so it is one, at first.
    first = [dict(text[2], path=f"{way}/f"), {"path": "x", "link": f"{way}/{up}/{tail}".rstrip("/")}]
    if random.randrange(3) == 0:
        first = [dict(text[2], path=f"{way}/f"), {"path": "z/y", "link": f"../{way}/{up}/{tail}".rstrip("/")}]
    second = [{"path": letter, "link": random.choice([".", ".", ".", "./.", "d", "x"])} for letter in letters]
    if random.randrange(3) == 0:
        second.append({"path": "y", "link": random.choice(["x", "x/..", "x/canary/secret", "x/secret"])})
    if random.randrange(5) == 0:
        first, second = second, first
    case.second = dict(document, revision=2, files=text[:2] + second)
    case.write(json.dumps(dict(document, files=text[:2] + first)).encode(), "site", "manifest.json")


# MARK: What is in the user's places

CONFIGURATION = """{
  "connections": 4, "connections_per_host": 2, "limit_rate": "10MB", "deadline": "6h", "connect_timeout": "30s",
  "idle_timeout": "60s", "rewrite": ["https://a.invalid/ https://b.invalid/", "~^http://([a-z]+)\\\\.c/ https://$1.d/"],
  "credentials_file": "credentials", "headers": ["Accept-Language: en", "@headers"],
  "proxy": { "url": "", "exceptions": ["localhost", ".lan", "10.0.0.0/8"] },
  // A comment.
  "tls": { "minimum_version": "1.2" }, "http2": "never",
  "redirects": { "limit": 10, "allow_downgrade": ["a.invalid"], "allow_private": ["b.lan"] },
  "hooks": { "thumbs": { "program": "/bin/true", "arguments": ["--fast"], "timeout": "1h", "batch": 100 } },
  "plugins": { "directory": "plugins", "use": [
    { "plugin": "power", "point": "condition", "timeout": "3s" },
    { "plugin": "rewrite", "point": "resolver", "settings": { "rules": ["https://a/ https://b/"] } } ] },
  "metrics": { "textfile": "m.prom" },
}
"""
CREDENTIALS = """# People and machines.
[https://files.example.com]
type = basic
user = alice
password = wonderland
[http://127.0.0.1:PORT]
type = bearer
token = abcdef
[https://s3.example.com]
type = sigv4
access-key = A
secret-key = B
region = eu-central-1
service = s3
"""


def configuration(case):
    case.any_set("plain")
    text = CONFIGURATION.encode()
    chosen = case.random.randrange(4)
    credentials = CREDENTIALS.replace("PORT", str(case.server.port)).encode()
    if chosen:
        text = of_bytes(case.random, text)
    else:
        credentials = of_bytes(case.random, credentials)
    place = "home/.config/syncagent/"
    case.write(text, place + "config.json")
    case.write(credentials, place + "credentials")
    case.write(b"X-Key: value\n" if chosen != 1 else of_bytes(case.random, b"X-Key: value\nY: z\n"), place + "headers")
    for name in ("config.json", "credentials", "headers"):
        os.chmod(case.path(place + name), case.random.choice([0o600] * 12 + [0o644, 0]))
    os.makedirs(case.path(place, "plugins"))
    if case.random.randrange(6) == 0:
        plant(case, place.rstrip("/"), case.random.choice(["config.json", "credentials", "headers", "plugins"]))
    case.wanted = sets.manifest(case.directory)
    case.arguments = case.random.choice([PULL, PULL, ["plan"] + PULL[1:], ["plugins", "list"], ["doctor"]])[:]
    if "site/manifest.json" in case.arguments and case.random.randrange(6) == 0:
        case.over_http()


def store(case):
    """The state directory: the database, its log, cached manifests, locks."""
    case.any_set("update", "parts-update", "begun")
    case.wanted = sets.manifest(case.directory)
    database = case.path(sets.STATE, "syncagent.sqlite")
    if case.random.randrange(3) == 0:
        values_in_store(case, database)
    else:
        if case.random.randrange(2):
            with sqlite3.connect(database) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
        found = [file for file in case.files(sets.STATE) if not file.endswith(".lock") or case.random.randrange(5) == 0]
        for file in some(case.random, found):
            with open(file, "rb") as opened:
                data = of_bytes(case.random, opened.read(), most=8)
            with open(file, "wb") as opened:
                opened.write(data)
    case.arguments = case.random.choice(
        [PULL, PULL, PULL, ["status"], ["status", "--json"], ["doctor"], ["gc"], ["events", sets.PROJECT],
         ["hooks", "list"], ["report"], ["metrics"], ["rm", sets.PROJECT], ["rm", sets.PROJECT, "--files"]])[:]


def values_in_store(case, database):
    random = case.random
    try:
        with sqlite3.connect(database) as connection:
            names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for _ in range(random.choice([1, 2, 4])):
                table = random.choice(names)
                columns = [row[1] for row in connection.execute(f"PRAGMA table_info('{table}')")]
                value = random.choice([None, -1, 0, 2**63 - 1, "", "x", "\x00", b"", b"\xff" * 40, "[", "{}", 1.5,
                                       case.path("canary"), "../../canary", "a" * 100000])
                try:
                    connection.execute(f"UPDATE \"{table}\" SET \"{random.choice(columns)}\" = ?", (value,))
                except sqlite3.Error:
                    pass
        connection.close()
    except sqlite3.Error:
        pass


# MARK: What is signed

def trust(case):
    """Statements, roots and manifests of a set whose project is pinned. Beside what is signed lies what is not: not a byte
    of it may be installed, whatever is said of it."""
    random = case.random
    case.lay("signed")
    # What was believed last may be served again until its time is over: then status 0 leaves the first revision in place.
    with open(case.path("signed.json"), encoding="utf-8") as file:
        case.digests = {entry["sha256"] for entry in json.load(file)["files"] if "sha256" in entry}
    pool = [file for file in case.files("pool")]
    targets = case.files("site", "trust") + case.files("site", "manifests")
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        target = random.choice(targets)
        kind = random.randrange(8)
        if kind == 0 and os.path.exists(target):
            os.remove(target)
            continue
        with open(target if kind < 6 and os.path.exists(target) else random.choice(pool), "rb") as file:
            data = file.read()
        if kind < 3 or "manifests" in target:
            data = of_bytes(random, data, most=4)
        elif kind < 7:
            data = statement(case, data, pool)
        else:
            target = case.path("site", "trust", random.choice(["1.root", "2.root", "3.root", "1.release", "2.release",
                                                               "9.release", "fresh"]))
        with open(target, "wb") as file:
            file.write(data)
    if random.randrange(4) == 0:
        # One manifest under another's name.
        names = case.files("site", "manifests")
        if len(names) > 1:
            a, b = random.sample(names, 2)
            os.replace(a, b)
    if random.randrange(2):
        case.over_http()


def statement(case, data, pool):
    """A statement with another text under its signatures, or other signatures over its text."""
    random = case.random
    head, gap, text = data.partition(b"\n\n")
    if not gap:
        return data
    kind = random.randrange(4)
    if kind == 0:
        with open(random.choice(pool), "rb") as file:
            other = file.read()
        return other.partition(b"\n\n")[0] + gap + text if random.randrange(2) else head + gap + other.partition(b"\n\n")[2]
    if kind == 1:
        return (head + b"\n") * random.choice([2, 32, 33, 100]) + b"\n" + text
    if kind == 2:
        try:
            document = json.loads(text)
            of_json(random, document, hostile_statement(case))
            return head + gap + json_text(random, document)
        except (ValueError, TypeError):
            return data
    return head + random.choice([b"\n", b"\n\n\n", b"\r\n\r\n", b"\n \n", b"\n\n\xef\xbb\xbf"]) + text


def hostile_statement(case):
    random = case.random

    def value(container, key):
        if key in ("serial", "revision", "number", "root", "size", "threshold"):
            return random.choice([0, 1, 2, 9, 2**31, 2**63 - 1, 2**63, 2**64, -1, 1.0])
        if key in ("until", "signed"):
            return random.choice(["1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z", "now", ""])
        if key == "sha256":
            return random.choice(sorted(case.digests) + ["0" * 64, "x"])
        if key == "project":
            return random.choice(["com.example.other", "../x", "", "a" * 300])
        if key == "mirrors":
            return [f"http://127.0.0.1:{case.server.port}/", "file:///etc/", "x"]
        return None

    return value
