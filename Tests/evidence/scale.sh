#!/bin/bash
# Counts what a set costs as it grows: requests, bytes, time, memory. Prints Markdown; each bound is checked.
#
# usage: scale.sh [requests] [growth] [memory] [hooks] [million] [shards] [huge]      default: all but the last three
#
#   requests  20,000 files of 512 MiB: a first pull sends at most 64 requests, a second at most 1 and opens no
#             file; after 1 % changed and `publish --base`, an update sends at most 16 and receives at most 1.3
#             times the stored size of what changed (the manifest is shown apart); at most 64 MiB of memory
#   growth    10,000 and 100,000 files of 1 KiB: pull, pull with nothing new, verify; at most 200 MiB of memory,
#             and ten times the files cost at most ten times as much, with 15 % slack
#   memory    4,000 files of 2 GiB: first pull and update in at most 64 MiB of memory; one file of 20 GiB that is
#             nearly all holes: the same, in at most twice the memory to publish, and on disk it stays nearly nothing
#   hooks     the hook runs once for each pull that ends, also when nothing changed; a failing one gives exit 5
#
#   million   10,000, 100,000 and 1,000,000 files of 64 bytes with the manifest in parts: publish, pull, pull with nothing
#             new, update of 1 % of the files in a few directories and scattered; at most 300 MiB of memory for all but
#             publish, and the cost of a file grows by at most half from the smallest set to the largest. Needs about
#             10 GB of disk and 3.5 million inodes; FILES="10000 100000" leaves out the million
#   shards    1,000,000 files of 64 bytes (FILES: another number), published and pulled as a whole and by 1, 4 and 16 shards, one
#             shard after another: at most 300 MiB of memory each, the hook once with all files, at most 1.05 times the bytes of one
#             pull, and the same files. Needs the same disk
#   huge      one of 160 shards of 10,000,000 files and one of 1,600 of 100,000,000, 62,500 files each: the manifest is real, with all
#             its parts, and only what that shard needs is there (huge-manifest.py). At most 300 MiB of memory; first pull and nothing
#             new. A publish looks for its place among the parts, so it needs all of them
#
# ROUNDS=N (default 3): runs of growth of which the median counts. Nothing else should run on the machine then.
# Environment: see common.sh. Exit status: 0 every bound holds, 1 not.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"

MEMORY=200 SMALL_MEMORY=64
case "${1:-}" in -h|--help) usage ;; esac
[ $# -gt 0 ] || set -- requests growth memory hooks
need curl=curl python3=python3 strace=strace /usr/bin/time=time
find_binary
make_work
sets=$(cached sets)

make_set() {         # make_set NAME ARGUMENTS…: made once
  [ ! -e "$sets/$1.done" ] || return 0
  rm -rf "${sets:?}/$1"
  python3 "$EVIDENCE/make-set.py" "$sets/$1" "${@:2}"
  touch "$sets/$1.done"
}
pull() { run "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --json "$@"; }

requests() {
  local into=$WORK/pulled/small site=$WORK/site-small from stored opened open_calls
  local requests=0 pack_bytes=0 manifest_bytes=0 changed_files=0 removed_files=0 changed_bytes=0 whole_bytes=0
  make_set small small
  make_set small-next --next "$sets/small" --change 0.01
  run "$SYNCAGENT" publish "$sets/small" --to "$site" --project scale.small --json
  stored=$(field bytes.stored)
  echo "| 20,000 files, 512 MiB | s | CPU s | peak MiB | requests | pack bytes | manifest bytes | stored size of it |"
  echo "|---|--:|--:|--:|--:|--:|--:|--:|"
  echo "| publish | $WALL | $CPU | $RSS | | | $(stat -c %s "$site/manifest.json.zst") | $stored |"
  nginx_start small "$site"
  fresh_place pulled

  from=$(mark); pull; eval "$(since "$from")"
  echo "| first pull | $WALL | $CPU | $RSS | $requests | $pack_bytes | $manifest_bytes | $stored |"
  hold "first pull's requests" "$requests" "<=" 64
  hold "first pull's requests, told and counted" "$(field requests)" == "$requests"
  hold "first pull's peak memory, MiB" "$RSS" "<=" $SMALL_MEMORY
  python3 "$EVIDENCE/checks.py" compare "$sets/small" "$into" || broken "the first pull is not what was published"

  from=$(mark); pull; eval "$(since "$from")"
  echo "| second pull | $WALL | $CPU | $RSS | $requests | $pack_bytes | $manifest_bytes | 0 |"
  hold "second pull's requests" "$requests" "<=" 1
  hold "second pull's peak memory, MiB" "$RSS" "<=" $SMALL_MEMORY
  run strace -f -qq -y -e trace=open,openat,openat2,creat -o "$WORK/trace" \
    "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --json
  eval "$(python3 "$EVIDENCE/checks.py" opened "$WORK/trace" "$into")"
  hold "files a pull with nothing new opens (of $open_calls opens seen)" "$opened" == 0
  # The same watch must see what verify opens, or it proves nothing.
  run strace -f -qq -y -e trace=open,openat,openat2,creat -o "$WORK/trace" \
    "$SYNCAGENT" verify "$URL/manifest.json" --into "$into" --quiet
  eval "$(python3 "$EVIDENCE/checks.py" opened "$WORK/trace" "$into" 2>/dev/null)"
  hold "files that verify opens" "$opened" ">=" "$(find "$sets/small" -type f | wc -l)"

  cp "$site/manifest.json" "$WORK/old.json"
  run "$SYNCAGENT" publish "$sets/small-next" --to "$site" --project scale.small --base "$WORK/old.json" --json
  echo "| publish, 1 % changed | $WALL | $CPU | $RSS | | | $(stat -c %s "$site/manifest.json.zst") | $(field bytes.new) |"
  eval "$(python3 "$EVIDENCE/checks.py" changed "$WORK/old.json" "$site/manifest.json")"
  from=$(mark); pull --prune; eval "$(since "$from")"
  echo "| update ($changed_files changed or new, $removed_files gone) | $WALL | $CPU | $RSS | $requests | $pack_bytes | $manifest_bytes | $changed_bytes |"
  hold "update's requests" "$requests" "<=" 16
  hold "update's peak memory, MiB" "$RSS" "<=" $SMALL_MEMORY
  hold "update's pack bytes" "$pack_bytes" "<=" "1.3 * $changed_bytes"
  python3 "$EVIDENCE/checks.py" compare "$sets/small-next" "$into" || broken "the update is not the new revision"
  echo
}

growth() {
  local files step round into=$WORK/pulled/tiny requests=0 from few many
  declare -A wall cpu peak urls logs
  for files in 10000 100000; do
    make_set "tiny-$files" tiny --files "$files"
    run "$SYNCAGENT" publish "$sets/tiny-$files" --to "$WORK/site-$files" --project "scale.tiny" --json
    say "publish of $files files of 1 KiB: $WALL s, $CPU s CPU, $RSS MiB"
    hold "publish of $files: peak memory, MiB" "$RSS" "<=" $MEMORY
    nginx_start "tiny-$files" "$WORK/site-$files"
    urls[$files]=$URL logs[$files]=$LOG
  done
  for ((round = 0; round < ${ROUNDS:-3}; round++)); do
    for files in 10000 100000; do                  # in turn, so that a busy minute meets both
      URL=${urls[$files]} LOG=${logs[$files]}
      fresh_place pulled
      rm -rf "$XDG_STATE_HOME"
      sync
      for step in pull again verify; do
        from=$(mark)
        case $step in
        verify) run "$SYNCAGENT" verify "$URL/manifest.json" --into "$into" --quiet ;;
        *) pull ;;
        esac
        wall[$files,$step]+=" $WALL" cpu[$files,$step]+=" $CPU" peak[$files,$step]+=" $RSS"
        [ $step = again ] || continue
        eval "$(since "$from")"
        hold "$files files, nothing new: requests" "$requests" "<=" 1
      done
      [ $round != 0 ] || python3 "$EVIDENCE/checks.py" compare "$sets/tiny-$files" "$into" || broken "$files files: not what was published"
    done
  done
  echo "| files of 1 KiB | 10,000: s | CPU s | peak MiB | 100,000: s | CPU s | peak MiB | s for 100,000 ÷ 10 × s for 10,000 | CPU |"
  echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
  for step in pull again verify; do
    few=$(median ${wall[10000,$step]}) many=$(median ${wall[100000,$step]})
    local few_cpu many_cpu top
    few_cpu=$(median ${cpu[10000,$step]}) many_cpu=$(median ${cpu[100000,$step]})
    top=$(printf '%s\n' ${peak[100000,$step]} ${peak[10000,$step]} | sort -n | tail -1)
    echo "| ${step/again/pull, nothing new} | $few | $few_cpu | $(median ${peak[10000,$step]}) | $many | $many_cpu | $(median ${peak[100000,$step]}) | $(awk "BEGIN{printf \"%.2f | %.2f\", $many / 10 / $few, $many_cpu / 10 / ($few_cpu + 1e-9)}") |"
    hold "$step of 100,000: seconds against ten times those of 10,000" "$many" "<=" "1.15 * 10 * $few"
    hold "$step: peak memory, MiB" "$top" "<=" $MEMORY
  done
  echo
}

memory() {
  local into=$WORK/pulled/large site=$WORK/site-mixed step gib=20 free
  make_set mixed mixed
  make_set mixed-next --next "$sets/mixed" --change 0.01
  echo "| | s | CPU s | peak MiB |"
  echo "|---|--:|--:|--:|"
  run "$SYNCAGENT" publish "$sets/mixed" --to "$site" --project scale.mixed --json
  nginx_start mixed "$site"
  fresh_place pulled 6
  for step in "first pull" update; do
    [ "$step" != update ] || run "$SYNCAGENT" publish "$sets/mixed-next" --to "$site" --project scale.mixed --json
    pull --prune
    echo "| 4,000 files, 2 GiB: $step | $WALL | $CPU | $RSS |"
    hold "$step of 2 GiB: peak memory, MiB" "$RSS" "<=" $SMALL_MEMORY
  done
  python3 "$EVIDENCE/checks.py" compare "$sets/mixed-next" "$into" || broken "the update of 2 GiB is not the new revision"

  # 4 MiB of data in sixteen places of 20 GiB. A pull looks first whether there is room for all of it.
  free=$(df -BG --output=avail "$WORK" | tail -1 | tr -dc 0-9)
  [ "$free" -gt 21 ] || { gib=$((free - 2)); say "only $free GiB are free: $gib GiB of holes, not 20"; }
  mkdir "$WORK/sparse"
  truncate -s ${gib}G "$WORK/sparse/disk.img"
  for step in {0..15}; do
    dd if=/dev/urandom of="$WORK/sparse/disk.img" bs=256K count=1 seek=$((step * gib * 250)) conv=notrunc status=none
  done
  run "$SYNCAGENT" publish "$WORK/sparse" --to "$WORK/site-sparse" --project scale.sparse --json
  echo "| $gib GiB of holes: publish | $WALL | $CPU | $RSS |"
  hold "publish of $gib GiB of holes: peak memory, MiB" "$RSS" "<=" "2 * $SMALL_MEMORY"
  nginx_start sparse "$WORK/site-sparse"
  into=$WORK/holes
  pull
  echo "| $gib GiB of holes: pull | $WALL | $CPU | $RSS |"
  hold "pull of $gib GiB of holes: peak memory, MiB" "$RSS" "<=" $SMALL_MEMORY
  hold "$gib GiB of holes: MiB on disk" "$(du -sm "$into" | cut -f1)" "<=" 64
  cmp "$WORK/sparse/disk.img" "$into/disk.img" || broken "the file of holes is not what was published"
  echo
}

hooks() {
  local into=$WORK/pulled/hooked calls=$WORK/calls changed
  make_set hooks steps --files 300 --mib 12 --odd
  run "$SYNCAGENT" publish "$sets/hooks" --to "$WORK/site-hooks" --project scale.hooks --json
  nginx_start hooks "$WORK/site-hooks"
  fresh_place pulled
  cat >"$WORK/hook" <<HOOK
#!/bin/sh
cat >"$WORK/report.json"
env | grep '^SYNCAGENT_' | sort >"$WORK/environment"
echo "\$SYNCAGENT_RESULT \$SYNCAGENT_CHANGED" >>"$calls"
HOOK
  printf '#!/bin/sh\ncat >/dev/null; exit 3\n' >"$WORK/failing"
  chmod +x "$WORK/hook" "$WORK/failing"
  : >"$calls"
  pull --hook "$WORK/hook"
  changed=$(find "$sets/hooks" -type f -o -type l | wc -l)
  hold "hook calls after the first pull" "$(wc -l <"$calls")" == 1
  hold "SYNCAGENT_CHANGED of the first pull" "$(awk 'NR == 1 {print $2}' "$calls")" == "$changed"
  hold "entries in its report" "$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["entries"]))' "$WORK/report.json")" == "$changed"
  for name in SESSION RUN_ID GROUP RESULT CHANGED DESTINATION ATTEMPT; do
    grep -q "^SYNCAGENT_$name=." "$WORK/environment" || broken "the hook has no SYNCAGENT_$name"
  done
  pull --hook "$WORK/hook"
  hold "hook calls after the second pull" "$(wc -l <"$calls")" == 2
  [ "$(tail -1 "$calls")" = "ok 0" ] || broken "the second call says '$(tail -1 "$calls")', not 'ok 0'"
  measure "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --hook "$WORK/failing" --json
  hold "exit status with a failing hook" "$RC" == 5
  measure "$SYNCAGENT" verify "$URL/manifest.json" --into "$into" --quiet
  hold "verify after a failing hook" "$RC" == 0
}

# change_dots DIRECTORY FILES SHARE few|many: new content for this share, in neighbouring directories or everywhere
change_dots() {
  python3 - "$@" <<'CHANGE'
import sys
root, files, share, how = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
count = int(files * share)
chosen = range(files // 3, files // 3 + count) if how == "few" else range(0, files, files // count)
for i in chosen:
    with open(f"{root}/d{i // 50_000}/d{i // 500 % 100:02}/f{i:07}.bin", "wb") as file:
        file.write(b"%-55d%8s\n" % (i, how.encode()))
CHANGE
}

million() {
  local files step how from into=$WORK/pulled/dots requests=0 pack_bytes=0 manifest_bytes=0
  declare -A cost
  dots_publish() {
    run "$SYNCAGENT" publish "$WORK/dots" --to "$WORK/site-dots" --project scale.dots --manifest-parts --json
    cost[$files,publish$1]=$(awk "BEGIN{printf \"%.1f\", $CPU * 1e6 / $files}")
    echo "| $files | publish$1 | $WALL | $CPU | ${cost[$files,publish$1]} | $RSS | | | $(($(field bytes.manifest_zst) + $(field parts.bytes))) | $(field parts.written) of $(field parts.total) |"
  }
  dots_pull() {
    from=$(mark)
    pull
    eval "$(since "$from")"
    cost[$files,$1]=$(awk "BEGIN{printf \"%.1f\", $CPU * 1e6 / $files}")
    echo "| $files | $1 | $WALL | $CPU | ${cost[$files,$1]} | $RSS | $requests | $((pack_bytes + manifest_bytes)) | $(field manifest.bytes) | $(field manifest.parts_fetched) of $(field manifest.parts) |"
    hold "$1 of $files: peak memory, MiB" "$RSS" "<=" 300
  }
  echo "| files | | s | CPU s | CPU µs a file | peak MiB | requests | bytes received | manifest bytes | parts written or fetched |"
  echo "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|"
  for files in ${FILES:-10000 100000 1000000}; do
    rm -rf "$WORK/dots" "$WORK/site-dots" "$XDG_STATE_HOME"
    python3 "$EVIDENCE/make-set.py" "$WORK/dots" dots --files "$files" >&2
    dots_publish ""
    nginx_start "dots-$files" "$WORK/site-dots"
    fresh_place pulled 12
    dots_pull "first pull"
    dots_pull "nothing new"
    hold "$files files, nothing new: requests" "$requests" "<=" 1
    for how in few many; do
      change_dots "$WORK/dots" "$files" 0.01 $how
      dots_publish ", 1 % changed in $how directories"
      dots_pull "update, 1 % in $how directories"
      hold "update in $how directories: manifest bytes a changed file" "$(field manifest.bytes) / ($files / 100)" "<=" 500
    done
    python3 "$EVIDENCE/checks.py" compare "$WORK/dots" "$into" || broken "$files files: not what was published"
  done
  for step in publish "first pull" "nothing new"; do
    [ -n "${cost[1000000,$step]:-}" ] && [ -n "${cost[10000,$step]:-}" ] || continue
    hold "$step: CPU microseconds a file at 1,000,000 against 10,000" "${cost[1000000,$step]}" "<=" "1.5 * ${cost[10000,$step]}"
  done
  echo
}

shards() {
  local files=${FILES:-1000000} n i from into=$WORK/pulled/shards whole=0 requests=0 pack_bytes=0 manifest_bytes=0 other_bytes=0
  local all slowest cpu peak
  printf '#!/bin/sh\necho "$SYNCAGENT_RESULT $SYNCAGENT_CHANGED" >>"%s/calls"\n' "$WORK" >"$WORK/once"
  chmod +x "$WORK/once"
  # each COMMAND…: with `--shard I/n` for every shard; sets all, slowest (seconds), cpu, and peak.
  each() {
    all=0 slowest=0 cpu=0 peak=0
    for ((i = 0; i < n; i++)); do
      run "$@" --shard "$i/$n" --json
      eval "$(awk "BEGIN{printf \"all=%.1f slowest=%.1f cpu=%.1f peak=%.0f\", $all + $WALL, ($WALL > $slowest ? $WALL : $slowest),
        $cpu + $CPU, ($RSS > $peak ? $RSS : $peak)}")"
    done
  }
  rm -rf "$WORK/dots"
  python3 "$EVIDENCE/make-set.py" "$WORK/dots" dots --files "$files" >&2
  echo "| files | | shards | s, all of them | slowest shard | CPU s | peak MiB of a shard | join: s | peak MiB | requests | bytes |"
  echo "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
  for n in 0 1 4 16; do
    rm -rf "$WORK/site-dots" "$XDG_STATE_HOME" "$WORK/calls"
    if [ "$n" = 0 ]; then
      run "$SYNCAGENT" publish "$WORK/dots" --to "$WORK/site-dots" --project scale.dots --manifest-parts --json
      echo "| $files | publish | none | $WALL | | $CPU | $RSS | | | | |"
    else
      each "$SYNCAGENT" publish "$WORK/dots" --to "$WORK/site-dots" --project scale.dots
      run "$SYNCAGENT" publish "$WORK/dots" --to "$WORK/site-dots" --project scale.dots --join "$n" --json
      echo "| $files | publish | $n | $all | $slowest | $cpu | $peak | $WALL | $RSS | | |"
      hold "$n shards of a publish: peak memory of a shard, MiB" "$peak" "<=" 300
    fi
    nginx_start "shards-$n" "$WORK/site-dots"
    fresh_place pulled 12
    from=$(mark)
    if [ "$n" = 0 ]; then
      pull --hook "$WORK/once"
      eval "$(since "$from")"
      whole=$((pack_bytes + manifest_bytes))
      echo "| $files | pull | none | $WALL | | $CPU | $RSS | | | $requests | $whole |"
    else
      each "$SYNCAGENT" pull "$URL/manifest.json" --into "$into"
      [ ! -e "$WORK/calls" ] || broken "a shard of $n called a hook"
      run "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --join "$n" --hook "$WORK/once" --json
      eval "$(since "$from")"
      echo "| $files | pull | $n | $all | $slowest | $cpu | $peak | $WALL | $RSS | $requests | $((pack_bytes + manifest_bytes)) |"
      hold "$n shards of a pull: peak memory of a shard, MiB" "$peak" "<=" 300
      hold "$n shards of a pull: bytes" "$((pack_bytes + manifest_bytes))" "<=" "1.05 * $whole"
    fi
    [ "$(cat "$WORK/calls")" = "ok $files" ] || broken "$n shards: the hook was told '$(cat "$WORK/calls")'"
    python3 "$EVIDENCE/checks.py" compare "$WORK/dots" "$into" || broken "$n shards: not what was published"
  done
  echo
}

huge() {
  local files n shard before parts packs from into=$WORK/pulled/huge site requests=0 pack_bytes=0 manifest_bytes=0 other_bytes=0 own=62500
  rm -rf "$WORK/dots"
  python3 "$EVIDENCE/make-set.py" "$WORK/dots" dots --files $own >&2
  echo "| files | parts | manifest.json, MB | one shard of | | s | CPU s | peak MiB | requests | bytes |"
  echo "|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|"
  huge_line() { echo "| $files | $parts | $(awk "BEGIN{printf \"%.1f\", $(stat -c %s "$site/manifest.json") / 1e6}") | $n | $1 | $WALL | $CPU | $RSS | ${2:-} | ${3:-} |"; }
  for files in ${FILES:-1000000 10000000 100000000}; do
    n=$((files / own)) site=$WORK/site-huge-$files
    run "$SYNCAGENT" publish "$WORK/dots" --to "$site" --project scale.huge --manifest-parts --json
    eval "$(python3 "$EVIDENCE/huge-manifest.py" "$site" "$files")"
    shard=$((before / own))
    hold "$files files: what stands before the shard and before what is there" "$((shard * own))" == "$before"
    nginx_start "huge-$files" "$site"
    fresh_place pulled 6
    rm -rf "$XDG_STATE_HOME"
    for step in "first pull" "nothing new"; do
      from=$(mark)
      run "$SYNCAGENT" pull "$URL/manifest.json" --into "$into" --shard "$shard/$n" --json
      eval "$(since "$from")"
      huge_line "$step" "$requests" "$((pack_bytes + manifest_bytes))"
      hold "$step of a shard of $files: peak memory, MiB" "$RSS" "<=" 300
    done
    python3 "$EVIDENCE/checks.py" compare "$WORK/dots" "$into" || broken "a shard of $files: not what was published"
    rm -rf "$site" "$into"
  done
  echo
}

for part; do
  case $part in requests|growth|memory|hooks|million|shards|huge) say "== $part"; "$part" ;; *) usage 64 >&2 ;; esac
done
verdict
