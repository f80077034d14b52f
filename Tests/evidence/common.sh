#!/bin/bash
# Sourced by the scripts beside it: packages, a work directory, the binary under test, measuring, cleaning up.
#
# Environment, all optional:
#   SYNCAGENT             the program to examine; without it a release build is made
#   SYNCAGENT_BENCH_DIR   where the work directory goes (default /var/tmp); it should be on a disk, not in memory
#   SYNCAGENT_CACHE_DIR   where downloads and generated sets are kept between runs (default: nowhere)
#   KEEP=1                leave the work directory behind
set -eu -o pipefail
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
EVIDENCE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$EVIDENCE/../.." && pwd)
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
failures=0
cleaners=()

say()    { printf '%s\n' "$*" >&2; }
die()    { say "error: $*"; exit 1; }
usage()  { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit "${1:-0}"; }
broken() { say "BROKEN: $*"; failures=$((failures + 1)); }

# hold WHAT LEFT OPERATOR RIGHT: a bound that must hold; says so either way.
hold() {
  if python3 -c "import sys; sys.exit(not ($2 $3 $4))"; then say "ok: $1: $2 $3 $4"; else broken "$1: $2 is not $3 $4"; fi
}
verdict() {
  [ "$failures" = 0 ] || { say "$failures bound(s) broken"; exit 1; }
  say "every bound holds"
}

# need THING=PACKAGE…: installs the packages whose command, or file when it begins with /, is missing.
need() {
  local pair missing=()
  for pair; do
    case $pair in
    /*) [ -e "${pair%%=*}" ] ;;
    *) command -v "${pair%%=*}" >/dev/null ;;
    esac || missing+=("${pair#*=}")
  done
  [ ${#missing[@]} != 0 ] || return 0
  local sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
  say "installing ${missing[*]}"
  # RUNLEVEL=1 keeps the packages from starting their services: these scripts start their own.
  $sudo apt-get update -qq && $sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 || die "cannot install ${missing[*]}"
}

# on_exit COMMAND…: run when the script ends, last first.
on_exit() { cleaners=("$(printf '%q ' "$@")" "${cleaners[@]}"); }
cleanup() {
  local status=$? c
  trap '' INT TERM
  set +e
  for c in "${cleaners[@]}"; do eval "$c" >/dev/null 2>&1; done
  exit $status
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# end PID: asks, waits, and only then forces.
end() {
  kill "$1" 2>/dev/null || return 0
  for _ in {1..100}; do kill -0 "$1" 2>/dev/null || return 0; sleep 0.05; done
  kill -KILL "$1"
}

make_work() {        # sets WORK
  local parent=${SYNCAGENT_BENCH_DIR:-/var/tmp}
  mkdir -p "$parent"
  WORK=$(mktemp -d "$parent/syncagent-evidence.XXXXXX")
  chmod 755 "$WORK"
  [ "${KEEP:-0}" = 1 ] || on_exit rm -rf "$WORK"
  case $(stat -f -c %T "$WORK") in tmpfs|ramfs) say "note: $WORK is in memory; set SYNCAGENT_BENCH_DIR to a disk";; esac
  # Nothing of the user's own state or configuration takes part.
  export XDG_STATE_HOME=$WORK/state XDG_CONFIG_HOME=$WORK/config XDG_CACHE_HOME=$WORK/cache XDG_RUNTIME_DIR=$WORK/runtime
  mkdir -p -m 700 "$XDG_STATE_HOME" "$XDG_CONFIG_HOME" "$XDG_CACHE_HOME" "$XDG_RUNTIME_DIR"
  unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
}

find_binary() {      # sets SYNCAGENT
  if [ -z "${SYNCAGENT:-}" ]; then
    say "building the release binary"
    swift build -c release -debug-info-format none --static-swift-stdlib --package-path "$ROOT" --product syncagent >&2
    SYNCAGENT=$(swift build -c release --package-path "$ROOT" --show-bin-path)/syncagent
  fi
  [ -x "$SYNCAGENT" ] || die "no program at $SYNCAGENT"
  SYNCAGENT=$(realpath "$SYNCAGENT")
  export SYNCAGENT
  say "examining $SYNCAGENT ($("$SYNCAGENT" --version 2>/dev/null || echo "no version"))"
}

fresh_place() {      # fresh_place NAME [GIB]: $WORK/NAME, empty, where possible a new file system (fresh-disk.sh says why)
  if "$EVIDENCE/fresh-disk.sh" possible; then
    mountpoint -q "$WORK/$1" || on_exit "$EVIDENCE/fresh-disk.sh" unmount "$WORK/$1"
    "$EVIDENCE/fresh-disk.sh" mount "$WORK/$1.img" "$WORK/$1" "${2:-4}"
  else
    rm -rf "${WORK:?}/$1"
    mkdir -p "$WORK/$1"
  fi
}

cached() {           # cached NAME: a directory that may outlive the run
  local dir=${SYNCAGENT_CACHE_DIR:-$WORK/made}/$1
  mkdir -p "$dir"
  echo "$dir"
}

# measure COMMAND…: sets RC, WALL and CPU (seconds), RSS (MiB of the largest process); output in $WORK/out and $WORK/err.
measure() {
  local start=$EPOCHREALTIME
  RC=0
  /usr/bin/time -q -o "$WORK/time" -f '%U %S %M' "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || RC=$?
  local stop=$EPOCHREALTIME user system kib
  read -r user system kib < <(tail -1 "$WORK/time")
  WALL=$(awk "BEGIN{printf \"%.3f\", ($stop) - ($start)}")
  CPU=$(awk "BEGIN{printf \"%.2f\", $user + $system}")
  RSS=$(awk "BEGIN{printf \"%.1f\", $kib / 1024}")
}

# run COMMAND…: as measure, and the command must succeed.
run() {
  measure "$@"
  [ "$RC" = 0 ] || { tail -5 "$WORK/err" >&2; die "exit $RC: $*"; }
}

# field PATH: a field of the last JSON line of the last measured command, such as bytes.received.
field() { tail -1 "$WORK/out" | python3 -c 'import functools, json, sys
print(functools.reduce(lambda v, k: v[k], sys.argv[1].split("."), json.loads(sys.stdin.read())))' "$1"; }

mib() { awk "BEGIN{printf \"%.1f\", $1 / 1048576}"; }
median() { printf '%s\n' "$@" | sort -n | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
