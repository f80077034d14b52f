"""What a publisher may have put where it is served, and what it may have taken away."""

import hashlib
import json
import os
import re
import stat

# What of a manifest a publish without more options says.
HONEST_KEYS = {"format", "project", "revision", "created", "packs", "files", "groups", "parts", "dictionary", "deltas", "base",
               "directories"}


def regular(directory):
    """Regular files below a directory, links not followed."""
    for base, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(base, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                yield path, status


def private(directory):
    """Bytes that may not be served: what is nobody's business, and the inside of each private key."""
    found = [b"nobody may read or write this"]
    for place in ("keys", "src/keys", "site/keys", "out/keys"):
        for path, _ in regular(os.path.join(directory, place)):
            with open(path, "rb") as file:
                text = file.read(10_000)
            if b"PRIVATE KEY" in text:
                found += [line for line in text.splitlines() if len(line) >= 60][1:3]
    return found


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# What prune removes: packs, manifests, and what leads to them by a number.
REMOVABLE = re.compile(r"packs/[0-9a-f]{64}\.pack|manifests/([0-9a-f]{64}\.json\.zst|unnamed\.json)"
                       r"|channels/(0|[1-9][0-9]*)\.json\.zst|trust/(0|[1-9][0-9]*)\.release|(.*/)?\.syncagent-[0-9]+-tmp")
# Of revisions: what the fixtures have, and how far one publish may jump over what somebody has put there.
MOST_REVISIONS = 1_000_016


def judge(case, status, before, after):
    """All complaints about what is served after a command of the publisher."""
    words = set(case.arguments)
    complaints = judge_new(case, before)
    if words & {"list", "--dry-run"}:
        if before != after:
            complaints.append(("escapes", "a command that only looks has changed what is served"))
        return complaints
    complaints += judge_removed(case, before, after)
    isrestored, ispublished = "restore" in words, case.arguments[0] == "publish"
    if status != 0 or not (isrestored or ispublished):
        return complaints
    if case.served_keys and "--sign" in words:
        complaints.append(("escapes", "the keys that sign are served"))
    if "--sign" not in words and issigned(case, before):
        complaints.append(("lost", "what was signed is signed no longer"))
    if "--channel" in words:
        return complaints  # The default channel's manifest stays as it was.
    path = os.path.join(case.directory, case.output, "manifest.json")
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise OSError("it is not a file")
        with open(path, "rb") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        return complaints + [("wrong bytes", f"status 0, and no manifest: {error}")]
    if "parts" in document:
        return complaints
    if ispublished:
        sources = {digest(path) for path, _ in regular(os.path.join(case.directory, "src"))} | {hashlib.sha256(b"").hexdigest()}
        for entry in document["files"]:
            if "link" not in entry and entry["sha256"] not in sources:
                complaints.append(("wrong bytes", f"{entry['path']} is not in the source"))
    if "--sign" in words:
        complaints += judge_signed(case, document, isrestored)
    return complaints


def judge_new(case, before):
    """Nothing private may be served, and nothing may be a second name of what is elsewhere."""
    complaints = []
    site = os.path.join(case.directory, case.output)
    outside = {(entry.st_dev, entry.st_ino) for place in ("canary", "keys", "src", "former", "texts", "frames")
               for _, entry in regular(os.path.join(case.directory, place))}
    secrets = private(case.directory)
    for path, entry in regular(site):
        if path.startswith(site + "/keys/") and path in before:
            continue
        if before.get(path, (None,) * 4)[:3] == (entry.st_mode, entry.st_size, entry.st_mtime_ns):
            continue
        if (entry.st_dev, entry.st_ino) in outside:
            complaints.append(("escapes", f"{path} is another file's second name"))
        elif entry.st_size < 8 << 20:
            with open(path, "rb") as file:
                data = file.read()
            if any(secret in data for secret in secrets):
                complaints.append(("escapes", f"{path} holds private bytes"))
    return complaints


def issigned(case, before):
    """Whether the roots of this publisher were in place."""
    try:
        root = digest(os.path.join(case.directory, "former", "trust", "1.root"))
    except OSError:
        return False
    return before.get(os.path.join(case.directory, case.output, "trust", "1.root"), (None,) * 4)[3] == bytes.fromhex(root)


def judge_signed(case, document, isrestored):
    """What is signed, all of it, is this machine's word."""
    complaints = []
    for key in sorted(set(document) - HONEST_KEYS):
        complaints.append(("foreign signed", f"{key} is signed"))
    groups = [group["name"] for group in document.get("groups", [])]
    if [name for name in groups if name != "docs"] or any("hooks" in group for group in document.get("groups", [])):
        complaints.append(("foreign signed", f"groups {groups!r:.200} are signed"))
    if document["revision"] > MOST_REVISIONS:
        complaints.append(("foreign signed", f"revision {document['revision']} is signed"))
    if any("urls" in entry for entry in document["files"]):
        complaints.append(("foreign signed", "URLs of files are signed"))
    if isrestored and contents(document) not in [contents(honest) for honest in signed_texts(case).values()]:
        complaints.append(("foreign signed", "a release is restored that was never signed"))
    for pack in document.get("packs", []):
        path = os.path.join(case.directory, case.output, pack.get("url", ""))
        if "--base" in case.arguments and (os.path.islink(path) or not os.path.isfile(path)):
            continue  # It may be where the base is served only: a warning says so.
        if pack.get("url") != f"packs/{pack['sha256']}.pack" or not os.path.isfile(path) or digest(path) != pack["sha256"]:
            complaints.append(("foreign signed", f"the pack {pack.get('url')!r:.200} is signed and is not what it says"))
    return complaints


def contents(document):
    return sorted((entry["path"], entry.get("sha256"), entry.get("link")) for entry in document["files"])


def signed_texts(case):
    """The manifests that this publisher has signed, by their digests."""
    found = {}
    for path, _ in regular(os.path.join(case.directory, "texts")):
        with open(path, "rb") as file:
            found[os.path.basename(path)] = json.load(file)
    return found


def judge_removed(case, before, after):
    """Only what prune may remove is gone, and nothing that a pull can begin with, or that it needs."""
    complaints = []
    site = os.path.join(case.directory, case.output)
    gone = {os.path.relpath(path, site) for path in set(before) - set(after)}
    for path in sorted(gone):
        # Of its own files whatever has their names; of others only what is one.
        isours = path.endswith(("-tmp", "/unnamed.json")) or stat.S_ISREG(before[os.path.join(site, path)][0])
        if not REMOVABLE.fullmatch(path) or not isours:
            complaints.append(("lost", f"{path} is gone"))
        elif not {"prune", "--retain"} & set(case.arguments) and re.match("packs/|manifests/[0-9a-f]", path):
            complaints.append(("lost", f"{path} is gone, and nobody has pruned"))
    texts = signed_texts(case)
    named = set()
    for path in after:
        name = re.fullmatch(r"manifests/([0-9a-f]{64})\.json\.zst", os.path.relpath(path, site))
        if name and name[1] in texts and after[path][3] == frame(case, name[1]):
            named.add(name[1])
    for name in texts:
        # What is named now, or was until this command: a pull may have begun with it.
        if any(found == frame(case, name) and re.fullmatch(r"manifest\.json\.zst|channels/[a-z]+\.json\.zst",
                                                            os.path.relpath(path, site))
               for path, (*_, found) in before.items()):
            named.add(name)
            if f"manifests/{name}.json.zst" in gone:
                complaints.append(("lost", f"the manifest {name}, which is named, is gone"))
    for name in named:
        for pack in texts[name]["packs"]:
            if pack["url"] in gone:
                complaints.append(("lost", f"{pack['url']} is gone, which {name} needs"))
    return complaints


def frame(case, name):
    return bytes.fromhex(digest(os.path.join(case.directory, "frames", name)))
