#!/bin/sh
# Publishes sets to the S3 of moto, and looks at them with boto3 and rclone: each must see the same objects, and what they copy is a
# published directory. Then kills of publish, prune, shards and joins at any moment, two publishers at once, and a day on which the
# bucket says "slow down" to three requests of ten and loses answers: never is a pack named that is not there, and never is one sent
# twice.
#
#   Tests/s3.sh [KILLS [RACES]]
#
# Environment: SYNCAGENT, the program. PYTHON, one that has `moto[server]` and `boto3`; otherwise they come from PyPI, once, into
# .build/moto-venv.
# Exit status: 0 all of it, 1 not, 77 the server or a client cannot be had here.
set -eu

cd "$(dirname "$0")/.."
root=$PWD
kills=${1:-12}
races=${2:-4}
SYNCAGENT=${SYNCAGENT:-$root/.build/debug/syncagent}
work=$(mktemp -d)
server="" proxy="" looker="" cache=""
trap 'for one in $server $proxy $looker $cache; do kill "$one" 2>/dev/null || true; done; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }
skip() { printf 'SKIPPED: sets in a bucket: %s\n' "$1"; exit 77; }

if [ -z "${PYTHON:-}" ]; then
    PYTHON=$root/.build/moto-venv/bin/python
    if ! "$PYTHON" -c 'import moto.server, boto3' 2>/dev/null; then
        rm -rf .build/moto-venv
        python3 -m venv .build/moto-venv >"$work/said" 2>&1 &&
            "$PYTHON" -m pip -q --retries 1 --timeout 20 install 'moto[server]==5.2.5' boto3==1.44.8 >"$work/said" 2>&1 || {
            tail -n 1 "$work/said"
            skip "moto and boto3 cannot be installed here"
        }
    fi
fi

cd "$work"
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
wait_for() {
    for _ in $(seq 240); do
        kill -0 "$2" 2>/dev/null || { cat asked; fail "the server has ended"; }
        python3 -c "import socket; socket.create_connection(('127.0.0.1', $1), 1)" 2>/dev/null && return
        sleep 0.5
    done
    fail "nobody listens at $1"
}
port=$(free)
export HOME="$work" XDG_STATE_HOME="$work/state" AWS_EC2_METADATA_DISABLED=true
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret AWS_REGION=us-east-1 AWS_ENDPOINT_URL="http://127.0.0.1:$port"
unset XDG_CONFIG_HOME AWS_PROFILE AWS_SESSION_TOKEN AWS_CA_BUNDLE 2>/dev/null || true
"$PYTHON" -m moto.server -H 127.0.0.1 -p "$port" >asked 2>&1 &
server=$!
wait_for "$port" "$server"
# One boto3 for all that is asked.
mkfifo questions answers
"$PYTHON" -B "$root/Tests/s3/bucket.py" answer <questions >answers &
looker=$!
exec 3>questions 4<answers
bucket() {
    echo "$*" >&3
    read -r said_of_bucket <&4 || said_of_bucket="no answer"
    [ "$said_of_bucket" = ok ] || { echo "$said_of_bucket"; fail "bucket $*"; }
}
publish() { "$SYNCAGENT" publish set --to s3://assets/maps --project com.example.maps --pack-size 256K "$@" >said 2>&1; }
pull() { "$SYNCAGENT" pull "$@" >said 2>&1; }
same() { diff -r -x .syncagent "$1" "$2" >differences || { cat differences; fail "$1 and $2 differ"; }; }
# How often each pack was put, and how often an object was.
sent_twice() { grep -a -o '"PUT [^ ]*\.pack [^"]*" 200' asked | sort | uniq -d; }
change() {
    python3 - "$1" <<'END'
import os, random, sys
random.seed(sys.argv[1])
for number in random.sample(range(60), 6):
    path = f"set/{'/'.join('abc'[: number % 4])}/file {number}.bin".replace("//", "/")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(random.randbytes(random.choice([100, 5_000, 120_000])))
END
}

for seed in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do change "$seed"; done
bucket make assets
publish || { cat said; fail "publish"; }
bucket check assets maps
pull s3://assets/maps --into ours || { cat said; fail "pull"; }
same set ours
if command -v rclone >/dev/null; then
    rclone --config /dev/null copy \
        ":s3,provider=Other,env_auth=true,endpoint='$AWS_ENDPOINT_URL',force_path_style=true:assets/maps" by-rclone \
        >said 2>&1 || { cat said; fail "rclone"; }
    pull by-rclone/manifest.json --into copied || { cat said; fail "pull of what rclone copied"; }
    same set copied
    echo "What rclone copies is a published directory."
fi
echo "The trees are the same: $(find set -type f | wc -l) files."

rm -rf state
: >asked
change next
publish || { cat said; fail "publish from an empty machine"; }
[ -z "$(sent_twice)" ] || fail "sent twice: $(sent_twice)"
bucket check assets maps
: >asked
publish || { cat said; fail "publish of the same"; }
[ "$(grep -a -c '"PUT [^"]*" 200' asked)" = 0 ] || { cat asked; fail "something was put though nothing had changed"; }
pull s3://assets/maps --into ours || { cat said; fail "pull of the update"; }
same set ours
echo "An empty machine goes on where another one was; the same again puts nothing."

# By machines that have nothing in common but the source: four shards, of which one comes late.
change pieces
: >asked
for shard in 0 1 2 3; do
    if [ $shard = 3 ]; then
        publish --join 4 && fail "a join without shard 3" || [ $? = 75 ] || { cat said; fail "a join without shard 3"; }
        grep -q "shard 3 of 4 is not published" said || { cat said; fail "the join does not name shard 3"; }
    fi
    XDG_STATE_HOME=$work/state-$shard publish --shard $shard/4 || { cat said; fail "publish --shard $shard/4"; }
done
publish --shard 2/4 || { cat said; fail "publish --shard 2/4 again"; }
publish --join 4 || { cat said; fail "publish --join"; }
[ -z "$(sent_twice)" ] || fail "sent twice: $(sent_twice)"
bucket check assets maps
pull s3://assets/maps --into ours || { cat said; fail "pull of what shards published"; }
same set ours
echo "Four shards publish to the bucket, and the join makes one set of it."

"$SYNCAGENT" keys new keys --project com.example.maps >said 2>&1
publish --sign keys --accept-base || { cat said; fail "publish --sign"; }
pull s3://assets/maps --into signed --trust keys/1.root || { cat said; fail "pull --trust"; }
cp -r set signed-set
change bad
publish --sign keys || { cat said; fail "publish --sign again"; }
"$SYNCAGENT" releases restore s3://assets/maps 4 --sign keys >said 2>&1 || { cat said; fail "restore"; }
pull s3://assets/maps --into signed || { cat said; fail "pull of what was restored"; }
same signed-set signed
"$SYNCAGENT" channel set s3://assets/maps stable 5 --sign keys >said 2>&1 || { cat said; fail "channel set"; }
pull s3://assets/maps --channel stable --into stable --trust keys/1.root || { cat said; fail "pull --channel"; }
same set stable
"$SYNCAGENT" keys refresh s3://assets/maps --sign keys >said 2>&1 || { cat said; fail "refresh"; }
for shard in 0 1; do publish --shard $shard/2 || { cat said; fail "publish --shard $shard/2 of a signed set"; }; done
publish --join 2 --sign keys --accept-base && fail "a join signs what anybody could have put" || [ $? = 77 ] ||
    { cat said; fail "publish --join --sign"; }
grep -q -- "--accept-shards" said || { cat said; fail "the join does not name --accept-shards"; }
echo "Signed, restored and refreshed in the bucket."

# A cache in front of the bucket: two machines pull what one copy of is fetched.
: >asked
"$SYNCAGENT" serve --cache s3://assets/maps --store store --port 0 >served 2>cache-said &
cache=$!
for _ in $(seq 200); do
    url=$(grep -o 'http://[^ ]*' served | head -n 1 || true)
    [ -z "$url" ] || break
    kill -0 "$cache" 2>/dev/null || break
    sleep 0.1
done
[ -n "$url" ] || { cat served cache-said; fail "the cache does not start"; }
for one in 1 2; do
    pull "$url" --into "cached-$one" --session "cached-$one" --trust keys/1.root || { cat said cache-said; fail "pull through a cache"; }
    same signed-set "cached-$one"
done
# The packs are 256 KiB long: a slice is a whole one.
packs=$(grep -a -c '"GET [^ ]*\.pack [^"]*" 20[06]' asked || true)
more=$(grep -a -o '"GET [^ ]*\.pack [^"]*" 20[06]' asked | sort | uniq -d)
[ "$packs" -gt 0 ] && [ -z "$more" ] || fail "asked for more than once through a cache: $more"
"$SYNCAGENT" publish set --to s3://assets/maps --project com.example.maps --pack-size 256K --sign keys >said 2>&1 ||
    { cat said; fail "publish behind a cache"; }
pull "$url" --into cached-1 --session cached-1 || { cat said cache-said; fail "pull of an update through a cache"; }
same set cached-1
kill "$cache" && wait "$cache" || fail "the cache's exit status"
cache=""
echo "Through a cache in front of the bucket two machines have the same trees, and the next release: $packs requests for packs, none twice."

publish() { "$SYNCAGENT" publish set --to s3://assets/killed --project com.example.maps --pack-size 64K "$@" >said 2>&1; }
# Ends a command at some moment of the time that a publish takes; it says nothing where that had ended before.
killed() {
    moment=$(python3 -c "import random; print(random.random() * $took / 1e9)")
    "$@" >said 2>&1 &
    victim=$!
    sleep "$moment"
    kill -KILL "$victim" 2>/dev/null && hit=$((hit + 1))
    wait "$victim" 2>/dev/null || true
}
publish || { cat said; fail "publish"; }
change timed
rm -rf state
took=$(date +%s%N)
publish || { cat said; fail "publish"; }
took=$(($(date +%s%N) - took))
: >asked
hit=0
round=0
while [ "$round" -lt "$kills" ]; do
    round=$((round + 1))
    change "kill $round"
    rm -rf state
    killed "$SYNCAGENT" publish set --to s3://assets/killed --project com.example.maps --pack-size 64K
    bucket check assets killed
    publish || { cat said; fail "publish after a kill"; }
    bucket check assets killed
    [ -z "$(sent_twice)" ] || fail "sent twice: $(sent_twice)"
    [ $((round % 3)) = 0 ] || continue
    killed "$SYNCAGENT" releases prune s3://assets/killed --keep 2 --grace 0
    bucket check assets killed
    "$SYNCAGENT" releases list s3://assets/killed >said 2>&1 || { cat said; fail "list after a kill"; }
    # What was pruned may be made again.
    : >asked
done
pull s3://assets/killed --into killed --session killed || { cat said; fail "pull after the kills"; }
same set killed
[ "$hit" -gt $((kills / 4)) ] || fail "only $hit of $kills kills came before the end"
echo "$hit kills in $kills rounds: whatever a manifest names is there, and nothing was sent twice."

# Shards of one set on three machines at once, each killed at a random moment and run again, as job queues do; then the join likewise.
shards=$(((kills + 2) / 3))
hit=0
round=0
: >asked
while [ "$round" -lt "$shards" ]; do
    round=$((round + 1))
    change "shards $round"
    pieces=""
    for shard in 0 1 2; do
        (
            export XDG_STATE_HOME="$work/state-$shard"
            rm -rf "$XDG_STATE_HOME"
            hit=0
            killed "$SYNCAGENT" publish set --to s3://assets/killed --project com.example.maps --pack-size 64K --shard $shard/3
            "$SYNCAGENT" publish set --to s3://assets/killed --project com.example.maps --pack-size 64K --shard $shard/3 >"said-$shard" 2>&1 ||
                exit 1
            echo "$hit" >"hit-$shard"
        ) &
        pieces="$pieces $!"
    done
    for piece in $pieces; do wait "$piece" || { cat said-0 said-1 said-2; fail "a shard after a kill"; }; done
    hit=$((hit + $(cat hit-0) + $(cat hit-1) + $(cat hit-2)))
    bucket check assets killed
    killed "$SYNCAGENT" publish set --to s3://assets/killed --project com.example.maps --pack-size 64K --join 3
    bucket check assets killed
    publish --join 3 || { cat said; fail "the join after a kill"; }
    bucket check assets killed
    [ -z "$(sent_twice)" ] || fail "sent twice by shards: $(sent_twice)"
    pull s3://assets/killed --into killed --session killed || { cat said; fail "pull of what killed shards published"; }
    same set killed
done
[ "$hit" -gt "$shards" ] || fail "only $hit of $((shards * 4)) kills of shards and joins came before the end"
echo "$hit kills of shards and joins in $shards rounds: the same set after each, and nothing was sent twice."

round=0
ended=0
while [ "$round" -lt "$races" ]; do
    round=$((round + 1))
    change "race $round"
    publishers=""
    for number in 1 2; do
        XDG_STATE_HOME="$work/state$number" "$SYNCAGENT" publish set --to s3://assets/killed --project com.example.maps \
            --pack-size 64K >"said$number" 2>&1 &
        publishers="$publishers $!"
    done
    statuses=""
    for publisher in $publishers; do
        status=0
        wait "$publisher" || status=$?
        statuses="$statuses $status"
        [ "$status" = 0 ] || [ "$status" = 75 ] || { cat said1 said2; fail "a publisher ended with $status"; }
    done
    case "$statuses" in *" 0"*) ;; *) cat said1 said2; fail "nobody published" ;; esac
    case "$statuses" in *75*) ended=$((ended + 1)) ;; esac
    bucket check assets killed
    pull s3://assets/killed --into killed --session killed || { cat said; fail "pull after a race"; }
    same set killed
done
echo "$races races of two publishers, $ended of them ended with 75 for one: the set was whole after each."

# Beside the bucket stands somebody who refuses and forgets.
near=$(free)
python3 "$root/Tests/s3/proxy.py" "$near" "$port" --slow 30 --lost 5 &
proxy=$!
wait_for "$near" "$proxy"
told() { python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:$near/-/count').read().decode())"; }
round=0
: >asked
while [ "$round" -lt 3 ]; do
    round=$((round + 1))
    change "slow $round"
    AWS_ENDPOINT_URL="http://127.0.0.1:$near" publish || { cat said; fail "publish on a bad day"; }
    bucket check assets killed
    [ -z "$(sent_twice)" ] || fail "sent twice: $(sent_twice)"
    AWS_ENDPOINT_URL="http://127.0.0.1:$near" "$SYNCAGENT" releases prune s3://assets/killed --keep 2 --grace 0 >said 2>&1 ||
        { cat said; fail "prune on a bad day"; }
    bucket check assets killed
    # What was pruned may be made again.
    : >asked
    AWS_ENDPOINT_URL="http://127.0.0.1:$near" pull s3://assets/killed --into slow --session slow ||
        { cat said; fail "pull on a bad day"; }
    same set slow
done
echo "On a bad day the set is whole after each publish: $(told)"
