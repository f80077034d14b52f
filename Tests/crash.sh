#!/bin/bash
# Kills the background agent and its clients with SIGKILL at random moments, over the whole life of runs and their
# hooks, and looks at what is left behind each time. [S9 S137]
#
# usage: crash.sh [COUNT] [--atomic] [--layout exchange|links] [--seed N] [--seconds S] [--files N]
#
#   COUNT        trials (default 200)
#   --atomic     the sets are pulled with --atomic: besides, readers see one revision, whole, after every kill
#   --layout L   of --atomic: exchange (default) or links
#   --seed N     the random choices of an earlier run; each run prints its own
#   --seconds S  a run at its limited rate takes about S seconds, its hook included (default 0.5)
#   --files N    files of a set (default 300)
#
# Each trial asks an agent for another revision of a set (`pull --background --hook`), sometimes gives commands that
# the agent acknowledges (pause, resume, cancel, a second revision), and kills agent, client or both at a moment that
# is uniform over [0, 1.1 × run]; sometimes the next agent as well, while it recovers. Then an agent is started, with
# no other command, until everything is at rest, and this must hold:
#
#   - every visible file is, to the bit, what a manifest says that was asked for; after a run has finished, exactly
#     what its own manifest says
#   - every acknowledged command is there: runs exist and end as asked, what was paused stays paused until resumed
#   - of every finished run the hook has been called to its end; more than once only when the agent died inside it,
#     then with the same run id and a higher attempt
#   - events are numbered without a gap and in order; `doctor --strict` finds nothing
#
# Exit status: 0 all held, 1 something did not. Environment: see evidence/common.sh.
. "$(dirname "$0")/evidence/common.sh"
. "$EVIDENCE/serve-nginx.sh"

count=200 files=300 options=()
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --seed|--seconds|--every|--layout) options+=("$1" "${2:?$1 wants a value}"); shift ;;
  --atomic) options+=("$1") ;;
  --files) files=${2:?--files wants a number}; shift ;;
  [1-9]*) count=$1 ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
need curl=curl python3=python3
find_binary
make_work

# Six revisions, each made from the one before, in one directory: packs are shared.
mkdir "$WORK/site"
python3 "$EVIDENCE/make-set.py" "$WORK/set-1" small --files "$files" --mib 8 --odd
base=()
for number in 1 2 3 4 5 6; do
  [ "$number" = 1 ] ||
    python3 "$EVIDENCE/make-set.py" "$WORK/set-$number" --next "$WORK/set-$((number - 1))" --change 0.3 --seed "$number"
  "$SYNCAGENT" publish "$WORK/set-$number" --to "$WORK/site" --project crash.trial --quiet \
    --pack-size 1M "${base[@]}"
  mv "$WORK/site/manifest.json" "$WORK/site/r$number.json"
  rm -f "$WORK/site/manifest.json.zst"
  base=(--base "$WORK/site/r$number.json")
done
nginx_start crash "$WORK/site"
# Not exec: the traps of this shell clean up.
python3 "$EVIDENCE/crash-trials.py" --site "$WORK/site" --url "$URL" --log "$LOG" --work "$WORK" --count "$count" "${options[@]}"
