"""Attacks 19: file systems as they are: mounts below a destination, what directories hand down, modes that keep their owner out."""

import json
import os
import stat
import subprocess

from holes_place import STRANGER, NotShown, attack, needs_root

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
