#!/bin/sh
# Channels, as Documentation/guide/Publishing.md has them: names that point at releases, unsigned and signed, with real pulls over
# a real server.
#
#   Tests/walks/channels.sh
#
# Environment: see common.
# Exit status: 0 when everything did what the page says, 1 at the first that did not.
set -eu

. "$(dirname "$0")/common"

write() { echo "$1" >assets/a.txt; }
has() { [ "$(cat "$1/a.txt")" = "$2" ] || fail "$1 has $(cat "$1/a.txt"), not $2"; }
mkdir assets

# walk NAME SIGN: everything, with --sign keys or without.
walk() {
    sign=$1 trust=$2
    rm -rf site tower beta pinned
    publish() { "$SYNCAGENT" publish assets --to site --project com.example.tower $sign "$@"; }

    step "the default channel is what it was, a file more or less"
    write one
    expect 0 publish
    find site -type f | sort >before
    expect 0 publish
    find site -type f | sort | cmp - before || fail "a publish without channels has made more"
    [ ! -e site/channels ] || fail "channels were made for nobody"
    serve site
    expect 0 syncagent pull "$url" --into tower $trust

    step "publish to beta: manifest.json stays"
    cp site/manifest.json before
    write two
    expect 0 publish --channel beta
    said "revision 2 of channel beta"
    cmp before site/manifest.json || fail "manifest.json has changed"
    expect 0 syncagent pull "$url" --into beta --channel beta --session beta
    has beta two
    expect 0 syncagent pull "$url" --into tower
    has tower one
    expect 0 syncagent pull "$url" --into beta --channel beta --session beta --json
    said '"requests":1,'
    expect 0 syncagent pull "$url" --into tower --json
    said '"requests":1,'
    expect 0 syncagent channel list site
    grep -Eq '^default +1$' output && grep -Eq '^beta +2$' output || { cat output >&2; fail "channel list"; }

    step "a channel that is not there"
    expect 66 syncagent pull "$url" --into nothing --channel beat
    said "there is no channel beat; there are beta, and the default one"
    [ ! -e nothing ] || fail "a directory was made"
    expect 64 syncagent pull "$url" --into nothing --channel Beta

    step "ls, plan, verify, diff and status know it"
    expect 0 syncagent ls "$url" --channel beta
    expect 0 syncagent plan "$url" --into beta --channel beta --session beta
    expect 0 syncagent verify "$url" --into beta --channel beta --session beta
    expect 2 syncagent verify "$url" --into beta --session beta
    expect 1 syncagent diff "$url" "$url" --channel beta
    said "changed  a.txt"
    expect 0 syncagent status beta
    said "channel beta"

    step "stable follows beta, and nothing is published anew"
    find site/packs -type f | sort >before
    expect 0 syncagent channel set site stable beta $sign
    said "stable points at revision 2"
    find site/packs -type f | sort | cmp - before || fail "packs were written"
    expect 0 syncagent pull "$url" --into stable --channel stable --session stable
    has stable two
    write three
    expect 0 publish --channel beta
    said "revision 3 of channel beta"
    expect 0 syncagent pull "$url" --into stable --channel stable --session stable
    has stable two
    expect 0 syncagent pull "$url" --into beta --channel beta --session beta
    has beta three

    step "the default channel, too; a number is given once"
    expect 0 syncagent channel set site default stable $sign
    expect 0 syncagent pull "$url" --into tower
    has tower two
    write four
    expect 0 publish
    said "revision 4"
    expect 0 syncagent pull "$url" --into tower
    has tower four
    expect 0 syncagent channel set site beta 4 $sign
    expect 64 syncagent channel set site beta 3 $sign
    said "newer than 3"
    expect 66 syncagent channel set site beta 9 $sign
    said "1, 2, 3, 4"

    step "changing the channel of a destination is told; back to something older only on purpose"
    expect 77 syncagent pull "$url" --into tower --channel stable
    said "--allow-older"
    has tower four
    expect 0 syncagent pull "$url" --into tower --channel stable --allow-older
    said "now follows the channel stable instead of the default channel"
    has tower two
    expect 0 syncagent pull "$url" --into tower --channel stable
    expect 0 syncagent pull "$url" --into tower
    said "now follows the default channel instead of the channel stable"
    has tower four

    step "one revision, whatever is the newest"
    expect 0 syncagent pull "$url" --into pinned --session pinned --revision 3
    has pinned three
    expect 0 syncagent pull "$url" --into pinned --session pinned --revision 3
    expect 77 syncagent pull "$url" --into pinned --session pinned --revision 1
    expect 0 syncagent pull "$url" --into pinned --session pinned --revision 1 --allow-older
    has pinned one
    expect 66 syncagent pull "$url" --into pinned --session pinned --revision 9
    said "revision 9 is not available there"

    step "a copy on a disk"
    expect 0 syncagent pull site/manifest.json --into disk --session disk --channel stable
    has disk two
    expect 66 syncagent pull site --into disk --session disk --channel none
    said "there are beta, stable"

    step "a channel that is removed"
    expect 0 syncagent channel set site gone 4 $sign
    expect 0 syncagent pull "$url" --into gone --session gone --channel gone
    find site/packs site/channels -type f | grep -v /gone | sort >before
    expect 0 syncagent channel remove site gone $sign
    said "The channel gone is removed; its releases stay."
    find site/packs site/channels -type f | sort | cmp - before || fail "more than the channel has gone"
    expect 0 syncagent channel list site
    ! grep -q gone output || fail "it is still listed"
    for directory in gone other; do
        expect 66 syncagent pull "$url" --into "$directory" --session "$directory" --channel gone
        said "; there are beta, stable, and the default one"
        [ -z "$sign" ] || said "the publisher has removed the channel gone"
    done
    has gone four
    [ ! -e other ] || fail "a directory was made"
    expect 66 syncagent channel remove site never $sign
    said "available: default, beta, stable"
    expect 64 syncagent channel remove site default $sign
    expect 0 syncagent pull "$url" --into gone --session gone --channel stable --allow-older
    echo '{ "channel": "gone" }' >assets/publish.json
    write gone
    expect 0 publish
    said "of channel gone"
    rm assets/publish.json
    expect 0 syncagent pull "$url" --into gone --session gone --channel gone
    has gone gone
    expect 0 syncagent channel remove site gone $sign
    syncagent rm gone >rm 2>&1
    rm -rf gone
    write four

    step "a schedule and the agent"
    expect 0 syncagent schedule add "$url" --into night --session night --channel beta --nightly 02:00 --backend agent --interactive --name night
    expect 0 syncagent schedule run night
    expect 0 syncagent wait night
    has night four
    expect 0 syncagent schedule remove night
    expect 0 syncagent pull "$url" --into back --session back --channel stable --background
    expect 0 syncagent wait back
    has back two
    rm -rf disk night back stable
    for session in beta stable pinned disk night back com.example.tower; do syncagent rm "$session" >/dev/null 2>&1 || :; done
}

walk "" ""

expect 0 syncagent keys new keys --project com.example.tower
walk "--sign keys" "--trust keys/1.root"

step "nobody between may serve one channel as another, hold one still, or set it back"
cp -R site good
becomes() { rm -rf site/* && cp -R "${1:-good}"/. site/; }
for pair in "beta.fresh fresh" "fresh beta.fresh" "stable.fresh beta.fresh"; do
    cp "good/trust/${pair% *}" "site/trust/${pair#* }"
    channel=beta
    [ "${pair#* }" = fresh ] && channel=default
    expect 77 syncagent pull "$url" --into beta --session beta --channel "$channel"
    becomes
done
expect 0 syncagent pull "$url" --into beta --session beta --channel beta
cp -R site yesterday
write five
expect 0 publish --channel beta
cp -R site newest
expect 0 syncagent pull "$url" --into beta --session beta --channel beta
cp yesterday/trust/beta.fresh site/trust/
ends 77 "older than" syncagent pull "$url" --into beta --session beta --channel beta
rm site/trust/beta.fresh
expect 77 syncagent pull "$url" --into beta --session beta --channel beta
has beta five

step "keys refresh says all of them once more; fresh.key and the roots are enough to move one"
mkdir online
cp keys/fresh.key keys/1.root online/
# This machine knows that it has signed a newer release of beta.
becomes good
ends 77 "trust/beta.fresh names revision 4, and this machine has signed revision 6" syncagent keys refresh site --sign online
becomes newest
expect 0 syncagent keys refresh site --sign online
said "channel beta"
said "channel stable"
said "channel gone stays removed"
expect 0 syncagent channel set site stable beta --sign online
ends 64 "add --sign" syncagent channel set site stable beta
ends 64 "add --sign" syncagent channel remove site stable

echo "Channels do what their page says."
