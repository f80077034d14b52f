#!/bin/sh
# Runs the real program on seeded mutations of everything it reads: manifests, parts, packs, answers of servers, the
# destination's own directory and tree, configuration, credentials, control requests, the state directory. [G5]
#
#   Tests/fuzz.sh N [SEED [AREA]]        N cases; without SEED a new one, which is printed
#   Tests/fuzz.sh --case K SEED [AREA]   case K of that seed once more, with everything it says
#
# AREA, such as planted or control, is one of those in Tests/fuzz/areas.py: nothing else is mutated.
#
# Every case: no signal, no hang (10 s), a documented exit status that is never 1, at most 300 MiB, nothing changed
# outside of the destination and the state directory, and no bytes in the destination that nobody asked for. Of a publisher, in
# what is served: no private byte, nothing signed that nobody of this machine has said, and nothing gone that is named.
# Environment: SYNCAGENT, the program; otherwise the release build, or else the debug build. WORKERS: so many cases at a time, 2.
# Exit status: 0 when every case passed, 1 when one did not, 77 when namespaces cannot be had here.
#
# The cases run in namespaces of their own, with everything read-only but a tmpfs: no mutation of a path or a URL can
# reach the machine or the network.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${SYNCAGENT:-}" ]; then
    SYNCAGENT="$here/../.build/release/syncagent"
    [ -x "$SYNCAGENT" ] || SYNCAGENT="$here/../.build/debug/syncagent"
fi
[ -x "$SYNCAGENT" ] || { echo "There is no program at $SYNCAGENT: swift build." >&2; exit 1; }
SYNCAGENT=$(realpath "$SYNCAGENT")
export SYNCAGENT
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 64; }

map=""
[ "$(id -u)" -eq 0 ] || map="--map-root-user"
# shellcheck disable=SC2086 # a word or none
if ! unshare $map --mount --net --pid --fork --mount-proc true 2>/dev/null; then
    echo "SKIPPED: mutations of what the program reads: no namespaces here (unshare)"
    exit 77
fi
# shellcheck disable=SC2086
exec unshare $map --mount --net --pid --fork --kill-child --mount-proc python3 -B "$here/fuzz/run.py" "$@"
