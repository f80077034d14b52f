#!/usr/bin/env python3
"""What publishing again reads when one file of a hundred has changed: files and bytes, as the kernel counts them.

usage: publish-again.py NAME=DIRECTORY ...

Publishes a copy of each directory, changes a byte in the middle of each file of a sample of 1 %, and publishes again under
strace. Prints a row of Markdown for each set. Fails when a file was opened that had not changed.

Needs strace. Environment: SYNCAGENT, the program (default: the release build). TMPDIR, where the copies go.
Exit status: 0 when nothing else was opened, 1 when something was.
"""
import fileinput, glob, json, os, random, re, shutil, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("SYNCAGENT", f"{ROOT}/.build/release/syncagent")
CALLS = "openat,openat2,read,pread64,readv,preadv,mmap"


def publish(work, *before):
    result = subprocess.run(
        [*before, PROGRAM, "publish", f"{work}/set", "--to", f"{work}/out", "--project", "p", "--safe-links", "--json"],
        env=dict(os.environ, HOME=work, XDG_STATE_HOME=f"{work}/state", XDG_CONFIG_HOME=work), capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads(result.stdout.strip().splitlines()[-1])


def measure(name, source, work):
    shutil.copytree(source, f"{work}/set", symlinks=True)
    time.sleep(2.5)  # What has changed just before is not remembered.
    publish(work)
    files = sorted(os.path.join(place, file) for place, _, names in os.walk(f"{work}/set") for file in names)
    files = [file for file in files if not os.path.islink(file) and os.path.getsize(file) > 0]
    changed = random.Random(1).sample(files, max(1, len(files) // 100))
    for file in changed:
        with open(file, "r+b") as handle:
            handle.seek(os.path.getsize(file) // 2)
            byte = handle.read(1)
            handle.seek(-1, os.SEEK_CUR)
            handle.write(bytes([byte[0] ^ 1]))
    again = publish(work, "strace", "-ff", "-qq", "-y", "-o", f"{work}/trace", "-e", f"trace={CALLS}")
    opened, read = set(), {True: 0, False: 0}
    # A file for each thread; -y writes each descriptor with its path: 5</tmp/…/set/a.png>
    for line in fileinput.input(glob.glob(f"{work}/trace.*"), openhook=fileinput.hook_encoded("utf-8", "replace")):
        if found := re.search(rf"open.*= \d+<{work}/(set/[^>]*)>$", line):
            opened.add(f"{work}/{found[1]}")
        elif found := re.search(r"read\w*\(\d+<([^>]*)>.*= (\d+)$", line):
            read[found[1].startswith(f"{work}/set/")] += int(found[2])
    opened = {path for path in opened if os.path.isfile(path)}
    size = sum(os.path.getsize(file) for file in changed)
    print(f"| {name} | {again['files']:,} | {again['bytes']['raw'] / 2**20:.0f} MiB | {len(changed)}, {size / 2**20:.2f} MiB | "
          f"{len(opened)}, {read[True] / 2**20:.2f} MiB | {read[False] / 2**20:.2f} MiB |", flush=True)
    return opened == set(changed)


print("| set | files | raw | changed | of the set opened, read | read besides: manifest, notes, packs for deltas |")
good = True
for item in sys.argv[1:] or sys.exit(__doc__):
    with tempfile.TemporaryDirectory() as work:
        good &= measure(*item.split("=", 1), os.path.realpath(work))
sys.exit(0 if good else 1)
