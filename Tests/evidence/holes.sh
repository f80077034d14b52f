#!/bin/bash
# Attacks a program from outside, one by one: what is planted on the disk, what servers say, what clients ask.
#
# usage: holes.sh PROGRAM [ITEM…]
#
#   PROGRAM   the syncagent to attack; an older one has holes to show
#   ITEM      only these: 1 to 19, "publish", "keys", "inherited", "record", "plan", "digest", "engine", "requests", "said",
#             "places" or "small"; without one all
#
# Each attack prints a line: its number, what was tried, and "held", "OPEN: what happened" or "not shown here: why".
# All of it happens in a directory of its own and, where the kernel lets this user, in namespaces of its own for network,
# mounts and processes: a public address (203.0.113.1, RFC 5737) is this machine there, and nothing outlives the script.
# Every attack has an end of its own; all of them together take about ten minutes.
#
# Exit status: 0 all held, 1 one was open, 77 none could be shown.
# Environment: SYNCAGENT_BENCH_DIR, KEEP; see common.sh.
. "$(dirname "$0")/common.sh"

case ${1:-} in
-h|--help) usage ;;
''|-*) usage 64 >&2 ;;
esac
SYNCAGENT=$1
shift
need python3=python3 openssl=openssl unshare=util-linux setpriv=util-linux ip=iproute2
# A file system that does not tell upper from lower case, where the kernel has none: item 18.
[ "$(id -u)" != 0 ] || need lowntfs-3g=ntfs-3g
find_binary
make_work

isolate=(unshare --net --mount --pid --fork --kill-child --mount-proc)
[ "$(id -u)" = 0 ] || isolate+=(--map-root-user)
export HOLES_ISOLATED=1
"${isolate[@]}" true 2>/dev/null || { isolate=(); HOLES_ISOLATED=0; }
# Not exec: the traps of this shell clean up.
${isolate[@]+"${isolate[@]}"} python3 -B "$EVIDENCE/holes.py" "$SYNCAGENT" "$WORK" "$@"
