#!/bin/sh
# Builds syncagent and shows its main job from end to end, on this machine alone: publish a directory, serve it,
# pull it, pull it again, verify it, change it, repair it. A minute after the build.
#
#   Examples/quickstart.sh                  on Debian 12 or Ubuntu 24.04, as root or with sudo
#   SYNCAGENT=/usr/local/bin/syncagent Examples/quickstart.sh     with a program that is built already
#
# Everything happens below a directory of its own in /tmp, which is removed at the end.
set -eu

cd "$(dirname "$0")/.."
root=$PWD

work=$(mktemp -d "${TMPDIR:-/tmp}/syncagent-quickstart.XXXXXX")
server=""
clean_up() {
    status=$?
    trap - EXIT INT TERM
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

title() { printf '\n== %s\n' "$1"; }

# Shows a command as one would type it, then runs it. Descriptor 3 is where the script itself writes to.
exec 3>&1
run() {
    {
        printf '$ syncagent'
        printf ' %s' "$@"
        printf '\n'
    } >&3
    "$syncagent" "$@"
}

# The first number behind "name": in the last JSON line of a run.
number() { sed -n '$p' "$1" | grep -o "\"$2\":[0-9]*" | head -n 1 | cut -d : -f 2; }

build() {
    title "What a build needs"
    missing=""
    for package in git libcurl4-openssl-dev libssl-dev libzstd-dev libsqlite3-dev libmicrohttpd-dev pkg-config; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    if [ -n "$missing" ]; then
        echo "Installing:$missing"
        sudo=""
        [ "$(id -u)" -eq 0 ] || sudo="sudo"
        $sudo apt-get update -qq
        # shellcheck disable=SC2086 # a list of words
        $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    else
        echo "Every package is there."
    fi
    if ! command -v swift >/dev/null; then
        echo "There is no swift in PATH. https://www.swift.org/install/linux/ says how to install it." >&2
        exit 1
    fi
    title "Build"
    swift build -c release -debug-info-format none --static-swift-stdlib --product syncagent
    syncagent=$(swift build -c release --show-bin-path)/syncagent
}

# 3,000 small files in 60 directories and one of 16 MiB; the same on every machine.
make_assets() {
    mkdir -p "$1/large"
    awk -v target="$1" '
        function next_number() { seed = (seed * 16807) % 2147483647; return seed }
        BEGIN {
            seed = 42
            for (directory = 0; directory < 60; directory++) {
                path = sprintf("%s/sheets/%02d", target, directory)
                system("mkdir -p \"" path "\"")
                for (number = 0; number < 50; number++) {
                    file = sprintf("%s/A-%03d.txt", path, number)
                    lines = 10 + next_number() % 200
                    for (line = 0; line < lines; line++)
                        printf "%d sheet %d line %d %d\n", directory, number, line, next_number() > file
                    close(file)
                }
            }
            file = target "/large/site.dat"
            for (line = 0; line < 640000; line++) printf "%010d %010d\n", next_number(), line > file
            close(file)
        }'
    printf '#!/bin/sh\necho hello\n' >"$1/tool.sh"
    chmod +x "$1/tool.sh"
    ln -s sheets/00/A-000.txt "$1/first.txt"
}

if [ -n "${SYNCAGENT:-}" ]; then syncagent=$SYNCAGENT; else build; fi
XDG_STATE_HOME=$work/state
export XDG_STATE_HOME
cd "$work"

title "An asset set"
make_assets assets
printf '%s files, %s\n' "$(find assets -type f | wc -l)" "$(du -sh --apparent-size assets | cut -f 1)"

title "Publish it"
run publish assets --to out --project com.example.tower

title "Serve it"
echo '$ syncagent serve out --port 0 &'
"$syncagent" serve out --port 0 >url 2>serve.log &
server=$!
until [ -s url ] || ! kill -0 "$server" 2>/dev/null; do sleep 0.1; done
[ -s url ] || { cat serve.log >&2; exit 1; }
url=$(cat url)
echo "$url"

title "Pull it, with a hook"
run pull "$url" --into tower --hook "$root/Examples/hooks/report-hook.sh" --json >first.json
printf 'files %s, requests %s, bytes received %s, ms %s\n' "$(number first.json total)" \
    "$(number first.json requests)" "$(number first.json received)" "$(number first.json elapsed_ms)"
echo "What the hook wrote:"
cat tower.log
diff -r --no-dereference --exclude=.syncagent assets tower
echo "diff -r finds no difference."

title "Pull it again"
run pull "$url" --into tower --json >second.json
printf 'unchanged %s, requests %s, bytes received %s, ms %s\n' "$(number second.json unchanged)" \
    "$(number second.json requests)" "$(number second.json received)" "$(number second.json elapsed_ms)"

title "Verify it"
run verify "$url" --into tower

title "The next night: 30 files changed, one is new"
for directory in 00 01 02; do
    for number in 0 1 2 3 4 5 6 7 8 9; do
        echo "a new line" >>"assets/sheets/$directory/A-00$number.txt"
    done
done
echo "new" >assets/new.txt
run publish assets --to out --project com.example.tower
run pull "$url" --into tower --json >third.json
printf 'installed %s, requests %s, bytes received %s, ms %s\n' "$(number third.json installed)" \
    "$(number third.json requests)" "$(number third.json received)" "$(number third.json elapsed_ms)"

title "Damage, found and repaired"
printf 'X' | dd of=tower/large/site.dat bs=1 seek=5000000 conv=notrunc status=none
echo '$ printf X | dd of=tower/large/site.dat bs=1 seek=5000000 conv=notrunc'
run verify "$url" --into tower && { echo "verify did not see the damage" >&2; exit 1; }
run pull "$url" --into tower
run verify "$url" --into tower
diff -r --no-dereference --exclude=.syncagent assets tower
echo "diff -r finds no difference."
