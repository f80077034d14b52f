#!/bin/bash
# Kills a pull with SIGKILL at random moments and compares what `status` then says with what the next run finds.
#
# usage: status-kills.sh [COUNT] [--seed N]
#
#   COUNT     kills (default 200)
#   --seed N  the random moments of an earlier run; each run prints its own
#
# The set comes from an origin that redirects its packs to another server, which is slow and breaks off now and then. After
# each kill:
#
#   - no task is running, and nothing is on the wire: nobody works on it
#   - what is called installed or unchanged is in its place, to the bit, and the next run does not bring it again
#   - what is called waiting the next run brings, or finds placed at the moment of the kill
#   - events that were told more than 1.5 s before the kill are on record
#   - no query of a URL is in any file of the state but `links`
#
# The next run completes, its tasks are all in place, and the redirects of all trials together cost less than one a trial.
# Exit status: 0 all held, 1 something did not. Environment: see evidence/common.sh.
. "$(dirname "$0")/evidence/common.sh"

count=200 options=()
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --seed) options+=("$1" "${2:?$1 wants a number}"); shift ;;
  [1-9]*) count=$1 ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
need python3=python3
find_binary
make_work

python3 "$EVIDENCE/make-set.py" "$WORK/set" small --files 400 --mib 16 --odd
"$SYNCAGENT" publish "$WORK/set" --to "$WORK/site" --project status.trial --pack-size 1M --quiet
# Not exec: the traps of this shell clean up.
python3 "$EVIDENCE/status-trials.py" --site "$WORK/site" --work "$WORK" --count "$count" "${options[@]}"
