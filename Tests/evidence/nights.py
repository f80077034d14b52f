#!/usr/bin/env python3
"""Publishes a set for many nights with --retain, and measures what the published directory holds.

usage: nights.py PROGRAM [--nights N] [--retain N] [--files N] [--kib N] [--change F] [--seed N] [--pack-size SIZE] [--csv FILE]
                 [--plot FILE]

  --nights N   how many (default 100), --retain N releases are kept (default 14)
  --files N    of the set (default 2,000), each of --kib N KiB on average (default 32), which do not compress
  --change F   the share that gets new content each night, any file as likely as another (default 0.02)
  --csv FILE   a line for each night: bytes in the directory, of the newest release, of the changes of the nights kept, moved
  --plot FILE  the same as a drawing, SVG

libfaketime sets the clock on by a day each night. After the last one every release that is kept is restored into a copy,
pulled and compared with what it was. The bound: at most 1.5 times the newest release and the changes of the nights that are
kept, each night. Exit status: 0 it held, 1 it did not.
"""
import argparse, hashlib, json, os, random, shutil, subprocess, sys, tempfile, time

import plot

START = 1_800_000_000


def size(directory):
    seen, total = set(), 0
    for path, _, names in os.walk(directory):
        for name in names:
            found = os.lstat(os.path.join(path, name))
            if found.st_ino not in seen:
                seen.add(found.st_ino)
                total += found.st_size
    return total


def digests(directory):
    found = {}
    for path, directories, names in os.walk(directory):
        directories[:] = [d for d in directories if d != ".syncagent"]
        for name in names:
            file = os.path.join(path, name)
            with open(file, "rb") as opened:
                found[os.path.relpath(file, directory)] = hashlib.sha256(opened.read()).hexdigest()
    return found


def main(a):
    program = os.path.abspath(a.program)
    r = random.Random(a.seed)
    work = tempfile.mkdtemp(prefix="syncagent-nights.", dir=os.environ.get("SYNCAGENT_BENCH_DIR", "/var/tmp"))
    source, site = f"{work}/source", f"{work}/site"
    os.makedirs(source)
    library = next((f"{d}/faketime/libfaketime.so.1" for d in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu")
                    if os.path.exists(f"{d}/faketime/libfaketime.so.1")), None)
    if not library:
        sys.exit("needs libfaketime: apt-get install faketime")
    env = dict(os.environ, XDG_STATE_HOME=f"{work}/state", XDG_CONFIG_HOME=f"{work}/config")

    def run(night, *words):
        shift = START + night * 86_400 + 60 * (night % 7) - int(time.time())
        done = subprocess.run([program, *words], capture_output=True, text=True, cwd=work, stdin=subprocess.DEVNULL,
                              env=dict(env, LD_PRELOAD=library, NO_FAKE_STAT="1", FAKETIME=f"{shift:+d}"))
        if done.returncode != 0:
            sys.exit(f"night {night}: {' '.join(words)}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def write(index):
        content = r.randbytes(max(1, int(r.expovariate(1 / (a.kib << 10)))))
        with open(f"{source}/{index:05}", "wb") as file:
            file.write(content)
        return len(content)

    sizes = {index: write(index) for index in range(a.files)}
    changes, states, lines, worst, moved = [], {}, [], (0, 0), 0
    for night in range(1, a.nights + 1):
        changed = 0
        if night > 1:
            for index in r.sample(range(a.files), int(a.files * a.change)):
                sizes[index] = write(index)
                changed += sizes[index]
        changes.append(changed)
        line = json.loads(run(night, "publish", source, "--to", site, "--project", "nights", "--json", "--quiet",
                              "--retain", str(a.retain), "--pack-size", a.pack_size).splitlines()[-1])
        states[line["revision"]] = digests(source)
        total, newest, recent = size(site), sum(sizes.values()), sum(changes[-a.retain:])
        moved += line["bytes"]["moved"]
        share = total / (newest + recent)
        worst = max(worst, (share, night))
        lines.append((night, total, newest, recent, line["bytes"]["moved"]))
        if night % 10 == 0 or night == 1:
            print(f"night {night}: {total / 2**20:.1f} MiB, newest {newest / 2**20:.1f}, {a.retain} nights' changes "
                  f"{recent / 2**20:.1f}: {share:.2f}", flush=True)
    if a.csv:
        with open(a.csv, "w") as file:
            file.write("night,bytes,newest,changes,moved\n")
            file.writelines(",".join(map(str, line)) + "\n" for line in lines)
    if a.plot:
        with open(a.plot, "w") as file:
            file.write(plot.over_nights([line[:4] for line in lines], a.retain))
    kept = [json.loads(line) for line in run(a.nights, "releases", "list", site, "--json").splitlines()]
    for entry in kept:
        copy, place = f"{work}/copy", f"{work}/place"
        for path in (copy, place):
            shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(site, copy, copy_function=os.link)
        run(a.nights, "releases", "restore", copy, str(entry["revision"]))
        run(a.nights, "pull", f"{copy}/manifest.json", "--into", place, "--session", f"s{entry['revision']}", "--quiet")
        if digests(place) != states[entry["revision"]]:
            sys.exit(f"BROKEN: revision {entry['revision']} is not what it was")
    new = sum(changes)
    print(f"{len(kept)} releases kept, each restored and pulled; moved {moved / 2**20:.1f} MiB, {moved / max(1, new):.2f} times "
          f"what was new; at most {worst[0]:.3f} times, in night {worst[1]}")
    shutil.rmtree(work, ignore_errors=True)
    sys.exit(0 if worst[0] <= 1.5 and len(kept) == min(a.retain, a.nights) else 1)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("program")
for option, default in [("nights", 100), ("retain", 14), ("files", 2000), ("kib", 32), ("seed", 1)]:
    parser.add_argument(f"--{option}", type=int, default=default)
parser.add_argument("--change", type=float, default=0.02)
parser.add_argument("--pack-size", default="1M")
parser.add_argument("--csv")
parser.add_argument("--plot")
main(parser.parse_args())
