#!/bin/sh
# What the packaged timers pull, as an administrator sees it: root looks at the sessions of the system's own user with --system,
# without becoming their owner, and who is neither is refused. Needs root, and a mount namespace of its own: /var/lib is a tmpfs
# there.
#
#   Tests/walks/system.sh
#
# Environment: see common.
# Exit status: 0 when everything did what the page says, 1 at the first that did not.
set -eu

if [ "${1:-}" != inside ]; then
    if [ "$(id -u)" != 0 ] || ! unshare --mount true 2>/dev/null; then
        echo "SKIPPED: the sessions of the system's user need root and a mount namespace" >&2
        exit 0
    fi
    exec unshare --mount "$0" inside
fi
mount -t tmpfs -o mode=755 tmpfs /var/lib || {
    echo "SKIPPED: the sessions of the system's user need a /var/lib of their own" >&2
    exit 0
}

. "$(dirname "$0")/common"

user=4242 stranger=4243
chmod 711 "$work"
as() { who=$1; shift; setpriv --reuid "$who" --regid "$who" --clear-groups env HOME=/nonexistent "$@"; }
# The program where others can reach it.
install -m 755 "$SYNCAGENT" /var/lib/program
mkdir set
echo one >set/one.txt
syncagent publish set --to site --project walk.system --quiet
chmod -R go+rX site

step "where no system's user has pulled anything, that is said"
ends 66 "There is no state of the system's user" syncagent status --system

mkdir -m 700 /var/lib/syncagent
mkdir -m 755 /var/lib/tower
chown "$user:$user" /var/lib/syncagent /var/lib/tower
expect 0 as "$user" env XDG_STATE_HOME=/var/lib /var/lib/program pull "$work/site/manifest.json" --into /var/lib/tower

step "root sees it, and leaves everything with its owner"
ends 0 "walk.system" syncagent status --system
ends 0 "walk.system" syncagent report --system
ends 0 "pull.finished" syncagent events walk.system --system --json
[ -z "$(find /var/lib/syncagent ! -user "$user")" ] || fail "something of it is root's now"
expect 0 syncagent status
grep -q walk.system output && fail "root's own sessions are the system's"

step "so does that user; another is refused"
ends 0 "walk.system" as "$user" /var/lib/program status --system
ends 77 "belongs to the user" as "$stranger" /var/lib/program status --system
expect 0 as "$user" env XDG_STATE_HOME=/var/lib /var/lib/program pull "$work/site/manifest.json" --into /var/lib/tower
