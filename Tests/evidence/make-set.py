#!/usr/bin/env python3
"""Makes directories of files, the same bytes and names for the same arguments on any machine.

usage: make-set.py DIRECTORY small|mixed|huge|tiny|dots|steps [--files N] [--mib M] [--seed TEXT] [--odd]
       make-set.py DIRECTORY --next OLD [--change F] [--edit F] [--seed TEXT]

  small   log-normal sizes, median about 12 KiB, none above 8 MiB     default 20,000 files, 512 MiB
  mixed   six files of 100-200 MiB, the rest widely log-normal        default  4,000 files, 2 GiB
  huge    one file of bytes that do not compress                      default  2 GiB
  tiny    1 KiB each                                                  default 10,000 files
  dots    64 bytes each, 500 in a directory                           default 10,000 files
  steps   a third of the bytes in small files, a third in files of 0.25-2 MiB, a third in files of 20-40 MiB
  --odd   adds links, executables, empty files and names with spaces and letters from elsewhere

30 % of the files are text, which compresses about 3 to 1; the rest does not compress. --next makes the next
revision of OLD: the share F of --change gets new content, half as many files go and half as many come; of every
file of 8 MiB or more, 4 KiB are inserted near the start and the share F of --edit of its 64 KiB blocks is replaced.
Files that stay the same are hard links to OLD.
"""
import argparse, math, os, random, sys

KIB, MIB = 1 << 10, 1 << 20
LARGE, BLOCK = 8 * MIB, 64 * KIB
OLD_TIME, NEW_TIME = 1_700_000_000, 1_710_000_000
DEFAULTS = {"small": (20_000, 512), "mixed": (4_000, 2048), "huge": (1, 2048), "tiny": (10_000, 0), "dots": (10_000, 0), "steps": (20_000, 512)}


class Maker:
    def __init__(self, root, seed):
        self.root, self.seed, self._pool = root, seed, b""
        self.directories, self.count, self.bytes = set(), 0, 0

    def rng(self, *key):
        return random.Random("/".join(["syncagent", self.seed, *map(str, key)]))

    def pool(self):
        """4 MiB of words with frequencies as in a language."""
        if not self._pool:
            r = random.Random("syncagent/pool")
            words = ["".join(r.choices("etaoinshrdlu", weights=range(12, 0, -1), k=r.randint(2, 9))) for _ in range(4000)]
            many = r.choices(words, weights=[1 / (i + 2) for i in range(len(words))], k=900_000)
            lines = (" ".join(many[i : i + 12]) for i in range(0, len(many), 12))
            self._pool = "\n".join(lines).encode()[: 4 * MIB]
        return self._pool

    def content(self, key, size, text):
        r = self.rng("content", key)
        pool = self.pool() if text else b""
        while size > 0:
            piece = min(size, MIB)
            size -= piece
            if not text:
                yield r.randbytes(piece)
                continue
            parts = []
            while piece > 0:
                take = min(piece, r.randint(256, 2304))
                at = r.randrange(len(pool) - take)
                parts.append(pool[at : at + take])
                piece -= take
            yield b"".join(parts)

    def place(self, path):
        full = os.path.join(self.root, path)
        parent = os.path.dirname(full)
        if parent not in self.directories:
            os.makedirs(parent, exist_ok=True)
            self.directories.add(parent)
        self.count += 1
        return full

    def write(self, path, pieces, time, mode=0o644):
        full = self.place(path)
        with open(full, "wb") as file:
            for piece in pieces:
                file.write(piece)
                self.bytes += len(piece)
        if mode != 0o644:
            os.chmod(full, mode)
        os.utime(full, (time, time))


def name(index, text):
    directory = index // 40                        # about 40 files each, three levels
    return f"d{directory % 8}/d{directory // 8 % 8}/d{directory // 64}/f{index:06d}.{'txt' if text else 'bin'}"


def scaled(sizes, total, most):
    """Sizes times one factor, so that their sum is about total although none exceeds most."""
    for _ in range(20):
        factor = total / max(1, sum(sizes))
        sizes = [min(most, max(1, int(s * factor))) for s in sizes]
    return sizes


def sizes_of(kind, files, total, r):
    if kind == "tiny":
        return [KIB] * files
    if kind == "small":
        return scaled([r.lognormvariate(math.log(12 * KIB), 1.25) for _ in range(files)], total, 8 * MIB)
    if kind == "mixed":
        unit = total // 2048                       # one MiB when the whole is 2 GiB
        big = [r.randint(100, 200) * unit + r.randint(0, unit) for _ in range(6)]
        rest = [r.lognormvariate(math.log(40 * KIB), 2.0) for _ in range(files - 6)]
        sizes = big + scaled(rest, total - sum(big), 48 * MIB)
    else:
        big, medium = [], []
        while sum(big) < total // 3 - 10 * MIB:
            big.append(min(r.randint(20 * MIB, 40 * MIB), max(20 * MIB, total // 3)))
        while sum(medium) < total // 3:
            medium.append(r.randint(256 * KIB, 2 * MIB))
        small = [r.lognormvariate(math.log(6 * KIB), 1.0) for _ in range(files - len(big) - len(medium))]
        sizes = big + medium + scaled(small, max(len(small), total - sum(big) - sum(medium)), 256 * KIB)
    r.shuffle(sizes)
    return sizes


def add_odd(maker):
    """What real trees have besides plain files."""
    for i, odd in enumerate(["with space.txt", "Zürich/größe.txt", "日本/地図.bin", "tab-free~#%25&=+.bin", "n" * 255, ".hidden"]):
        maker.write(f"odd/{odd}", maker.content(f"odd{i}", 3000 + i, i % 2 == 0), OLD_TIME)
    maker.write("odd/" + "/".join(f"level-{i}" for i in range(40)) + "/deep.bin", maker.content("deep", 5000, False), OLD_TIME)
    for i in range(20):
        maker.write(f"odd/empty-{i}", [], OLD_TIME)
        maker.write(f"odd/run-{i}.sh", [b"#!/bin/sh\n", b"exit %d\n" % i], OLD_TIME, 0o755)
        os.symlink(f"run-{i}.sh", maker.place(f"odd/link-{i}"))
    os.symlink("level-0", maker.place("odd/to-directory"))


def make_dots(maker, files):
    """A million of them in a minute: content is the number, and nobody sets a time."""
    for i in range(files):
        maker.bytes += 64
        with open(maker.place(f"d{i // 50_000}/d{i // 500 % 100:02}/f{i:07}.bin"), "wb") as file:
            file.write(b"%-63d\n" % i)


def make(maker, kind, files, total, odd):
    if kind == "dots":
        return make_dots(maker, files)
    if kind == "huge":
        maker.write("huge.bin", maker.content("huge", total, False), OLD_TIME)
        return
    r = maker.rng(kind, "kinds")
    for i, size in enumerate(sizes_of(kind, files, total, maker.rng(kind, "sizes"))):
        text = r.random() < 0.30
        maker.write(name(i, text), maker.content(f"{kind}/{i}", size, text), OLD_TIME)
    if odd:
        add_odd(maker)


def edited(full, r, share):
    """The file with 4 KiB inserted near its start and a share of its blocks replaced."""
    blocks = os.path.getsize(full) // BLOCK
    hit = set(r.sample(range(blocks), min(blocks, max(1, int(blocks * share)))))
    with open(full, "rb") as file:
        index = 0
        while block := file.read(BLOCK):
            if index in hit:
                block = r.randbytes(len(block))
            yield block if index else block[:10_000] + r.randbytes(4 * KIB) + block[10_000:]
            index += 1


def make_next(maker, old, change, edit):
    paths = sorted(os.path.relpath(os.path.join(d, f), old) for d, _, fs in os.walk(old) for f in fs)
    paths += sorted(os.path.relpath(os.path.join(d, s), old) for d, ds, _ in os.walk(old) for s in ds if os.path.islink(os.path.join(d, s)))
    plain = [p for p in paths if not os.path.islink(os.path.join(old, p)) and 0 < os.path.getsize(os.path.join(old, p)) < LARGE]
    r = maker.rng("next")
    half = int(len(plain) * change / 2)
    picked = r.sample(plain, min(len(plain), 3 * half))
    changed, removed = set(picked[: 2 * half]), set(picked[2 * half :])
    for path in paths:
        full = os.path.join(old, path)
        if path in removed:
            continue
        if os.path.islink(full):
            os.symlink(os.readlink(full), maker.place(path))
        elif path in changed:
            size = max(1, int(os.path.getsize(full) * r.uniform(0.8, 1.2)))
            mode = os.stat(full).st_mode & 0o777
            maker.write(path, maker.content(f"next/{path}", size, path.endswith(".txt")), NEW_TIME, mode)
        elif edit > 0 and os.path.getsize(full) >= LARGE:
            maker.write(path, edited(full, maker.rng("edit", path), edit), NEW_TIME)
        else:
            os.link(full, maker.place(path))
            maker.bytes += os.path.getsize(full)
    for i in range(half):
        model = r.choice(plain)
        size = os.path.getsize(os.path.join(old, model))
        maker.write(f"{os.path.dirname(model)}/new{i:05d}.bin", maker.content(f"new/{i}", size, False), NEW_TIME)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("kind", nargs="?", choices=DEFAULTS)
    parser.add_argument("--files", type=int)
    parser.add_argument("--mib", type=int)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("--next", metavar="OLD")
    parser.add_argument("--change", type=float, default=0.01)
    parser.add_argument("--edit", type=float, default=0.01)
    a = parser.parse_args()
    if bool(a.kind) == bool(a.next):
        parser.error("give a kind or --next")
    os.mkdir(a.directory)
    maker = Maker(a.directory, a.seed)
    if a.next:
        make_next(maker, a.next, a.change, a.edit)
    else:
        files, mib = DEFAULTS[a.kind]
        make(maker, a.kind, a.files or files, (a.mib or mib) * MIB, a.odd)
    print(f"{a.directory}: {maker.count} files, {maker.bytes / MIB:.1f} MiB", file=sys.stderr)


main()
