#!/usr/bin/env python3
"""Runs contenders in turn, A B C A B C; started by bench.sh, reported by bench-report.py.

usage: bench-run.py SCENARIO CONTENDER,… --kind fresh|update|again --set NAME --sets DIR --served DIR --url URL
                    --rsync URL --work DIR --log FILE --out FILE [--netns NAME --near NAME] [--ca FILE]
                    [--where disk|shm] [--disk-gib N] [--rounds N] [--patience SECONDS] [--parallel N]

  fresh    the destination is empty
  update   it holds the revision before: pulled by syncagent itself from the same URL, copied for the others
  again    it holds the very set, brought by each contender itself

One JSON line for each run: seconds on the wall, CPU of the process tree, peak memory of its largest process (GNU
time), requests and body bytes by nginx's log, bytes on the wire in both directions by the counters of the client's
interface, headers included, and, after the first run of each contender, whether every file is right.
--netns is where the client runs, --near a namespace without the delay in which destinations are prepared.
"""
import argparse, json, mmap, os, shutil, subprocess, sys, time
import checks

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 300             # seconds for one run
OURS = ("syncagent", "syncagent_cold", "before")
NEEDS = {"aria2": "aria2c", "wget2": "wget2", "rclone": "rclone", "rsync": "rsync", "rsync_checksum": "rsync",
         "lftp_pget": "lftp", "zsync": "zsync", "casync": "casync"}
# Those that only look are shown what another has brought.
LOOKS_AT = {"floor_stat": "syncagent", "floor_rehash": "syncagent", "rsync_checksum": "rsync"}


def make_lists(a, destination, lists):
    os.makedirs(lists, exist_ok=True)
    texts = {name: [] for name in ("curl", "null", "aria2", "urls", "expected", "half.0", "half.1", "changed")}
    sizes = [0, 0]
    for path, (_, size, digest, _) in sorted(a.files.items(), key=lambda f: -f[1][1]):
        url = f"{a.url}/raw/{a.wanted}/{path}"
        texts["curl"].append(f'url = "{url}"\noutput = "{destination}/{path}"\n')
        texts["null"].append(f'url = "{url}"\n')
        texts["aria2"].append(f"{url}\n dir={destination}\n out={path}\n checksum=sha-256={digest}\n")
        texts["urls"].append(url + "\n")
        texts["expected"].append(f"{digest} *{path}\n")
        if a.before.get(path) != a.files[path]:
            texts["changed"].append(path + "\n")
        half = sizes.index(min(sizes))                 # two halves of equal work for two hashing processes
        texts[f"half.{half}"].append(path + "\n")
        sizes[half] += size + 4096
    with open(f"{a.served}/site/{a.set}/manifest.json") as file:
        packs = [pack["sha256"] for pack in json.load(file)["packs"]]
    texts["stored"] = [f'url = "{a.url}/site/{a.set}/packs/{pack}.pack"\noutput = "/dev/null"\n' for pack in packs]
    for name, lines in texts.items():
        with open(f"{lists}/{name}", "w") as file:
            file.writelines(sorted(lines))


def fresh_place(a):
    """A destination without history; where that is a disk, a new file system (fresh-disk.sh says why)."""
    place = "/dev/shm/" + os.path.basename(a.work) if a.where == "shm" else f"{a.work}/destination"
    if a.where == "shm":
        shutil.rmtree(place, ignore_errors=True)
    elif subprocess.run([f"{HERE}/fresh-disk.sh", "possible"]).returncode == 0:
        subprocess.run([f"{HERE}/fresh-disk.sh", "mount", f"{a.work}/destination.img", place, str(a.disk_gib)], check=True)
    else:
        shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place, exist_ok=True)
    return place


def publish(a, revision):
    """Lets the site be the one of a revision, at the same URL, from one moment to the next."""
    link = f"{a.served}/site/{a.set}"
    os.makedirs(os.path.dirname(link), exist_ok=True)
    os.symlink(f"../sites/{a.set}-{revision}", f"{link}.new")
    os.replace(f"{link}.new", link)


def environment_of(a, contender, destination, again):
    return dict(os.environ, URL=a.url, RSYNC=a.rsync, SET=a.wanted, SITE=a.set, DST=destination, N=str(a.parallel),
                STATE=f"{a.work}/state-{contender}", LISTS=f"{a.work}/lists-{a.scenario}-{contender}",
                AGAIN="1" if again else "", UPDATE="1" if again and a.kind == "update" else "")


def inside(netns, ca, command):
    if ca:                                             # every program trusts the trial's authority, none needs an option
        command = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/ssl/certs/ca-certificates.crt && exec "$@"', ca] + command
    return ["ip", "netns", "exec", netns] + command if netns else command


def wire(a):
    """Bytes so far, both directions, headers included. What loopback sends it also receives: counted once."""
    if not a.netns:
        with open("/sys/class/net/lo/statistics/rx_bytes") as file:
            return int(file.read())
    told = subprocess.check_output(["ip", "-n", a.netns, "-s", "-j", "link", "show", "dev", "link0"])
    numbers = json.loads(told)[0]["stats64"]
    return numbers["rx"]["bytes"] + numbers["tx"]["bytes"]


def one(a, contender, destination, again):
    lists = f"{a.work}/lists-{a.scenario}-{contender}"
    if not os.path.isdir(lists):
        make_lists(a, destination, lists)
    environment = environment_of(a, contender, destination, again)
    os.makedirs(environment["STATE"], exist_ok=True)
    command = inside(a.netns, a.ca, ["/usr/bin/time", "-q", "-o", f"{a.work}/time", "-f", "%U %S %M", "timeout", "-k", "5",
                                     str(LIMIT), f"{HERE}/peers.sh", contender])
    os.sync()
    keep_in_memory(read_by(a, contender))
    touch_memory(sum(entry[1] for entry in a.files.values() if entry[0] == "file") * 3 // 2)
    time.sleep(0.5)
    mark, sent = os.path.getsize(a.log), wire(a)
    with open(f"{a.work}/stderr", "w+") as errors:
        start = time.perf_counter()
        status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors).returncode
        wall = time.perf_counter() - start
        errors.seek(0)
        message = errors.read()[-300:].strip()
    sent = wire(a) - sent
    with open(f"{a.work}/time") as file:
        user, system, kib = map(float, file.read().split()[-3:])
    time.sleep(0.3)
    seen = checks.counted(a.log, mark)
    return dict(contender=contender, status=status, wall=round(wall, 3), cpu=round(user + system, 2), peak_mib=round(kib / 1024, 1),
                requests=seen["requests"], received=seen["total_bytes"], wire=sent, message=message if status else "")


def hold_former(a, contender, destination):
    """Makes the destination hold the revision before; nobody's clock runs."""
    if contender not in ("syncagent", "before"):
        subprocess.run(["cp", "-a", f"{a.sets}/{a.set}/.", destination], check=True)
        return
    publish(a, 1)
    command = inside(a.near, a.ca, ["timeout", str(LIMIT), f"{HERE}/peers.sh", contender])
    subprocess.run(command, env=environment_of(a, contender, destination, False), stdin=subprocess.DEVNULL, check=True)
    publish(a, 2)


def outcome(a, contender, destination):
    if contender in ("floor_null", "floor_stored"):
        return "nothing kept"
    have = {p: w[:3] for p, w in checks.describe(destination).items()}
    want = {p: w[:3] for p, w in a.files.items()}      # bytes only: not every program can carry the executable bit
    wrong, more = sum(have.get(p) != w for p, w in want.items()), len(have.keys() - want.keys())
    return "right" if not wrong and not more else f"{more} not deleted" if not wrong else f"{wrong} wrong or missing, {more} more"


def write(a, result):
    with open(a.out, "a") as file:
        file.write(json.dumps(dict(scenario=a.scenario, **result)) + "\n")


def left_out(a, contender, why):
    print(f"SKIPPED: {contender} in {a.scenario}: {why}", file=sys.stderr)
    write(a, dict(contender=contender, left_out=why))


def have_each_its_copy(a, place):
    """What each contender needs for bringing the set again; returns those that can take part."""
    able = []
    for contender in a.contenders:
        maker = LOOKS_AT.get(contender, "floor_tar" if contender.startswith("floor") else contender)
        if maker in able and maker != contender:
            able.append(contender)
            continue
        os.makedirs(f"{place}/{contender}", exist_ok=True)
        first = one(a, maker, f"{place}/{contender}", False)
        if first["status"]:
            left_out(a, contender, f"cannot be prepared: {first['message']}")
        else:
            able.append(contender)
    return able


def keep_in_memory(places):
    """What is served comes from memory, always."""
    for place in places:
        if os.path.exists(place):
            subprocess.run(["find", place, "-type", "f", "-exec", "cat", "{}", "+"], stdout=subprocess.DEVNULL, check=True)


def read_by(a, contender):
    """What the server reads for a contender; some systems drop from memory what a slow one before it did not use."""
    if contender in OURS or contender == "floor_stored":
        return [f"{a.served}/sites/{a.set}-{2 if a.kind == 'update' else 1}"]
    if contender.startswith(("floor_tar", "floor_delta")):
        return [f"{a.served}/{a.wanted}.tar", f"{a.served}/{a.wanted}.delta.tar"]
    return [f"{a.served}/{contender}", f"{a.sets}/{a.wanted}"]


def touch_memory(length):
    """A virtual machine's host may take back what was freed, and giving it again costs whoever comes next: nobody here."""
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    length = min(length, available // 2)
    with mmap.mmap(-1, max(length, 1)) as memory:
        piece = bytes(1 << 24)
        for _ in range(length >> 24):
            memory.write(piece)


def run(a):
    able = [c for c in a.contenders if shutil.which(NEEDS.get(c, "sh"))]
    for contender in [c for c in a.contenders if c not in able]:
        left_out(a, contender, f"{NEEDS[contender]} is not installed")
    a.contenders = able
    a.wanted = a.set + ("-next" if a.kind == "update" else "")
    a.before = checks.describe(f"{a.sets}/{a.set}") if a.kind == "update" else {}
    a.files = checks.describe(f"{a.sets}/{a.wanted}")
    publish(a, 1)
    times, failed = {}, set()
    place = fresh_place(a)
    if a.kind == "again":
        a.contenders = have_each_its_copy(a, place)
    for number in range(a.rounds):
        # Whoever comes first in one round comes last in the next.
        first = number % len(a.contenders) if a.contenders else 0
        for contender in a.contenders[first:] + a.contenders[:first]:
            done = times.setdefault(contender, [])
            if contender in failed or (len(done) >= 2 and max(done) > a.patience):
                continue
            shown = LOOKS_AT.get(contender, contender)
            destination = f"{place}/{shown if a.kind == 'again' and shown in a.contenders else contender}"
            if a.kind != "again":
                fresh_place(a)
                os.makedirs(destination, exist_ok=True)
                shutil.rmtree(f"{a.work}/state-{contender}", ignore_errors=True)
            if a.kind == "update":
                hold_former(a, contender, destination)
            result = one(a, contender, destination, a.kind != "fresh")
            if number == 0:
                result["outcome"] = outcome(a, contender, destination)
            if result["status"]:
                failed.add(contender)
            done.append(result["wall"])
            write(a, dict(result, round=number))
            print(f"{a.scenario} {number + 1} {contender:15} {result['wall']:8.3f} s  cpu {result['cpu']:6.2f}  peak {result['peak_mib']:6.1f} MiB  "
                  f"{result['requests']:6} requests  wire {result['wire'] / 2**20:8.2f} MiB  {result.get('outcome', '')} {result['message']}",
                  file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("contenders", type=lambda text: text.replace(",", " ").split())
    for option in ("set", "sets", "served", "url", "rsync", "work", "out", "log"):
        parser.add_argument(f"--{option}", required=True)
    for option in ("netns", "near", "ca"):
        parser.add_argument(f"--{option}", default="")
    parser.add_argument("--kind", choices=["fresh", "update", "again"], default="fresh")
    parser.add_argument("--where", choices=["disk", "shm"], default="disk")
    parser.add_argument("--disk-gib", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=30)
    parser.add_argument("--parallel", type=int, default=32)
    run(parser.parse_args())


main()
