#!/bin/sh
# Each command of Documentation/guide/Elsewhere.md as a newcomer types it, with servers of this machine in the place of those that the page
# names: a web server, a hub, Debian's docker-registry, a git repository with files in LFS, and rclone. What is not installed is left
# out, and said.
#
#   Tests/walks/elsewhere.sh
#
# Environment: see common; REGISTRY, the program docker-registry.
# Exit status: 0 when everything did what the page says, 1 at the first that did not.
set -eu

. "$(dirname "$0")/common"
page=$root/Documentation/guide/Elsewhere.md
skipped() { printf '%s\n' "  SKIPPED: $1"; }
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# started FILE: waits until a server has said its URL there.
started() {
    for _ in $(seq 300); do
        [ ! -s "$1" ] || return 0
        sleep 0.2
    done
    fail "a server does not start: $1"
}
# The files of a set, without what belongs to syncagent or beside the set.
same() { diff -r -x .syncagent -x SHA256SUMS -x set.meta4 "$1" "$2" >differences || { cat differences >&2; fail "$1 and $2 differ"; }; }

mkdir -p www/maps/north www/maps/south
echo hello >www/maps/read.me
head -c 300000 /dev/urandom >www/maps/north/tile.bin
head -c 5000 /dev/urandom >www/maps/south/tile.bin
cp -r www/maps maps
(cd www/maps && find . -type f ! -name 'SHA256SUMS*' | sed 's,^\./,,' | sort | xargs sha256sum >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS)
cp www/maps/SHA256SUMS SHA256SUMS
python3 -u -m http.server --bind 127.0.0.1 --directory www "$(port)" >web 2>web.log &
servers="$servers $!"
started web
web=$(grep -o 'http://[0-9.:]*' web)
python3 - "$web/maps" >set.meta4 <<'END'
import hashlib, os, sys
print('<metalink xmlns="urn:ietf:params:xml:ns:metalink">')
for directory, _, names in os.walk("maps"):
    for name in names:
        path = os.path.relpath(f"{directory}/{name}", "maps")
        with open(f"maps/{path}", "rb") as file:
            text = file.read()
        print(f'<file name="{path}"><size>{len(text)}</size><hash type="sha-256">{hashlib.sha256(text).hexdigest()}</hash>'
              f"<url>{sys.argv[1]}/{path}</url></file>")
print("</metalink>")
END
cp set.meta4 www/maps/set.meta4

commit=c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff
mkdir hub
cp -r maps hub/$commit
echo $commit >hub/main
echo $commit >hub/v1.2
python3 "$root/Tests/evidence/elsewhere_hub.py" hub >hub.url 2>hub.log &
servers="$servers $!"
started hub.url
HF_ENDPOINT=$(cat hub.url)
export HF_ENDPOINT

mkdir -p git/acme repository
if command -v git-lfs >/dev/null; then
    git config --global user.name anna
    git config --global user.email anna@example.com
    git config --global init.defaultBranch main
    git lfs install --skip-repo >/dev/null
    git init -q --bare git/acme/assets.git
    cp -r maps/. repository
    (
        cd repository
        git init -q
        git lfs track '*.bin' >/dev/null
        git add -A
        git commit -qm one
        git tag v1.2
        git push -q "file://$work/git/acme/assets.git" main v1.2
    ) >pushed 2>&1 || { cat pushed >&2; fail "git push"; }
    rm -rf repository/.git
fi

REGISTRY=${REGISTRY:-$(command -v docker-registry || true)}
registry=127.0.0.1:$(port) digest=
if [ -n "$REGISTRY" ]; then
    cat >registry.yml <<END
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: $work/storage}}
http: {addr: $registry}
END
    "$REGISTRY" serve registry.yml >registry.log 2>&1 &
    servers="$servers $!"
    # As a client pushes an artifact: blobs, then the manifest that names them.
    digest=$(python3 - "$registry" <<'END'
import hashlib, json, os, sys, time, urllib.request
base = f"http://{sys.argv[1]}/v2/acme/maps"
def send(method, url, data=None, kind="application/octet-stream"):
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": kind})
    with urllib.request.urlopen(request) as answer:
        return answer.headers
def blob(data):
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    place = send("POST", f"{base}/blobs/uploads/", b"")["Location"]
    send("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", data)
    return digest
for _ in range(50):
    try:
        urllib.request.urlopen(f"http://{sys.argv[1]}/v2/")
        break
    except OSError:
        time.sleep(0.2)
layers = []
for directory, _, names in sorted(os.walk("maps")):
    for name in sorted(names):
        with open(f"{directory}/{name}", "rb") as file:
            data = file.read()
        layers.append({"mediaType": "application/octet-stream", "digest": blob(data), "size": len(data), "annotations": {
            "org.opencontainers.image.title": os.path.relpath(f"{directory}/{name}", "maps")}})
kind = "application/vnd.oci.image.manifest.v1+json"
manifest = {"schemaVersion": 2, "mediaType": kind, "artifactType": "application/vnd.example.maps", "layers": layers, "config": {
    "mediaType": "application/vnd.oci.empty.v1+json", "digest": blob(b"{}"), "size": 2}}
print(send("PUT", f"{base}/manifests/v1", json.dumps(manifest).encode(), kind)["Docker-Content-Digest"].removeprefix("sha256:"))
END
    ) || { cat registry.log >&2; fail "the registry"; }
fi

mkdir -p config/syncagent/plugins remote
cp "$root"/Examples/plugins/syncagent-plugin-webdir "$root"/Examples/plugins/syncagent-plugin-rclone config/syncagent/plugins
cp -r maps remote
printf '[REMOTE]\ntype = alias\nremote = %s/remote\n' "$work" >rclone.conf
cat >config/syncagent/config.json <<END
{ plugins: { use: [
  { plugin: "webdir", point: "source", for: ["dir+https:", "dir+http:"] },
  { plugin: "rclone", point: "transport", for: ["rclone:"], settings: { config: "$work/rclone.conf" } },
  { plugin: "rclone", point: "source", for: ["rclone-tree:"], settings: { config: "$work/rclone.conf" } } ] } }
END

# The page's commands, one a line.
sed -n 's/^    \(syncagent .*\)/\1/p' "$page" >commands
[ "$(wc -l <commands)" -ge 14 ] || fail "the page has fewer commands than this knows"
mkdir srv
count=0
while read -r line; do
    local=$(printf '%s\n' "$line" | sed "
        s,dir+https://example.com/,dir+$web/,
        s,https://cdn.example.com/,$web/,
        s,registry.example.com/,$registry/,
        s,ghcr.io/acme/model@sha256:5f0c…,$registry/acme/maps@sha256:$digest,
        s,lfs+https://git.example.com/,lfs+file://$work/git/,
        s,/srv/,$work/srv/,g
        s,schedule add,schedule add --backend agent --interactive --dry-run,")
    case $line in
    *oci://*) [ -n "$digest" ] || { skipped "$line: there is no docker-registry"; continue; } ;;
    *lfs+*) command -v git-lfs >/dev/null || { skipped "$line: git-lfs is not installed"; continue; } ;;
    *rclone-tree:*) command -v rclone >/dev/null || { skipped "$line: rclone is not installed"; continue; } ;;
    esac
    step "$line"
    # One place for all of the page, and each source is another set.
    case $line in *publish*) ;; *) rm -rf srv acme.* "$XDG_STATE_HOME" && mkdir srv ;; esac
    case $line in *publish*) syncagent pull "$web/maps/SHA256SUMS" --into srv/maps >output 2>&1 || fail "pull" ;; esac
    expect 0 eval "$local"
    case $line in
    *publish*)
        serve srv/www
        expect 0 syncagent pull "${url%/}/maps/" --into others --session others
        same maps others
        ;;
    *import*)
        expect 0 syncagent pull manifest.json --into imported
        same maps imported
        ;;
    *schedule*) said "Nothing was changed." ;;
    *north*) [ "$(cd srv/* && find . -name '*.bin' | sort)" = ./north/tile.bin ] || fail "more than north" ;;
    *"pull hf"*) same maps acme.site ;;
    *"pull lfs"*) same repository acme.assets ;;
    *) same maps "$(echo srv/*)" ;;
    esac
    count=$((count + 1))
done <commands

step "nothing new is a request, and without its server a set stays as it is"
expect 0 syncagent pull "$web/maps/SHA256SUMS" --into srv/maps --session again
expect 0 syncagent pull "$web/maps/SHA256SUMS" --into srv/maps --session again --json
said '"requests":1,'
for one in $servers; do kill "$one" 2>/dev/null || true; wait "$one" 2>/dev/null || true; done
servers=""
expect 69 syncagent pull "$web/maps/SHA256SUMS" --into srv/maps --session again --patience 1s
same maps srv/maps
echo "All $count commands of the page did what it says."
