#!/bin/sh
# The first week of somebody who publishes: every step of Documentation/guide/Publishing.md on the real program, with real pulls
# over a real server.
#
#   Tests/walks/publish.sh
#
# Environment: see common.
# Exit status: 0 when everything did what the page says, 1 at the first that did not.
set -eu

. "$(dirname "$0")/common"

same() { diff -r "$1" "$2" >difference || { cat difference >&2; fail "$1 and $2 differ"; }; }

mkdir -p assets/sheets assets/cache assets/maps
echo first-one >assets/sheets/A-101.txt
echo the-oldone >assets/sheets/old.txt
echo one-of-map >assets/maps/a.map
echo x >assets/cache/x

step "what is left out"
printf '%s\n' '# made anew each time' 'cache/' >assets/.syncignore
expect 0 syncagent publish assets --to site --dry-run -v --project com.example.tower
said "new      sheets/A-101.txt"
said "3 new, 0 changed, 0 unchanged, 0 removed"
[ ! -e site ] || fail "a dry run has made something"
[ ! -e state ] || fail "a dry run has kept something"

step "what is left out without being asked, and what is refused until it is meant"
mkdir assets/.git
echo secret >assets/.git/config
expect 0 syncagent publish assets --to site --dry-run --project com.example.tower
said "Left out: .git"
rm -r assets/.git
printf -- '-----BEGIN PRIVATE KEY-----\n' >assets/server.key
expect 77 syncagent publish assets --to site --project com.example.tower
said "  server.key"
said "--allow-private-keys"
rm assets/server.key
mkdir unmounted
expect 77 syncagent publish unmounted --to site
said "--allow-fewer"
expect 64 syncagent publish assets --to cdn.example.com:tower
said "of this machine"
[ ! -e site/manifest.json ] || fail "what was refused is published"
rm -rf site

step "publish with a group, and again without saying it"
expect 0 syncagent publish assets --to site --project com.example.tower --group 'maps=maps/**'
serve site
expect 0 syncagent pull "$url" --into tower
[ ! -e tower/cache ] && [ ! -e tower/.syncignore ] || fail "what is left out has come"
echo second-one >assets/sheets/A-101.txt
echo a-new-file >assets/sheets/A-102.txt
rm assets/sheets/old.txt
expect 0 syncagent publish assets --to site --dry-run -v
said "changed  sheets/A-101.txt"
said "new      sheets/A-102.txt"
said "removed  sheets/old.txt"
said "revision 2 would be published: 1 new, 1 changed, 1 unchanged, 1 removed"
expect 0 syncagent publish assets --to site
said "As published before: the group maps."
expect 0 syncagent pull "$url" --into maps --group maps --session maps
[ -e maps/maps/a.map ] && [ ! -e maps/sheets ] || fail "the group is not what it was"

step "publish.json, and a key nobody knows"
cat >assets/publish.json <<'END'
{ "groups": { "maps": ["maps/**"] }, "mirors": [] }
END
expect 78 syncagent publish assets --to site
said "publish.json:1: mirors: no such key; did you mean “mirrors”?"
said "--no-config"
mkdir mirror
serve mirror
mirror=${url%manifest.json}
printf '{ "groups": { "maps": ["maps/**"] }, "mirrors": ["%s"] }\n' "$mirror" >assets/publish.json
expect 0 syncagent publish assets --to site

step "the packs come from the mirror when the server has lost them"
cp -R site/packs mirror/packs
serve site
mv site/packs lost
expect 0 syncagent pull "$url" --into mirrored --session mirrored --allow-private-redirect all
mkdir plain
cp -R assets/maps assets/sheets plain/
rm -rf mirrored/.syncagent
same plain mirrored
mv lost site/packs

step "wrong URLs"
expect 64 syncagent publish assets --to site --mirror 'ftp://mirror.example.net/'
said "https://mirror.example.net/tower/"
expect 64 syncagent publish assets --to site --mirror 'https://me:secret@mirror.example.net/'
if grep -q secret output; then fail "a secret is shown"; fi

step "without packs, where the files are"
mkdir -p "loose/a directory"
echo one >"loose/a directory/with: signs?.txt"
echo two >loose/two.txt
cp -R loose before
expect 64 syncagent publish loose --to loose
said "--loose"
expect 0 syncagent publish loose --to loose --loose
serve loose
expect 0 syncagent pull "$url" --into unloose --session loose
rm -rf unloose/.syncagent
same before unloose
[ "$(ls loose)" = "$(printf '%s\n' 'a directory' manifest.json manifest.json.zst two.txt)" ] || fail "more was written"
expect 0 syncagent publish loose --to loose
said "nothing changed"

step "what is in it, what is different, and one file"
expect 0 syncagent ls site --group maps
said "11 - maps/a.map  (maps)"
cp -R site old
head -c 40000000 /dev/urandom >assets/large
mv assets/sheets/A-102.txt assets/sheets/A-103.txt
expect 0 syncagent publish assets --to site
serve site
expect 1 syncagent diff old "$url"
said "added    large"
said "renamed  sheets/A-102.txt -> sheets/A-103.txt"
expect 0 syncagent diff site "$url"
syncagent cat "$url" large >brought
cmp brought assets/large || fail "cat gave something else"
[ "$(syncagent cat "$url" sheets/A-103.txt)" = a-new-file ] || fail "cat gave something else"
expect 66 syncagent cat "$url" sheets/A-104.txt
said "did you mean sheets/A-10"
mkdir nothing
if [ "$(TMPDIR=$work/nothing syncagent cat "$url" large | head -c 5 | wc -c)" -ne 5 ]; then fail "cat into head"; fi
[ -z "$(ls nothing)" ] || fail "a file is left in TMPDIR"

step "a part of a set by one's own choice"
expect 0 syncagent pull "$url" --into part --session part --include sheets --exclude '**/A-101.txt'
[ "$(ls part part/sheets | tr '\n' ' ')" = "part: sheets  part/sheets: A-103.txt " ] || fail "another part has come"
expect 0 syncagent verify "$url" --into part --include sheets/A-103.txt
expect 0 syncagent pull "$url" --into part --session part --include maps --prune
[ -e part/sheets/A-103.txt ] && [ -e part/maps/a.map ] || fail "--prune has removed what was not included"
expect 64 syncagent pull "$url" --into part --session part --include nothing

step "publish again reads only what has changed"
mkdir many
for number in 1 2 3 4 5 6 7 8 9; do for more in 0 1 2 3 4 5 6 7 8 9; do echo "$number$more" >many/file-$number$more; done; done
# A file that has changed a moment ago could change again without its times telling.
while [ -n "$(find many -newerct '3 seconds ago')" ]; do sleep 0.3; done
expect 0 syncagent publish many --to many-out
echo other >many/file-55
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    expect 0 strace -f -o trace -e trace=openat,openat2 "$SYNCAGENT" publish many --to many-out
    grep -o 'file-[0-9][0-9]"' trace | sort -u >opened
    [ "$(cat opened)" = 'file-55"' ] || { cat opened >&2; fail "other files were read"; }
else
    expect 0 syncagent publish many --to many-out --json
    said '"unread":89'
fi

step "a bad night, undone for every machine"
mkdir nights
for number in 1 2 3 4 5 6 7 8 9; do head -c 20000 /dev/urandom >nights/plan-$number; done
for night in 1 2 3 4; do
    head -c 20000 /dev/urandom >nights/plan-$night
    expect 0 syncagent publish nights --to nights-out --project com.example.nights
done
cp -R nights good
echo broken >nights/plan-9
expect 0 syncagent publish nights --to nights-out
serve nights-out
expect 0 syncagent pull "$url" --into machine
[ "$(cat machine/plan-9)" = broken ] || fail "the bad night has not come"
expect 0 syncagent releases list nights-out
grep -Eq '^5 .* default ' output || { cat output >&2; fail "the newest release is not in the list"; }
expect 66 syncagent releases restore nights-out 9
said "available: 5, 4, 3, 2, 1"
expect 0 syncagent releases restore nights-out 4
said "revision 6 has the contents of revision 4"
expect 0 syncagent releases restore nights-out 4
said "has these contents already"
expect 0 syncagent pull "$url" --into machine
rm -rf machine/.syncagent
same good machine

step "only the newest releases are kept, and what somebody may still ask for"
expect 0 syncagent releases prune nights-out --keep 2 --json
grep -q '^{"removed":{"objects":0,"bytes":0},' output || { cat output >&2; fail "a pull could not have ended"; }
ls nights-out/packs >packs-before
expect 0 syncagent releases prune nights-out --keep 2 --grace 0 --dry-run
said "manifests/"
ls nights-out/packs | cmp - packs-before || fail "a dry run has removed something"
cp -R good/. nights/
expect 0 syncagent publish nights --to nights-out --retain 2
expect 0 syncagent releases prune nights-out --keep 2 --grace 0
expect 0 syncagent releases list nights-out --json
[ "$(grep -c '"own_bytes":' output)" -eq 2 ] || { cat output >&2; fail "there are not two releases"; }
[ "$(ls nights-out/manifests | grep -c zst)" -eq 2 ] || fail "old manifests are left"
expect 64 syncagent releases prune nights-out --keep 0
expect 64 syncagent releases prune ftp://host/tower --keep 2
rm -rf machine
expect 0 syncagent pull "$url" --into machine --session again
rm -rf machine/.syncagent
same good machine

step "a pull that has begun ends whole, whatever is published and pruned meanwhile"
head -c 400000 /dev/urandom >nights/large
expect 0 syncagent publish nights --to nights-out --retain 1
cp -R nights begun
: >slow.log
"$SYNCAGENT" pull "$url" --into slow --session slow --limit-rate 100K --json --progress >slow.log 2>&1 &
pulling=$!
until grep -q '"event":"progress"' slow.log; do kill -0 "$pulling" || fail "the pull is over too soon"; sleep 0.1; done
for number in 1 2 3 4 5 6 7 8 9; do head -c 20000 /dev/urandom >nights/plan-$number; done
head -c 400000 /dev/urandom >nights/large
expect 0 syncagent publish nights --to nights-out --retain 1
expect 0 syncagent releases prune nights-out --keep 1
kill -0 "$pulling" || fail "the pull is over too soon"
wait "$pulling" || { cat slow.log >&2; fail "the pull has ended with $?"; }
rm -rf slow/.syncagent
same begun slow

echo "All steps did what Documentation/guide/Publishing.md says."
