#!/bin/sh
# Has the client oras push artifacts to Debian's docker-registry, and pulls them with it and with syncagent: both must have the
# same trees. Then what that costs: nothing new, a new tag, a kill in the middle.
#
#   Tests/registry.sh
#
# Environment: SYNCAGENT, the program. PYTHON, one that has `oras`; otherwise it comes from PyPI, once, into .build/oras-venv.
# REGISTRY, the program docker-registry.
# Exit status: 0 all of it, 1 not, 77 the client or the registry cannot be had here.
set -eu

cd "$(dirname "$0")/.."
root=$PWD
SYNCAGENT=${SYNCAGENT:-$root/.build/debug/syncagent}
work=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
fail() { printf 'FAILED: %s\n' "$1"; exit 1; }
skip() { printf 'SKIPPED: artifacts in a registry: %s\n' "$1"; exit 77; }

REGISTRY=${REGISTRY:-$(command -v docker-registry || true)}
[ -n "$REGISTRY" ] || skip "there is no docker-registry"
if [ -z "${PYTHON:-}" ]; then
    PYTHON=$root/.build/oras-venv/bin/python
    if ! "$PYTHON" -c 'import oras' 2>/dev/null; then
        rm -rf .build/oras-venv
        python3 -m venv .build/oras-venv >"$work/said" 2>&1 &&
            "$PYTHON" -m pip -q --retries 1 --timeout 10 install oras==0.2.43 >"$work/said" 2>&1 || {
            tail -n 1 "$work/said"
            skip "the client oras cannot be installed here"
        }
    fi
fi
oras() { "$PYTHON" -B "$root/Tests/registry/oras-client.py" "$@" || fail "oras $*"; }

cd "$work"
export HOME="$work" XDG_STATE_HOME="$work/state"
unset DOCKER_CONFIG XDG_CONFIG_HOME 2>/dev/null || true
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >registry.yml <<END
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: $work/storage}}
http: {addr: 127.0.0.1:$port}
END
start() {
    "$REGISTRY" serve registry.yml >>asked 2>&1 &
    server=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null && return
        sleep 0.2
    done
    fail "the registry does not start"
}
start
name=127.0.0.1:$port/acme/maps
# The trees without what belongs to syncagent.
same() { diff -r -x .syncagent "$1" "$2" >differences || { cat differences; fail "$1 and $2 differ"; }; }
asked() { grep -c "$1" asked || true; }
pull() { "$SYNCAGENT" pull "$@" >said 2>&1; }

python3 - <<'END'
import os, random
random.seed(7)
for number in range(60):
    path = f"set/{'/'.join('abc'[: number % 4])}/file {number}.bin".replace("//", "/")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(random.randbytes(random.choice([0, 1, 100, 5_000, 300_000])))
with open("set/large.bin", "wb") as file:
    file.write(random.randbytes(20_000_000))
END

oras push "$name:v1" "$work/set"
oras pull "$name:v1" "$work/by-oras"
same set by-oras
pull "oci://$name:v1" --into ours || { cat said; fail "pull"; }
same set ours
echo "The trees are the same: $(find set -type f | wc -l) files."

: >asked
pull "oci://$name:v1" --into ours || { cat said; fail "pull again"; }
[ "$(asked HTTP)" = 1 ] && [ "$(asked 'HEAD /v2/acme/maps/manifests/v1')" = 1 ] || { cat asked; fail "more than a HEAD"; }
digest=$(python3 -c "
import urllib.request as r
q = r.Request('http://$name/manifests/v1'.replace('/acme', '/v2/acme'), headers={'Accept': 'application/vnd.oci.image.manifest.v1+json'})
print(r.urlopen(q).headers['Docker-Content-Digest'])")
"$SYNCAGENT" status acme.maps | grep -q "oci, oci://$name:v1, at $digest" || fail "status does not say the digest $digest"
echo "Nothing new is one HEAD."

echo changed >set/a/new.txt
echo changed >"set/file 0.bin"
rm "set/a/file 1.bin"
oras push "$name:v2" "$work/set"
: >asked
pull "oci://$name:v2" --into ours --prune || { cat said; fail "pull of a new tag"; }
same set ours
[ "$(asked 'GET /v2/acme/maps/blobs/')" = 1 ] || { cat asked; fail "more than the blob that changed"; }
"$SYNCAGENT" verify "oci://$name:v2" --into ours >said 2>&1 || { cat said; fail "verify"; }
"$SYNCAGENT" diff "oci://$name:v1" "oci://$name:v2" >said 2>&1 || true
grep -q 'a/new.txt' said || { cat said; fail "diff"; }
echo "A new tag brings what changed."

"$SYNCAGENT" pull "oci://$name:v1" --into killed --limit-rate 4M --session killed >said 2>&1 &
puller=$!
sleep 3
kill -KILL "$puller" 2>/dev/null || fail "it was done before it could be killed"
wait "$puller" 2>/dev/null || true
: >asked
pull "oci://$name:v1" --into killed --session killed || { cat said; fail "pull after a kill"; }
same by-oras killed
[ "$(asked 'HTTP/1.1" 206')" -gt 0 ] || { cat asked; fail "the large blob came again from its start"; }
echo "After a kill it goes on where it was."

"$SYNCAGENT" import "oci://$name:v1" --to manifest.json >said 2>&1 || { cat said; fail "import"; }
pull manifest.json --into imported || { cat said; fail "pull of what was imported"; }
same by-oras imported

oras pack "$name:packed" "$work/set"
pull "oci://$name:packed" --into packed && fail "a directory that is a tar was pulled"
grep -q 'layers are not unpacked' said || { cat said; fail "the tar is not named"; }
echo "A directory that was pushed as a tar is refused by name."

kill "$server"
wait "$server" 2>/dev/null || true
server=""
status=0
pull "oci://$name:v2" --into ours --patience 1s || status=$?
[ "$status" = 69 ] || { cat said; fail "exit status $status without the registry"; }
same set ours
echo "Without the registry what is there stays."
