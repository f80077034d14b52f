#!/bin/sh
# Builds the Debian package twice and the same both times, asks lintian, and installs, uses, upgrades, removes and purges
# it in a fresh Debian 12 of its own.
#
# usage: Tests/debian.sh [PROGRAM]       without one, .build/release/syncagent, as Packaging/build.sh makes it
#
# Needs root, a network, dpkg-dev, debootstrap, lintian, openssl, python3. About two minutes. Exit status: 0 all is well, 1 it is
# not, 77 it cannot be run here.
set -u

cd "$(dirname "$0")/.." || exit 1
program=${1:-.build/release/syncagent}
for command in debootstrap lintian dpkg-shlibdeps unshare python3 openssl; do
    command -v "$command" >/dev/null || { echo "SKIPPED: the Debian package: no $command"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: the Debian package: debootstrap needs root"; exit 77; }
[ -x "$program" ] || { echo "debian.sh: no program $program; Packaging/build.sh makes it" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
failures=0
complain() { printf 'FAILED: %s\n' "$1" >&2; failures=$((failures + 1)); }
told() { printf 'ok      %s\n' "$1"; }
# expect WHAT COMMAND…
expect() {
    what=$1
    shift
    if "$@" >"$work/said" 2>&1; then told "$what"; else complain "$what: $(tail -3 "$work/said")"; fi
}
MAINTAINER="Packages <packages@syncagent.invalid>"
export MAINTAINER

first=$(Packaging/debian.sh "$program" "$work/one" | cut -d' ' -f1) || exit 1
second=$(Packaging/debian.sh "$program" "$work/two" | cut -d' ' -f1)
expect "two builds are the same byte by byte" [ "$first" = "$second" ]
dpkg-deb -x "$work/one/"*.deb "$work/unpacked"
expect "the program has at most 42 MB" [ "$(stat -c %s "$work/unpacked/usr/bin/syncagent")" -le 42000000 ]
expect "lintian finds nothing" lintian --allow-root --fail-on error,warning "$work"/one/*.deb
package=$(cd "$work/one" && ls ./*.deb)

root=$work/root
echo "Making a fresh Debian 12…"
debootstrap --variant=minbase bookworm "$root" >"$work/debootstrap.log" 2>&1 || {
    echo "SKIPPED: the Debian package in a system of its own: $(tail -1 "$work/debootstrap.log")"
    exit 77
}
cp "$work/one/$package" "$root/tmp/one.deb"
# The same with a later version, as the next release.
dpkg-deb -R "$work/one/$package" "$work/next"
sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
dpkg-deb --root-owner-group --build "$work/next" "$root/tmp/two.deb" >/dev/null
within() { unshare --mount --pid --fork sh -c 'mount -t proc proc "$0/proc" && exec chroot "$@"' "$root" "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive sh -c "$1"; }

expect "it installs, with what it needs" within "apt-get -qq update && apt-get -qq -y --no-install-recommends install /tmp/one.deb"
expect "its user is there, and has no shell" within "getent passwd syncagent | grep -q nologin"
expect "its home is there and its own" within "[ \"\$(stat -c '%U %a' /var/lib/syncagent)\" = 'syncagent 700' ]"
expect "formats, examples and all units come with it" within "ls /usr/share/doc/syncagent/Manifests/FORMAT.md \
    /usr/share/doc/syncagent/Examples/systemd/syncagent-refresh@.timer /usr/lib/systemd/system/syncagent-refresh@.service \
    /usr/lib/systemd/system/syncagent-pull@.timer /usr/lib/systemd/user/syncagent.service"
expect "nothing is enabled by itself" within "! find /etc/systemd -name '*syncagent*' | grep -q ."
expect "units are in order" within "systemd-analyze verify /usr/lib/systemd/system/syncagent-pull@.service 2>&1 | grep -v \"Command 'man\" | (! grep -i syncagent)"
expect "units that run as its user keep their state" within "! grep -L '^StateDirectory=syncagent\$' \$(grep -l '^User=syncagent\$' \
    /usr/lib/systemd/system/syncagent-*.service) | grep ."
# Neither a resolver nor time zones are here.
expect "it publishes, pulls and verifies" within "cd /tmp && mkdir -p set && echo one >set/a && cp /bin/ls set/ls &&
    syncagent publish set --to site --project tower && syncagent pull site/manifest.json --into tower &&
    syncagent verify site/manifest.json --into tower && cmp set/ls tower/ls"
expect "as a user of its own, too" within "cd /tmp && chmod 1777 /tmp && setpriv --reuid syncagent --regid syncagent --clear-groups \
    env HOME=/tmp/home syncagent pull /tmp/site/manifest.json --into /tmp/other && cmp set/ls other/ls"
expect "it knows time zones all the same" within "cd /tmp && syncagent schedule add site/manifest.json --into zones --nightly 03:00 \
    --time-zone Pacific/Apia --backend agent --dry-run 2>&1 | grep -q ' 1[34]:00:00'"
openssl req -x509 -newkey ed25519 -nodes -subj /CN=localhost -keyout "$work/key" -out "$work/certificate" 2>"$work/said"
python3 -c 'import http.server, ssl, sys
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()' "$work/certificate" "$work/key" >"$work/port" 2>"$work/log" &
server=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -s "$work/port" ] || sleep 0.5; done
within "cd /tmp && syncagent pull https://localhost:$(cat "$work/port")/manifest.json --into none --deadline 20s" >"$work/authorities" 2>&1
expect "https without authorities says which package has them" grep "install the package ca-certificates" "$work/authorities"
kill "$server"
expect "manual page and completions are where they are looked for" within "ls /usr/share/man/man1/syncagent.1.gz \
    /usr/share/bash-completion/completions/syncagent /usr/share/zsh/vendor-completions/_syncagent \
    /usr/share/fish/vendor_completions.d/syncagent.fish"
expect "it is upgraded, and goes on with its state" within "apt-get -qq -y install /tmp/two.deb && cd /tmp &&
    syncagent pull site/manifest.json --into tower 2>&1 | grep -q '2 unchanged'"
# What schedules leave: a block of the user's, one whose end is gone, and another's line.
within "mkdir -p /etc/systemd/system && printf \"# Written by 'syncagent schedule add'; it replaces this file.\\n\" \
        >/etc/systemd/system/syncagent-schedule-tower.timer
    apt-get -qq -y --no-install-recommends install cron && printf '%s\\n' '1 1 * * * /bin/mine' \
        \"# syncagent schedule tower: do not edit; 'syncagent schedule remove tower' removes it\" \
        '0 2 * * * /usr/bin/syncagent schedule run tower' '# syncagent schedule tower: end' \
        \"# syncagent schedule bridge: do not edit; 'syncagent schedule remove bridge' removes it\" \
        '2 2 * * * /bin/mine-too' | crontab -u syncagent -
    printf '%s\n' \"# syncagent schedule tower: do not edit; 'syncagent schedule remove tower' removes it\" \
        '0 2 * * * root /usr/bin/syncagent schedule run tower' '# syncagent schedule tower: end' >/etc/cron.d/syncagent-tower" >"$work/said" 2>&1 || complain "cron: $(tail -3 "$work/said")"
expect "it is removed; what was pulled stays" within "apt-get -qq -y remove syncagent && ! command -v syncagent && cmp /tmp/set/ls /tmp/tower/ls"
expect "it is purged, and leaves nothing but its user" within "mkdir -p /var/lib/syncagent && apt-get -qq -y purge syncagent &&
    ! find /etc /usr /var/lib -name '*syncagent*' -not -path '/var/lib/dpkg/*' | grep ."
expect "nor its lines in a crontab, with all others kept" within "crontab -u syncagent -l >/tmp/lines &&
    printf '%s\\n' '1 1 * * * /bin/mine' '2 2 * * * /bin/mine-too' | cmp - /tmp/lines"
[ "$failures" = 0 ] || { echo "$failures of the package's promises do not hold." >&2; exit 1; }
ls -l "$work/one" | awk 'NR > 1 { printf "%.1f MB  %s\n", $5 / 1e6, $NF }'
