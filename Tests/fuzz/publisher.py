"""What a publisher meets: what is published already, kept releases, a base elsewhere, the keys, and what in the source says how
to publish. Whoever can write where a set is served must reach nothing but it: no private byte gets there, and nothing is signed
that nobody of this machine has said."""

import json
import os
import shutil
import time

import sets
from cases import hostile, open, plant, some, statement
from mutations import json_text, of_bytes, of_json

PUBLISH = ["publish", "src", "--to", "site", "--project", sets.PROJECT, "--pack-size", "64K"]
PUBLISH_FILE = """{
  "groups": { "docs": ["d/**"] }, "exclude": ["*.tmp", "/cache/"], "exclude_from": "leave-out",
}
"""
IGNORED = "# What stays here.\n*.tmp\n/cache/\n!keep.tmp\nbuild/**/out-[0-9]\n"
TIMES = [0, 1, -1, -2**63, 2**63 - 1, 2**63, 10**30, 1.5, "x", None]


def publishing(case):
    random = case.random
    case.lay("publisher")
    case.judges_output, case.served = True, "site"
    signs = random.randrange(6) > 0
    command(case, ["--sign", "keys"] if signs else [])
    if random.randrange(6) == 0:
        signing_memory(case)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        mutate = random.choice([published_manifest, published_packs, published_statements, planted_output, publish_file,
                                key_files, private_source, kept_releases, kept_releases, unnamed, odd_times])
        try:
            mutate(case)
        except OSError:
            pass  # The mutation before has left nothing for this one.


def command(case, signing):
    """What the publisher does. A base elsewhere is what `case.served` names then: the mutations are of it."""
    random = case.random
    case.arguments = PUBLISH + ["--group", "docs=d/**"] + signing
    kind = random.randrange(16)
    if kind == 0 and signing:
        case.arguments = ["keys", "refresh", "site"] + signing
    elif kind == 1 and signing:
        case.arguments = ["channel", "set", "site", random.choice(["beta", "default"]), random.choice(["1", "2", "default"])]
        case.arguments += signing
    elif kind == 2:
        case.arguments += ["--base", "site/manifest.json"]
    elif kind in (3, 4):
        case.arguments += random.choice([["--manifest-parts"], ["--dictionary", "always"], ["--repack"], ["--json"],
                                         ["--channel", "beta"], ["--dry-run"]])
    elif kind in (5, 6, 7):
        case.arguments = ["releases", "prune", "site", "--keep", random.choice(["1", "1", "2", "3", "100"])]
        case.arguments += random.choice([[], ["--grace", "0"], ["--grace", "0"], ["--grace", "1h"], ["--grace", "365d"]])
        case.arguments += random.choice([[], [], ["--older-than", "1m"], ["--older-than", "2026-01-01"], ["--dry-run"],
                                         ["--json"]])
    elif kind in (8, 9):
        names = [name.partition(".")[0] for name in sorted(os.listdir(case.path("site", "manifests")))]
        wanted = random.choice(["1", "2", "3", "4", random.choice(names)])
        case.arguments = ["releases", "restore", "site", wanted] + signing
    elif kind == 10:
        case.arguments = ["releases", "list", "site"] + random.choice([[], ["--json"]])
    elif kind in (11, 12):
        case.arguments += ["--retain", random.choice(["1", "2", "3"])]
    elif kind in (13, 14):
        shutil.copytree(case.path(random.choice(["site", "site", "former"])), case.path("base"), symlinks=True)
        case.served = "base"
        where = "base/manifest.json"
        if random.randrange(3) == 0:
            case.server.root, where = case.path("base"), f"http://127.0.0.1:{case.server.port}/manifest.json"
        case.arguments += ["--base", where]
        if random.randrange(2):
            case.output = "out"
            case.arguments[case.arguments.index("site")] = "out"


def foreign(case, document):
    """Says what nobody of this machine has said, in a manifest."""
    random, values = case.random, hostile(case)

    def value(container, key):
        if key in ("url", "urls"):
            found = random.choice(["../keys/release.key", "../canary/secret", "packs/../../canary/secret",
                                   case.path("canary/secret"), "../keys/fresh.key"])
            return found if key == "url" else [found]
        return values(container, key)

    of_json(random, document, value)
    if not isinstance(document, dict):
        return
    if random.randrange(3) == 0:
        document["revision"] = random.choice([2, 3, 2**31, 2**53, 2**63 - 3, 2**63 - 1])
    if random.randrange(3) == 0:
        document[random.choice(["x-user-data", "x-a"])] = random.choice([{"foreign": 1}, "foreign"])
    if random.randrange(3) == 0:
        document["groups"] = [{"name": "foreign", "include": ["**"], "hooks": ["foreign"]}]
    if random.randrange(6) == 0:
        document["created"] = random.choice(["1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "2200-01-01T00:00:00Z", "x", ""])


def published_manifest(case):
    random = case.random
    try:
        document = json.loads(case.read(case.served, "manifest.json"))
    except ValueError:
        return  # It has been through here already.
    if random.randrange(3):
        foreign(case, document)
        data = json_text(random, document)
    else:
        data = of_bytes(random, case.read(case.served, "manifest.json"))
    case.write(data, case.served, "manifest.json")
    if random.randrange(2) and os.path.exists(case.path(case.served, "manifest.json.zst")):
        os.remove(case.path(case.served, "manifest.json.zst"))


def published_packs(case):
    random = case.random
    for file in some(random, case.files(case.served, "packs")):
        with open(file, "rb") as opened:
            data = of_bytes(random, opened.read())
        if random.randrange(4):
            # As long as it was: lengths alone do not tell.
            with open(file, "rb") as opened:
                data = bytearray(opened.read())
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        with open(file, "wb") as opened:
            opened.write(data)


def published_statements(case):
    random = case.random
    targets = [file for name in ("trust", "manifests", "channels") for file in case.files(case.served, name)]
    pool = case.files("former")
    for _ in range(random.choice([1, 1, 2])):
        target = random.choice(targets)
        kind = random.randrange(6)
        if kind == 0 and os.path.exists(target):
            os.remove(target)
        elif kind < 3:
            # What was the newest at some time, put back.
            name = random.choice(pool)
            with open(name, "rb") as file:
                data = file.read()
            case.write(data, case.served, os.path.relpath(name, case.path("former")))
        elif os.path.exists(target):
            with open(target, "rb") as file:
                data = file.read()
            data = of_bytes(random, data, most=4) if kind < 5 else statement(case, data, [target])
            with open(target, "wb") as file:
                file.write(data)


def planted_output(case):
    names = ["packs", "trust", "channels", "manifests", "manifest.json", "manifest.json.zst", "trust/fresh", "trust/1.root",
             "trust/2.release", "channels/index.json", "channels/beta.json.zst", "channels/1.json.zst", ".syncagent-lock",
             "manifests/unnamed.json"]
    names += [os.path.relpath(file, case.path(case.served)) for folder in ("packs", "manifests")
              for file in case.files(case.served, folder)]
    plant(case, case.served, case.random.choice(names))


# MARK: Kept releases

def raw_frame(data):
    """A zstd frame (RFC 8878) of blocks that are not compressed."""
    parts = [b"\x28\xb5\x2f\xfd\xa0", len(data).to_bytes(4, "little")]
    pieces = [data[at:at + 0x20000] for at in range(0, len(data), 0x20000)] or [b""]
    for number, piece in enumerate(pieces):
        parts.append((len(piece) << 3 | (number == len(pieces) - 1)).to_bytes(3, "little") + piece)
    return b"".join(parts)


def kept_releases(case):
    """Manifests below their digests, or not, that are of this set or of none, and numbers that lead to them."""
    random = case.random
    for _ in range(random.choice([1, 1, 2, 4])):
        with open(random.choice(case.files("texts")), "rb") as file:
            document = json.loads(file.read())
        kind = random.randrange(4)
        if kind == 0:
            foreign(case, document)
        elif kind == 1:
            # Whole and good, and of nobody: packs of other releases, or none that is here.
            document["revision"] = random.choice([1, 2, 3, 4, 5, 6, 7, 1000, 2**40, 2**63 - 2])
            document["packs"] = random.sample(document["packs"], len(document["packs"]))
            document["x-user-data"] = "foreign"
        elif kind == 2:
            document = {"format": "syncagent-manifest/1", "project": random.choice([sets.PROJECT, "com.example.other"]),
                        "revision": random.choice([1, 9, 2**50]), "files": []}
        text = json_text(random, document)
        digest = sets.sha(text)
        frame = raw_frame(text) if random.randrange(8) else of_bytes(random, raw_frame(text))
        name = digest if random.randrange(6) else random.choice(["0" * 64, digest.upper(), digest[:63], "unnamed", "x" * 200])
        case.write(frame, case.served, "manifests", f"{name}.json.zst")
        if kind == 3:
            # An honest text in a frame of its own: it needs what it needed.
            continue
        revision = document.get("revision", 1) if isinstance(document, dict) else 1
        revision = revision if isinstance(revision, int) and 0 <= revision < 2**70 and random.randrange(4) else \
            random.choice([1, 2, 5, 2**63 - 1, 2**64 - 1, 2**64])
        if random.randrange(3) == 0:
            case.write(frame, case.served, "channels", f"{random.choice(['', '0'])}{revision}.json.zst")
        if random.randrange(4) == 0:
            with open(random.choice(case.files("former", "trust")), "rb") as file:
                case.write(file.read(), case.served, "trust", f"{revision}.release")
        if random.randrange(6) == 0:
            case.write(b'{"format":"syncagent-channels/1","channels":{"beta":%d,"other":1}}\n' % revision,
                       case.served, "channels", "index.json")


def unnamed(case):
    """Since when nothing names a manifest or a pack, as somebody else has it."""
    random = case.random
    digests = [name.partition(".")[0] for folder in ("manifests", "packs") for name in os.listdir(case.path(case.served, folder))]
    now = int(time.time() * 1000)

    def times():
        chosen = random.sample(digests, random.randrange(len(digests) + 1))
        chosen += random.choice([[], ["0" * 64], ["../../canary/secret"]])
        if random.randrange(40) == 0:
            chosen += [f"{number:064x}" for number in range(61_000)]  # More than are kept.
        return {digest: random.choice(TIMES + [now, now - 10**9, now + 10**9]) for digest in chosen}

    document = {"format": "syncagent-unnamed/1", "manifests": times(), "packs": times(),
                "retired": random.sample(digests, random.randrange(len(digests) + 1)) + random.choice([[], ["x"], [1]])}
    if random.randrange(3) == 0:
        of_json(random, document)
    data = json_text(random, document)
    case.write(data if random.randrange(3) else of_bytes(random, data), case.served, "manifests", "unnamed.json")


def odd_times(case):
    random = case.random
    found = case.files(case.served) + case.files("src") + case.files("keys")
    for file in random.sample(found, min(len(found), random.choice([1, 5, 100]))):
        seconds = random.choice([0, -1, -2**40, 2**31, 4102444800, 253402300799, 2**40])
        os.utime(file, (seconds, seconds), follow_symlinks=False)


def signing_memory(case):
    """What this machine remembers of what it has signed: gone, or damaged. Then a signature has to do."""
    for file in case.files(sets.STATE, "publish"):
        if file.endswith(".roots") and case.random.randrange(2):
            with open(file, "rb") as opened:
                data = of_bytes(case.random, opened.read())
            with open(file, "wb") as opened:
                opened.write(data)
        else:
            os.remove(file)


# MARK: What a source brings

def publish_file(case):
    random = case.random
    if any(os.path.lexists(case.path("src", name)) for name in ("publish.json", ".syncignore")):
        return  # It has been through here already.
    text = PUBLISH_FILE.replace("leave-out", random.choice(["leave-out", "../canary/secret", case.path("canary/secret"),
                                                             "/dev/zero", "/proc/self/environ", "d"]))
    case.write(text.encode() if random.randrange(2) else of_bytes(random, text.encode()), "src", "publish.json")
    ignored = IGNORED + random.choice(["", "*" * 60 + "a\n", "**/" * 400 + "x\n", "[a-" * 100 + "\n", "?*" * 2000 + "\n"])
    case.write(ignored.encode() if random.randrange(2) else of_bytes(random, ignored.encode()), "src", ".syncignore")
    if random.randrange(3) == 0:
        plant(case, "src", random.choice(["publish.json", ".syncignore", "d", "leave-out"]))


def key_files(case):
    for file in some(case.random, case.files("keys")):
        with open(file, "rb") as opened:
            data = of_bytes(case.random, opened.read())
        with open(file, "wb") as opened:
            opened.write(data)


def private_source(case):
    """Keys and secrets where they would be published."""
    random = case.random
    kind = random.randrange(4) if os.path.exists(case.path("keys")) else 3
    if kind == 0:
        os.rename(case.path("keys"), case.path("src", "keys"))
        case.arguments = ["src/keys" if word == "keys" and at > 0 else word for at, word in enumerate(case.arguments)]
    elif kind == 1:
        os.makedirs(case.path(case.output), exist_ok=True)
        os.rename(case.path("keys"), case.path(case.output, "keys"))
        case.arguments = [f"{case.output}/keys" if word == "keys" and at > 0 else word for at, word in enumerate(case.arguments)]
        case.served_keys = True
    elif kind == 2:
        # An earlier mutation of the same case may have put something else in the folder's place.
        folder = ("src", "d") if os.path.isdir(case.path("src", "d")) else ("src",)
        case.write(case.read("keys", "release.key"), *folder, random.choice(["id", "release.key", "f9.txt"]))
    else:
        link = case.path("src", random.choice(["link", "d/link"]))
        if os.path.isdir(os.path.dirname(link)) and not os.path.lexists(link):
            os.symlink(random.choice(["../canary/secret", case.path("canary/secret"), "../../canary/secret"]), link)
