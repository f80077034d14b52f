"""Attacks 2 and 15 to 18: what the tree is in the end."""

import json
import os
import subprocess

from holes_place import NotShown, attack


# MARK: 2. Links

@attack("2", "two revisions whose links lead out of the tree together")
def composed(place):
    # From the destination three up is the place's own directory; before the second revision it is the destination.
    place.write(b"secret", "secret")
    os.makedirs(place.path("p/q"))
    first = [place.entry("a/b/c/f", b"1", "f"), {"path": "x", "link": "a/b/c/../../../secret"}]
    second = [{"path": letter, "link": "."} for letter in "abc"]
    for revision, files in enumerate((first, second), 1):
        place.manifest(files, revision=revision)
        done = place.run("pull", "site/manifest.json", "--into", "p/q/dest")
        assert revision == 2 or done.status == 0, done
        for link in ("x", "y"):
            if place.read(f"p/q/dest/{link}") == b"secret":
                return f"after revision {revision}, {link} reads a file outside"
    return None if done.status in (0, 77) else str(done)


@attack("2", "a link that leads out through a link that stands in the destination")
def standing(place):
    place.write(b"secret", "secret")
    os.makedirs(place.path("p/q/dest/a/b"))
    os.symlink("../..", place.path("p/q/dest/a/b/c"))
    place.manifest([place.entry("a/b/d/f", b"1", "f"), {"path": "x", "link": "a/b/d/../c/../../secret"}])
    place.run("pull", "site/manifest.json", "--into", "p/q/dest")
    return "it reads a file outside" if place.read("p/q/dest/x") == b"secret" else None


# MARK: 15. Verifiers

@attack("15", "a verifier that rewrites what it was shown")
def rewriting(place):
    place.manifest([place.entry("a.bin", b"right" * 100)])
    place.plugin("rewriter", "verifier", """
def answer(method, params):
    for file in params["files"]:
        os.chmod(file["staged_path"], 0o600)
        with open(file["staged_path"], "r+b") as opened:
            opened.write(b"wrong" * 100)
    return {"verdicts": [{"verdict": "accepted"}] * len(params["files"])}
""")
    place.configure('{plugins: {use: [{plugin: "rewriter", point: "verifier"}]}}')
    first = place.pull("--deadline", "8s")
    second = place.pull("--deadline", "8s")
    found = place.read("dest/a.bin")
    if found is not None and found.startswith(b"wrong"):
        return f"wrong bytes are in place; first pull: {first}; second: {second}"
    return None if first.status not in (0, None) else f"the attack did not happen: {first}"


# MARK: 16. Revisions

def revisions(place):
    for number in (5, 3):
        place.manifest([place.entry("a", b"revision %d" % number, f"a{number}")], f"site/{number}.json", revision=number)
    assert place.pull(manifest="site/5.json").status == 0


@attack("16", "revision 3 after 5")
def older(place):
    revisions(place)
    done = place.pull(manifest="site/3.json")
    if place.read("dest/a") == b"revision 3":
        return "it was installed"
    return None if done.status == 77 else str(done)


@attack("16", "revision 3 after 5, with another session's name")
def older_elsewhere(place):
    revisions(place)
    done = place.pull("--session", "other", manifest="site/3.json")
    if place.read("dest/a") == b"revision 3":
        return "it was installed"
    return None if done.status == 77 else str(done)


@attack("16", "revision 3 after 5 when it is wanted: --allow-older, on record")
def older_wanted(place):
    revisions(place)
    done = place.pull("--allow-older", manifest="site/3.json")
    if done.lacks_option:
        return "there is no --allow-older"
    if done.status != 0 or place.read("dest/a") != b"revision 3":
        return str(done)
    return None if "manifest.revision" in place.run("events", "holes").out else "no event tells of it"


# MARK: 17. Pruning

def pruned(place, *options):
    for number, names in enumerate(("abcdefghij", "abcdef"), 1):
        place.manifest([place.entry(name, name.encode()) for name in names], f"site/{number}.json", revision=number)
    assert place.pull(manifest="site/1.json").status == 0
    done = place.pull("--prune", *options, manifest="site/2.json")
    return done, sorted(name for name in os.listdir(place.path("dest")) if name != ".syncagent")


@attack("17", "a revision that removes more than --max-delete 2")
def most_deleted(place):
    done, left = pruned(place, "--max-delete", "2")
    if done.lacks_option:
        return "there is no --max-delete"
    return None if done.status == 77 and len(left) == 10 else f"{done}, {len(left)} files are left"


@attack("17", "what is removed is kept with --backup-dir")
def backup(place):
    done, left = pruned(place, "--backup-dir", "kept")
    if done.lacks_option:
        return "there is no --backup-dir"
    kept = sorted(os.listdir(place.path("kept"))) if os.path.isdir(place.path("kept")) else []
    return None if done.status == 0 and len(left) == 6 and kept == list("ghij") else f"{done}, kept: {kept}"


# MARK: 18. Names that meet

def folding(place, name):
    """A file system that does not tell upper from lower case, mounted for this place."""
    image, at = place.sparse(f"{name}.img", 64 << 20), place.path(name)
    os.makedirs(at)

    def tried(*words):
        try:
            return subprocess.run(words, capture_output=True, check=False, timeout=20).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False

    if name == "ext4":
        isthere = tried("mkfs.ext4", "-q", "-F", "-O", "casefold", image) and tried("mount", "-o", "loop", image, at) \
            and tried("chattr", "+F", at + "/.")
    elif name == "vfat":
        isthere = tried("mkfs.vfat", image) and tried("mount", "-o", "loop,umask=077", image, at)
    else:
        isthere = tried("mkntfs", "-F", "-Q", image) \
            and tried("lowntfs-3g", "-o", "ignore_case,permissions,umask=077", image, at)
    if os.path.ismount(at):
        place.closing.append(lambda: subprocess.run(["umount", at], check=False))
    if not isthere:
        raise NotShown(f"no {name} that folds case can be made and mounted here")
    return at


def meeting(kind):
    def run(place):
        at = folding(place, kind)
        place.manifest([place.entry("Readme", b"upper", "1"), place.entry("README", b"other", "2")])
        done = place.run("pull", "site/manifest.json", "--into", at + "/dest")
        found = set(os.listdir(at + "/dest")) - {".syncagent"} if os.path.isdir(at + "/dest") else set()
        if done.status != 73 or found:
            return f"{done}, and there stands {', '.join(found) or 'nothing'} of two"
        place.manifest([place.entry("Readme", b"upper", "1"), place.entry("other", b"other", "2")])
        again = place.run("pull", "site/manifest.json", "--into", at + "/dest")
        return None if again.status == 0 else f"a set without such names: {again}"
    return run


for file_system in ("ext4", "vfat", "ntfs"):
    attack("18", f"two names that meet where case is folded, on {file_system}")(meeting(file_system))


@attack("18", "two paths that are the same after normalisation (NFC), anywhere")
def normalised(place):
    document = [place.entry("e\u0301", b"1", "1"), place.entry("\u00e9", b"2", "2")]
    place.write(json.dumps({"format": "syncagent-manifest/1", "project": "holes", "files": document}), "site/manifest.json")
    done = place.pull()
    return None if done.status == 65 else str(done)
