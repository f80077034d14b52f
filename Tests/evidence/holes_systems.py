"""Attacks 19: file systems as they are: mounts below a destination, what directories hand down, modes that keep their owner out."""

import hashlib
import json
import os
import shutil
import stat
import struct
import subprocess

from holes_place import STRANGER, NotShown, attack, needs_root, until

FILES = {f"{top}/{name}": f"{name} of {top}\n".encode() * 50 for top in ("maps", "texts") for name in ("a", "deep/b", "c")}


def mounted(place, name, *options):
    """Something mounted below the destination."""
    at = place.path("dest", name)
    os.makedirs(at)
    if subprocess.run(["mount", *options, at], check=False, capture_output=True).returncode != 0:
        raise NotShown("nothing can be mounted here")
    place.closing.append(lambda: subprocess.run(["umount", "-l", at], check=False))
    return at


def differing(place, files=None):
    for name, data in (files or FILES).items():
        if place.read(f"dest/{name}") != data:
            return f"{name} is not there"
    return None


@attack("19", "another file system mounted below the destination")
def other_system(place):
    mounted(place, "maps", "-t", "tmpfs", "none")
    place.publish(FILES)
    planned, done = place.run("plan", "site/manifest.json", "--into", "dest"), place.pull()
    if planned.status == 0 and done.status != 0:
        return f"the plan says nothing, and the pull: {done}"
    return differing(place) or (None if done.status == 0 else str(done))


@attack("19", "a directory of the same file system mounted below the destination (bind)")
def bound(place):
    os.makedirs(place.path("elsewhere"))
    mounted(place, "maps", "--bind", place.path("elsewhere"))
    place.publish(FILES)
    done = place.pull("--backup-dir", "kept")
    place.publish({name: data * 2 for name, data in FILES.items()})
    again = place.pull("--backup-dir", "kept")
    if done.status != 0 or again.status != 0:
        return f"{done}, {again}"
    return None if place.read("kept/maps/a") == FILES["maps/a"] else "what was replaced there is not in the backup"


@attack("19", "one mounted read-only below the destination is named before anything is fetched")
def read_only(place):
    mounted(place, "maps", "-t", "tmpfs", "-o", "ro", "none")
    place.publish(FILES)
    planned = place.run("plan", "site/manifest.json", "--into", "dest")
    return None if planned.status == 2 and "/maps is a file system" in planned.out + planned.said else f"plan: {planned}"


@attack("19", "one mounted below the destination that is too small")
def too_small(place):
    mounted(place, "maps", "-t", "tmpfs", "-o", "size=64k", "none")
    place.publish({"maps/large": os.urandom(1 << 20), "top": b"1"})
    done = place.pull()
    return None if done.status == 74 and "maps: needs" in done.said else str(done)


@attack("19", "set-group-ID bit and default ACL of a directory below the top")
def handed_down(place):
    needs_root()
    place.publish(FILES)
    at = place.path("dest/maps")
    os.makedirs(at)
    os.chown(at, 0, STRANGER)
    os.chmod(at, 0o2775)
    done = place.pull()
    groups = {os.lstat(place.path("dest", name)).st_gid for name in FILES if name.startswith("maps/")}
    return None if done.status == 0 and groups == {STRANGER} else f"{done}, groups {groups}"


@attack("19", "directories that a manifest closes to their owner, pulled again by a user who is not root")
def closed(place):
    needs_root()
    modes = ("000", "111", "222", "300", "444")
    def publish(text):
        for mode in modes:
            place.write(f"{text} in {mode}", f"source/{mode}/file")
        for mode in modes:
            os.chmod(place.path("source", mode), int(mode, 8))
        done = place.run("publish", "source", "--to", "site", "--project", "holes", "--preserve", "modes", "--quiet")
        assert done.status == 0, done
    home = place.path("other")
    os.makedirs(home)
    os.chown(home, STRANGER, STRANGER)
    os.chmod(place.root, 0o755)
    for text in ("first", "second", "second"):
        publish(text)
        done = place.run("pull", "site/manifest.json", "--into", home + "/dest", user=STRANGER, home=home)
        if done.status != 0:
            return f"{text}: {done}"
    for mode in modes:
        found = stat.S_IMODE(os.lstat(f"{home}/dest/{mode}").st_mode)
        if found != int(mode, 8) or place.read(f"other/dest/{mode}/file") != f"second in {mode}".encode():
            return f"{mode} has mode {found:o}"
    return None


@attack("19", "a plan of what was deleted or edited here")
def planned(place):
    place.publish(FILES)
    assert place.pull().status == 0
    os.unlink(place.path("dest/maps/a"))
    place.write(b"edited", "dest/maps/c")
    done = place.run("plan", "site/manifest.json", "--into", "dest", "--json")
    plan = json.loads(done.out.splitlines()[-1])
    wanted = plan["bytes"]["packs"] + plan["bytes"]["loose"]
    return None if wanted > 0 and plan["bytes"]["reused"] == 0 else f"the plan fetches {wanted} bytes"


def served(place, *options):
    """A file system by FUSE that folds case."""
    os.makedirs(place.path("behind"))
    os.makedirs(place.path("mounted"))
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "foldfs.py")
    process = subprocess.Popen(["/usr/bin/python3", script, place.path("behind"), place.path("mounted"), *options],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    place.closing.append(lambda: (subprocess.run(["umount", "-l", place.path("mounted")], check=False, capture_output=True),
                                  process.kill(), process.wait()))
    if not until(lambda: os.path.ismount(place.path("mounted")) or process.poll() is not None, 5) or process.poll() is not None:
        raise NotShown("no FUSE, or no fusepy")
    return place.path("mounted/dest")


@attack("19", "two names that meet where case is folded and each spelling has a number of its own (exFAT, CIFS)")
def own_numbers(place):
    destination = served(place, "own-inodes")
    place.manifest([place.entry("Readme", b"upper", "1"), place.entry("README", b"other", "2")])
    done = place.run("pull", "site/manifest.json", "--into", destination)
    found = set(os.listdir(destination)) - {".syncagent"} if os.path.isdir(destination) else set()
    return None if done.status == 73 and not found else f"{done}, and there stands {', '.join(found) or 'nothing'} of two"


@attack("19", "chmod without effect: verify agrees with the pull, and --prune removes what was installed")
def modeless(place):
    destination = served(place, "no-modes", "own-inodes")
    def publish(files):
        place.manifest([place.entry(name, name.encode()) for name in files])
        return place.run("pull", "site/manifest.json", "--into", destination, "--prune", "--force")
    assert publish(["kept", "old", "older"]).status == 0
    done = place.run("verify", "site/manifest.json", "--into", destination)
    if done.status != 0:
        return f"verify: {done}"
    done = publish(["kept"])
    left = sorted(set(os.listdir(destination)) - {".syncagent"})
    return None if done.status == 0 and left == ["kept"] else f"{done}: {', '.join(left)} are there after --prune"


@attack("19", "default ACL of a directory below the top")
def handed_acl(place):
    place.publish(FILES)
    os.makedirs(place.path("dest/maps"))
    # acl(5), version 2: the owner, a user of its own, the group, the mask, others.
    entries = ((1, 7, 2**32 - 1), (2, 7, STRANGER), (4, 5, 2**32 - 1), (16, 7, 2**32 - 1), (32, 5, 2**32 - 1))
    value = b"\x02\0\0\0" + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(place.path("dest/maps"), "system.posix_acl_default", value)
    except OSError as error:
        raise NotShown("no ACLs here") from error
    done = place.pull()
    assert done.status == 0, done
    lacking = [name for name in ("maps/a", "maps/deep", "maps/deep/b")
               if "system.posix_acl_access" not in os.listxattr(place.path("dest", name))]
    return f"{', '.join(lacking)} did not get it" if lacking else None


@attack("19", "another file system mounted below the destination: each is synced")
def synced(place):
    if not shutil.which("strace"):
        raise NotShown("no strace")
    mounted(place, "maps", "-t", "tmpfs", "none")
    place.publish(FILES)
    done = place.pull(wrap=("strace", "-f", "-y", "-e", "trace=syncfs", "-o", place.path("calls")))
    calls = place.read("calls").decode(errors="replace")
    if done.status != 0 or "syncfs" not in calls:
        return str(done)
    return None if "dest/maps" in calls else "only that of the destination"


@attack("19", "an index of more than 256 MiB is used: --prune removes, and nothing is hashed again")
def large_index(place):
    place.manifest([place.entry(name, name.encode()) for name in "abc"], revision=1)
    assert place.pull().status == 0
    path = place.path("dest/.syncagent/index")
    with open(path, "rb") as file:
        data = bytearray(file.read())
    count, paths, owner = struct.unpack_from("<QQQ", data, 16)
    end = 128 + 80 * count + paths
    assert data[:8] == b"SAINDEX1" and len(data) == end + owner + 32
    # Records of files with long names that are not there, behind those that are.
    tail, more = b"/" + b"/".join([b"n" * 250] * 15), 75_000
    names = [b"z%06d" % number + tail for number in range(more)]
    record = bytearray(data[128 + 80 * (count - 1):128 + 80 * count])
    record[79] = 0
    struct.pack_into("<QQ", data, 16, count + more, paths + sum(len(name) + 1 for name in names))
    digest, at = hashlib.sha256(), paths
    with open(path, "r+b") as file:
        def put(piece):
            digest.update(piece)
            file.write(piece)

        put(data[:128 + 80 * count])
        for name in names:
            struct.pack_into("<IH", record, 72, at, len(name))
            put(record)
            at += len(name) + 1
        put(data[128 + 80 * count:end])
        for name in names:
            put(name + b"\0")
        put(data[end:-32])
        file.write(digest.digest())
    place.manifest([place.entry(name, name.encode()) for name in "ab"], revision=2)
    done = place.pull("--prune", "--force", seconds=60)
    return None if done.status == 0 and not os.path.exists(place.path("dest/c")) else f"{done}: c is still there"
