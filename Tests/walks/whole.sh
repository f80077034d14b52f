#!/bin/sh
# Destinations that change as a whole, as Documentation/guide/Whole.md has them: built beside, checked, shown, rolled back and held,
# with real pulls over a real server and readers that look all the time.
#
#   Tests/walks/whole.sh
#
# Environment: see common.
# Exit status: 0 when everything did what the page says, 1 at the first that did not.
set -eu

. "$(dirname "$0")/common"

write() {
    mkdir -p assets/deep/"$1"
    for same in 1 2 3 4 5 6 7 8 9; do echo "$same" >assets/"$same".txt; done
    echo "$1" >assets/which.txt
    echo "$1" >assets/deep/"$1"/which.txt
    [ "$1" = 1 ] || rm -rf assets/deep/$(($1 - 1))
    expect 0 syncagent publish assets --to site --project com.example.tower
}
shows() {
    [ "$(cat tower/which.txt)" = "$1" ] || fail "readers see $(cat tower/which.txt), not $1"
    [ "$(ls tower/deep)" = "$1" ] || fail "readers see $(ls tower/deep), not $1"
    [ ! -e tower/.syncagent ] || fail "there is a .syncagent in what readers see"
}
pull() { syncagent pull "$url" --into tower --atomic --keep-for 0 "$@"; }
hook() { printf '#!/bin/sh\necho "$SYNCAGENT_RESULT $SYNCAGENT_CHANGED ${SYNCAGENT_ROLLBACK-no}" >>%s/hooks\n' "$work" >hook && chmod 755 hook; }

hook
step "the first revision, and a second one beside it"
write 1
serve site
expect 0 pull --hook ./hook
shows 1
write 2
expect 0 pull --hook ./hook --json
said '"event":"tree.switched"'
said '"unchanged":9,'
shows 2

step "what the two share is one file, to which nobody may write, or a clone"
case $(stat -c %h,%a tower/1.txt) in
2,444 | 1,*) ;;
*) fail "$(stat -c %h,%a tower/1.txt)" ;;
esac

step "readers that look all the time see one revision or the other, never nothing"
: >reading
sh -c 'while [ -e reading ]; do read -r a <tower/which.txt || echo missing >>seen; case $a in [0-9]*) ;; *) echo "odd $a" >>seen ;; esac; done' 2>>seen &
reader=$!
for number in 3 4 5 6 7 8; do
    write "$number"
    expect 0 pull --hook ./hook
    shows "$number"
done
rm reading
wait "$reader"
[ ! -s seen ] || { sort seen | uniq -c >&2; fail "readers saw something else"; }

step "a check that says no, and one that says yes"
write 9
ends 5 "readers see what they saw before" pull --check /bin/false
shows 8
expect 0 pull --check /bin/true --hook ./hook
shows 9

step "files of one's own"
echo mine >tower/mine.txt
write 10
ends 77 "mine.txt" pull
shows 9
expect 0 pull --keep-foreign --hook ./hook
shows 10
[ "$(cat tower/mine.txt)" = mine ] || fail "it was not carried over"
rm tower/mine.txt

step "revisions, rollback, and what is held"
expect 0 syncagent revisions com.example.tower
grep -Eq '^10 +current' output && grep -Eq '^9 +kept' output || { cat output >&2; fail "revisions"; }
expect 0 syncagent revisions com.example.tower --json
said '"revision":9,"state":"kept"'
: >hooks
expect 0 syncagent rollback com.example.tower --json
said '"rollback":true'
shows 9
# Two files are as they were before, and one that came with the other revision is not there.
[ "$(cat hooks)" = "ok 3 1" ] || fail "the hook got: $(cat hooks)"
ends 77 "has been held since it was rolled back" pull
shows 9
ends 0 "revision 10, rolled back" syncagent status com.example.tower
expect 66 syncagent rollback com.example.tower --to 4
ends 0 "1 revision released" syncagent rollback com.example.tower --release
expect 0 pull --hook ./hook
shows 10
expect 0 syncagent rollback com.example.tower --to 9
write 11
expect 0 pull --hook ./hook
shows 11

step "the layout is on record"
write 12
expect 0 syncagent pull "$url" --into tower --json
said '"event":"tree.switched"'
shows 12
expect 0 syncagent verify "$url" --into tower
expect 0 syncagent doctor --strict

step "a mount point, a schedule, and options that need one another"
expect 64 syncagent pull "$url" --into other --keep 3
expect 64 syncagent pull "$url" --into other --atomic --backup-dir kept
expect 64 syncagent schedule add "$url" --into tower --nightly 02:00 --switch-at 06:45 --dry-run
ends 0 "shown at 06:45" syncagent schedule add "$url" --into tower --atomic --nightly 02:00 --switch-at 06:45 --backend agent --dry-run
