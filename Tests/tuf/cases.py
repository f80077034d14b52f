#!/usr/bin/env python3
"""Makes repositories of The Update Framework with python-tuf, and writes down what python-tuf's own client makes of each.

usage: cases.py COUNT SEED >cases.json     needs `pip install tuf cryptography`; cases.json beside it are 16 of seed 5

Each case: the first root; what was served when the client looked for the first time, all of it good; what is served the second
time, after rotations, with too few signatures, signatures of others, false ones, old versions, what has run out, what is missing
or has another's name; whether the client then believes it, and the number of the root that it believes. Tests/tuf.sh runs it.
"""

import datetime
import json
import random
import sys
import tempfile

from securesystemslib.signer import CryptoSigner, SSlibKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tuf.api.exceptions import DownloadHTTPError, RepositoryError, DownloadError
from tuf.api.metadata import Metadata, MetaFile, Role, Root, Snapshot, Targets, Timestamp
from tuf.api.serialization.json import CanonicalJSONSerializer, JSONSerializer
from tuf.ngclient import FetcherInterface, Updater

NOW = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
LATER, BEFORE = NOW + datetime.timedelta(days=3650), NOW - datetime.timedelta(days=1)
COMPACT = JSONSerializer(compact=True)


def signer(number):
    private = Ed25519PrivateKey.from_private_bytes(bytes([number] * 32))
    return CryptoSigner(private, SSlibKey.from_crypto(private.public_key(), keyid=f"{number:064d}"))


SIGNERS = {number: signer(number) for number in range(1, 40)}


class Memory(FetcherInterface):
    def __init__(self, files):
        self.files = files

    def _fetch(self, url):
        name = url.rsplit("/", 1)[1]
        if name not in self.files:
            raise DownloadHTTPError("not there", 404)
        yield self.files[name].encode()


def signed(content, numbers, false=()):
    metadata = Metadata(content)
    for number in numbers:
        metadata.sign(SIGNERS[number], append=True)
    for number in false:
        # A good signature by the right key, of other bytes.
        other = SIGNERS[number].sign(b"something else")
        metadata.signatures[other.keyid] = other
    return metadata.to_bytes(COMPACT).decode()


class Repository:
    """Keys and versions of one repository, and what goes wrong with it."""

    def __init__(self, chance):
        self.chance = chance
        self.version = 1
        self.free = list(range(1, 40))
        chance.shuffle(self.free)
        self.keys = {role: self.draw(role) for role in ("root", "release", "fresh")}

    def draw(self, role):
        count = self.chance.choice([1, 1, 2, 3])
        return [self.free.pop() for _ in range(count)], self.chance.randint(1, count)

    def root(self, by, expires=LATER, version=None, false=()):
        root = Root(version=version or self.version, expires=expires, consistent_snapshot=True)
        for role, name in (("root", "root"), ("timestamp", "fresh"), ("snapshot", "release"), ("targets", "release")):
            keys, threshold = self.keys[name]
            root.roles[role] = Role([], threshold)
            for number in keys:
                root.add_key(SIGNERS[number].public_key, role)
        return signed(root, by, false)

    def enough(self, role, less=0, keys=None):
        keys, threshold = keys or self.keys[role]
        return self.chance.sample(keys, threshold - less if less else self.chance.randint(threshold, len(keys)))

    def release(self, revision, serial, by=None, fresh_by=None, expires=LATER, false=()):
        """The files of one release, and of the word that it is the newest."""
        by = self.enough("release") if by is None else by
        fresh_by = self.enough("fresh") if fresh_by is None else fresh_by
        snapshot = Snapshot(version=revision, expires=LATER, meta={"targets.json": MetaFile(revision)})
        timestamp = Timestamp(version=serial, expires=expires, snapshot_meta=MetaFile(revision))
        return {
            f"{revision}.targets.json": signed(Targets(version=revision, expires=LATER), by),
            f"{revision}.snapshot.json": signed(snapshot, by),
            "timestamp.json": signed(timestamp, fresh_by, false),
        }


def case(chance):
    repository = Repository(chance)
    first = repository.root(repository.enough("root"))
    revision, serial = chance.randint(3, 6), chance.randint(3, 6)
    good = repository.release(revision, serial)
    files, former = {}, None
    faults, rotated = [], set()
    for _ in range(chance.choice([0, 1, 1, 2, 3])):
        former = dict(repository.keys)
        roles = chance.choice(
            [["root"], ["fresh"], ["release"], ["fresh", "release"], ["root", "fresh", "release"], []]
        )
        for role in roles:
            if len(repository.free) > 3:
                repository.keys[role] = repository.draw(role)
                rotated.add(role)
        repository.version += 1
        old, new = repository.enough("root", keys=former["root"]), repository.enough("root")
        what = chance.choice([""] * 14 + ["old", "new", "number", "over", "false"])
        expires, version, false = LATER, None, ()
        if what == "old":
            old = repository.enough("root", 1, keys=former["root"])
        elif what == "new":
            new = repository.enough("root", 1)
        elif what == "number":
            version = repository.version + chance.choice([-1, 1])
        elif what == "over":
            expires = BEFORE
        elif what == "false":
            false, old, new = set(old), [], [number for number in new if number not in old]
        by = list(dict.fromkeys(old + new + chance.sample(range(1, 40), chance.choice([0, 0, 2]))))
        if what in ("old", "new"):
            by = list(dict.fromkeys(old + new))
        files[f"{repository.version}.root.json"] = repository.root(by, expires, version, false)
        if what:
            faults.append(f"root {repository.version}: {what}")
    what = chance.choice(
        [""] * 7
        + ["same", "serial", "revision", "few", "fresh-few", "other", "over", "missing", "mixed", "false", "stolen"]
    )
    if what == "revision" and "release" in rotated and "fresh" not in rotated:
        # 5.3.11 forgets what keys have said that are gone; python-tuf goes on with its timestamp, and the numbers in it.
        what = ""
    step, later = chance.randint(1, 3), chance.randint(1, 3)
    if what == "serial":
        later = -chance.randint(1, 2)
    if what == "revision":
        step = -chance.randint(1, 2)
    options = {}
    if what == "few":
        options["by"] = repository.enough("release", 1)
    if what == "fresh-few":
        # A statement that nobody has signed is none here, before any root is looked for.
        options["fresh_by"] = repository.enough("fresh", 1) or repository.free[:1]
    if what == "other":
        options["fresh_by"] = repository.keys["release"][0] + repository.keys["root"][0]
    if what == "over":
        options["expires"] = BEFORE
    if what == "false":
        options["false"], options["fresh_by"] = repository.keys["fresh"][0], []
    if what == "stolen" and former:
        options["by"] = former["release"][0]
    if what == "same":
        files.update(repository.release(revision, serial + 1))
    else:
        made = repository.release(revision + step, serial + later, **options)
        if what == "missing":
            for name in (f"{revision + step}.targets.json", f"{revision + step}.snapshot.json"):
                del made[name]
        if what == "mixed":
            for kind in ("targets", "snapshot"):
                made[f"{revision + step}.{kind}.json"] = good[f"{revision}.{kind}.json"]
        files.update(made)
    if what:
        faults.append(what)
    return {"faults": faults, "first": first, "good": good, "files": files}


def verdict(case):
    """What python-tuf's client makes of it: first of what is good, then of the rest."""
    with tempfile.TemporaryDirectory() as directory:
        def refresh(files, bootstrap):
            updater = Updater(directory, "http://x/", fetcher=Memory(files), bootstrap=bootstrap)
            try:
                updater.refresh()
                return True, updater
            except (RepositoryError, DownloadError):
                return False, updater
        believed, _ = refresh(case["good"], case["first"].encode())
        assert believed
        believed, updater = refresh(case["files"], None)
        return believed, updater._trusted_set.root.version


def main():
    chance = random.Random(int(sys.argv[2]))
    cases = []
    while len(cases) < int(sys.argv[1]):
        one = case(chance)
        one["believed"], one["root"] = verdict(one)
        cases.append(one)
    json.dump({"now": int(NOW.timestamp()) * 1000, "cases": cases}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
