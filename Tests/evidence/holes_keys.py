"""Attacks on those who sign with root keys: what comes by mail, and what others may write."""

import json
import os
import pty
import subprocess
import time

from holes_place import NotShown, attack, until


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


def fingerprints(place, path):
    """Of every key of a root, as `keys show` prints them."""
    return {word for word in place.run("keys", "show", path).out.split() if word.startswith("SHA256:") and len(word) == 50}


@attack("keys", "a first root that several sign, with a thief's key among its keys, signed where nobody looks")
def first_root(place):
    keys(place, "ben")
    place.write(shown(place, "ben/1.root")["root"]["keys"][0] + "\n", "ben.pub")
    made = place.run("keys", "new", "ada", "--project", "holes", "--root-public", "ben.pub", "--root-threshold", "2")
    assert made.status == 0, made
    os.makedirs(place.path("drawer"))
    os.rename(place.path("ben/root.key"), place.path("drawer/root.key"))
    done = place.run("keys", "sign", "ada/1.root.pending", "--with", "drawer/root.key")
    if os.path.exists(place.path("ada/1.root")):
        return f"{done}: it was signed, and nobody was asked"
    unseen = [key for key in fingerprints(place, "ada/1.root.pending") if key not in done.said + done.out]
    return f"{done}: {unseen[0]} was not shown" if unseen else None


@attack("keys", "mirrors that change in a root that is signed: old and new are shown")
def changed_mirrors(place):
    keys(place, "keys", "--mirror", "https://mirror.example/tower/")
    keys(place, "other", "--mirror", "https://thief.example/tower/")
    # The next root of the same keys, with another mirror, as whoever can write the pending file has it.
    assert place.run("keys", "rotate", "keys", "--role", "root").status == 0
    name = "2.root.pending" if os.path.exists(place.path("keys/2.root.pending")) else "2.root"
    statement = place.read("keys/" + name).rpartition(b"\n\n")[2].replace(b"mirror.example", b"thiefs.example")
    place.write(place.read("keys/1.root"), "reader/1.root")
    os.rename(place.path("keys/root.key"), place.path("reader/root.key"))
    place.write(b"\n" + statement, "mail/2.root.pending")
    done = place.run("keys", "sign", "mail/2.root.pending", "--with", "reader/root.key", "--from", "keys/1.root")
    if done.lacks_option:
        done = place.run("keys", "sign", "mail/2.root.pending", "--with", "reader/root.key")
    words = done.said + done.out
    return None if "mirror.example" in words and "thiefs.example" in words else f"{done}: the mirrors were not shown"


@attack("keys", "a signature by somebody at a terminal who has not said yes")
def unasked(place):
    mail(place)
    place.write(place.read("thief/1.root"), "keys/1.root")
    main, other = pty.openpty()
    try:
        process = subprocess.Popen([place.program, "keys", "sign", "mail/2.root.pending", "--with", "keys/root.key"],
                                   cwd=place.root, stdin=other, stdout=other, stderr=other, env=place.environment())
        os.close(other)
        end = time.monotonic() + 5
        os.set_blocking(main, False)
        said = b""
        while process.poll() is None and time.monotonic() < end:
            try:
                said += os.read(main, 65_536)
            except OSError:
                pass
            if b"?" in said:
                os.write(main, b"n\n")
            time.sleep(0.05)
        if process.poll() is None:
            process.kill()
        status = process.wait()
    finally:
        os.close(main)
    return f"exit {status}: it was signed" if os.path.exists(place.path("mail/2.root")) else None


@attack("keys", "a new release key where the root key is elsewhere, as Signing.md has it")
def rotated_elsewhere(place):
    keys(place, "keys")
    os.rename(place.path("keys/root.key"), place.path("outside/root.key"))
    done = place.run("keys", "rotate", "keys", "--role", "release")
    os.rename(place.path("outside/root.key"), place.path("root.key"))
    return None if done.status == 0 and os.path.exists(place.path("keys/2.root.pending")) else str(done)


@attack("keys", "a key with a passphrase: no cipher of the program's own opens it")
def passphrase(place):
    keys(place, "keys")
    place.write("1", "source/a")
    locked = subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "word", "-f", place.path("keys/release.key")],
                            check=False, capture_output=True)
    if locked.returncode != 0:
        raise NotShown("no ssh-keygen")
    place.write("word\n", "word", 0o600)
    publish = ("publish", "source", "--to", "site", "--sign", "keys")
    done = place.run(*publish, "--passphrase-file", "word")
    if done.status == 0:
        return f"{done}: bcrypt and Blowfish of its own"
    done = place.run(*publish)
    return None if done.status == 77 and "--signer" in done.said else str(done)


@attack("keys", "a key with a passphrase, in an ssh-agent, by --signer as Signing.md has it")
def agent_signs(place):
    keys(place, "keys")
    place.write("1", "source/a")
    locked = subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "word", "-f", place.path("keys/release.key")],
                            check=False, capture_output=True)
    if locked.returncode != 0:
        raise NotShown("no ssh-keygen")
    socket = place.path("agent.sock")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    place.closing.append(lambda: (agent.kill(), agent.wait()))
    if not until(lambda: os.path.exists(socket), 5):
        raise NotShown("no ssh-agent")
    ask = place.hook("ask", "echo word\n")
    environment = dict(place.environment(), SSH_AUTH_SOCK=socket, SSH_ASKPASS=ask, SSH_ASKPASS_REQUIRE="force", DISPLAY=":0")
    for name in ("release", "fresh"):
        os.chmod(place.path(f"keys/{name}.key"), 0o600)
        added = subprocess.run(["ssh-add", "-q", place.path(f"keys/{name}.key")], env=environment, check=False,
                               capture_output=True, stdin=subprocess.DEVNULL)
        assert added.returncode == 0, added.stderr
        text = subprocess.run(["ssh-keygen", "-y", "-P", "word" if name == "release" else "", "-f", place.path(f"keys/{name}.key")],
                              check=True, capture_output=True).stdout
        place.write(text, f"signs/{name}.pub")
        os.remove(place.path(f"keys/{name}.key"))
    signer = place.hook("signer", f'exec ssh-keygen -Y sign -n "$1" -f {place.path("signs")}/"${{1#syncagent-}}".pub\n')
    done = place.run("publish", "source", "--to", "site", "--sign", "keys", "--signer", signer, SSH_AUTH_SOCK=socket)
    if done.status != 0:
        return str(done)
    pulled = place.pull("--trust", "keys/1.root")
    return None if pulled.status == 0 else str(pulled)
