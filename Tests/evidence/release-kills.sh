#!/bin/bash
# Kills `releases prune`, `releases restore` and a publish that retains releases at every single system call that changes a
# file, once each, and publishes and prunes against each other.
#
# usage: release-kills.sh [--sample N] [--seed N] [--races N] [--signed]
#
#   --sample N   only N of the points of each command, chosen by the seed (default: all of them, some 3 minutes)
#   --seed N     the sample of an earlier run
#   --races N    how often two commands start at once (default 100)
#   --signed     a signed set with channels (default: an unsigned one)
#
# After each kill, and after each race: every manifest that is there names only packs that are there, to the bit; what was
# named before is; a machine pulls the newest release, and the one that a channel points at; the same command run again
# succeeds; and a prune without grace then leaves no file that nothing needs. Of two that start at once each one ends with 0
# or, because of the other, with 75.
#
# Exit status: 0 all held, 1 something did not. Environment: see common.sh.
. "$(dirname "$0")/common.sh"

options=()
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --signed) options+=("$1") ;;
  --sample|--seed|--races) options+=("$1" "${2:?$1 wants a number}"); shift ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
need python3=python3 strace=strace zstd=zstd
find_binary
make_work
python3 "$EVIDENCE/release-kills.py" --work "$WORK" "${options[@]}"
