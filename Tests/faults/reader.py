"""Readers in a loop while a set is updated: old or new, never none, never mixed within a file. [F125 F126 G11 S114]

    reader.py PROGRAM [--updates N] [--seconds N]

Started by ../faults.sh. The destination is pulled from one revision to the other and back, N times (default 1,000), every file
of it changed each time. Meanwhile one process reads all files by their paths, one opens each and reads it piece by piece with
pauses, and one has them mapped: what was opened or mapped has the bytes of one revision from the first to the last, and those that
were mapped before an update still have them afterwards. Exit status: 0 all held, 1 something did not.
"""

import argparse
import hashlib
import mmap
import multiprocessing
import os
import random
import sys
import tempfile
import time

import place as places

PIECE = 4096


def digest(data):
    return hashlib.sha256(data).hexdigest()


def by_path(root, known, chance):
    """Whole files by their names."""
    for path, digests in known.items():
        with open(os.path.join(root, path), "rb") as file:
            if digest(file.read()) not in digests:
                yield f"{path}, read whole, is neither revision"


def by_descriptor(root, known, chance):
    """Files that stay open while they are read in pieces, others being replaced meanwhile."""
    opened = {path: os.open(os.path.join(root, path), os.O_RDONLY) for path in known}
    try:
        parts = {path: [] for path in known}
        pending = list(known)
        while pending:
            path = chance.choice(pending)
            piece = os.read(opened[path], PIECE)
            parts[path].append(piece)
            if not piece:
                pending.remove(path)
        for path, digests in known.items():
            if digest(b"".join(parts[path])) not in digests:
                yield f"{path}, read by its descriptor, is mixed"
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


def by_map(root, known, chance):
    """Mapped files: the same now and a while later."""
    mapped = {}
    for path in known:
        with open(os.path.join(root, path), "rb") as file:
            mapped[path] = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    first = {path: digest(bytes(one)) for path, one in mapped.items()}
    time.sleep(chance.random() * 0.2)
    for path, one in mapped.items():
        if first[path] not in known[path]:
            yield f"{path}, mapped, is mixed"
        if digest(bytes(one)) != first[path]:
            yield f"{path}, mapped, has changed"
        one.close()


def read(how, root, known, stop, results):
    chance, rounds, wrong = random.Random(how.__name__), 0, []
    while not stop.is_set():
        try:
            wrong += list(how(root, known, chance))
        except FileNotFoundError as error:
            wrong.append(f"{error.filename} is not there ({how.__name__})")
        rounds += 1
        if len(wrong) > 20:
            break
    results.put((how.__name__, rounds, wrong))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="sa.", dir=memory) as directory:
        chance = random.Random(7)
        known = {}
        program = os.path.abspath(options.program)
        place = places.Place(type("Base", (), {"program": program, "judge": program}), f"{directory}/p")
        for revision in ("old", "new"):
            files = {f"d{n % 4}/f{n:02}": chance.randbytes(chance.choice((700, 9000, 60_000, 200_000))) for n in range(20)}
            places.write_names(f"{directory}/{revision}", files)
            for path, data in files.items():
                known.setdefault(path, set()).add(digest(data))
            place.must("publish", f"{directory}/{revision}", "--to", f"{directory}/site-{revision}", "--project", "p")

        def pull(revision):
            place.must("pull", f"{directory}/site-{revision}/manifest.json", "--into", place.dest, "--session", "s", "--allow-older",
                       "--quiet")

        pull("old")
        stop, results = multiprocessing.Event(), multiprocessing.Queue()
        readers = [multiprocessing.Process(target=read, args=(how, place.dest, known, stop, results), daemon=True)
                   for how in (by_path, by_descriptor, by_map)]
        for reader in readers:
            reader.start()
        begun, updates = time.monotonic(), 0
        while updates < options.updates and time.monotonic() - begun < options.seconds:
            pull("new" if updates % 2 == 0 else "old")
            updates += 1
        stop.set()
        found = [results.get(timeout=60) for _ in readers]
        wrong = [line for _, _, lines in found for line in lines]
        for line in wrong[:20]:
            print(f"BROKEN: {line}")
        print(f"{updates} updates of {len(known)} files in {time.monotonic() - begun:.0f} s; rounds of readers: "
              + ", ".join(f"{name} {rounds}" for name, rounds, _ in sorted(found)) + f": {len(wrong)} broken")
        if min(rounds for _, rounds, _ in found) < 3:
            print("FAILED: readers who read so little show too little")
            return 1
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
