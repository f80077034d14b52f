#!/bin/bash
# What an update of things that nobody here made costs in bytes: a release is published, served by nginx and pulled,
# the next release is published over it with --base and pulled. Prints Markdown.
#
# usage: real-updates.sh [scipy] [jaxlib] [botocore] [wesnoth] [marble]        default: all five
#
#   scipy      1.17.0 to 1.17.1, 1,500 files, 108 MiB: a scientific library
#   jaxlib     0.10.1 to 0.10.2, 130 files, 340 MiB, most of it one library for machine learning
#   botocore   1.43.10 to 1.43.11, 1,971 files, 18 MiB: of 916 the time in a gzip header differs and nothing else
#   wesnoth    wesnoth-1.18-data as Debian's stable and testing have it: maps, images, music
#   marble     marble-data, likewise: maps, a year apart
#
# Counted: what nginx sent to syncagent, manifest included; what rsync -a -z says it sent and received, from a daemon,
# where files that have not changed have kept their times, which is a gift; the files that are new or differ, whole,
# as they are and compressed one by one by zstd -3. Bound: the pull ends as exactly the new release.
#
# Wheels come through pip, packages through apt-get with lists of its own, from the mirror that this machine's apt
# uses; all are kept in SYNCAGENT_CACHE_DIR/downloads when that is set. Needs 4 GiB of disk. Environment: see common.sh.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"

SUITES=(stable testing)
case "${1:-}" in -h|--help) usage ;; esac
[ $# -gt 0 ] || set -- scipy jaxlib botocore wesnoth marble
need curl=curl python3=python3 rsync=rsync zstd=zstd dpkg-deb=dpkg /usr/bin/time=time
find_binary
make_work
downloads=$(cached downloads)

wheel() {            # wheel NAME VERSION: prints the path of the wheel, that of CPython 3.12 on x86-64
  local found=("$downloads/$1-$2"-*.whl) platforms=(manylinux_2_17_x86_64 manylinux2014_x86_64 manylinux_2_27_x86_64 manylinux_2_28_x86_64)
  if [ ! -e "${found[0]}" ]; then
    python3 -m pip --version >/dev/null 2>&1 || need pip3=python3-pip
    say "downloading $1 $2"
    python3 -m pip download -q --no-deps --only-binary :all: --python-version 3.12 "${platforms[@]/#/--platform=}" -d "$downloads" "$1==$2" >&2 ||
      die "cannot download $1 $2"
    found=("$downloads/$1-$2"-*.whl)
  fi
  echo "${found[0]}"
}

suites_known=
know_suites() {      # lists of packages of both suites, apart from the machine's own
  [ -z "$suites_known" ] || return 0
  local mirror key=/usr/share/keyrings/debian-archive-keyring.gpg suite
  mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v -e security -e '^file:' | sort | uniq -c | sort -rn | awk 'NR == 1 {print $2}')
  [ -n "$mirror" ] || { say "SKIPPED: apt knows no mirror"; return 1; }
  [ -e $key ] || need $key=debian-archive-keyring
  mkdir -p "$WORK/apt/lists/partial" "$WORK/apt/cache/archives/partial"
  for suite in "${SUITES[@]}"; do echo "deb [signed-by=$key] $mirror $suite main"; done >"$WORK/apt/sources.list"
  cat >"$WORK/apt/conf" <<CONF
Dir::Etc::sourcelist "$WORK/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$WORK/apt/lists";
Dir::Cache "$WORK/apt/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
CONF
  APT_CONFIG=$WORK/apt/conf apt-get update -qq >&2 || { say "SKIPPED: $mirror has no ${SUITES[*]}"; return 1; }
  suites_known=1
}

package() {          # package NAME SUITE: prints the path of its .deb
  local kept=$downloads/$2/
  if ! compgen -G "$kept$1_*.deb" >/dev/null; then
    know_suites || return 1
    say "downloading $1 of $2"
    mkdir -p "$kept"
    (cd "$kept" && APT_CONFIG=$WORK/apt/conf apt-get download -qq "$1/$2") >&2 || return 1
  fi
  compgen -G "$kept$1_*.deb" | tail -1
}

drop_escaping() {    # a link that leaves the tree cannot be published
  local path
  python3 "$EVIDENCE/checks.py" escaping "$1" | while IFS= read -r path; do
    say "left out, leaves the tree: $path"
    rm "$1/$path"
  done
}

# rsync_bytes OLD NEW: prints what rsync sends and receives for the update.
rsync_bytes() {
  local port copy=$WORK/copy pid
  port=$(free_port)
  rm -rf "$copy"
  cp -a "$1" "$copy"
  printf 'address = 127.0.0.1\nport = %s\nuse chroot = no\nread only = yes\n%s[new]\npath = %s\n' "$port" \
    "$([ "$(id -u)" != 0 ] || printf 'uid = root\ngid = root\n ')" "$2" >"$WORK/rsyncd.conf"
  rsync --daemon --no-detach --config="$WORK/rsyncd.conf" >&2 &
  pid=$!
  on_exit end $pid
  for _ in {1..100}; do rsync "rsync://127.0.0.1:$port/" >/dev/null 2>&1 && break; sleep 0.05; done
  rsync -a -z --delete --no-human-readable --stats "rsync://127.0.0.1:$port/new/" "$copy/" >"$WORK/stats"
  end $pid
  python3 "$EVIDENCE/checks.py" compare "$2" "$copy" || broken "rsync's copy is not the new release"
  rm -rf "$copy"
  awk -F': ' '/^Total bytes (sent|received)/ {gsub(",", "", $2); sum += $2} END {print sum}' "$WORK/stats"
}

update() {           # update NAME OLD_VERSION NEW_VERSION OLD NEW
  local name=$1 old=$4 new=$5 site=$WORK/site into=$WORK/pulled from told raw stored fresh by_rsync plain=0 packed=0 count
  local requests=0 pack_bytes=0 manifest_bytes=0 total_bytes=0
  say "== $name $2 to $3"
  drop_escaping "$old"
  drop_escaping "$new"
  python3 "$EVIDENCE/checks.py" differ "$old" "$new" >"$WORK/changed"
  find "$old" "$new" -exec touch -h -d @1700000000 {} +
  (cd "$new" && xargs -r -d '\n' touch -d @1710000000 <"$WORK/changed")
  count=$(wc -l <"$WORK/changed")
  if [ "$count" != 0 ]; then
    plain=$(cd "$new" && xargs -d '\n' stat -c %s <"$WORK/changed" | awk '{s += $1} END {print s}')
    packed=$(cd "$new" && xargs -d '\n' zstd -q -3 -c <"$WORK/changed" | wc -c)
  fi
  rm -rf "$site" "$into" "$XDG_STATE_HOME"
  mkdir -p "$XDG_STATE_HOME"
  run "$SYNCAGENT" publish "$old" --to "$site" --project "bench.$name" --json
  nginx_start "$name" "$site"
  run "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --json
  cp "$site/manifest.json" "$WORK/old.json"
  run "$SYNCAGENT" publish "$new" --to "$site" --project "bench.$name" --base "$WORK/old.json" --json
  raw=$(field bytes.raw) stored=$(field bytes.stored) fresh=$(field bytes.new)
  from=$(mark)
  run "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --prune --json
  told=$(field requests)
  eval "$(since "$from")"
  hold "$name: requests told and counted by nginx" "$told" == "$requests"
  python3 "$EVIDENCE/checks.py" compare "$new" "$into" || broken "$name: not the new release"
  by_rsync=$(rsync_bytes "$old" "$new")
  printf '| %s %s → %s | %s of %s | %s | %s | %s | %s | %s | **%s** | %s | %s | %s | %s |\n' "$name" "$2" "$3" "$count" \
    "$(find "$new" -type f | wc -l)" "$(mib "$raw")" "$(mib "$stored")" "$(kib "$plain")" "$(kib "$packed")" "$(kib "$by_rsync")" \
    "$(kib "$total_bytes")" "$(kib "$manifest_bytes")" "$requests" "$(ratio "$total_bytes" "$by_rsync")" "$(ratio "$total_bytes" "$packed")"
  say "publish stored $fresh bytes more"
  rm -rf "$old" "$new"
}
kib() { awk "BEGIN{v = $1 / 1024; printf v < 100 ? \"%.1f\" : \"%.0f\", v}"; }
ratio() { awk "BEGIN{if ($2 > 0) printf \"%.2f\", $1 / $2; else print \"\"}"; }

wheels() {           # wheels NAME OLD NEW
  python3 -m zipfile -e "$(wheel "$1" "$2")" "$WORK/old"
  python3 -m zipfile -e "$(wheel "$1" "$3")" "$WORK/new"
  update "$1" "$2" "$3" "$WORK/old" "$WORK/new"
}

packages() {         # packages NAME PACKAGE
  local old new
  old=$(package "$2" "${SUITES[0]}") && new=$(package "$2" "${SUITES[1]}") || { say "SKIPPED: $2: one of its versions cannot be had"; return 0; }
  [ "$(dpkg-deb -f "$old" Version)" != "$(dpkg-deb -f "$new" Version)" ] || { say "SKIPPED: $2 is the same in ${SUITES[*]}"; return 0; }
  dpkg-deb -x "$old" "$WORK/old"
  dpkg-deb -x "$new" "$WORK/new"
  update "$1" "$(dpkg-deb -f "$old" Version)" "$(dpkg-deb -f "$new" Version)" "$WORK/old" "$WORK/new"
}

echo "| update | changed or new files | whole, MiB | stored, MiB | those files, KiB | by zstd -3 | rsync -a -z, KiB | syncagent, KiB | of it manifest | requests | ÷ rsync | ÷ zstd -3 |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
for set; do
  case $set in
  scipy) wheels scipy 1.17.0 1.17.1 ;;
  jaxlib) wheels jaxlib 0.10.1 0.10.2 ;;
  botocore) wheels botocore 1.43.10 1.43.11 ;;
  wesnoth) packages wesnoth wesnoth-1.18-data ;;
  marble) packages marble marble-data ;;
  *) usage 64 >&2 ;;
  esac
done
verdict
