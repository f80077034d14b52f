#!/usr/bin/env python3
"""Puts the parts of a published set in the middle of a manifest of very many files, of which nothing else is there: what one shard of
such a set needs can be measured without the set.

    huge-manifest.py SITE FILES

Writes SITE/manifest.json and SITE/manifest.json.zst anew. Before and after the set's own parts stand as many others, of 1,000 files each, as
make FILES entries, and a pack for each 5,000 of these files; the digests are made up. Prints how many files stand before the set's own,
and how many parts and packs there are, as `name=value`.
"""

import hashlib
import json
import math
import os
import subprocess
import sys

IN_PART, IN_PACK = 1_000, 5_000


def digest(*words):
    return hashlib.sha256(" ".join(map(str, words)).encode()).hexdigest()


def main():
    site, wanted = sys.argv[1], int(sys.argv[2])
    with open(f"{site}/manifest.json") as file:
        manifest = json.load(file)
    own = sum(part["files"] for part in manifest["parts"])
    if own > wanted:
        sys.exit(f"the set has {own} files, more than {wanted}")
    # Whole parts of 1,000 before it, and as many shards of the size of the set; behind it the last part is shorter.
    step = math.lcm(own, IN_PART)
    before = (wanted - own) // 2 // step * step
    packs, parts = manifest["packs"], []

    def add(files, where):
        pack = len(packs)
        for number in range(files // IN_PACK + 1):
            name = digest("pack", where, number)
            packs.append({"url": f"packs/{name}.pack", "size": 64 << 20, "sha256": name})
        for number in range(0, files, IN_PART):
            count = min(IN_PART, files - number)
            # About what a part of a thousand files has: 48 bytes stored and 130 of text for each.
            at = number // IN_PART % 1000 * 48 * IN_PART
            blob = [pack + number // (1000 * IN_PART), at, 48 * count, 130 * count, "zstd", digest("part", where, number)]
            parts.append({"blob": blob, "files": count})

    add(before, "before")
    parts += manifest["parts"]
    add(wanted - own - before, "behind")
    manifest["parts"] = parts
    for ending in ("", ".zst"):
        if os.path.exists(f"{site}/manifest.json{ending}"):
            os.unlink(f"{site}/manifest.json{ending}")
    with open(f"{site}/manifest.json", "w") as file:
        json.dump(manifest, file, separators=(",", ":"))
    subprocess.run(["zstd", "-q", "-f", f"{site}/manifest.json", "-o", f"{site}/manifest.json.zst"], check=True)
    print(f"before={before} parts={len(parts)} packs={len(packs)}")


if __name__ == "__main__":
    main()
