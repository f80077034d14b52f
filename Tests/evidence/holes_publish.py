"""Attacks on publishers and signers: what is served already, what a source brings, what comes by mail."""

import json
import os
import shutil
import signal
import stat
import subprocess
import time

from holes_place import STRANGER, NotShown, attack, needs_root, sha

FILES = {f"d/{number}": os.urandom(20_000) for number in range(4)}


def publish(place, *more, **options):
    return place.run("publish", "source", "--to", "site", "--project", "holes", *more, **options)


def signed(place):
    """A set that is signed, and what is to be published next."""
    for name, data in FILES.items():
        place.write(data, os.path.join("source", name))
    for done in (place.run("keys", "new", "keys", "--project", "holes"), publish(place, "--sign", "keys")):
        assert done.status == 0, done
    place.write(b"something new", "source/d/new")


def published(place):
    """Regular files that are served."""
    for base, _, names in os.walk(place.path("site")):
        for name in names:
            path = os.path.join(base, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                yield path


def leaks(place, secret, inode=None):
    """A served file that holds a secret, or is the same file as one."""
    for path in published(place):
        if inode is not None and os.lstat(path).st_ino == inode:
            return f"{path} is a second name of it"
        with open(path, "rb") as file:
            if secret in file.read():
                return f"{path} holds it"
    return None


def change(place, **keys):
    """Changes what is served, as whoever can write there."""
    with open(place.path("site/manifest.json"), encoding="utf-8") as file:
        document = json.load(file)
    document.update(keys)
    place.write(json.dumps(document), "site/manifest.json")
    compressed = place.path("site/manifest.json.zst")
    if os.path.exists(compressed):
        os.remove(compressed)
    return document


# MARK: What is published already

@attack("publish", "the base says that a private key is a pack")
def key_as_pack(place):
    signed(place)
    key = place.read("keys/release.key")
    pack = {"url": "../keys/release.key", "size": len(key), "sha256": sha(key)}
    with open(place.path("site/manifest.json"), encoding="utf-8") as file:
        document = json.load(file)
    entry = {"path": "k", "size": len(key), "sha256": sha(key), "blobs": [[len(document["packs"]), 0, len(key)]]}
    change(place, packs=document["packs"] + [pack], files=document["files"] + [entry])
    place.write(FILES["d/0"][:len(key)], "source/k")
    publish(place)
    publish(place, "--sign", "keys")
    return leaks(place, key[100:160], os.stat(place.path("keys/release.key")).st_ino)


@attack("publish", "somebody's user data, hooks, mirrors and revision 2^63-3 in what is signed next")
def foreign_words(place):
    signed(place)
    change(place, revision=2**63 - 3, **{"x-user-data": {"run": "foreign"}},
           groups=[{"name": "foreign", "include": ["**"], "hooks": ["foreign"]}])
    done = publish(place, "--sign", "keys")
    if done.status != 0:
        return None
    text = place.read("site/manifest.json").decode()
    document = json.loads(text)
    if "foreign" in text or document["revision"] > 100:
        return f"signed: revision {document['revision']}, foreign words {'foreign' in text}"
    return None


@attack("publish", "one flipped byte in a pack that is signed again")
def flipped(place):
    signed(place)
    pack = next(path for path in published(place) if path.endswith(".pack"))
    with open(pack, "r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))
    done = publish(place, "--sign", "keys")
    if done.status != 0:
        return None
    pulled = place.pull("--trust", "keys/1.root", "--deadline", "5s")
    return None if pulled.status == 0 else f"published with 0, and nobody can pull it: {pulled}"


@attack("publish", "an old 'fresh' put back and the newer release taken away: refresh confirms it")
def refreshed_past(place):
    signed(place)
    shutil.copytree(place.path("site"), place.path("former"))
    done = publish(place, "--sign", "keys")
    assert done.status == 0, done
    shutil.rmtree(place.path("site"))
    shutil.copytree(place.path("former"), place.path("site"))
    done = place.run("keys", "refresh", "site", "--sign", "keys")
    return f"{done}: the former release is confirmed" if done.status == 0 else None


@attack("publish", "packs, trust, channels and manifests as links to elsewhere")
def linked(place):
    signed(place)
    done = publish(place, "--sign", "keys", "--channel", "beta")
    assert done.status == 0, done
    for name in ("packs", "trust", "channels", "manifests"):
        path = place.path("site", name)
        if not os.path.isdir(path):
            continue
        os.rename(path, place.path("kept-" + name))
        os.symlink(place.path("outside"), path)
        place.write(os.urandom(30_000), "source/d/newer")
        for arguments in (["--sign", "keys"], ["--sign", "keys", "--channel", "beta"]):
            publish(place, *arguments)
        place.run("channel", "set", "site", "beta", "1", "--sign", "keys")
        place.run("keys", "refresh", "site", "--sign", "keys")
        os.remove(path)
        os.rename(place.path("kept-" + name), path)
        if found := place.outside_is():
            return f"{name}: {found}"
    return None


@attack("publish", "another user holds flock(2) on the published directory")
def locked(place):
    needs_root()
    signed(place)
    for base in (os.path.dirname(place.root), place.root, place.path("site")):
        os.chmod(base, 0o755)
    holder = subprocess.Popen(
        ["python3", "-c", "import fcntl, os, sys, time\nfd = os.open(sys.argv[1], os.O_RDONLY)\n"
         "fcntl.flock(fd, fcntl.LOCK_EX)\nprint('held', flush=True)\ntime.sleep(60)", place.path("site")],
        stdout=subprocess.PIPE, user=STRANGER, group=STRANGER, extra_groups=[])
    try:
        holder.stdout.readline()
        done = publish(place, "--sign", "keys")
    finally:
        holder.kill()
        holder.wait()
    return None if done.status == 0 else str(done)


# MARK: What a source brings

@attack("publish", "the signing keys in the source, and in the published directory")
def keys_within(place):
    for target in ("source/keys", "site/keys"):
        place.write(b"data", "source/d")
        os.makedirs(place.path("site"), exist_ok=True)
        made = place.run("keys", "new", target, "--project", "holes")
        if made.status != 0:
            continue
        done = publish(place, "--sign", target)
        if done.status == 0:
            return f"{target}: published with 0"
        shutil.rmtree(place.path(target))
    return None


@attack("publish", "private keys of ssh and of TLS among the files")
def private_keys(place):
    place.write(b"data", "source/d")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place.path("source/id_ed25519")], check=True)
    done = publish(place)
    os.remove(place.path("source/id_ed25519"))
    if done.status == 0:
        return "id_ed25519: published with 0"
    subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-out", place.path("source/server.key")], check=True,
                   capture_output=True)
    done = publish(place)
    return "server.key: published with 0" if done.status == 0 else None


@attack("publish", "publish.json names a file of the machine, or is a link out of the tree")
def far_reaching(place):
    place.write(b"data", "source/d")
    place.write(b"d\n", "outside/list")
    place.write(json.dumps({"exclude_from": place.path("outside/list")}), "source/publish.json")
    found = None if publish(place).status != 0 else "exclude_from of another directory was read"
    os.remove(place.path("source/publish.json"))
    place.write(json.dumps({"exclude": ["nothing"]}), "outside/publish.json")
    os.symlink(place.path("outside/publish.json"), place.path("source/publish.json"))
    if found is None and publish(place).status == 0:
        found = "a publish.json elsewhere was followed"
    for name in ("list", "publish.json"):
        os.remove(place.path("outside", name))
    return found


@attack("publish", "patterns that take for ever, and SIGTERM")
def patterns(place):
    place.write(("**/" + "*a" * 120 + "b\n") * 2000, "source/.syncignore")
    place.write(b"data", "source/" + "/".join(["a" * 100] * 35) + "/" + "a" * 200)
    running = place.start("publish", "source", "--to", "site", "--project", "holes")
    end = time.monotonic() + 3
    while time.monotonic() < end and running.process.poll() is None:
        time.sleep(0.05)
    if running.process.poll() is not None:
        return None
    status, seconds = running.ends(signal.SIGTERM, 5)
    return None if status is not None and seconds < 2 else f"SIGTERM: status {status} after {seconds:.0f} s"


@attack("publish", "a source that has lost its files, and a set that loses its signature")
def lost(place):
    signed(place)
    shutil.rmtree(place.path("source"))
    os.makedirs(place.path("source"))
    done = publish(place, "--sign", "keys")
    if done.status == 0:
        return "a source without files: published with 0"
    for name, data in FILES.items():
        place.write(data, os.path.join("source", name))
    place.write(b"more", "source/more")
    done = publish(place)
    return "without --sign over what is signed: published with 0" if done.status == 0 else None


@attack("publish", "--to a URL, and to another host as scp(1) has it")
def elsewhere(place):
    place.write(b"data", "source/d")
    for target in ("https://cdn.example.com/tower", "sftp://host/tower", "user@host:tower", "host:/srv/tower"):
        done = place.run("publish", "source", "--to", target, "--project", "holes")
        if done.status != 64 or os.path.exists(place.path(target.split("/")[0])):
            return f"{target}: {done}"
    return None


@attack("places", "files whose size is 0 and whose contents are not")
def sizeless(place):
    place.write(b"", "source/d/ostype")
    place.write(b"data", "source/d/data")
    kernel = "/proc/sys/kernel/ostype"
    if subprocess.run(["mount", "--bind", kernel, place.path("source/d/ostype")], check=False, capture_output=True).returncode:
        raise NotShown("no mounts of its own")
    place.closing.append(lambda: subprocess.run(["umount", place.path("source/d/ostype")], check=False))
    done = publish(place)
    if done.status != 0:
        return None
    pulled = place.pull()
    if pulled.status != 0:
        return str(pulled)
    with open(kernel, "rb") as file:
        return None if file.read() == place.read("dest/d/ostype") else "it was published as an empty file"
