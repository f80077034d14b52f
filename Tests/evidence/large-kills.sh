#!/bin/bash
# Kills a pull of large files that have URLs of their own with SIGKILL at random moments, again and again, until it is complete.
#
# usage: large-kills.sh [KILLS] [--files N] [--mib M] [--rate RATE] [--seed N]
#
#   KILLS        kills (default 16)
#   --files N    files (default 20)
#   --mib M      the size of each in MiB (default 57)
#   --rate RATE  what nginx gives each connection (default 1m: 1 MiB a second). It gives a second's worth at once: what a program
#                on a busy machine has not read when it is killed counts as sent
#   --seed N     the random moments of an earlier run; each run prints its own
#
# After each kill, what is visible is whole. In the end every file is right, and nginx has sent at most 1.02 times their bytes, by its
# own log. Before that, one file is pulled alone: over several connections, in less than a third of the time that one takes.
#
# Exit status: 0 all held, 1 something did not. Environment: see common.sh.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"

kills=16 files=20 mib=57 rate=1m seed=$RANDOM
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --files) files=${2:?$1 wants a number}; shift ;;
  --mib) mib=${2:?$1 wants a number}; shift ;;
  --rate) rate=${2:?$1 wants a rate}; shift ;;
  --seed) seed=${2:?$1 wants a number}; shift ;;
  [1-9]*) kills=$1 ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
need curl=curl python3=python3
find_binary
make_work
say "seed $seed"

python3 - "$WORK/site" "$files" "$mib" <<'PY'
import hashlib, json, os, random, sys
site, files, mib = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(site)
entries = []
for number in range(files):
    source, digest = random.Random(number), hashlib.sha256()
    with open(f"{site}/{number}.bin", "wb") as file:
        for _ in range(mib):
            piece = source.randbytes(1 << 20)
            digest.update(piece)
            file.write(piece)
    entries.append({"path": f"{number}.bin", "size": mib << 20, "sha256": digest.hexdigest(), "urls": [f"{number}.bin"]})
for name, some in (("one", entries[:1]), ("all", entries)):
    with open(f"{site}/{name}.json", "w") as file:
        json.dump({"format": "syncagent-manifest/1", "project": "large.trial", "files": some}, file)
PY
export NGINX_SERVER="limit_rate $rate;"
nginx_start large "$WORK/site"
export XDG_STATE_HOME=$WORK/state

begin=$EPOCHREALTIME
"$SYNCAGENT" pull "$URL/one.json" --into "$WORK/one" --json >"$WORK/one.events"
time=$(python3 -c "print($EPOCHREALTIME - $begin)")
alone=$(python3 -c "print($mib * 2**20 / (float('$rate'.rstrip('m')) * 2**20))")
say "one file: $time s, $(tail -n 1 "$WORK/one.events" | python3 -c 'import json,sys; print(json.load(sys.stdin)["requests"])') requests"
hold "one file over several connections, s" "$time" "<=" "$alone / 3"

start=$(mark)
python3 - "$SYNCAGENT" "$URL/all.json" "$WORK" "$kills" "$seed" "$alone" "$files" <<'PY' || failures=$((failures + 1))
import filecmp, os, random, subprocess, sys, time
program, url, work = sys.argv[1:4]
kills, seed, alone, files = int(sys.argv[4]), sys.argv[5], float(sys.argv[6]), int(sys.argv[7])
moments, bad = random.Random(seed), 0
# On 16 connections the whole set takes about so long; most kills hit the fetching.
whole = alone * files / 16
for kill in range(kills + 1):
    process = subprocess.Popen([program, "pull", url, "--into", f"{work}/all", "--quiet"])
    if kill < kills:
        try:
            process.wait(moments.uniform(0, 2 * whole / (kills + 1)))
        except subprocess.TimeoutExpired:
            process.kill()
    status = process.wait()
    seen = [f for f in os.listdir(f"{work}/all") if f.endswith(".bin")] if os.path.isdir(f"{work}/all") else []
    wrong = [f for f in seen if not filecmp.cmp(f"{work}/all/{f}", f"{work}/site/{f}", shallow=False)]
    print(f"{kill:3} status {status:3}, {len(seen)} files in place, {len(wrong)} wrong", file=sys.stderr, flush=True)
    bad += len(wrong)
sys.exit(bad > 0 or status != 0 or len(seen) != files)
PY
eval "$(since "$start")"
bytes=$((files * mib << 20))
hold "bytes that nginx sent over all pulls" "$other_bytes" "<=" "1.02 * $bytes"
say "$(python3 -c "print(f'{$other_bytes / $bytes:.4f}')") of the set's bytes"
verdict
