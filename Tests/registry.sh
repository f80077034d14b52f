#!/bin/sh
# Has the client oras push artifacts to Debian's docker-registry, and pulls them with it and with syncagent: both must have the
# same trees. Then what that costs: nothing new, a new tag, a kill in the middle.
# Then syncagent publishes there: oras and skopeo must get the same bytes, what did not change must not be sent again, and kills
# must leave nothing that is named and not there.
#
#   Tests/registry.sh
#
# With skopeo, too, where it is installed.
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
trap 'exit 130' INT
trap 'exit 143' TERM
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
storage: {filesystem: {rootdirectory: $work/storage}, delete: {enabled: true}}
http: {addr: 127.0.0.1:$port}
END
start() {
    "$REGISTRY" serve registry.yml >>asked 2>&1 &
    server=$!
    for _ in $(seq 150); do
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
if command -v skopeo >/dev/null; then
    # It copies blobs, each under its digest: they are the files that were pulled.
    skopeo copy -q --src-tls-verify=false "docker://$name:v1" "dir:$work/by-skopeo" >said 2>&1 || { cat said; fail "skopeo copy"; }
    find ours -type f -not -path '*/.syncagent/*' -exec sha256sum {} + | cut -d ' ' -f 1 | sort -u >our-blobs
    python3 -c "
import json
for layer in json.load(open('by-skopeo/manifest.json'))['layers']:
    print(layer['digest'].removeprefix('sha256:'))" | sort -u >their-blobs
    cmp our-blobs their-blobs || fail "skopeo has other blobs"
    while read -r blob; do sha256sum <"by-skopeo/$blob" | grep -q "^$blob" || fail "skopeo's $blob"; done <their-blobs
    echo "skopeo has the same $(wc -l <their-blobs) blobs."
else
    echo "SKIPPED: the same as skopeo, which is not installed"
fi

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
# The small files have a third of that at most: the large one is on its way.
for _ in $(seq 600); do
    here=$(du -sk killed 2>/dev/null | cut -f 1)
    [ "${here:-0}" -le 10000 ] || break
    sleep 0.1
done
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

kill "$server" && wait "$server" 2>/dev/null || true
status=0
pull "oci://$name:v1" --into imported --session imported --patience 1s || status=$?
[ "$status" = 69 ] && grep -q 'cannot ask the registry' said || { cat said; fail "without the registry: exit $status"; }
same by-oras imported
start
echo "Without the registry, what is there stays: exit 69."

oras pack "$name:packed" "$work/set"
pull "oci://$name:packed" --into packed && fail "a directory that is a tar was pulled"
grep -q 'layers are not unpacked' said || { cat said; fail "the tar is not named"; }
echo "A directory that was pushed as a tar is refused by name."

# Sets that syncagent itself publishes.
cp -r set before
home=127.0.0.1:$port/acme/sets
publish() { "$SYNCAGENT" publish set --to "oci://$home:$1" --project com.example.maps --pack-size 4M >said 2>&1; }
# Uploads of blobs that have ended.
sent() { grep -a -c 'PUT /v2/acme/sets/blobs/uploads/.* 201 ' asked || true; }

: >asked
publish v1 || { cat said; fail "publish"; }
packs=$(sent)
[ "$packs" -gt 5 ] || { cat asked; fail "only $packs uploads"; }
pull "oci://$home:v1" --into published || { cat said; fail "pull of what was published"; }
same set published
oras pull "$home:v1" "$work/as-oras"
for pack in as-oras/packs/*.pack; do
    [ "$(sha256sum <"$pack" | cut -d ' ' -f 1).pack" = "$(basename "$pack")" ] || fail "$pack has other bytes"
done
"$SYNCAGENT" serve as-oras --port 0 >served 2>&1 &
other=$!
for _ in $(seq 200); do
    ! grep -q 'http://' served || break
    kill -0 "$other" 2>/dev/null || break
    sleep 0.3
done
url=$(grep -o 'http://[^ ]*' served | head -n 1)
[ -n "$url" ] || { cat served; fail "serve does not start"; }
pull "${url%/}/manifest.json" --into from-oras --session from-oras || { cat said served; kill $other; fail "pull of what oras pulled"; }
kill "$other" && wait "$other" 2>/dev/null || true
same set from-oras
echo "A release is published in $packs uploads; oras has the same bytes of it, and they can be served."

if command -v skopeo >/dev/null; then
    skopeo copy --insecure-policy --src-tls-verify=false --preserve-digests "docker://$home:v1" dir:as-skopeo >said 2>&1 ||
        { cat said; fail "skopeo"; }
    copied=0
    for pack in as-oras/packs/*.pack; do
        cmp "$pack" "as-skopeo/$(basename "$pack" .pack)" || fail "skopeo has other bytes"
        copied=$((copied + 1))
    done
    [ "$copied" -gt 3 ] || fail "skopeo has copied $copied packs"
    skopeo copy --insecure-policy --dest-tls-verify=false --preserve-digests dir:as-skopeo "docker://$home-copied:v1" >said 2>&1 ||
        { cat said; fail "skopeo"; }
    pull "oci://$home-copied:v1" --into from-skopeo --session from-skopeo || { cat said; fail "pull of what skopeo copied"; }
    same set from-skopeo
    echo "skopeo copies a release to a directory and back, $copied packs with the same bytes."
fi

"$SYNCAGENT" keys new keys --project com.example.signed >said 2>&1 || { cat said; fail "keys new"; }
"$SYNCAGENT" publish set --to "oci://$home:signed" --project com.example.signed --pack-size 4M --sign keys >said 2>&1 ||
    { cat said; fail "publish --sign"; }
pull "oci://$home:signed" --into signed --session signed --trust keys/1.root || { cat said; fail "pull --trust"; }
head_of() { python3 -c "
import urllib.request as r
q = r.Request('http://$home/manifests/$1'.replace('/acme', '/v2/acme'), headers={'Accept': 'application/vnd.oci.image.manifest.v1+json'})
print(r.urlopen(q).headers['Docker-Content-Digest'])"; }
first=$(head_of signed)
sleep 1.1
: >asked
"$SYNCAGENT" keys refresh "oci://$home:signed" --sign keys >said 2>&1 || { cat said; fail "keys refresh"; }
grep -q 'valid until' said || { cat said; fail "keys refresh says nothing"; }
[ "$first" != "$(head_of signed)" ] || fail "keys refresh has changed nothing"
[ "$(sent)" = 1 ] || { cat asked; fail "keys refresh has sent more than a statement"; }
pull "oci://$home:signed" --into signed --session signed || { cat said; fail "pull of what was refreshed"; }
same set signed
echo "A signed release is refreshed there with one small upload, and pulled by whoever trusts it."

# A cache in front of the tag: two machines pull what one copy of is fetched, and what has the tag is looked up each time.
: >asked
"$SYNCAGENT" serve --cache "oci://$home:signed" --store store --port 0 >served 2>cache-said &
other=$!
for _ in $(seq 200); do
    url=$(grep -o 'http://[^ ]*' served | head -n 1 || true)
    [ -z "$url" ] || break
    kill -0 "$other" 2>/dev/null || break
    sleep 0.1
done
[ -n "$url" ] || { cat served cache-said; fail "the cache does not start"; }
for one in 1 2; do
    pull "$url" --into "cached-$one" --session "cached-$one" --trust keys/1.root ||
        { cat said cache-said; kill "$other"; fail "pull through a cache"; }
    same set "cached-$one"
done
fetched() { python3 -c "
import re
print(sum(int(m[1]) for m in re.finditer(r'GET /v2/acme/sets/blobs/[^\"]*\" 20[06] ([0-9]+)', open('asked', errors='replace').read())))"; }
copy=$(find set -type f -exec cat {} + | wc -c)
[ "$(fetched)" -gt 0 ] && [ "$(fetched)" -lt "$((copy * 21 / 20))" ] ||
    { kill "$other"; fail "$(fetched) bytes of blobs were fetched for a copy of $copy"; }
: >asked
pull "$url" --into cached-1 --session cached-1 || { cat said cache-said; kill "$other"; fail "pull of nothing new through a cache"; }
[ "$(asked 'GET /v2/acme/sets/blobs/')" = 0 ] || { cat asked; kill "$other"; fail "nothing new has asked for a blob"; }
cp -r set cached-set
echo later >set/a/later.txt
"$SYNCAGENT" publish set --to "oci://$home:signed" --project com.example.signed --pack-size 4M --sign keys >said 2>&1 ||
    { cat said; kill "$other"; fail "publish behind a cache"; }
pull "$url" --into cached-1 --session cached-1 || { cat said cache-said; kill "$other"; fail "pull of an update through a cache"; }
same set cached-1
kill "$other" && wait "$other" || fail "the cache's exit status"
rm -r set && mv cached-set set
echo "Through a cache in front of the registry two machines have the same trees for one copy, and the next release at once."

: >asked
publish v1 || { cat said; fail "publish again"; }
[ "$(grep -a -c 'PUT\|POST\|PATCH' asked)" = 0 ] || { cat asked; fail "something was sent again"; }
echo "different" >set/a/different.txt
: >asked
publish v1 || { cat said; fail "publish of a change"; }
[ "$(sent)" = 2 ] || { cat asked; fail "$(sent) uploads and not one pack and one manifest"; }
pull "oci://$home:v1" --into published || { cat said; fail "pull of a change"; }
same set published
"$SYNCAGENT" publish set --to "oci://$home:beta" --base "oci://$home:v1" >said 2>&1 || { cat said; fail "publish to another tag"; }
pull "oci://$home:beta" --into beta --session beta || { cat said; fail "pull of another tag"; }
same set beta
echo "What did not change is not sent again, not for another tag either."
: >asked
"$SYNCAGENT" publish set --to "oci://$home-mounted:v1" --base "oci://$home:v1" >said 2>&1 ||
    { cat said; fail "publish to another repository"; }
mounted=$(grep -a -c 'POST /v2/acme/sets-mounted/blobs/uploads/?mount=[^ ]* HTTP/1.1" 201 ' asked || true)
[ "$mounted" -gt 5 ] || { cat asked; fail "only $mounted packs were mounted"; }
uploads=$(grep -a -c 'PUT /v2/acme/sets-mounted/blobs/uploads/.* 201 ' asked || true)
[ "$uploads" = 2 ] || { cat asked; fail "$uploads uploads and not a manifest and the empty configuration"; }
pull "oci://$home-mounted:v1" --into mounted --session mounted || { cat said; fail "pull from another repository"; }
same set mounted
echo "Another repository of the registry gets $mounted packs without an upload."

kills=0
# How long the publish may go on before it is killed, seconds; less where this machine is done before that.
longest=1.2
for number in 1 2 3 4 5 6 7 8 9 10; do
    python3 -c "
import random
random.seed($number)
open('set/a/killed.bin', 'wb').write(random.randbytes(9_000_000))"
    "$SYNCAGENT" publish set --to "oci://$home:v1" --pack-size 2M >said 2>&1 &
    publisher=$!
    sleep "$(python3 -c "import random; print(random.uniform(0.05, $longest))")"
    if kill -KILL "$publisher" 2>/dev/null; then
        kills=$((kills + 1))
    else
        longest=$(python3 -c "print(max(0.15, $longest * 0.6))")
    fi
    wait "$publisher" 2>/dev/null || true
    # Whatever is named there is whole.
    pull "oci://$home:v1" --into killed-publish --session killed-publish || { cat said; fail "pull after a killed publish"; }
done
[ "$kills" -gt 2 ] || fail "only $kills of 10 were killed before their end"
publish v1 || { cat said; fail "publish after a killed one"; }
pull "oci://$home:v1" --into published || { cat said; fail "pull after killed publishes"; }
same set published
echo "After $kills kills everything that is named is there, and the next publish goes on at once."

"$SYNCAGENT" releases list "oci://$home:v1" >said 2>&1 || { cat said; fail "releases list"; }
first=$(tail -n 1 said | cut -d ' ' -f 1)
[ "$first" = 1 ] || { cat said; fail "the first release is not listed"; }
"$SYNCAGENT" releases restore "oci://$home:v1" 1 >said 2>&1 || { cat said; fail "restore"; }
pull "oci://$home:v1" --into published --prune || { cat said; fail "pull of what was restored"; }
[ ! -e published/a/different.txt ] || fail "the restored release has a later file"
publish v1 || { cat said; fail "publish after restore"; }
"$SYNCAGENT" releases prune "oci://$home:v1" --keep 1 --grace 0 >said 2>&1 || { cat said; fail "prune"; }
before=$(du -sk storage | cut -f 1)
kill "$server"
wait "$server" 2>/dev/null || true
server=""
"$REGISTRY" garbage-collect registry.yml >said 2>&1 || { tail -n 3 said; fail "the registry's garbage collection"; }
after=$(du -sk storage | cut -f 1)
[ "$after" -lt "$before" ] || fail "the registry has removed nothing: $before KiB, then $after"
start
pull "oci://$home:v1" --into after-prune --session after-prune || { cat said; fail "pull after prune"; }
same set after-prune
pull "oci://$home:beta" --into beta --session beta || { cat said; fail "pull of another tag after prune"; }
"$SYNCAGENT" releases list "oci://$home:v1" >said 2>&1 || { cat said; fail "releases list after prune"; }
# The newest, and the one that the tag beta names, too.
[ "$(wc -l <said)" = 3 ] || { cat said; fail "other releases than two after prune"; }
echo "A release is brought back, the others are pruned, and the registry's garbage collection takes $((before - after)) KiB."

kill "$server"
wait "$server" 2>/dev/null || true
server=""
status=0
pull "oci://$name:v2" --into ours --patience 1s || status=$?
[ "$status" = 69 ] || { cat said; fail "exit status $status without the registry"; }
same before ours
echo "Without the registry what is there stays."
