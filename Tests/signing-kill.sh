#!/bin/sh
# Kills a signed pull with SIGKILL at one system call after the other, and looks at what the machine then believes.
#
#   Tests/signing-kill.sh [MOST]     at most so many kills for each kind of call (default 40)
#
# The pull has everything to do that changes a pin: two new roots, which take a floor away, and a new release. After each
# kill: the pin can be read; its root, serial and revision are not below those before, unless a root took the floor away;
# none is above what is published; a revision is believed only with its manifest on the disk; the next pull ends well, and
# an older site is refused.
#
# Environment: see walks/common.
# Exit status: 0 all held, 1 something did not, 77 there is no strace here.
set -eu

most=${1:-40}
strace -qq -o /dev/null true 2>/dev/null || { echo "SKIPPED: killing signed pulls: strace cannot be used here"; exit 77; }
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
