#!/bin/bash
# Measures syncagent against what the machine allows and against what people use today, in turn: A B C A B C.
# Prints Markdown (seconds as median and range, ratios round by round) and writes an SVG plot.
#
# usage: bench.sh [--rounds N] [--out DIRECTORY] [--scale PERCENT] [SCENARIO…]
#
#   small, mixed               20,000 files of 512 MiB; 4,000 files of 2 GiB; loopback, HTTP/1.1, onto a fresh ext4
#   small-shm, mixed-shm       the same into memory (/dev/shm)
#   small-tls                  TLS and HTTP/2
#   small-link, mixed-link     through a simulated link of 40 ms and 500 Mbit/s (LINK="RTT_MS MBIT LOSS_PERCENT")
#   again                      100,000 files of 1 KiB, all of them there already
#   default: small small-shm mixed small-link mixed-link again
#
#   --rounds N     runs of each contender (default 5); one that needs more than 30 s runs twice
#   --out DIR      where results.jsonl, table.md and plot.svg go (default ./bench-results)
#   --scale P      sets of P percent of the size, for trying the script out
#
# CONTENDERS="syncagent floor_tar …" replaces the list (evidence/peers.sh has them all); SYNCAGENT_OPTIONS adds
# options to syncagent's command line. Run nothing else meanwhile: client, server and link share the cores. The
# fresh file systems, the link and TLS need root and are left out loudly without it. Needs about 12 GiB of disk.
# Environment: see evidence/common.sh.
. "$(dirname "$0")/evidence/common.sh"
. "$EVIDENCE/serve-nginx.sh"
. "$EVIDENCE/link.sh"

rounds=5 out=$PWD/bench-results scale=100 scenarios=()
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --rounds) rounds=${2:?}; shift ;;
  --out) out=${2:?}; shift ;;
  --scale) scale=${2:?}; shift ;;
  small|mixed|small-shm|mixed-shm|small-tls|small-link|mixed-link|again) scenarios+=("$1") ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
[ ${#scenarios[@]} != 0 ] || scenarios=(small small-shm mixed small-link mixed-link again)
need curl=curl python3=python3 aria2c=aria2 wget2=wget2 rclone=rclone rsync=rsync openssl=openssl tar=tar \
  /usr/bin/time=time mkfs.ext4=e2fsprogs losetup=mount
find_binary
make_work
mkdir -p "$out"
: >"$out/results.jsonl"
sets=$(cached "sets-$scale")
"$EVIDENCE/fresh-disk.sh" possible || say "note: no fresh file system for each run; the later runs of a disk are slower"

prepare() {          # prepare SET KIND ARGUMENTS…: the files, one tar of them, and what publish makes of them
  if [ ! -e "$sets/$1.done" ]; then
    rm -rf "${sets:?}/$1"
    python3 "$EVIDENCE/make-set.py" "$sets/$1" "${@:2}"
    touch "$sets/$1.done"
  fi
  [ -e "$WORK/served/raw/$1" ] && return
  mkdir -p "$WORK/served/raw" "$WORK/served/site"
  ln -s "$sets/$1" "$WORK/served/raw/$1"
  tar cf "$WORK/served/$1.tar" --sort=name -C "$sets/$1" .
  run "$SYNCAGENT" publish "$sets/$1" --to "$WORK/served/site/$1" --project "bench.$1" --json
  say "publish $1: $WALL s, $CPU s CPU, $RSS MiB; $(mib "$(field bytes.raw)") MiB stored in $(mib "$(field bytes.stored)")"
}

serve() {            # serve NAME [NETNS ADDRESS]: nginx and an rsync daemon for everything
  local ns=() address=${3:-127.0.0.1} config=$WORK/rsyncd-$1.conf port
  nginx_start "$1" "$WORK/served" "${@:2}"
  [ -z "${2:-}" ] || ns=(ip netns exec "$2")
  port=$(free_port)
  {
    printf 'address = %s\nport = %s\nuse chroot = no\nread only = yes\nlog file = %s\n' "$address" "$port" "$WORK/rsyncd-$1.log"
    [ "$(id -u)" != 0 ] || printf 'uid = root\ngid = root\n'
    printf '[%s]\npath = %s\n' small "$sets/small" mixed "$sets/mixed" tiny "$sets/tiny"
  } >"$config"
  "${ns[@]}" rsync --daemon --no-detach --config="$config" &
  on_exit end $!
  RSYNC_URL=rsync://$address:$port
}

measure_scenario() { # measure_scenario SCENARIO SET CONTENDERS OPTIONS…
  say "== $1 ($(date +%T))"
  python3 "$EVIDENCE/bench-run.py" run "$1" "${CONTENDERS:-$3}" --set "$2" --sets "$sets" --rsync "$RSYNC_URL" \
    --work "$WORK" --log "$LOG" --rounds "$rounds" --out "$out/results.jsonl" "${@:4}"
}

part()    { echo $(($1 * scale / 100)); }
peers="syncagent floor_tar floor_tar_sha curl_Z curl_Z_sha rsync wget2 rclone aria2"
on_exit rm -rf "/dev/shm/$(basename "$WORK")"
on_exit "$EVIDENCE/fresh-disk.sh" unmount "$WORK/destination"
lo='' link=''
for scenario in "${scenarios[@]}"; do
  case $scenario in
  small*) set=small; prepare small small --files "$(part 20000)" --mib "$(part 512)" ;;
  mixed*) set=mixed; prepare mixed mixed --files "$(part 4000)" --mib "$(part 2048)" ;;
  again) set=tiny; prepare tiny tiny --files "$(part 100000)" ;;
  esac
  case $scenario in
  *-link)
    if [ -z "$link" ]; then
      link_possible || { link=no; continue; }
      read -r rtt rate loss <<<"${LINK:-40 500 0} 500 0"
      link_up "$rtt" "$rate" "$loss"
      serve link "$SERVER_NS" "$SERVER_ADDRESS"
      link=yes link_url=$URL link_rsync=$RSYNC_URL link_log=$LOG
    fi
    [ $link = yes ] || continue
    RSYNC_URL=$link_rsync LOG=$link_log
    measure_scenario "$scenario" $set "syncagent floor_tar floor_tar_sha curl_Z rsync wget2 rclone aria2" \
      --url "$link_url" --netns "$CLIENT_NS" --parallel 64
    continue ;;
  esac
  if [ -z "$lo" ]; then serve lo; lo=$URL lo_tls=$TLS_URL lo_ca=$CA lo_rsync=$RSYNC_URL lo_log=$LOG; fi
  RSYNC_URL=$lo_rsync LOG=$lo_log
  case $scenario in
  small-tls)
    if [ "$(id -u)" != 0 ]; then say "SKIPPED: small-tls needs root to make programs trust its authority"; continue; fi
    measure_scenario small-tls small "syncagent floor_tar floor_tar_sha curl_Z curl_Z_sha wget2 rclone" --url "$lo_tls" --ca "$lo_ca" ;;
  again) measure_scenario again tiny "syncagent floor_stat floor_rehash rsync rsync_checksum curl_Z wget2" --url "$lo" --again ;;
  *-shm) measure_scenario "$scenario" $set "syncagent floor_tar floor_tar_sha curl_Z curl_Z_sha rsync" --url "$lo" --where shm ;;
  *) measure_scenario "$scenario" $set "$peers floor_tar_sync" --url "$lo" ;;
  esac
done
python3 "$EVIDENCE/bench-run.py" report "$out/results.jsonl" --svg "$out/plot.svg" | tee "$out/table.md"
say "results in $out"
