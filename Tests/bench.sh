#!/bin/bash
# Measures syncagent against what the machine allows and against what people use today, in turn: A B C A B C.
# Prints Markdown (seconds as median and range, ratios round by round, CPU, memory, requests, bytes on the wire) and
# writes an SVG plot.
#
# usage: bench.sh [--list] [--rounds N] [--patience S] [--out DIRECTORY] [--append] [--scale PERCENT] [SCENARIO…]
#
#   --list         the scenarios and their contenders; without arguments all but again-million are run
#   --rounds N     runs of each contender (default 5)
#   --patience S   a contender that needs more than S seconds runs twice (default 30); none runs more than 300
#   --out DIR      where results.jsonl, table.md and plot.svg go (default ./bench-results)
#   --append       keep what results.jsonl has; of a scenario measured again the last series counts
#   --scale P      sets of P percent of the size, for trying the script out
#
# The sets: small, 20,000 files of 512 MiB; mixed, 4,000 files of 2 GiB; huge, one file of 2 GiB; tiny, 100,000 files
# of 1 KiB; million, 1,000,000 of them. An update changes 1 % of the small files, removes and adds half as many; in
# the large files of mixed and huge it inserts 4 KiB near the start and replaces 1 % of the 64 KiB blocks.
#
# CONTENDERS="syncagent floor_tar …" replaces the list (evidence/peers.sh has them all; "before" is the program that
# BEFORE names, to see whether a change has made it slower); SYNCAGENT_OPTIONS adds
# options to syncagent's command line; LINK="RTT_MS MBIT LOSS_PERCENT" is another link. Run nothing else meanwhile:
# client, server and link share the cores. The fresh file systems, the link and TLS need root and are left out loudly
# without it, as are programs that cannot be installed. Needs up to 22 GiB of disk, again-million 36.
# Environment: see evidence/common.sh.
. "$(dirname "$0")/evidence/common.sh"
. "$EVIDENCE/serve-nginx.sh"
. "$EVIDENCE/link.sh"

# name              set      kind    where  contenders
table='
small               small    fresh   disk   syncagent floor_tar floor_tar_sha floor_tar_sync curl_Z curl_Z_sha rsync wget2 rclone aria2
small-shm           small    fresh   shm    syncagent floor_tar floor_tar_sha curl_Z curl_Z_sha rsync
small-tls           small    fresh   tls    syncagent floor_tar floor_tar_sha curl_Z curl_Z_sha wget2 rclone
small-link          small    fresh   link   syncagent floor_stored floor_tar floor_tar_sha curl_Z rsync wget2 rclone aria2
small-update        small    update  disk   syncagent syncagent_cold floor_delta rsync casync curl_Z
small-update-link   small    update  link   syncagent syncagent_cold floor_delta rsync casync curl_Z
mixed               mixed    fresh   disk   syncagent floor_tar floor_tar_sha floor_tar_sync curl_Z curl_Z_sha rsync wget2 rclone aria2
mixed-shm           mixed    fresh   shm    syncagent floor_tar floor_tar_sha curl_Z curl_Z_sha rsync
mixed-tls           mixed    fresh   tls    syncagent floor_tar floor_tar_sha curl_Z curl_Z_sha wget2 rclone
mixed-link          mixed    fresh   link   syncagent floor_stored floor_tar floor_tar_sha curl_Z rsync wget2 rclone aria2
mixed-update        mixed    update  disk   syncagent syncagent_cold floor_delta rsync zsync casync curl_Z
mixed-update-link   mixed    update  link   syncagent syncagent_cold floor_delta rsync zsync casync curl_Z
huge                huge     fresh   disk   syncagent floor_null curl_Z curl_Z_sha rsync wget2 aria2 lftp_pget
huge-tls            huge     fresh   tls    syncagent floor_null curl_Z curl_Z_sha wget2 aria2
huge-update         huge     update  disk   syncagent syncagent_cold rsync zsync casync curl_Z
tiny                tiny     fresh   disk   syncagent floor_tar rsync curl_Z
tiny-link           tiny     fresh   link   syncagent floor_stored floor_tar rsync curl_Z
again               tiny     again   disk   syncagent floor_stat floor_rehash rsync rsync_checksum curl_Z wget2
again-million       million  again   disk   syncagent floor_stat rsync
'
row() { awk -v name="$1" '$1 == name' <<<"$table"; }

rounds=5 patience=30 out=$PWD/bench-results scale=100 append= scenarios=()
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --list) printf '%s' "${table#?}"; exit ;;
  --rounds) rounds=${2:?}; shift ;;
  --patience) patience=${2:?}; shift ;;
  --out) out=${2:?}; shift ;;
  --append) append=1 ;;
  --scale) scale=${2:?}; shift ;;
  *) [ -n "$(row "$1")" ] || usage 64 >&2; scenarios+=("$1") ;;
  esac
  shift
done
[ ${#scenarios[@]} != 0 ] || mapfile -t scenarios < <(awk 'NF && $1 != "again-million" {print $1}' <<<"$table")
need curl=curl python3=python3 openssl=openssl tar=tar rsync=rsync nginx=nginx-light /usr/bin/time=time mkfs.ext4=e2fsprogs losetup=mount
for pair in aria2c=aria2 wget2=wget2 rclone=rclone lftp=lftp zsync=zsync casync=casync; do
  (need "$pair") || say "SKIPPED: ${pair%=*}, which cannot be installed"
done
find_binary
make_work
mkdir -p "$out"
[ -n "$append" ] || : >"$out/results.jsonl"
python3 "$EVIDENCE/bench-report.py" about --commit "$(git -C "$ROOT" describe --always --dirty --abbrev=12 2>/dev/null || echo unknown)" \
  --rounds "$rounds" --scale "$scale" --link "${LINK:-40 500 0}" >>"$out/results.jsonl"
sets=$(cached "sets-$scale")
"$EVIDENCE/fresh-disk.sh" possible || say "note: no fresh file system for each run; the later runs of a disk are slower"

part() { echo $((($1 * scale + 99) / 100)); }
made() {             # made NAME ARGUMENTS…: a set, made once
  [ ! -e "$sets/$1.done" ] || return 0
  rm -rf "${sets:?}/$1"
  python3 "$EVIDENCE/make-set.py" "$sets/$1" "${@:2}"
  touch "$sets/$1.done"
}

prepare() {          # prepare SET: its files, one tar of them, and what publish makes of them
  case $1 in
  small) made small small --files "$(part 20000)" --mib "$(part 512)" ;;
  mixed) made mixed mixed --files "$(part 4000)" --mib "$(part 2048)" ;;
  huge) made huge huge --mib "$(part 2048)" ;;
  tiny) made tiny tiny --files "$(part 100000)" ;;
  million) made million tiny --files "$(part 1000000)" ;;
  esac
  [ ! -e "$served/sites/$1-1" ] || return 0
  mkdir -p "$served/raw" "$served/sites"
  ln -sfn "$sets/$1" "$served/raw/$1"
  # No scenario of one huge file and none of a million takes a tar.
  case $1 in huge|million) ;; *) tar cf "$served/$1.tar" --sort=name -C "$sets/$1" . ;; esac
  run "$SYNCAGENT" publish "$sets/$1" --to "$served/sites/$1-1" --project "bench.$1" --json
  say "publish $1: $WALL s, $CPU s CPU, $RSS MiB; $(mib "$(field bytes.raw)") MiB stored in $(mib "$(field bytes.stored)")"
}

prepare_next() {     # prepare_next SET: the revision after it, and what the contenders need of it on the server
  local change=0 next=$1-next path
  [ "$1" != small ] || change=0.01
  made "$next" --next "$sets/$1" --change $change
  [ ! -e "$served/sites/$1-2" ] || return 0
  ln -sfn "$sets/$next" "$served/raw/$next"
  cp -al "$served/sites/$1-1" "$served/sites/$1-2"
  run "$SYNCAGENT" publish "$sets/$next" --to "$served/sites/$1-2" --project "bench.$1" --base "$served/sites/$1-1/manifest.json" --json
  say "publish $next: $WALL s, $CPU s CPU, $RSS MiB; $(mib "$(field bytes.new)") MiB new"
  find "$sets/$next" -type f -newermt @1700000001 -printf '%P\n' | sort >"$WORK/changed-$1"   # make-set.py's older time is that
  [ "$1" = huge ] || tar cf "$served/$next.delta.tar" -C "$sets/$next" -T "$WORK/changed-$1"
  if [ "$1" != small ] && command -v zsyncmake >/dev/null; then
    while IFS= read -r path; do
      mkdir -p "$(dirname "$served/zsync/$next/$path")"
      zsyncmake -Z -u "/raw/$next/$path" -o "$served/zsync/$next/$path.zsync" "$sets/$next/$path" 2>/dev/null
    done <"$WORK/changed-$1"
  fi
  if command -v casync >/dev/null; then
    mkdir -p "$served/casync"
    casync make --with=unix --store="$served/casync/$next.castr" "$served/casync/$next.caidx" "$sets/$next" >/dev/null
    chmod -R a+rX "$served/casync"
  fi
}

serve() {            # serve NAME [NETNS ADDRESS]: nginx and an rsync daemon for everything
  local ns=() address=${3:-127.0.0.1} config=$WORK/rsyncd-$1.conf port
  nginx_start "$1" "$served" "${@:2}"
  [ -z "${2:-}" ] || ns=(ip netns exec "$2")
  port=$(free_port)
  {
    printf 'address = %s\nport = %s\nuse chroot = no\nread only = yes\nlog file = %s\n' "$address" "$port" "$WORK/rsyncd-$1.log"
    [ "$(id -u)" != 0 ] || printf 'uid = root\ngid = root\n'
    printf '[sets]\npath = %s\n' "$sets"
  } >"$config"
  "${ns[@]}" rsync --daemon --no-detach --config="$config" &
  on_exit end $!
  RSYNC_URL=rsync://$address:$port/sets
}

on_link() {          # on_link: sets URL, RSYNC_URL, LOG and options for the link; fails where there can be none
  if [ -z "$link" ]; then
    link=no
    link_possible || return 1
    read -r rtt rate loss <<<"${LINK:-40 500 0} 500 0"
    link_up "$rtt" "$rate" "$loss"
    serve link "$SERVER_NS" "$SERVER_ADDRESS"
    link=yes link_url=$URL link_rsync=$RSYNC_URL link_log=$LOG
  fi
  [ $link = yes ] || { say "SKIPPED: $1, which needs the simulated link"; return 1; }
  URL=$link_url RSYNC_URL=$link_rsync LOG=$link_log
  options+=(--netns "$CLIENT_NS" --near "$SERVER_NS")
}

on_loopback() {
  if [ -z "$lo" ]; then serve lo; lo=$URL lo_tls=$TLS_URL lo_ca=$CA lo_rsync=$RSYNC_URL lo_log=$LOG; fi
  URL=$lo RSYNC_URL=$lo_rsync LOG=$lo_log
}

on_tls() {
  [ "$(id -u)" = 0 ] || { say "SKIPPED: $1 needs root to make programs trust its authority"; return 1; }
  on_loopback
  URL=$lo_tls
  options+=(--ca "$lo_ca")
}

room() {             # room SCENARIO SET: whether the disk has it
  local gib=22 have
  case $2 in million) gib=36 ;; tiny) gib=10 ;; esac
  [ "$scale" -ge 100 ] || gib=$((gib * scale / 100 + 3))
  have=$(($(df --output=avail -k "$WORK" | tail -1) / 1048576 + $(du -sk "$WORK" | cut -f1) / 1048576))
  [ "$have" -ge "$gib" ] || { say "SKIPPED: $1 needs $gib GiB, $WORK can have $have"; return 1; }
}

drop() {             # drop SET: what is served of a set that no later scenario needs
  rm -rf "${served:?}/sites/$1-1" "$served/sites/$1-2" "$served/$1.tar" "$served/$1-next.delta.tar" "$served/zsync/$1-next" \
    "$served/casync/$1-next.castr" "$served/casync/$1-next.caidx"
  [ -n "${SYNCAGENT_CACHE_DIR:-}" ] || rm -rf "${sets:?}/$1" "$sets/$1.done" "$sets/$1-next" "$sets/$1-next.done"
}

served=$WORK/served lo='' link=''
mkdir -p "$served"
on_exit rm -rf "/dev/shm/$(basename "$WORK")"
on_exit "$EVIDENCE/fresh-disk.sh" unmount "$WORK/destination"
for index in "${!scenarios[@]}"; do
  scenario=${scenarios[$index]}
  read -r _ set kind where contenders < <(row "$scenario")
  gib=8 parallel=32 options=()
  case $set in million) gib=24 ;; esac
  [ "$scale" -ge 100 ] || gib=$((gib * scale / 100 + 2))
  case $where in
  link) parallel=64; on_link "$scenario" || continue ;;
  tls) on_tls "$scenario" || continue ;;
  *) on_loopback ;;
  esac
  room "$scenario" $set || continue
  prepare $set
  [ $kind != update ] || prepare_next $set
  [ $scenario != tiny-link ] || parallel=128
  [ $where != shm ] || options+=(--where shm)
  say "== $scenario ($(date +%T))"
  python3 "$EVIDENCE/bench-run.py" "$scenario" "${CONTENDERS:-$contenders}" --kind $kind --set $set --sets "$sets" --served "$served" \
    --url "$URL" --rsync "$RSYNC_URL" --work "$WORK" --log "$LOG" --rounds "$rounds" --patience "$patience" --parallel $parallel --disk-gib $gib \
    --out "$out/results.jsonl" "${options[@]}"
  later=" "
  for next in "${scenarios[@]:index + 1}"; do later+="$(row "$next" | awk '{print $2}') "; done
  case $later in *" $set "*) ;; *) drop $set ;; esac
done
python3 "$EVIDENCE/bench-report.py" report "$out/results.jsonl" --svg "$out/plot.svg" | tee "$out/table.md"
say "results in $out"
