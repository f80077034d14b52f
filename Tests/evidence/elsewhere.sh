#!/bin/bash
# Sets that others publish, beside the programs that they are made for: a hub and `hf download`, checksum lists and Metalinks and
# aria2c and sha256sum, artifacts and skopeo, Git LFS and git-lfs.
#
# usage: elsewhere.sh [OPTION…] [PART…]
#
#   hub        a hub: the same tree as `hf download`; nothing new is one request; a new commit brings what changed; the hub gone
#   lists      the same for a list and a Metalink, with sha256sum -c and aria2c
#   lfs        the same for a repository, with git-lfs and the server giftless
#   kills      SIGKILL at random moments until a hub's set of large files is complete: at most 1.02 times its bytes in all
#   limit      20,000 files of a hub that allows 3,000 resolves in a window: none is refused, and `plan` says how long it takes
#   hostile    listings with ../, the same name twice, entities of entities, 200 MB: refused within 300 MiB and the patience
#   publish    what ten machines cost a hub, and what they cost packs that one of them has published
#   speed      in turn with `hf download` and `aria2c -x8`, on this machine and over 40 ms and 500 Mbit/s
#
# Without a part: all but speed. Artifacts in a registry: Tests/registry.sh.
#
#   --short        small sets: a minute a part
#   --rounds N     runs of each in turn (default 5; --short 2)
#   --kills N      default 16
#   --seed N       the random moments of an earlier run
#   --no-link      speed without the simulated link
#
# HFENV and LFSENV name virtual environments of Python with huggingface_hub, and with giftless; otherwise they are made from PyPI. What
# cannot be had is left out, and said.
# Exit status: 0 all held, 1 something did not, 77 nothing could be shown. Environment: see common.sh.
. "$(dirname "$0")/common.sh"
. "$EVIDENCE/serve-nginx.sh"
. "$EVIDENCE/link.sh"

short= rounds= kills=16 seed=$RANDOM with_link=1 parts=()
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) usage ;;
  --short) short=1 ;;
  --rounds) rounds=${2:?$1 wants a number}; shift ;;
  --kills) kills=${2:?$1 wants a number}; shift ;;
  --seed) seed=${2:?$1 wants a number}; shift ;;
  --no-link) with_link= ;;
  hub|lists|lfs|kills|limit|hostile|publish|speed) parts+=("$1") ;;
  *) usage 64 >&2 ;;
  esac
  shift
done
[ ${#parts[@]} != 0 ] || parts=(hub lists lfs kills limit hostile publish)
rounds=${rounds:-$([ -n "$short" ] && echo 2 || echo 5)}
shown=0
need curl=curl python3=python3 /usr/bin/time=time
find_binary
make_work
export HOME=$WORK/home GIT_CONFIG_NOSYSTEM=1 HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_PROGRESS_BARS=1 DO_NOT_TRACK=1
# On a machine with other work nobody need answer at once.
export HF_HUB_ETAG_TIMEOUT=120 HF_HUB_DOWNLOAD_TIMEOUT=120
mkdir -p "$HOME"
unset HF_TOKEN HF_ENDPOINT HF_HOME DOCKER_CONFIG 2>/dev/null || true

HF_PACKAGES=(huggingface_hub==2.4.0)
# giftless does not name all that it imports.
GIFTLESS_PACKAGES=(giftless==0.6.2 flask==3.1.3 flask-marshmallow==1.5.0 flask-classful==0.16.0 marshmallow==4.4.0 webargs==8.7.1
  werkzeug==3.1.9 python-dateutil pyyaml pyjwt==2.15.1 cryptography figcan==0.0.4 cachetools==8.0.2 python-dotenv typing_extensions)

# environment NAME MODULE PACKAGE…: a virtual environment in a directory that may outlive the run. One of other packages, of another
# place, or that was made half is made again. Fails where it cannot be had, or has no MODULE; $WORK/why says why.
environment() {
  local place module=$2; place=$(cached "venv-$1"); shift 2
  local made="$place $*"
  [ "$(cat "$place/made" 2>/dev/null)" = "$made" ] && "$place/bin/python" -c "import $module" 2>/dev/null || {
    rm -rf "$place" && python3 -m venv "$place" &&
      "$place/bin/pip" -q --disable-pip-version-check --retries 3 --timeout 30 install "$@" &&
      "$place/bin/python" -c "import $module" && echo "$made" >"$place/made"
  } >"$WORK/why" 2>&1 || return 1
  echo "$place"
}
# because: the first line of $WORK/why that says what is wrong.
because() { grep -m1 -E 'Error|ERROR|error|annot|No ' "$WORK/why" || head -n 1 "$WORK/why"; }
without() { say "SKIPPED: $1"; }
# settle FILE…: waits until servers have written down what they sent.
settle() {
  local last='' now
  for _ in {1..40}; do now=$(cat "$@" | wc -c); [ "$now" != "$last" ] || return 0; last=$now; sleep 0.5; done
}

# make DIRECTORY LARGE MIB SMALL [SEED]: files in LFS (.bin), and small ones in directories.
make() {
  python3 - "$@" <<'PY'
import os, random, sys
place, large, mib, small = sys.argv[1], *map(int, sys.argv[2:5])
seed = int(sys.argv[5]) if len(sys.argv) > 5 else 0
os.makedirs(place, exist_ok=True)
for number in range(large):
    source = random.Random(seed * 1_000_003 + number)
    with open(f"{place}/large-{number}.bin", "wb") as file:
        for _ in range(mib):
            file.write(source.randbytes(1 << 20))
source = random.Random(seed + 7)
for number in range(small):
    directory = f"{place}/d{number % 50}"
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/file {number}.json", "wb") as file:
        file.write(source.randbytes(source.choice([0, 40, 900, 4_000, 20_000])))
PY
}
# commit HUB NAME SET: makes a directory the newest commit of a hub's repository.
commit() {
  local id; id=$(printf "$2%.0s" {1..20})
  cp -rl "$3" "$1/$id" && echo "$id" >"$1/main"
}
# hub_start NAME DIRECTORY [OPTION…]: sets HUB and HUB_PID.
hub_start() {
  local out=$WORK/hub-$1.url directory=$2; shift 2
  : >"$out"
  "${HUB_NS[@]}" python3 "$EVIDENCE/elsewhere_hub.py" "$directory" "$@" >"$out" 2>"$out.errors" &
  HUB_PID=$!
  on_exit end "$HUB_PID"
  for _ in {1..600}; do [ -s "$out" ] && break; kill -0 $HUB_PID || break; sleep 0.1; done
  HUB=$(cat "$out")
  [ -n "$HUB" ] || { cat "$out.errors" >&2; die "the hub does not start"; }
}
HUB_NS=()
# counts KEY…: what the hub was asked since the last time.
counts() { "${HUB_NS[@]}" curl -sS --noproxy '*' "$HUB/-/counts" | python3 -c 'import json, sys
found = json.load(sys.stdin)
print(*(found.get(key, 0) for key in sys.argv[1:]))' "$@"; }
# same A B WHAT: without what belongs to the programs.
same() {
  if diff -r -x .syncagent -x .cache -x .git -x SHA256SUMS -x set.meta4 "$1" "$2" >"$WORK/differences"; then
    say "ok: $3: the same $(find "$1" -type f -not -path '*/.syncagent/*' -not -path '*/.cache/*' -not -path '*/.git/*' | wc -l) files"
  else head -5 "$WORK/differences" >&2; broken "$3: the trees differ"; fi
}
pull() { HF_ENDPOINT=${HUB:-} "$SYNCAGENT" pull "$@" >"$WORK/said" 2>&1; }
pulled() { pull "$@" || { tail -3 "$WORK/said" >&2; broken "pull $*"; }; }
# gone STATUS WORDS: what the last pull without a server has said.
gone() {
  [ "$1" = 69 ] && say "ok: $2: exit 69, $(tail -1 "$WORK/said" | cut -c1-160)" || broken "$2: exit $1"
}

part_hub() {
  local hf; hf=${HFENV:-$(environment hf huggingface_hub "${HF_PACKAGES[@]}")} ||
    { without "a hub: huggingface_hub cannot be had: $(because)"; return; }
  local place=$WORK/hub; mkdir -p "$place"
  make "$WORK/set" 3 $([ -n "$short" ] && echo 4 || echo 40) 300
  commit "$place" a1 "$WORK/set"
  hub_start hub "$place"
  HF_HOME=$WORK/hf HF_ENDPOINT=$HUB "$hf/bin/hf" download acme/set --local-dir "$WORK/by-hf" >"$WORK/hf.out" 2>&1 ||
    { tail -3 "$WORK/hf.out" >&2; broken "hf download"; }
  say "hf download: $(counts requests) requests"
  pulled hf://acme/set --into "$WORK/ours"
  say "syncagent: $(counts requests) requests"
  same "$WORK/by-hf" "$WORK/ours" "a hub"
  pulled hf://acme/set --into "$WORK/ours"
  hold "requests for nothing new" "$(counts requests)" == 1

  cp -r "$WORK/set" "$WORK/set2"
  head -c 3000000 /dev/urandom >"$WORK/set2/large-0.bin"; echo new >"$WORK/set2/d1/new.json"; rm "$WORK/set2/d2/file 2.json"
  commit "$place" b2 "$WORK/set2"
  pulled hf://acme/set --into "$WORK/ours" --prune
  read -r files bytes <<<"$(counts resolve bytes)"
  same "$WORK/set2" "$WORK/ours" "a new commit"
  hold "files asked for of a new commit" "$files" == 2
  # The list of its tree, and the two files.
  hold "bytes of a new commit" "$bytes" "<=" "3000004 + 303 * 200 + 1000"
  kill "$HUB_PID"; wait "$HUB_PID" 2>/dev/null || true
  local status=0; pull hf://acme/set --into "$WORK/ours" --patience 1s || status=$?
  gone "$status" "the hub gone"
  same "$WORK/set2" "$WORK/ours" "the hub gone"
  shown=1
}

part_lists() {
  make "$WORK/lists/maps" 3 $([ -n "$short" ] && echo 4 || echo 40) 200
  local maps=$WORK/lists/maps
  (cd "$maps" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS)
  nginx_start lists "$WORK/lists"
  local from
  pulled "$URL/maps/SHA256SUMS" --into "$WORK/maps"
  (cd "$WORK/maps" && sha256sum --quiet -c "$maps/SHA256SUMS") && say "ok: sha256sum -c agrees" || broken "sha256sum -c"
  nginx_idle; from=$(mark); pulled "$URL/maps/SHA256SUMS" --into "$WORK/maps"
  eval "$(since "$from")"; hold "requests for no new list" "$requests" == 1
  echo changed >"$maps/d1/file 1.json"
  (cd "$maps" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >.new && mv .new SHA256SUMS)
  from=$(mark); pulled "$URL/maps/SHA256SUMS" --into "$WORK/maps"
  eval "$(since "$from")"; hold "requests for a new list: itself, and a file with its size" "$requests" == 2
  (cd "$WORK/maps" && sha256sum --quiet -c "$maps/SHA256SUMS") || broken "sha256sum -c of the new list"

  metalink "$maps" "$URL/maps" >"$WORK/lists/maps.meta4"
  pulled "$URL/maps.meta4" --into "$WORK/meta"
  if command -v aria2c >/dev/null; then
    aria2c -q --no-conf -x8 -j8 -d "$WORK/by-aria" "$URL/maps.meta4" --follow-metalink=mem >"$WORK/aria.out" 2>&1 ||
      { tail -3 "$WORK/aria.out" >&2; broken "aria2c"; }
    rm -f "$WORK/by-aria/maps.meta4"
    same "$WORK/by-aria" "$WORK/meta" "a Metalink, as aria2c has it"
  else without "a Metalink beside aria2c, which is not installed"; fi
  nginx_idle; from=$(mark); pulled "$URL/maps.meta4" --into "$WORK/meta"
  eval "$(since "$from")"; hold "requests for no new Metalink" "$requests" == 1
  local status=0; HUB= pull "http://127.0.0.1:$(free_port)/maps/SHA256SUMS" --into "$WORK/maps" --patience 1s || status=$?
  gone "$status" "the server of a list gone"
  shown=1
}
# metalink DIRECTORY URL: of everything in it.
metalink() {
  python3 - "$@" <<'PY'
import hashlib, os, sys, urllib.parse
from xml.sax.saxutils import escape
root, url = sys.argv[1:]
print('<?xml version="1.0" encoding="UTF-8"?>\n<metalink xmlns="urn:ietf:params:xml:ns:metalink">')
for directory, _, names in sorted(os.walk(root)):
    for name in sorted(names):
        place = f"{directory}/{name}"
        path = os.path.relpath(place, root)
        # aria2c makes no file of nothing.
        if path == "SHA256SUMS" or not os.path.getsize(place):
            continue
        with open(place, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        print(f'<file name="{escape(path)}"><size>{os.path.getsize(place)}</size><hash type="sha-256">{digest}</hash>'
              f"<url>{url}/{urllib.parse.quote(path)}</url></file>")
print("</metalink>")
PY
}

part_lfs() {
  local venv; command -v git-lfs >/dev/null || { without "Git LFS: git-lfs is not installed"; return; }
  venv=${LFSENV:-$(environment giftless giftless.app "${GIFTLESS_PACKAGES[@]}")} ||
    { without "Git LFS: giftless cannot be had: $(because)"; return; }
  local place=$WORK/lfs git_port lfs_port url
  git_port=$(free_port) lfs_port=$(free_port)
  mkdir -p "$place/git/acme"
  cat >"$place/giftless.yaml" <<END
AUTH_PROVIDERS: ["anybody:everything"]
PRE_AUTHORIZED_ACTION_PROVIDER: null
TRANSFER_ADAPTERS:
  basic: {factory: "giftless.transfer.basic_streaming:factory", options: {storage_class: "giftless.storage.local_storage:LocalStorage", storage_options: {path: $place/objects}}}
END
  # Its own way to let in everybody forgets the names of objects.
  cat >"$place/anybody.py" <<END
from giftless.auth.identity import DefaultIdentity
class Anybody(DefaultIdentity):
    def is_authorized(self, *_, **__):
        return True
def everything(_):
    return Anybody(name="anybody")
END
  PYTHONPATH=$place GIFTLESS_CONFIG_FILE=$place/giftless.yaml "$venv/bin/python" - "$lfs_port" >>"$place/giftless.out" 2>&1 <<'PY' &
import sys
from wsgiref.simple_server import WSGIServer, make_server
from socketserver import ThreadingMixIn
from giftless.app import init_app
class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
make_server("127.0.0.1", int(sys.argv[1]), init_app(), Server).serve_forever()
PY
  local lfs_pid=$!; on_exit end $lfs_pid
  python3 "$EVIDENCE/elsewhere_git.py" "$place/git" "$git_port" >>"$place/git.log" 2>&1 &
  local git_pid=$!; on_exit end $git_pid
  for port in "$git_port" "$lfs_port"; do
    for _ in {1..600}; do
      (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && break
      { kill -0 $lfs_pid && kill -0 $git_pid; } 2>/dev/null || break
      sleep 0.1
    done
  done
  kill -0 $lfs_pid 2>/dev/null || { cp "$place/giftless.out" "$WORK/why"; without "Git LFS: giftless does not start here: $(because)"; return; }
  url=http://127.0.0.1:$git_port/acme/set.git
  git init -q --bare "$place/git/acme/set.git"; git -C "$place/git/acme/set.git" config http.receivepack true
  git config --global user.name a; git config --global user.email a@example.com; git config --global init.defaultBranch main
  git lfs install --skip-repo >/dev/null
  git init -q "$place/work"; cd "$place/work"
  make "$place/work" 3 $([ -n "$short" ] && echo 2 || echo 20) 60
  echo '*.bin filter=lfs diff=lfs merge=lfs -text' >.gitattributes
  git config -f .lfsconfig lfs.url "http://127.0.0.1:$lfs_port/acme/set"; git config lfs.locksverify false
  git add -A && git commit -qm one && git push -q "$url" HEAD:main >"$place/push" 2>&1 || { tail -n 3 "$place/push" >&2; tail -n 3 "$place/giftless.out" >&2; broken "git push to giftless"; cd "$WORK"; return; }
  git -C "$place/git/acme/set.git" symbolic-ref HEAD refs/heads/main
  git clone -q "$url" "$WORK/by-lfs" 2>"$place/clone" || { tail -3 "$place/clone" >&2; broken "git clone"; }
  pulled "lfs+$url" --into "$WORK/lfs-ours"
  same "$WORK/by-lfs" "$WORK/lfs-ours" "Git LFS"
  settle "$place/git.log" "$place/giftless.out"
  : >"$place/git.log"; : >"$place/giftless.out"
  pulled "lfs+$url" --into "$WORK/lfs-ours"
  settle "$place/git.log" "$place/giftless.out"
  hold "requests for nothing new" "$(grep -c HTTP "$place/git.log" "$place/giftless.out" | awk -F: '{sum += $2} END {print sum}')" "<=" 2
  head -c 1000000 /dev/urandom >large-0.bin; git add -A; git commit -qm two; git push -q "$url" HEAD:main 2>/dev/null
  settle "$place/giftless.out"; : >"$place/giftless.out"
  pulled "lfs+$url" --into "$WORK/lfs-ours"
  settle "$place/giftless.out"
  hold "objects of a new commit" "$(grep -c 'GET .*/objects/' "$place/giftless.out" || true)" == 1
  git -C "$WORK/by-lfs" pull -q; same "$WORK/by-lfs" "$WORK/lfs-ours" "a new commit of Git LFS"
  kill $git_pid; wait $git_pid 2>/dev/null || true
  local status=0; pull "lfs+$url" --into "$WORK/lfs-ours" --patience 1s || status=$?
  gone "$status" "the git server gone"
  cd "$WORK"; shown=1
}

part_kills() {
  say "seed $seed"
  # What is on its way to a program that is killed has been sent: a few kill a smaller set less often. A program that other work
  # keeps from running has more of it on its way.
  local files=20 mib=57 rate=1m most=1.02 total sent from
  [ -z "$short" ] || { mib=20 kills=4 most=1.3; }
  make "$WORK/kills" $files "$mib" 5
  mkdir -p "$WORK/kill-hub" "$WORK/cdn"
  commit "$WORK/kill-hub" c3 "$WORK/kills"
  for file in "$WORK"/kills/*.bin; do ln "$file" "$WORK/cdn/$(sha256sum <"$file" | cut -d' ' -f1)"; done
  # As a content network: so much for each connection, and its own log counts.
  NGINX_SERVER="limit_rate $rate;" nginx_start cdn "$WORK/cdn"
  hub_start kills "$WORK/kill-hub" --cdn "$URL"
  RANDOM=$seed; from=$(mark)
  local done=0 begin
  for ((round = 1; round <= kills; round++)); do
    HF_ENDPOINT=$HUB "$SYNCAGENT" pull hf://acme/set --into "$WORK/killed" >"$WORK/said" 2>&1 &
    local puller=$!
    sleep "$(awk "BEGIN{print 0.3 + $RANDOM / 32768 * 3}")"
    kill -KILL $puller 2>/dev/null || { done=1; say "note: complete after $((round - 1)) kills"; break; }
    wait $puller 2>/dev/null || true
  done
  pulled hf://acme/set --into "$WORK/killed"
  same "$WORK/kills" "$WORK/killed" "after $((round - 1)) kills"
  nginx_idle
  sent=$(awk '{sum += $3} END {printf "%d", sum}' "$LOG"); total=$((files * mib * 1048576))
  hold "bytes of a set of $files files after $((round - 1)) kills, as a part of it" "$(awk "BEGIN{printf \"%.4f\", $sent / $total}")" "<=" $most
  shown=1
}

part_limit() {
  local files=$([ -n "$short" ] && echo 2000 || echo 20000) most=$([ -n "$short" ] && echo 300 || echo 3000) window=10
  make "$WORK/many" 0 0 $files
  mkdir -p "$WORK/limit-hub"; commit "$WORK/limit-hub" d4 "$WORK/many"
  hub_start limit "$WORK/limit-hub" --limit "$most/$window"
  HF_ENDPOINT=$HUB "$SYNCAGENT" plan hf://acme/set --into "$WORK/limited" >"$WORK/said" 2>&1 || broken "plan"
  grep '^limit' "$WORK/said" >&2 || broken "plan does not say how long the limit makes it take"
  counts >/dev/null
  measure env HF_ENDPOINT="$HUB" "$SYNCAGENT" pull hf://acme/set --into "$WORK/limited" --json
  [ "$RC" = 0 ] || broken "pull: exit $RC"
  read -r refused resolves <<<"$(counts refused resolve)"
  hold "refused of $resolves resolves, $most allowed in $window s" "$refused" == 0
  hold "requests tried again" "$(grep -c '"event":"transfer.retrying"' "$WORK/out" || true)" == 0
  say "it took $WALL s"
  same "$WORK/many" "$WORK/limited" "within a limit"
  shown=1
}

part_hostile() {
  python3 "$EVIDENCE/elsewhere_hostile.py" "$SYNCAGENT" "$WORK/hostile" || failures=$((failures + 1))
  shown=1
}

part_publish() {
  local machines=10
  make "$WORK/shared" 2 $([ -n "$short" ] && echo 2 || echo 20) $([ -n "$short" ] && echo 300 || echo 2000)
  mkdir -p "$WORK/shared-hub" "$WORK/www"; commit "$WORK/shared-hub" e5 "$WORK/shared"
  hub_start shared "$WORK/shared-hub"
  for ((one = 1; one <= machines; one++)); do pulled hf://acme/set --into "$WORK/m/$one" --session "m$one"; rm -rf "$XDG_STATE_HOME"/syncagent/manifests; done
  read -r hub_requests hub_bytes <<<"$(counts requests bytes)"
  run "$SYNCAGENT" publish "$WORK/m/1" --to "$WORK/www/set" --project com.example.set
  nginx_start packs "$WORK/www"
  local from; from=$(mark)
  for ((one = 1; one <= machines; one++)); do pulled "$URL/set/" --into "$WORK/p/$one" --session "p$one"; rm -rf "$XDG_STATE_HOME"/syncagent/manifests; done
  nginx_idle
  local pack_requests pack_bytes
  read -r pack_requests pack_bytes <<<"$(awk '{requests += 1; bytes += $3} END {printf "%d %d", requests, bytes}' "$LOG")"
  same "$WORK/shared" "$WORK/p/$machines" "published in packs"
  say "$machines machines, $(find "$WORK/shared" -type f | wc -l) files each: the hub $hub_requests requests, $(mib "$hub_bytes") MiB; the packs $pack_requests requests, $(mib "$pack_bytes") MiB"
  hold "requests of the packs, as a part" "$(awk "BEGIN{printf \"%.4f\", $pack_requests / $hub_requests}")" "<" 0.1
  shown=1
}

# The contenders of a race: each brings a set into $into, with nothing known before.
ours_hub()   { HF_ENDPOINT=$HUB "$SYNCAGENT" pull hf://acme/set --into "$into" --quiet; }
theirs_hub() { HF_HOME=$into.home HF_ENDPOINT=$HUB "$HFENV/bin/hf" download acme/set --local-dir "$into"; }
ours_list()   { "$SYNCAGENT" pull "$URL/SHA256SUMS" --into "$into" --quiet; }
theirs_list() { aria2c -q --no-conf -x8 -s8 -j16 -V --file-allocation=none -d "$into" --follow-metalink=mem "$URL/set.meta4"; }
# race NAME KIND SET: in turn; prints seconds and their ratio.
race() {
  local name=$1 kind=$2 set=$3 who into ratios=() times=() start requests_of
  declare -A seconds=() asked=()
  for ((round = 1; round <= rounds; round++)); do
    for who in $([ $((round % 2)) = 1 ] && echo ours theirs || echo theirs ours); do
      into=$WORK/race/$who; rm -rf "$WORK/race" "$XDG_STATE_HOME"; mkdir -p "$WORK/race"
      nginx_idle; local from; from=$(mark); [ "$kind" != hub ] || counts >/dev/null
      start=$EPOCHREALTIME
      export -f ours_hub theirs_hub ours_list theirs_list; export HUB URL SYNCAGENT HFENV into
      "${RACE_NS[@]}" bash -c "${who}_$kind" >"$WORK/race.out" 2>&1 || { tail -3 "$WORK/race.out" >&2; broken "$name: $who"; return; }
      seconds[$who]=$(awk "BEGIN{printf \"%.2f\", $EPOCHREALTIME - $start}")
      nginx_idle; eval "$(since "$from")"
      asked[$who]=$requests; [ "$kind" != hub ] || asked[$who]=$((requests + $(counts requests)))
      [ "$round" != 1 ] || same "$set" "$into" "$name, $who"
    done
    ratios+=("$(awk "BEGIN{printf \"%.3f\", ${seconds[ours]} / ${seconds[theirs]}}")")
    times+=("${seconds[ours]}/${seconds[theirs]}")
  done
  say "$name: seconds ours/theirs ${times[*]}; requests ${asked[ours]}/${asked[theirs]}"
  hold "$name, ratio of $rounds ($(printf '%s\n' "${ratios[@]}" | sort -n | sed -n '1p;$p' | paste -sd-))" "$(median "${ratios[@]}")" "<=" 1.0
  rm -rf "$WORK/race"
}
part_speed() {
  HFENV=${HFENV:-$(environment hf huggingface_hub "${HF_PACKAGES[@]}")} || HFENV=
  local large=12 mib=200 small=5000; [ -z "$short" ] || { large=6 mib=20 small=500; }
  make "$WORK/big" $large $mib 0; make "$WORK/tiny" 0 0 $small
  mkdir -p "$WORK/big-hub" "$WORK/tiny-hub" "$WORK/big-cdn"
  commit "$WORK/big-hub" f6 "$WORK/big"; commit "$WORK/tiny-hub" f7 "$WORK/tiny"
  for file in "$WORK"/big/*; do ln "$file" "$WORK/big-cdn/$(sha256sum <"$file" | cut -d' ' -f1)"; done
  speed_at "on this machine"
  [ -n "$with_link" ] && link_possible || return 0
  link_up 40 500
  HUB_NS=(ip netns exec "$SERVER_NS") RACE_NS=(ip netns exec "$CLIENT_NS")
  speed_at "40 ms, 500 Mbit/s"
}
RACE_NS=()
speed_at() {
  local where=$1 address=${SERVER_ADDRESS:-127.0.0.1} at=() options=(); [ -z "${SERVER_NS:-}" ] || { at=("$SERVER_NS" "$address"); options=(--address "$address"); }
  local id=${#at[@]}
  mkdir -p "$WORK/lists-$id"
  if [ -n "$HFENV" ]; then
    nginx_start "cdn-$id" "$WORK/big-cdn" "${at[@]}"
    hub_start "big-$id" "$WORK/big-hub" --cdn "$URL" "${options[@]}"
    race "a hub's large files, $where" hub "$WORK/big"
    hub_start "tiny-$id" "$WORK/tiny-hub" "${options[@]}"
    race "a hub's small files, $where" hub "$WORK/tiny"
    shown=1
  else without "speed beside hf download, which cannot be had: $(because)"; fi
  if command -v aria2c >/dev/null; then
    local name
    for name in big tiny; do
      # The files themselves, and the lists beside them.
      [ -d "$WORK/lists-$name" ] || { cp -rl "$WORK/$name" "$WORK/lists-$name"; find "$WORK/lists-$name" -size 0 -delete
        (cd "$WORK/lists-$name" && find . -type f ! -name SHA256SUMS ! -name set.meta4 -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS); }
      nginx_start "$name-$id" "$WORK/lists-$name" "${at[@]}"
      (cd "$WORK/lists-$name" && rm -f set.meta4 && metalink . "$URL" >"$WORK/set.meta4" && mv "$WORK/set.meta4" .)
      race "a list of $name files, $where" list "$WORK/lists-$name"
    done
    shown=1
  else without "speed beside aria2c, which is not installed"; fi
}

for part in "${parts[@]}"; do say "== $part"; "part_$part"; done
[ "$shown" = 1 ] || exit 77
verdict
