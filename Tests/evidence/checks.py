#!/usr/bin/env python3
"""Checks that share no code with syncagent.

usage: checks.py compare SOURCE DESTINATION     same paths, types, link targets, sizes, SHA-256, executable bits
       checks.py matches MANIFEST DESTINATION   the same against a manifest; nothing missing, nothing more
       checks.py differ OLD NEW                 files of directory NEW that OLD does not have so, one path a line
       checks.py changed OLD.json NEW.json      what NEW needs and OLD does not have, from the manifests alone
       checks.py stored MANIFEST                bytes of the distinct blobs that a manifest needs
       checks.py log FILE OFFSET                requests and body bytes in an nginx log from OFFSET on
       checks.py opened STRACE DIRECTORY        regular files of DIRECTORY that strace -f -y saw opened
       checks.py escaping DIRECTORY             links that leave the tree, one path a line

compare and matches exit with 1 and name up to 20 differences. The others print NAME=NUMBER words for a shell.
Empty directories are not compared: a manifest names files and links only.
"""
import hashlib, json, os, re, stat, sys
from concurrent.futures import ThreadPoolExecutor

OWN = ".syncagent"


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def walk(root):
    """path -> lstat result of every file and link, without the agent's own directory."""
    found, pending = {}, [""]
    while pending:
        directory = pending.pop()
        with os.scandir(os.path.join(root, directory)) as entries:
            for entry in entries:
                path = os.path.join(directory, entry.name)
                if path == OWN:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                else:
                    found[path] = entry.stat(follow_symlinks=False)
    return found


def describe(root):
    """path -> ("link", target) or ("file", size, sha256, executable) or ("other",)."""
    found = walk(root)

    def one(item):
        path, status = item
        full = os.path.join(root, path)
        if stat.S_ISLNK(status.st_mode):
            return path, ("link", os.readlink(full))
        if not stat.S_ISREG(status.st_mode):
            return path, ("other",)
        return path, ("file", status.st_size, sha256(full), bool(status.st_mode & 0o100))

    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(one, found.items()))


def shown(destination):
    """Where the tree is that readers of a destination see: the destination itself, unless it is one of links."""
    now = os.path.join(destination, OWN, "now")
    return now if os.path.islink(now) else destination


def tops(destination, exactly=False):
    """What is wrong with the names at the top of a destination of links; `exactly` if none may lead nowhere, either."""
    now = shown(destination)
    if now == destination:
        return []
    there = {name: os.path.join(destination, name) for name in os.listdir(destination) if name != OWN}
    lines = [f"not shown: {name!r}" for name in os.listdir(now)
             if name not in there or not os.path.islink(there[name]) or os.readlink(there[name]) != f"{OWN}/now/{name}"]
    return lines + [f"leads nowhere: {name!r}" for name, path in there.items()
                    if exactly and os.path.islink(path) and not os.path.lexists(os.path.join(now, name))]


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def wanted(manifest):
    """The same description, as a manifest has it."""
    result = {}
    for entry in manifest["files"]:
        if "link" in entry:
            result[entry["path"]] = ("link", entry["link"])
        else:
            result[entry["path"]] = ("file", entry["size"], entry["sha256"], entry.get("executable", False))
    return result


def differences(expected, actual):
    lines = [f"missing: {p!r}" for p in sorted(expected.keys() - actual.keys())]
    lines += [f"not expected: {p!r}" for p in sorted(actual.keys() - expected.keys())]
    lines += [f"differs: {p!r}: {expected[p]} is {actual[p]}" for p in sorted(expected.keys() & actual.keys())
              if expected[p] != actual[p]]
    return lines


def blobs(manifest, entry):
    """(place, stored length, digest of the raw bytes) of each blob of an entry."""
    for blob in entry.get("blobs", []):
        pack = manifest["packs"][blob[0]]["sha256"]
        yield (pack, blob[1]), blob[2], blob[5] if len(blob) > 5 else entry["sha256"]
    if "blobs" not in entry and "urls" in entry:
        yield ("loose", entry["sha256"]), entry["size"], entry["sha256"]


def all_blobs(manifest):
    return {place: stored for entry in manifest["files"] for place, stored, _ in blobs(manifest, entry)}


def changed(old, new):
    before, after, have = wanted(old), wanted(new), all_blobs(old)
    fresh = {place: size for place, size in all_blobs(new).items() if place not in have}
    return {
        "changed_files": sum(before.get(p) != e for p, e in after.items()),
        "removed_files": len(before.keys() - after.keys()),
        "changed_bytes": sum(fresh.values()),
        "whole_bytes": sum(all_blobs(new).values()),
    }


def log_lines(path, offset):
    """(status, body bytes, method, URI) of each request."""
    with open(path, encoding="utf-8", errors="replace") as file:
        file.seek(offset)
        for line in file:
            parts = re.match(r'\S+ (\d+) (\d+) (\S+) \S+ \S+ "[^"]*" (.*)', line)
            if parts:
                yield int(parts[1]), int(parts[2]), parts[3], parts[4]


def counted(path, offset):
    result = dict(requests=0, pack_requests=0, pack_bytes=0, manifest_bytes=0, other_bytes=0, total_bytes=0, errors=0)
    for status, size, _, uri in log_lines(path, offset):
        result["requests"] += 1
        result["total_bytes"] += size
        result["errors"] += status >= 400
        if uri.endswith(".pack"):
            result["pack_requests"] += 1
            result["pack_bytes"] += size
        elif re.search(r"\.json(\.zst)?$", uri):
            result["manifest_bytes"] += size
        else:
            result["other_bytes"] += size
    return result


OPENED = re.compile(r"\b(?:open|openat|openat2|creat)(?:\(| resumed>).* = \d+<(.*)>$")


def opened(trace, directory):
    """Files below directory that a system call opened; -y tells the path behind each descriptor."""
    root, files = os.path.realpath(directory), set()
    with open(trace, errors="surrogateescape") as file:
        for line in file:
            match = OPENED.search(line.rstrip("\n"))
            if not match:
                continue
            path = re.sub(r"\\(\d{1,3})", lambda m: chr(int(m[1], 8)), match[1]).encode("latin-1", "replace").decode("utf-8", "replace")
            if not path.startswith(root + "/") or path.startswith(f"{root}/{OWN}/") or path == f"{root}/{OWN}":
                continue
            if not os.path.isdir(path):
                files.add(path)
    return sorted(files)


def escaping(directory):
    root = os.path.realpath(directory)
    for path, status in sorted(walk(root).items()):
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(os.path.join(root, path))
            end = os.path.normpath(os.path.join(os.path.dirname(path), target))
            if target.startswith("/") or end == ".." or end.startswith("../"):
                yield path


def words(values):
    print(*(f"{name}={value}" for name, value in values.items()))


def report(lines, count):
    for line in lines[:20]:
        print(line, file=sys.stderr)
    if lines:
        sys.exit(f"{len(lines)} differences in {count} entries")
    print(f"{count} entries, all the same", file=sys.stderr)


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        sys.exit(__doc__)
    verb, *rest = arguments
    if verb == "compare":
        source = describe(rest[0])
        report(differences(source, describe(rest[1])), len(source))
    elif verb == "matches":
        manifest = wanted(load(rest[0]))
        report(differences(manifest, describe(rest[1])), len(manifest))
    elif verb == "differ":
        old, new = describe(rest[0]), describe(rest[1])
        print("".join(f"{p}\n" for p in sorted(new) if new[p][0] == "file" and new[p] != old.get(p)), end="")
    elif verb == "changed":
        words(changed(load(rest[0]), load(rest[1])))
    elif verb == "stored":
        words({"stored_bytes": sum(all_blobs(load(rest[0])).values())})
    elif verb == "log":
        words(counted(rest[0], int(rest[1])))
    elif verb == "opened":
        files = opened(rest[0], rest[1])
        for path in files[:10]:
            print(f"opened: {path}", file=sys.stderr)
        with open(rest[0], errors="replace") as file:
            words({"opened": len(files), "open_calls": sum("open" in line for line in file)})
    elif verb == "escaping":
        print("".join(f"{path}\n" for path in escaping(rest[0])), end="")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
