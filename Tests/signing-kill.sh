#!/bin/sh
# Kills a signed pull, a signed publish and a change of keys with SIGKILL at one system call after the other, and looks at what
# machines then believe.
#
#   Tests/signing-kill.sh [MOST]     at most so many kills for each kind of call (default 40)
#
# The publish brings a new release, once with the same keys and once after the release key has changed. Each of its renames and
# links is killed, whatever MOST says; with less than 10 nothing else is, and the key stays. After each kill a machine that
# has the old release, and one that is new, get the old one whole or the new one whole; where the key has changed they may be
# refused instead, as what it signed counts no more. The next publish goes on, both get the new one, nothing is left over.
#
# The pull has everything to do that changes a pin: two new roots, which take a floor away, and a new release. After each
# kill: the pin can be read; its root, serial and revision are not below those before, unless a root took the floor away;
# none is above what is published; a revision is believed only with its manifest on the disk; the next pull ends well, and
# an older site is refused.
#
# The change of keys is of each role. After each kill what is there can be published, the key be changed, and it be published again.
#
# Environment: see walks/common.
# Exit status: 0 all held, 1 something did not, 77 there is no strace here.
set -eu

most=${1:-40}
strace -qq -o /dev/null true 2>/dev/null || { echo "SKIPPED: killing signed pulls and publishes: strace cannot be used here"; exit 77; }
. "$(dirname "$0")/walks/common"
# Says at which kill it was, too.
failed() { fail "$1 (call ${call:-}, number ${number:-})"; }

mkdir assets
echo one >assets/a
"$SYNCAGENT" keys new keys --project p 2>/dev/null
"$SYNCAGENT" publish assets --to site --sign keys -q
serve site
"$SYNCAGENT" pull "$url" --into tower --trust keys/1.root -q
cp -a site old-site
cp -a state old-state
cp -a tower old-tower
"$SYNCAGENT" keys rotate keys --role fresh 2>/dev/null
"$SYNCAGENT" keys rotate keys --role root 2>/dev/null
echo two >assets/a
"$SYNCAGENT" publish assets --to site --sign keys -q
cp -a site new-site

value() { "$SYNCAGENT" trust show p --json >shown 2>/dev/null || failed "the pin cannot be read"; sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"]*\).*/\1/p" shown; }
old_serial=$(value serial)
new_serial=$("$SYNCAGENT" keys show site/trust/fresh --json | sed -n 's/.*"serial":\([0-9]*\).*/\1/p')

kills=0
for call in openat rename renameat2 fsync fdatasync write pwrite64 sendto recvfrom connect flock unlink mkdir close; do
    number=0
    while [ "$number" -lt "$most" ]; do
        number=$((number + 1))
        rm -rf state tower
        cp -a old-state state
        cp -a old-tower tower
        status=0
        # In a shell of its own, which would else tell of every kill.
        sh -c 'exec strace -f -qq -o /dev/null -e "trace=$1" -e "inject=$1:signal=KILL:when=$2" "$3" pull "$4" --into tower -q' \
            kill "$call" "$number" "$SYNCAGENT" "$url" >/dev/null 2>&1 || status=$?
        root=$(value root) serial=$(value serial) revision=$(value revision)
        case "$root/$serial/$revision" in
        "1/$old_serial/1") ;;
        # The fresh key went with root 2, and its floor with it.
        2/0/1 | 3/0/1) ;;
        "3/$new_serial/2")
            digest=$(value manifest)
            [ -s "state/syncagent/manifests/$digest.json.zst" ] || failed "revision 2 is believed without its manifest"
            ;;
        *) failed "root, serial and revision are $root, $serial and $revision" ;;
        esac
        [ "$status" -ne 0 ] || break
        kills=$((kills + 1))
        "$SYNCAGENT" pull "$url" --into tower -q || failed "the next pull ends with $?"
        [ "$(cat tower/a)" = two ] || failed "the new release is not there"
        status=0
        "$SYNCAGENT" pull "$work/old-site/manifest.json" --into tower -q 2>/dev/null || status=$?
        [ "$status" -eq 77 ] || failed "an older site ends with $status"
    done
done
# All calls of a pull are some 280.
enough=$((most * 5 < 200 ? most * 5 : 200))
[ "$kills" -ge "$enough" ] || failed "only $kills kills: too few to mean anything"
echo "Signed pulls: $kills kills, and nothing believed that was not verified."

cd "$work"
rm -rf state tower
mkdir set
echo one >set/a
echo one >set/b
"$SYNCAGENT" keys new pen --project q 2>/dev/null
"$SYNCAGENT" publish set --to out --sign pen -q
"$SYNCAGENT" pull out/manifest.json --into has --trust pen/1.root -q
cp -a out old-out
cp -a state old-state
cp -a has old-has
echo two >set/a
echo two >set/b

# reads NAME MAY: a machine gets one release whole, or is refused where it may be; says what it has.
reads() {
    status=0
    "$SYNCAGENT" pull out/manifest.json --into "$1" --trust pen/1.root -q 2>said || status=$?
    [ "$status" -eq 0 ] || [ "$status$2" = 77refused ] || { cat said >&2; failed "a machine that $1 it ends with $status"; }
    found=$(cat "$1/a" "$1/b" 2>/dev/null | tr '\n' ' ') || :
    case "$status $found" in
    "0 one one " | "0 two two " | "77 one one " | "77 ") ;;
    *) failed "a machine that $1 it has $found" ;;
    esac
}
kills=0
variants="same changed" calls="rename renameat renameat2 link linkat mkdirat unlinkat fsync write pwrite64" enough=20
# A few seconds' worth: what makes a name, and no more.
[ "$most" -ge 10 ] || variants=same calls="rename renameat linkat" enough=6
for keys in $variants; do
    may=
    if [ "$keys" = changed ]; then
        may=refused
        "$SYNCAGENT" keys rotate pen --role release 2>/dev/null
    fi
    for call in $calls; do
        limit=$most
        case $call in rename* | link*) limit=1000 ;; esac
        number=0
        while [ "$number" -lt "$limit" ]; do
            number=$((number + 1))
            rm -rf out state has lacks
            cp -a old-out out
            cp -a old-state state
            cp -a old-has has
            killed=0
            sh -c 'exec strace -f -qq -o /dev/null -e "trace=$1" -e "inject=$1:signal=KILL:when=$2" "$3" publish set --to out --sign pen -q' \
                kill "$call" "$number" "$SYNCAGENT" >/dev/null 2>&1 || killed=$?
            reads has "$may"
            XDG_STATE_HOME=$work/none reads lacks "$may"
            rm -rf none lacks
            [ "$killed" -ne 0 ] || break
            kills=$((kills + 1))
            "$SYNCAGENT" publish set --to out --sign pen -q || failed "the next publish ends with $?"
            reads has
            [ "$found" = "two two " ] || failed "after the next publish a machine has $found"
            XDG_STATE_HOME=$work/none reads lacks
            [ "$found" = "two two " ] || failed "after the next publish a new machine has $found"
            rm -rf none
            left=$(find out -name '.*' ! -name . | head -n 1)
            [ -z "$left" ] || failed "$left is left over"
        done
    done
done
[ "$kills" -ge "$enough" ] || failed "only $kills kills of a publish: too few to mean anything"
echo "Signed publishes: $kills kills, and nobody got anything but one release whole."

cd "$work"
"$SYNCAGENT" keys new ring --project r 2>/dev/null
"$SYNCAGENT" publish set --to rung --sign ring -q
cp -a ring old-ring
cp -a rung old-rung
kills=0
for role in release fresh root; do
    for call in rename renameat renameat2 link linkat fsync write; do
        number=0
        while [ "$number" -lt "$most" ]; do
            number=$((number + 1))
            rm -rf ring rung
            cp -a old-ring ring
            cp -a old-rung rung
            killed=0
            sh -c 'exec strace -f -qq -o /dev/null -e "trace=$1" -e "inject=$1:signal=KILL:when=$2" "$3" keys rotate ring --role "$4"' \
                kill "$call" "$number" "$SYNCAGENT" "$role" >/dev/null 2>&1 || killed=$?
            [ "$killed" -ne 0 ] || break
            kills=$((kills + 1))
            "$SYNCAGENT" publish set --to rung --sign ring -q || failed "with the keys that are there nothing can be published ($role)"
            "$SYNCAGENT" keys rotate ring --role "$role" 2>/dev/null || failed "the key cannot be changed any more ($role)"
            "$SYNCAGENT" publish set --to rung --sign ring -q || failed "after the next change nothing can be published ($role)"
        done
    done
done
[ "$kills" -ge 9 ] || failed "only $kills kills of a change of keys: too few to mean anything"
echo "Changes of keys: $kills kills, and all went on with what was there."
