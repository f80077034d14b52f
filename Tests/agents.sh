#!/bin/bash
# Shows what the background agent promises, with the real program: restarts, races, storms, killed readers, and what
# it costs. [S7]
#
# usage: agents.sh [PART…]
#
#   restart    every process is killed and the runtime directory is gone, as after a reboot; as root the next agent sees
#              another boot id and process ids that begin anew: with nothing but `agent run` everything goes on; a hook
#              that was running is called again, what was paused stays so
#   race       50 pulls of one session at once: one works, 49 end with 75; 50 background pulls at once with no agent:
#              one agent, one run, 50 acknowledgements
#   storm      4,000 requests to pause, resume, cancel and enqueue on eight connections that stay open, as fast as the
#              agent takes them: every answer is a proper one, the end a legal state; with SYNCAGENT_STORM_RATE=1000, which
#              is for a release build on a quiet machine, at least so many a second
#   followers  'events --follow' and 'attach' are killed 100 times each: what they and their successors got has no gap and
#              no repeat
#   rest       CPU, wake-ups and memory of an agent with 20 sessions and nothing to do, over 30 s: at most three wake-ups a second
#   list       from the start of an agent until 20 sessions are listed
#   enqueue    a background pull of 100,000 files: time, rows, bytes
#   store      a fresh pull of 20,000 files of 1 KiB with the state on the disk and in memory, in turn, five times each
#
# Without PART: restart, race, storm and followers. Exit status: 0 every bound held, 1 one did not.
# Environment: see evidence/common.sh.
. "$(dirname "$0")/evidence/common.sh"
. "$EVIDENCE/serve-nginx.sh"

parts=()
for part; do
  case $part in
  -h|--help) usage ;;
  restart|race|storm|followers|rest|list|enqueue|store) parts+=("$part") ;;
  *) usage 64 >&2 ;;
  esac
done
[ ${#parts[@]} != 0 ] || parts=(restart race storm followers)
need curl=curl python3=python3
find_binary
make_work

mkdir "$WORK/site"
python3 "$EVIDENCE/make-set.py" "$WORK/set-1" small --files 200 --mib 6
python3 "$EVIDENCE/make-set.py" "$WORK/set-2" --next "$WORK/set-1" --change 0.5
base=()
for number in 1 2; do
  "$SYNCAGENT" publish "$WORK/set-$number" --to "$WORK/site" --project agent.trial --quiet --pack-size 1M "${base[@]}"
  mv "$WORK/site/manifest.json" "$WORK/site/r$number.json"
  rm -f "$WORK/site/manifest.json.zst"
  base=(--base "$WORK/site/r$number.json")
done
case " ${parts[*]} " in *" store "*)
  python3 "$EVIDENCE/make-set.py" "$WORK/set-large" tiny --files 20000
  "$SYNCAGENT" publish "$WORK/set-large" --to "$WORK/site/large" --project agent.large --quiet ;;
esac
nginx_start agents "$WORK/site"
for part in "${parts[@]}"; do
  python3 "$EVIDENCE/agent-trials.py" "$part" --site "$WORK/site" --url "$URL" --log "$LOG" --work "$WORK" || broken "$part"
done
verdict
