#!/bin/bash
# Kills a pull with SIGKILL at random moments and looks at what is left behind.
#
# usage: kill.sh [COUNT] [--small] [--seed N] [--seconds S]
#
#   COUNT        kills (default 50): one half from an empty destination, the other as an update of an older revision
#   --small      3,000 files of 60 MiB instead of 20,000 of 512 MiB
#   --seed N     the random moments of an earlier run; each run prints its own
#   --seconds S  --limit-rate is chosen so that a whole pull takes about S seconds (default 4)
#
# After each kill: every file and link outside .syncagent is what one of the two manifests says, to the bit; the
# next pull completes, receives at most 1.1 times what was left plus 16 MiB (by nginx's log), and leaves exactly
# the new revision; `verify` agrees. "Left" is the stored size of the distinct blobs that files not yet in place
# need and that no file in place holds.
#
# Exit status: 0 all held, 1 something did not. With root each trial has a fresh file system.
# Environment: see common.sh.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"

count=50 size=(--files 20000 --mib 512) options=() name=kill
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --small) size=(--files 3000 --mib 60) name=kill-small ;;
  --seed|--seconds) options+=("$1" "${2:?$1 wants a number}"); shift ;;
  [1-9]*) count=$1 ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
need curl=curl python3=python3 /usr/bin/time=time
find_binary
make_work

set=$(cached sets)/$name
if [ ! -e "$set-2.done" ]; then
  rm -rf "$set-1" "$set-2"
  python3 "$EVIDENCE/make-set.py" "$set-1" steps "${size[@]}" --odd
  python3 "$EVIDENCE/make-set.py" "$set-2" --next "$set-1" --change 0.4 --edit 0.5
  touch "$set-2.done"
fi
# Both revisions in one directory: the second reuses packs of the first.
"$SYNCAGENT" publish "$set-1" --to "$WORK/site" --project kill.trial --quiet
cp "$WORK/site/manifest.json" "$WORK/site/one.json"
"$SYNCAGENT" publish "$set-2" --to "$WORK/site" --project kill.trial --base "$WORK/site/one.json" --quiet
mv "$WORK/site/manifest.json" "$WORK/site/two.json"
rm -f "$WORK/site/manifest.json.zst"
nginx_start kill "$WORK/site"

if "$EVIDENCE/fresh-disk.sh" possible; then
  options+=(--image "$WORK/disk.img")
  on_exit "$EVIDENCE/fresh-disk.sh" unmount "$WORK/trial"
fi
# Not exec: the traps of this shell clean up.
python3 "$EVIDENCE/kill-trials.py" --site "$WORK/site" --url "$URL" --log "$LOG" --work "$WORK" --count "$count" "${options[@]}"
