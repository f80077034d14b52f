#!/bin/bash
# Publishes sets that nobody here made, serves them with nginx, pulls them, and compares the result byte for byte,
# executable bit for executable bit and link for link with a comparer that shares no code with syncagent.
#
# usage: real-sets.sh [papirus] [wesnoth] [botocore]        default: all three; prints Markdown
#
#   papirus    Debian's papirus-icon-theme: tens of thousands of small files and links
#   wesnoth    Debian's wesnoth-1.16-data: maps, images, music
#   botocore   data files of botocore 1.43.10, then 1.43.11 as a nightly update over it (`publish --base`); once as
#              shipped, where every .json.gz differs from release to release in the time of its gzip header, and
#              once with these files unpacked
#
# Bounds: the second pull sends at most one request and opens no file (strace); the update ends as exactly the new
# release. Downloads come through apt-get and pip and are kept in SYNCAGENT_CACHE_DIR/downloads when that is set.
# Environment: see common.sh. Exit status: 0 every bound holds, 1 not.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"

OLD_RELEASE=1.43.10 NEW_RELEASE=1.43.11
case "${1:-}" in -h|--help) usage ;; esac
[ $# -gt 0 ] || set -- papirus wesnoth botocore
need curl=curl python3=python3 strace=strace dpkg-deb=dpkg /usr/bin/time=time
find_binary
make_work
fresh_place trees 6
downloads=$(cached downloads)
updates=()

debian_package() {   # debian_package NAME: prints the path of its .deb
  local found=("$downloads/$1"_*.deb)
  if [ ! -e "${found[0]}" ]; then
    say "downloading $1"
    (cd "$downloads" && apt-get download -qq -o APT::Sandbox::User=root "$1") >&2 || die "cannot download $1; is there a package list (apt-get update)?"
    found=("$downloads/$1"_*.deb)
  fi
  echo "${found[0]}"
}

wheel() {            # wheel VERSION: prints the path of botocore's wheel
  local file=$downloads/botocore-$1-py3-none-any.whl
  if [ ! -e "$file" ]; then
    python3 -m pip --version >/dev/null 2>&1 || need pip3=python3-pip
    python3 -m pip download -q --no-deps --only-binary :all: -d "$downloads" "botocore==$1" >&2
  fi
  echo "$file"
}

drop_escaping() {    # a link that leaves the tree cannot be published; say which are taken out
  local path
  python3 "$EVIDENCE/checks.py" escaping "$1" >"$WORK/escaping"
  while IFS= read -r path; do say "left out, leaves the tree: $path"; rm "$1/$path"; done <"$WORK/escaping"
}

publish() { run "$SYNCAGENT" publish "$1" --to "$2" --project "$3" --json "${@:4}"; }

# pull_twice NAME SOURCE SITE: a first pull that must equal SOURCE, and a second that must cost nothing.
pull_twice() {
  local name=$1 source=$2 site=$3 into=$WORK/pulled/$1 from requests=0 total_bytes=0 errors=0 opened open_calls
  local publish_wall=$WALL stored seen packs first_wall first_cpu first_rss first_requests first_bytes
  nginx_start "$name" "$site"
  fresh_place pulled
  stored=$(field bytes.stored) packs=$(find "$site/packs" -name '*.pack' | wc -l)

  from=$(mark)
  run "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --json
  first_wall=$WALL first_cpu=$CPU first_rss=$RSS
  eval "$(since "$from")"
  first_requests=$requests first_bytes=$total_bytes
  hold "$name: requests told and counted by nginx" "$(field requests)" == "$requests"
  hold "$name: error answers" "$errors" "<=" 1       # a manifest.json.zst that is not there may be asked for
  python3 "$EVIDENCE/checks.py" compare "$source" "$into" || broken "$name: not what was published"

  from=$(mark)
  measure strace -f -qq -y -e trace=open,openat,openat2,creat -o "$WORK/trace" \
    "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --json
  hold "$name: second pull's exit status" "$RC" == 0
  eval "$(since "$from")"
  eval "$(python3 "$EVIDENCE/checks.py" opened "$WORK/trace" "$into")"
  hold "$name: second pull's requests" "$requests" "<=" 1
  hold "$name: files the second pull opened (of $open_calls opens seen)" "$opened" == 0
  hold "$name: opens seen by strace" "$open_calls" ">" 0
  hold "$name: files the second pull changed" "$(field files.installed) + $(field files.reused) + $(field files.removed)" == 0

  run "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --json
  seen=$WALL
  measure "$SYNCAGENT" verify "$URL/manifest.json" --into "$into" --quiet
  hold "$name: verify's exit status" "$RC" == 0
  echo "| $name | $(find "$source" -type f | wc -l) | $(find "$source" -type l | wc -l) | $(mib "$(find "$source" -type f -printf '%s\n' | awk '{s += $1} END {print s}')") | $(mib "$stored") | $packs | $publish_wall | $first_wall | $first_cpu | $first_requests | $(mib "$first_bytes") | $first_rss | $seen | $requests |"
}

papirus() {
  dpkg-deb -x "$(debian_package papirus-icon-theme)" "$WORK/trees/deb-papirus"
  local source=$WORK/trees/deb-papirus/usr/share/icons
  drop_escaping "$source"
  publish "$source" "$WORK/trees/site-papirus" org.debian.papirus
  pull_twice papirus "$source" "$WORK/trees/site-papirus"
}

wesnoth() {
  dpkg-deb -x "$(debian_package wesnoth-1.16-data)" "$WORK/trees/deb-wesnoth"
  local source=$WORK/trees/deb-wesnoth/usr/share
  drop_escaping "$source"
  publish "$source" "$WORK/trees/site-wesnoth" org.debian.wesnoth
  pull_twice wesnoth "$source" "$WORK/trees/site-wesnoth"
}

nightly() {          # nightly NAME OLD NEW: pulls OLD, then NEW over it
  local name=$1 site=$WORK/trees/site-$1 into=$WORK/pulled/$1 from new told
  local requests=0 pack_bytes=0 manifest_bytes=0 changed_files=0 changed_bytes=0 whole_bytes=0 removed_files=0
  publish "$2" "$site" "org.python.$name"
  pull_twice "$name" "$2" "$site"

  cp "$site/manifest.json" "$WORK/old.json"
  publish "$3" "$site" "org.python.$name" --base "$WORK/old.json"
  new=$(field bytes.new)
  eval "$(python3 "$EVIDENCE/checks.py" changed "$WORK/old.json" "$site/manifest.json")"
  hold "$name: bytes that publish says are new, and by the manifests" "$new" "<=" "$changed_bytes"
  from=$(mark)
  run "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --prune --json
  told=$(field requests)
  eval "$(since "$from")"
  hold "$name: update's requests told and counted by nginx" "$told" == "$requests"
  hold "$name: update's pack bytes, and 1.3 times what changed" "$pack_bytes" "<=" "1.3 * $changed_bytes + 4096"
  python3 "$EVIDENCE/checks.py" compare "$3" "$into" || broken "$name: not the new release"
  updates+=("| $name $OLD_RELEASE → $NEW_RELEASE | $changed_files | $removed_files | $requests | $pack_bytes | $manifest_bytes | $changed_bytes | $whole_bytes | $WALL |")
}

botocore() {
  local release
  for release in $OLD_RELEASE $NEW_RELEASE; do
    python3 -m zipfile -e "$(wheel $release)" "$WORK/trees/wheel-$release"
    cp -r "$WORK/trees/wheel-$release" "$WORK/trees/json-$release"
    find "$WORK/trees/json-$release" -name '*.gz' -exec gunzip -q {} +
  done
  nightly botocore "$WORK/trees/wheel-$OLD_RELEASE/botocore/data" "$WORK/trees/wheel-$NEW_RELEASE/botocore/data"
  nightly botocore-json "$WORK/trees/json-$OLD_RELEASE/botocore/data" "$WORK/trees/json-$NEW_RELEASE/botocore/data"
}

echo "| set | files | links | MiB | stored MiB | packs | publish s | pull s | CPU s | requests | received MiB | peak MiB | second pull s | requests |"
echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
for set; do
  case $set in papirus|wesnoth|botocore) say "== $set"; "$set" ;; *) usage 64 >&2 ;; esac
done
if [ ${#updates[@]} != 0 ]; then
  echo
  echo "| update | changed files | removed | requests | pack bytes | manifest bytes | stored size of what changed | of the whole | s |"
  echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
  printf '%s\n' "${updates[@]}"
fi
verdict
