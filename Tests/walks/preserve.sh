#!/bin/sh
# Empty directories, and modes and times with --preserve: a tree comes as rsync -a and tar would bring it.
#
#   Tests/walks/preserve.sh
#
# Environment: see common.
# Exit status: 0 when everything did what Documentation/guide/Publishing.md says, 1 at the first that did not.
set -eu

. "$(dirname "$0")/common"

same() { diff -r --exclude=.syncagent "$1" "$2" >difference || { cat difference >&2; fail "$1 and $2 differ"; }; }
# Kind, mode, time and target of everything in a directory.
list() { (cd "$1" && find . -mindepth 1 -path ./.syncagent -prune -o -printf '%P %y %m %T@ %l\n' | sort); }
alike() { list "$1" >one; list "$2" >two; diff one two >difference || { cat difference >&2; fail "$1 and $2 differ"; }; }

mkdir -p game/data game/saves game/screenshots/2026
echo level >game/data/level-1
cp "$SYNCAGENT" game/data/large

step "empty directories come with their set, and the manifest stays one that every reader knows"
expect 0 syncagent publish game --to site --project com.example.game
! grep -q '"mtime"' site/manifest.json || fail "times are kept"
serve site
expect 0 syncagent pull "$url" --into here
same game here
expect 0 syncagent pull "$url" --into here
said "in 1 request"

step "verify misses one, a pull makes it, --prune removes what is no longer there"
rmdir here/saves
ends 2 "saves: missing" syncagent verify "$url" --into here
expect 0 syncagent pull "$url" --into here
[ -d here/saves ] || fail "it was not made"
rmdir game/saves
expect 0 syncagent publish game --to site
expect 0 syncagent pull "$url" --into here --prune
same game here

if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    step "a pull that is killed before it has written what it made: --prune removes the directory all the same"
    mkdir game/late
    expect 0 syncagent publish game --to site
    status=0
    strace -f -o trace -P "$work/here/.syncagent" -e inject=rename,renameat,renameat2:signal=KILL \
        "$SYNCAGENT" pull "$url" --into here >output 2>&1 || status=$?
    [ "$status" -ne 0 ] && [ -d here/late ] || { cat output trace >&2; fail "it was not killed in time: $status"; }
    rmdir game/late
    expect 0 syncagent publish game --to site
    expect 0 syncagent pull "$url" --into here --prune
    said "1 directory removed"
    same game here
fi

step "modes and times, as rsync -a brings them"
mkdir game/private
echo secret >game/private/key
chmod 600 game/private/key
chmod 700 game/private
ln -s level-1 game/data/first
touch -d '2001-02-03 04:05:06.789012345Z' game/data/level-1
touch -h -d '2002-02-02 02:02:02Z' game/data/first
touch -d '2003-03-03 03:03:03Z' game/data game/private
expect 0 syncagent publish game --to site --preserve times,modes
grep -q '"mtime"' site/manifest.json || fail "no times are kept"
expect 0 sh -c 'umask 077; exec "$0" pull "$1" --into here' "$SYNCAGENT" "$url"
same game here
alike game here
if command -v rsync >/dev/null; then
    # -1: times to the nanosecond. rsync's own comparison is by whole seconds, so it leaves a directory that it made
    # within the second of its source as it is.
    rsync -a --modify-window=-1 game/ by-rsync/
    alike by-rsync here
fi
mkdir by-tar
tar -C game -cf - . | tar -C by-tar -xpf -
# tar has whole seconds, unless it is asked.
list by-tar | sed 's/\.[0-9]* / /' >one
list here | sed 's/\.[0-9]* / /' >two
cmp one two || fail "tar brings another tree"

step "a mode and a time alone bring no bytes of files, also where nobody says --preserve again"
chmod 640 game/data/level-1
touch -d '2011-11-11Z' game/data/large
expect 0 syncagent publish game --to site
said "As published before: --preserve times,modes."
expect 0 syncagent pull "$url" --into here --json
said '"installed":0'
said '"reused":0'
alike game here

step "links out of the tree are left out as rsync --safe-links does: their directories stay, empty"
if command -v rsync >/dev/null; then
    mkdir game/links
    ln -s /etc/passwd game/links/out
    expect 65 syncagent publish game --to site
    expect 0 syncagent publish game --to site --safe-links
    expect 0 syncagent pull "$url" --into here --prune
    rsync -a --modify-window=-1 --delete --safe-links game/ by-rsync/
    alike by-rsync here
    rm -r game/links
    expect 0 syncagent publish game --to site
    expect 0 syncagent pull "$url" --into here --prune
fi

step "what somebody changed is told and mended"
touch here/data/large
ends 0 "note: data/large was modified" syncagent verify "$url" --into here
chmod 644 here/private/key
ends 2 "private/key: has mode 644, not 600" syncagent verify "$url" --into here
expect 0 syncagent pull "$url" --into here
alike game here

step "a file that was changed under its old size and time is found all the same"
touch -r here/data/level-1 stamp
printf LEVEL | dd of=here/data/level-1 conv=notrunc status=none
touch -r stamp here/data/level-1
expect 0 syncagent pull "$url" --into here
same game here
alike game here

echo "All steps did what Documentation/guide/Publishing.md says."
