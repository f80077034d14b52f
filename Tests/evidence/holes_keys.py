"""Attacks on those who sign with root keys: what comes by mail, and what others may write."""

import json
import os

from holes_place import attack


def keys(place, directory, *more):
    done = place.run("keys", "new", directory, "--project", "holes", *more)
    assert done.status == 0, done


def shown(place, path):
    return json.loads(place.run("keys", "show", path, "--json").out)


def mail(place):
    """A thief's first root, and one after it with the victim's root key and the thief's release key."""
    keys(place, "keys")
    keys(place, "thief")
    place.write(shown(place, "keys/1.root")["root"]["keys"][0] + "\n", "victim.pub")
    assert place.run("keys", "rotate", "thief", "--role", "root", "--by", "victim.pub").status == 0
    for name in ("1.root", "2.root.pending"):
        place.write(place.read("thief/" + name), "mail/" + name)
    return shown(place, "thief/1.root")["release"]["keys"][0]


def sign(place, *more):
    done = place.run("keys", "sign", "mail/2.root.pending", "--with", "keys/root.key", *more)
    # An older program asks nobody, and has no option to say so.
    return place.run("keys", "sign", "mail/2.root.pending", "--with", "keys/root.key") if done.lacks_option else done


@attack("keys", "a thief's root beside the pending one that it leads to")
def mailed_root(place):
    mail(place)
    done = sign(place, "--yes")
    return f"{done}: it was signed" if os.path.exists(place.path("mail/2.root")) else None


@attack("keys", "a thief's release key in a root that is signed where nobody looks")
def unseen_key(place):
    thief = mail(place)
    os.remove(place.path("mail/1.root"))
    done = sign(place)
    if os.path.exists(place.path("mail/2.root")):
        return f"{done}: it was signed"
    fingerprint = place.run("keys", "show", "thief/1.root").out.split("release")[1].split()[0]
    return None if done.status in (64, 66, 77) and fingerprint in done.said else f"{done}: {thief} was not shown"


@attack("keys", "a public key that others may write becomes a root key")
def writable_public_key(place):
    keys(place, "ben")
    place.write(shown(place, "ben/1.root")["root"]["keys"][0] + "\n", "ben.pub", 0o666)
    done = place.run("keys", "new", "ada", "--project", "holes", "--root-public", "ben.pub")
    return f"{done}: it was taken" if done.status == 0 else None


@attack("keys", "roots, a signing program and authorities of TLS in a directory that others may write to")
def writable_directory(place):
    keys(place, "keys")
    place.write("1", "source/a")
    with open("/etc/ssl/certs/ca-certificates.crt", "rb") as file:
        place.write(file.read(), "open/ca.pem")
    place.write("#!/bin/sh\nexit 1\n", "open/signer", 0o755)
    os.chmod(place.path("open"), 0o777)
    publish = ("publish", "source", "--to", "site", "--sign", "keys")
    done = place.run(*publish, "--signer", "open/signer")
    if done.status == 0:
        return f"{done}: the signing program was taken"
    os.chmod(place.path("open"), 0o755)
    assert place.run(*publish).status == 0
    os.chmod(place.path("open"), 0o777)
    if (done := place.pull("--trust", "keys/1.root", "--cacert", "open/ca.pem")).status == 0:
        return f"{done}: the authorities were believed"
    os.chmod(place.path("keys"), 0o777)
    for name in ("release", "fresh", "root"):
        os.remove(place.path(f"keys/{name}.key"))
    done = place.run("keys", "show", "keys")
    return f"{done}: the roots were believed" if done.status == 0 else None


@attack("keys", "an old 2.root on the server after all root keys were lost: machines that pin the new keys")
def lost_keys(place):
    keys(place, "keys")
    place.write("1", "source/a")
    assert place.run("publish", "source", "--to", "site", "--sign", "keys").status == 0
    assert place.run("keys", "rotate", "keys", "--role", "release").status == 0
    assert place.run("publish", "source", "--to", "site", "--sign", "keys").status == 0
    made = place.run("keys", "new", "new", "--project", "holes", "--after", "site")
    if made.lacks_option:
        made = place.run("keys", "new", "new", "--project", "holes")
    assert made.status == 0, made
    place.write("2", "source/a")
    publish = ("publish", "source", "--to", "site", "--sign", "new")
    done = place.run(*publish, "--allow-other-keys")
    done = place.run(*publish) if done.lacks_option else done
    assert done.status == 0, done
    root = next(name for name in os.listdir(place.path("new")) if name.endswith(".root"))
    for anchor in ("new/" + root, "first"):
        place.run("trust", "forget", "holes")
        if (done := place.pull("--trust", anchor)).status != 0:
            return f"{anchor}: {done}"
    return None if place.read("dest/a") == b"2" else "something else was installed"
