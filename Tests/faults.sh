#!/bin/bash
# Proved as databases are: every system call fails once, the power goes at every sync, and every limit of a file system is met.
#
# usage: faults.sh [--seconds N] [--whole] [--seed N] [calls|powercut|limits|reader]...
#
#   --seconds N   how long each of the four may take (default 20); what fits in is chosen by chance
#   --whole       all that differs; half a day on two cores
#   --seed N      the choice of an earlier run
#
#   calls      faults/trials.py: in a small story of each verb one system call fails, once: each error that the manual names for a
#              call, once at each place of the program that makes it (--whole), or a sample of them
#   powercut   faults/powercut.py: a disk that forgets what was not synced, cut at every sync and anywhere else
#   limits     faults/limits.py: no space, no inodes, no descriptors; disks that fail on cue, lack links, syncfs or long names;
#              clocks that jump
#   reader     faults/reader.py: readers in a loop while files are replaced
#
# Each says what must hold. calls needs x86-64, a compiler for C and leave to trace processes; powercut and limits need root and
# /dev/fuse. What cannot be tried here is skipped with a line that says so.
#
# Exit status: 0 all held, 1 something did not, 77 nothing could be tried. Environment: see evidence/common.sh.
. "$(dirname "$0")/evidence/common.sh"

seconds=20 whole= seed=() parts=()
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --seconds) seconds=${2:?"--seconds wants a number"}; shift ;;
  --whole) whole=1 ;;
  --seed) seed=(--seed "${2:?"--seed wants a number"}"); shift ;;
  calls|powercut|limits|reader) parts+=("$1") ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
[ ${#parts[@]} != 0 ] || parts=(calls powercut limits reader)
need python3=python3 cc=gcc
find_binary

tried=0
part() {
  local status=0
  say "== $1"
  shift
  python3 -B "$@" || status=$?
  case $status in
  0) tried=1 ;;
  77) ;;
  *) broken "${1##*/}"; tried=1 ;;
  esac
}
for name in "${parts[@]}"; do
  case $name in
  calls) part calls "$ROOT/Tests/faults/trials.py" "$SYNCAGENT" "${seed[@]}" $([ "$whole" ] && echo --places || echo --seconds "$seconds") ;;
  powercut)
    if [ "$whole" ]; then
      part powercut "$ROOT/Tests/faults/powercut.py" "$SYNCAGENT" "${seed[@]}" --cuts 1000 --looks 20000
      part "powercut, one disk" "$ROOT/Tests/faults/powercut.py" "$SYNCAGENT" "${seed[@]}" --cuts 1000 --looks 20000 --together
    else
      part powercut "$ROOT/Tests/faults/powercut.py" "$SYNCAGENT" "${seed[@]}" --seconds "$seconds"
    fi
    ;;
  limits) part limits "$ROOT/Tests/faults/limits.py" "$SYNCAGENT" "${seed[@]}" $([ "$whole" ] && echo --whole || echo --seconds "$seconds") ;;
  reader) part reader "$ROOT/Tests/faults/reader.py" "$SYNCAGENT" $([ "$whole" ] || echo --seconds "$((seconds / 2))") ;;
  esac
done
[ "$tried" = 1 ] || exit 77
verdict
