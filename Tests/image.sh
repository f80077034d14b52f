#!/bin/sh
# Builds the container image twice and the same both times, unpacks it, and runs it as a container would be run: its agent is the first
# process of namespaces of its own, as the image's user, with nothing but what is in the image.
#
# usage: Tests/image.sh [PROGRAM]       without one, .build/release/syncagent, as Packaging/build.sh makes it
#
# Needs root, umoci, skopeo, python3, util-linux. Half a minute. Exit status: 0 all is well, 1 it is not, 77 it cannot be run here.
set -u

cd "$(dirname "$0")/.." || exit 1
program=${1:-.build/release/syncagent}
for command in umoci skopeo unshare nsenter setpriv python3; do
    command -v "$command" >/dev/null || { echo "SKIPPED: the container image: no $command"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: the container image: namespaces need root"; exit 77; }
[ -x "$program" ] || { echo "image.sh: no program $program; Packaging/build.sh makes it" >&2; exit 1; }
work=$(mktemp -d)
container=""
trap '[ -z "$container" ] || kill -KILL "$container" 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
failures=0
# expect WHAT COMMAND…
expect() {
    what=$1
    shift
    if "$@" >"$work/said" 2>&1; then echo "ok      $what"; else
        echo "FAILED: $what: $(tail -3 "$work/said")" >&2
        failures=$((failures + 1))
    fi
}

first=$(Packaging/image.py "$program" "$work/one" | tee "$work/line" | cut -d' ' -f1)
second=$(Packaging/image.py "$program" "$work/two" | cut -d' ' -f1)
[ -n "$first" ] || exit 1
expect "two builds are the same byte by byte" [ "$first" = "$second" ]
version=$("$program" --version)
expect "skopeo reads and copies it" skopeo copy "oci:$work/one:$version" "oci:$work/copy:$version"
umoci unpack --image "$work/one:$version" "$work/bundle" >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
root=$work/bundle/rootfs
variables="PATH=/usr/bin HOME=/var/lib/syncagent XDG_STATE_HOME=/var/lib XDG_RUNTIME_DIR=/run/syncagent"
expect "its variables are those that the agent has below" python3 -c "import glob, json, sys
found = [json.load(open(path)) for path in glob.glob('$work/one/blobs/sha256/*') if open(path, 'rb').read(1) == b'{']
sys.exit(['$variables'.split()] != [blob['config']['Env'] for blob in found if 'rootfs' in blob])"
mkdir -p "$root/srv/set"
echo one >"$root/srv/set/a"
cp "$program" "$root/srv/set/b"
chown -R 65532:65532 "$root/srv"

# chroot --userspec drops to the image's user behind the chroot.
start() {
    unshare --mount --pid --net --ipc --uts --fork --kill-child sh -c "ip link set lo up 2>/dev/null; mount -t proc proc '$root/proc'
        exec env -i $variables /usr/sbin/chroot --userspec=65532:65532 '$root' /usr/bin/syncagent agent run" >"$work/agent.log" 2>&1 &
    outer=$!
    tries=0
    while container=$(pgrep -P "$outer" 2>/dev/null | head -1) && [ -z "$container" ] && [ $tries -lt 100 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}
# shellcheck disable=SC2086 # words
inside() { nsenter --target "$container" --mount --pid --net --ipc --uts env -i $variables /usr/sbin/chroot --userspec=65532:65532 "$root" /usr/bin/syncagent "$@"; }
start
tries=0
until inside agent status >/dev/null 2>&1 || [ $tries -ge 100 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
expect "the agent is the first process, and its health check says so" inside agent status
expect "it publishes, as the image's user" inside publish /srv/set --to /srv/site --project tower
expect "a pull in the background is the agent's" inside pull /srv/site/manifest.json --into /srv/tower --background --json
expect "it is waited for" inside wait tower
expect "every byte is there" cmp "$root/srv/set/b" "$root/srv/tower/b"
expect "it keeps a schedule, which the agent starts" inside schedule add /srv/site/manifest.json --into /srv/nightly --nightly 02:00
expect "that is in the volume" [ -f "$root/var/lib/syncagent/.config/syncagent/schedules/nightly.json" ]
expect "what is in the image is all that it needs: authorities" grep -q BEGIN "$root/etc/ssl/certs/ca-certificates.crt"
expect "SIGTERM, as docker stop sends it, ends the agent" sh -c "kill -TERM $container; for i in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 $container 2>/dev/null || exit 0; sleep 0.3; done; exit 1"
wait "$outer"
expect "its status is 0" [ $? = 0 ]
[ "$failures" = 0 ] || { cat "$work/agent.log" >&2; echo "$failures of the image's promises do not hold." >&2; exit 1; }
sed 's/.*  //' "$work/line"
