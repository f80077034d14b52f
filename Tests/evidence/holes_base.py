"""Attacks on publishers, continued: what others own, what was taken back, other keys, patterns of a base, a base on a server."""

import json
import os
import shutil
import signal
import subprocess
import time

from holes_place import STRANGER, attack, needs_root, sha
from holes_publish import FILES, change, publish, published, signed


def unsigned(place):
    for name, data in FILES.items():
        place.write(data, os.path.join("source", name))
    done = publish(place)
    assert done.status == 0, done
    place.write(b"something new", "source/d/new")


@attack("publish", "a pack of the base that is another user's file, or one that everybody may write to")
def others_pack(place):
    needs_root()
    unsigned(place)
    for number, own in enumerate((lambda path: os.chown(path, STRANGER, STRANGER), lambda path: os.chmod(path, 0o666))):
        os.rename(place.path("site"), place.path(f"base{number}"))
        packs = place.path(f"base{number}", "packs")
        for name in os.listdir(packs):
            own(os.path.join(packs, name))
        theirs = {os.stat(os.path.join(packs, name)).st_ino for name in os.listdir(packs)}
        done = publish(place, "--base", f"base{number}/manifest.json")
        if any(os.lstat(path).st_ino in theirs for path in published(place)):
            who = "everybody" if number else "another user"
            return f"{done}: what is served is a second name of a file that {who} may write to"
        if done.status != 0:
            return str(done)
    return None


@attack("publish", "mirrors and a files URL that somebody wrote into what is signed next")
def foreign_places(place):
    signed(place)
    with open(place.path("site/manifest.json"), encoding="utf-8") as file:
        document = json.load(file)
    for pack in document["packs"]:
        pack["urls"] = [pack.pop("url"), "http://foreign.example/packs/" + pack["sha256"] + ".pack"]
    for entry in document["files"]:
        entry["urls"] = ["http://foreign.example/" + entry["path"]]
    change(place, packs=document["packs"], files=document["files"])
    done = publish(place, "--sign", "keys")
    return f"{done}: signed" if done.status == 0 and b"foreign.example" in place.read("site/manifest.json") else None


@attack("publish", "a channel that was removed, put back with its old statement: refresh")
def channel_again(place):
    signed(place)
    done = publish(place, "--sign", "keys", "--channel", "beta")
    assert done.status == 0, done
    shutil.copytree(place.path("site"), place.path("former"))
    done = place.run("channel", "remove", "site", "beta", "--sign", "keys")
    assert done.status == 0, done
    for name in ("trust", "channels"):
        shutil.rmtree(place.path("site", name))
        shutil.copytree(place.path("former", name), place.path("site", name))
    old = place.read("site/trust/beta.fresh")
    done = place.run("keys", "refresh", "site", "--sign", "keys")
    return f"{done}: the removed channel is confirmed" if place.read("site/trust/beta.fresh") != old else None


@attack("publish", "keys that the published roots do not lead to")
def other_keys(place):
    signed(place)
    # By whoever has not published here before, as a new build machine.
    done = place.run("keys", "new", "other", "--project", "holes")
    assert done.status == 0, done
    pulled = place.pull("--trust", "keys/1.root")
    assert pulled.status == 0, pulled
    done = publish(place, "--sign", "other")
    if done.status != 0:
        return None
    pulled = place.pull()
    return f"published with 0, and for who pulled before: {pulled}"


@attack("publish", "a source that has lost most of its files")
def fewer(place):
    unsigned(place)
    for name in list(FILES)[1:]:
        os.remove(place.path("source", name))
    os.remove(place.path("source/d/new"))
    done = publish(place)
    return f"{done}: 1 file of {len(FILES)}" if done.status == 0 else None


def slow_groups(place):
    place.write(b"more", "source/more")
    done = publish(place)
    assert done.status == 0, done
    # What the manifest lists is short; what is to be published next is not. Tried at every letter of each path.
    change(place, groups=[{"name": f"g{number}", "include": ["**/" + "*a" * 30 + "b*/**"] * 1_000} for number in range(10)])
    deep = "/".join(["a" * 250] * 12)
    for number in range(100):
        place.write(b"data", f"source/{deep}/{number}")


@attack("publish", "patterns of a base that take for ever, and SIGTERM")
def base_patterns(place):
    slow_groups(place)
    running = place.start("publish", "source", "--to", "site", "--project", "holes")
    end = time.monotonic() + 4
    while time.monotonic() < end and running.process.poll() is None:
        time.sleep(0.05)
    if running.process.poll() is not None:
        return None
    status, seconds = running.ends(signal.SIGTERM, 5)
    return None if status is not None and seconds < 2 else f"SIGTERM: status {status} after {seconds:.0f} s"


@attack("publish", "a base on a server, as Commands.md has it")
def served_base(place):
    unsigned(place)
    server = place.server()
    done = place.run("publish", "source", "--to", "next", "--project", "holes", "--base", server.url + "/manifest.json")
    if done.status != 0:
        return str(done)
    revision = json.loads(place.read("next/manifest.json"))["revision"]
    return None if revision == 2 else f"revision {revision}"


@attack("publish", "one flipped byte in a pack of a base on a server, which is signed again without anybody having read it")
def unread_packs(place):
    signed(place)
    place.write(b"something new", "source/d/new")
    server = place.server()
    done = place.run(
        "publish", "source", "--to", "next", "--project", "holes", "--sign", "keys", "--base", server.url + "/manifest.json"
    )
    if done.status != 0:
        # 66 is that of a program that reads no base on a server.
        return None if done.status in (66, 77) else str(done)
    with open(place.path("next/manifest.json")) as file:
        far = [pack for pack in json.load(file)["packs"] if not os.path.exists(place.path(f"next/packs/{pack['sha256']}.pack"))]
    return f"{done}: {len(far)} packs that are not here are signed" if far else None


@attack("publish", "--sign where what is served has a revision that no publish comes to, on a machine that remembers nothing")
def far_revision(place):
    signed(place)
    change(place, revision=2**62)
    shutil.rmtree(place.state())
    done = publish(place, "--sign", "keys")
    revision = json.loads(place.read("site/manifest.json"))["revision"]
    return f"{done}: revision {revision} is signed" if done.status == 0 and revision > 100 else None


@attack("publish", "pull and plan --into a URL or another host as scp(1) has it")
def into_elsewhere(place):
    place.manifest([place.entry("a", b"1")])
    for target in ("user@host:tower", "https://cdn.example.com/tower", "host:/srv/tower"):
        done = place.run("pull", "site/manifest.json", "--into", target)
        if done.status != 64 or os.path.exists(place.path(target.split("/")[0])):
            return f"{target}: {done}"
    return None


@attack("publish", "a kept manifest of a revision that no publish comes to: restore, on a machine that remembers nothing")
def far_restore(place):
    signed(place)
    document = json.loads(place.read("site/manifest.json"))
    document["revision"] = 2**62
    text = json.dumps(document).encode()
    # One zstd frame of one block as it is, RFC 8878.
    frame = b"\x28\xb5\x2f\xfd\xa0" + len(text).to_bytes(4, "little") + (len(text) << 3 | 1).to_bytes(3, "little") + text
    place.write(frame, f"site/manifests/{sha(text)}.json.zst")
    shutil.rmtree(place.state())
    done = place.run("releases", "restore", "site", "1", "--sign", "keys")
    revision = json.loads(place.read("site/manifest.json"))["revision"]
    return f"{done}: revision {revision} is signed" if revision > 100 else None


@attack("publish", "a private key that an earlier publish has read: it is not read again, and must not be published again")
def key_again(place):
    place.write(b"data", "source/d")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place.path("source/id_ed25519")], check=True)
    time.sleep(1.1)  # What has just been written is read again.
    first = publish(place, "--allow-private-keys")
    first = publish(place) if first.lacks_option else first
    assert first.status == 0, first
    done = publish(place)
    if done.status == 0:
        return f"{done}: published with 0"
    place.write(b"more", "source/more")
    done = publish(place)
    return f"{done}: published with 0" if done.status == 0 else None


@attack("publish", "--backup-dir of another host as scp(1) has it")
def backup_elsewhere(place):
    place.manifest([place.entry("a", b"1")])
    place.write(b"somebody's", "dest/a")
    done = place.pull("--backup-dir", "user@host:kept")
    return f"{done}: a directory of that name" if os.path.exists(place.path("user@host:kept")) else None


@attack("publish", "one flipped byte in a pack of a base elsewhere that is signed again")
def flipped_elsewhere(place):
    signed(place)
    pack = next(path for path in published(place) if path.endswith(".pack"))
    with open(pack, "r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))
    done = place.run("publish", "source", "--to", "next", "--project", "holes", "--sign", "keys", "--base", "site/manifest.json")
    if done.status != 0:
        return None
    # To make it again is as good as to refuse; what is signed must be there as it is called.
    with open(place.path("next/manifest.json")) as file:
        for pack in json.load(file)["packs"]:
            path = place.path(f"next/packs/{pack['sha256']}.pack")
            if not os.path.exists(path):
                return f"{done}: {done.said.splitlines()[0][:120]}"
            with open(path, "rb") as file:
                if sha(file.read()) != pack["sha256"]:
                    return f"{done}: a pack with other bytes is signed"
    return None


@attack("publish", "a sparse manifest.json of 1 TiB where it is served")
def sparse_manifest(place):
    place.write(b"data", "source/d")
    for options in (("--channel", "beta"), ()):
        done = publish(place, *options)
        assert done.status == 0, done
    os.remove(place.path("site/manifest.json"))
    place.sparse("site/manifest.json", 1 << 40)
    place.write(b"more", "source/more")
    done = publish(place, seconds=15)
    return str(done) if done.status is None else None
