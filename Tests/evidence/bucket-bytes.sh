#!/bin/sh
# How much goes to a bucket and comes from there when 1 % of a set has changed and an empty machine publishes it: bytes each way and
# requests, for changes that lie together and for changes that lie anywhere; beside `rclone copy` and `restic backup` of the same
# files to the same server, in turn.
#
#   Tests/evidence/bucket-bytes.sh [FILES [MEAN-SIZE [SCATTERED|TOGETHER|BOTH]]]
#
# Environment: SYNCAGENT, the program. PYTHON, one that has `moto[server]` and `boto3`. OPTIONS, more options of publish.
# CLIENTS, those that are measured: "syncagent rclone restic".
set -eu

cd "$(dirname "$0")/../.."
root=$PWD
files=${1:-20000}
mean=${2:-20000}
how=${3:-BOTH}
SYNCAGENT=${SYNCAGENT:-$root/.build/debug/syncagent}
PYTHON=${PYTHON:-$root/.build/moto-venv/bin/python}
work=$(mktemp -d)
server="" proxy=""
trap 'for one in $server $proxy; do kill "$one" 2>/dev/null || true; done; rm -rf "$work"' EXIT
cd "$work"
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
wait_for() {
    for _ in $(seq 60); do
        python3 -c "import socket; socket.create_connection(('127.0.0.1', $1), 1)" 2>/dev/null && return
        sleep 0.5
    done
    echo "nobody listens at $1" >&2
    exit 1
}
behind=$(free) port=$(free)
"$PYTHON" -m moto.server -H 127.0.0.1 -p "$behind" >/dev/null 2>&1 &
server=$!
wait_for "$behind"
python3 "$root/Tests/s3/proxy.py" "$port" "$behind" &
proxy=$!
wait_for "$port"
unset AWS_CA_BUNDLE AWS_PROFILE AWS_SESSION_TOKEN 2>/dev/null || true
export HOME="$work" XDG_STATE_HOME="$work/state" AWS_EC2_METADATA_DISABLED=true RESTIC_PASSWORD=secret
export AWS_ACCESS_KEY_ID=key AWS_SECRET_ACCESS_KEY=secret AWS_REGION=us-east-1 AWS_ENDPOINT_URL="http://127.0.0.1:$port"
"$PYTHON" -B "$root/Tests/s3/bucket.py" make assets
"$PYTHON" -B "$root/Tests/s3/bucket.py" make copied
"$PYTHON" -B "$root/Tests/s3/bucket.py" make backed-up

# Files whose sizes lie as those of real sets do (log-normal), of bytes that no compression makes smaller: so what changed is what
# has to be sent.
files_of() {
    python3 - "$files" "$mean" "$@" <<'PY'
import math, os, random, sys
files, mean, what = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def path(number): return f"set/{number // 2000:02}/{number // 100 % 20:02}/{number % 100:02}-file.bin"
def write(number, seed):
    chance = random.Random(f"{seed} {number}")
    size = max(1, round(chance.lognormvariate(math.log(mean) - 0.5, 1)))
    os.makedirs(os.path.dirname(path(number)), exist_ok=True)
    with open(path(number), "wb") as file: file.write(chance.randbytes(size))
    return size
count = files // 100
numbers = {"all": range(files), "SCATTERED": random.Random(5).sample(range(files), count),
           "TOGETHER": range(files // 3 // 100 * 100, files // 3 // 100 * 100 + count)}[what]
print(sum(write(number, what) for number in numbers))
PY
}
told() { python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:$port/-/count').read().decode())"; }
client() {
    case $1 in
    syncagent)
        rm -rf state
        # shellcheck disable=SC2086
        "$SYNCAGENT" publish set --to s3://assets/maps --project com.example.maps ${OPTIONS:-} ;;
    rclone)
        rclone --config /dev/null copy set ":s3,provider=Other,env_auth=true,endpoint='$AWS_ENDPOINT_URL',force_path_style=true:copied/set" ;;
    restic)
        rm -rf .cache
        restic -q -r "s3:$AWS_ENDPOINT_URL/backed-up" backup set ;;
    esac >said 2>&1 || { cat said; exit 1; }
}
line() {
    told | python3 -c "
import json, sys
c, changed = json.load(sys.stdin), $3
both = c['sent'] + c['received']
print(f\"$1, $2: {c['requests']} requests, sent {c['sent'] / 1e6:.2f} MB, read {c['received'] / 1e6:.2f} MB; changed {changed / 1e6:.2f} MB: \"
      f\"sent +{(c['sent'] / changed - 1) * 100:.1f} %, read {c['received'] / changed * 100:.1f} %, both +{(both / changed - 1) * 100:.1f} %\")"
}

all=$(files_of all)
echo "$files files, $((all / 1000000)) MB"
clients=${CLIENTS:-syncagent rclone restic}
case $clients in *restic*) restic -q -r "s3:$AWS_ENDPOINT_URL/backed-up" init ;; esac
for one in $clients; do
    told >/dev/null
    client "$one"
    line "$one" "all of it" "$all"
done
for change in TOGETHER SCATTERED; do
    [ "$how" = BOTH ] || [ "$how" = "$change" ] || continue
    changed=$(files_of "$change")
    for one in $clients; do
        told >/dev/null
        client "$one"
        line "$one" "1 % of the files, $change" "$changed"
    done
done
