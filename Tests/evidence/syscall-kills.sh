#!/bin/bash
# Kills a small pull at every single system call that changes a file or the store, once each.
#
# usage: syscall-kills.sh [--atomic | --rollback] [--layout exchange|links] [--sample N] [--seed N]
#
#   --atomic     an update that is shown as a whole (pull --atomic): after each kill, readers see one of the two revisions
#                whole, and the next pull shows the new one and calls the hook exactly as it is on record
#   --rollback   the same for a rollback: after each kill one revision whole; a second rollback shows the old one, which
#                the next pull leaves alone until it is let go
#   --layout L   of --atomic and --rollback: exchange (default), or links, and then the links at the top are looked at, too
#   --sample N   only N of the points, chosen by the seed (default: all of them, some 10 minutes)
#   --seed N     the sample of an earlier run
#   --part I/N   every Nth call of each kind, from the Ith on, so that several runs beside each other share them (default 1/1)
#
# The pull updates 20 files from one revision to the next: files come, change and go. A first run under strace counts
# each kind of call; then, for each kind and each n, a run from the same start is killed by strace(1) at the moment the
# n-th such call of a thread is entered. After each: every visible file is what one of the two revisions says; the
# next pull succeeds, with no other step, and leaves exactly the new revision; `doctor --strict` finds nothing. [F084]
#
# strace counts for each thread. Threads share their work differently each time, so a kind is tried until a run
# outlives it, whatever the first run counted.
#
# Exit status: 0 all held, 1 something did not. Environment: see common.sh.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"

options=()
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --atomic|--rollback) options+=("$1") ;;
  --sample|--seed|--layout|--part) options+=("$1" "${2:?$1 wants a value}"); shift ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
need curl=curl python3=python3 strace=strace
find_binary
make_work

mkdir "$WORK/site"
python3 "$EVIDENCE/make-set.py" "$WORK/set-1" small --files 20 --mib 1
python3 "$EVIDENCE/make-set.py" "$WORK/set-2" --next "$WORK/set-1" --change 0.4
"$SYNCAGENT" publish "$WORK/set-1" --to "$WORK/site" --project syscall.trial --quiet
mv "$WORK/site/manifest.json" "$WORK/site/one.json"
"$SYNCAGENT" publish "$WORK/set-2" --to "$WORK/site" --project syscall.trial --base "$WORK/site/one.json" --quiet
mv "$WORK/site/manifest.json" "$WORK/site/two.json"
rm -f "$WORK/site/manifest.json.zst"
nginx_start syscalls "$WORK/site"
python3 "$EVIDENCE/syscall-kills.py" --site "$WORK/site" --url "$URL" --work "$WORK" "${options[@]}"
