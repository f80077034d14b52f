#!/bin/bash
# Publishes and pulls a set in shards that are killed at random moments, and looks at what comes of it.
#
# usage: shards.sh [COUNT] [--seed N] [--files N] [--shards N]
#
#   COUNT       rounds (default 100); the set changes from one to the next, and in each about half of the shards are killed
#   --seed N    the random moments of an earlier run; each run prints its own
#   --files N   files of the set (default 2000)
#   --shards N  always so many; otherwise 1 to 9, another number each round
#
# In each round every shard but one of a publish, and of a pull, is started at the same time as the others; some are killed with
# SIGKILL or SIGTERM, and started again until they end with 0. The join then ends with 75 and names the one that is missing, which
# is run, too. Then: the join ends with 0, the destination is what the source is (diff -r), the hook was called once, and with the
# number of files that changed. One shard of each round is published once more, in place and by a machine that knows nothing, over
# what was there before: it makes the same packs, byte by byte.
#
# Exit status: 0 all held, 1 something did not. Environment: see common.sh.
. "$(dirname "$0")/common.sh"

count=100 seed=$RANDOM files=2000 fixed=
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --seed) seed=${2:?--seed wants a number}; shift ;;
  --files) files=${2:?--files wants a number}; shift ;;
  --shards) fixed=${2:?--shards wants a number}; shift ;;
  [1-9]*) count=$1 ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
need python3=python3 diff=diffutils
find_binary
make_work
RANDOM=$seed
say "seed $seed"

cd "$WORK"
export HOME=$WORK XDG_STATE_HOME=$WORK/state XDG_CONFIG_HOME=$WORK/configuration
cat > hook <<'H'
#!/bin/sh
echo "$SYNCAGENT_RESULT $SYNCAGENT_CHANGED" >> ../calls
H
chmod +x hook

# change ROUND: makes the set, or changes a part of it; prints how many files are new, other or gone.
change() {
  python3 - "$1" "$files" "$seed" <<'P'
import os, random, sys
number, count, seed = (int(word) for word in sys.argv[1:])
pick = random.Random(seed * 1000 + number)
changed = 0
for index in range(count):
    if number > 0 and pick.random() > 0.05: continue
    path = f"set/d{index % 37}/f{index}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if number > 0 and pick.random() < 0.2 and os.path.exists(path):
        os.remove(path)
        changed += 1
        continue
    with open(path, "wb") as file: file.write(b"%d %d " % (number, index) + pick.randbytes(int(pick.paretovariate(0.9) * 300) % 300000))
    changed += 1
print(changed)
P
}

# worked COMMAND…: starts it, kills it perhaps, and starts it again until it ends with 0.
worked() {
  local tries=0 status process signal
  while :; do
    signal=
    "$@" >> log 2>&1 & process=$!
    if [ $tries -lt 4 ] && [ $((RANDOM % 2)) = 0 ]; then
      sleep "0.$(printf %03d $((RANDOM % 400)))"
      if [ $((RANDOM % 2)) = 0 ]; then signal=KILL; else signal=TERM; fi
      kill -$signal $process 2>/dev/null || true
    fi
    status=0
    { wait $process; } 2>/dev/null || status=$?
    # One that had ended before does not count.
    [ -z "$signal" ] || [ $status = 0 ] || echo "$signal $2" >> killed
    [ $status != 0 ] || return 0
    tries=$((tries + 1))
    [ $tries -lt 30 ] || { echo "status $status: $*" >> failed; return 1; }
  done
}

# most COUNT ONE COMMAND…: every shard but one at the same time.
most() {
  local shards=$1 without=$2 number processes=() process
  shift 2
  for ((number = 0; number < shards; number++)); do
    [ $number != "$without" ] || continue
    RANDOM=$((seed + number + round * 31)) # Each of them has a copy of the generator.
    worked "$@" --shard "$number/$shards" & processes+=($!)
  done
  for process in "${processes[@]}"; do wait "$process" || return 1; done
}

# sharded COUNT COMMAND…: all of them, one after the others; before that the join names it.
sharded() {
  local shards=$1 one=$((RANDOM % $1)) status=0
  shift
  most "$shards" "$one" "$@" || broken "round $round: a shard of $2: $(cat failed)"
  "$@" --join "$shards" > said 2>&1 || status=$?
  # Of a single one the last that was published is complete, too.
  [ "$shards $2" = "1 publish" ] || { [ $status = 75 ] && grep -q "shard $one of $shards " said; } ||
    broken "round $round: the join without shard $one of $shards ended with $status: $(head -3 said)"
  RANDOM=$((seed + round * 97 + 13))
  worked "$@" --shard "$one/$shards" || broken "round $round: shard $one of $2: $(cat failed)"
}

# packs DIRECTORY: the packs there, with their digests; a name that is another is told.
packs() { (cd "$1/packs" && sha256sum -- *.pack | awk '{ if ($1 ".pack" != $2) print "WRONG"; print $2 }'); }

for ((round = 0; round < count; round++)); do
  shards=${fixed:-$((RANDOM % 9 + 1))}
  changed=$(change "$round")
  rm -f calls failed
  publish=("$SYNCAGENT" publish set --to site --project com.example.shards)
  pull=("$SYNCAGENT" pull site/manifest.json --into copy)
  rm -rf before
  [ ! -d site ] || cp -a site before
  sharded "$shards" "${publish[@]}"
  again=$((RANDOM % shards))
  packs site > packs.once
  "${publish[@]}" --shard "$again/$shards" >> log 2>&1 || broken "round $round: shard $again once more ended with $?"
  XDG_STATE_HOME=$WORK/other-$round "$SYNCAGENT" publish set --to before --project com.example.shards \
    --shard "$again/$shards" >> log 2>&1 || broken "round $round: shard $again elsewhere ended with $?"
  packs site > packs.twice
  ! grep -q WRONG packs.once packs.twice || broken "round $round: a pack is not what its name says"
  cmp -s packs.once packs.twice || broken "round $round: shard $again has made other packs when it was published once more"
  [ -z "$(packs before | grep -Fxv -f packs.twice)" ] || broken "round $round: a machine that knows nothing has made other packs of shard $again"
  rm -rf "other-$round"
  "${publish[@]}" --join "$shards" >> log 2>&1 || broken "round $round: the join of the publish ended with $?"
  sharded "$shards" "${pull[@]}"
  "${pull[@]}" --join "$shards" --prune --hook ./hook > said 2>&1 || broken "round $round: the join of the pull ended with $?: $(tail -n 3 said)"
  diff -r -x .syncagent set copy > differences || broken "round $round: $(head -3 differences)"
  [ "$(cat calls)" = "ok $changed" ] || broken "round $round: the hook was called with $(tr '\n' , < calls), and $changed files changed"
  say "round $round: $shards shards, $changed files changed"
done
[ -s killed ] || broken "nothing was killed"
say "$(sort killed | uniq -c | tr -s ' \n' ' ')"
verdict
