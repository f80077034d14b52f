#!/bin/sh
# Runs every command of Documentation/guide/Signing.md on the real program, over a real server: from unsigned to signed, a key
# that changes, one that is lost, a fleet; each has to do what the page says.
#
#   Tests/signing.sh
#
# Environment: see walks/common.
# Exit status: 0 when everything did, 1 at the first that did not.
set -eu

. "$(dirname "$0")/walks/common"
mkdir stick

mkdir assets
echo one >assets/a.txt

step "from unsigned to signed, in five commands"
expect 0 syncagent keys new keys --project com.example.tower
expect 0 syncagent publish assets --to out --sign keys
mv keys/root.key stick/
mkdir host
cp -R out/packs out/manifests host/ && cp -R out/. host/ && cp out/trust/fresh host/trust/
serve host
pull() { "$SYNCAGENT" pull "$url" --into tower "$@"; }
upload() { cp -R out/packs out/manifests host/ && cp -R out/. host/ && cp out/trust/fresh host/trust/; }
expect 0 pull --trust keys/1.root
grep -q one tower/a.txt || fail "the file is not there"
expect 0 pull --json
grep -q '"requests":1,' output || fail "nothing new is not one request"

step "nothing unsigned is believed any more"
mv host/trust trust.away
expect 77 pull
mv trust.away host/trust
expect 0 pull

step "keys refresh"
expect 0 syncagent keys refresh out --sign keys --until 30d
upload
expect 0 pull

step "a key changes; publishing goes on without root.key"
expect 66 syncagent keys rotate nowhere --role release
mv stick/root.key keys/
expect 0 syncagent keys rotate keys --role release
mv keys/root.key stick/
[ -f keys/release.key.1 ] && [ -f keys/2.root ] || fail "the old key or the new root is missing"
echo two >assets/a.txt
expect 0 syncagent publish assets --to out --sign keys
upload
expect 0 pull
grep -q two tower/a.txt || fail "the new release is not there"

step "what the old key signs counts no more"
mkdir stolen
cp keys/release.key.1 stolen/release.key
cp keys/fresh.key keys/1.root stolen/
echo evil >assets/a.txt
cp -R out stolen-out
expect 77 syncagent publish assets --to stolen-out --sign stolen
expect 0 syncagent publish assets --to stolen-out --sign stolen --accept-base --allow-other-keys
cp -R host host.away
cp -R stolen-out/. host/
expect 77 pull
grep -q two tower/a.txt || fail "a thief's release was installed"
rm -rf host/* && cp -R host.away/. host/
expect 0 pull

step "fresh.key is lost, and root.key stays where it is"
rm keys/fresh.key
expect 0 syncagent keys rotate keys --role fresh
said "root 2 has 0 of the 1 signatures that it requires"
ends 66 "there is no root to compare" syncagent keys sign keys/3.root.pending --with stick
ends 64 "add --yes" syncagent keys sign keys/3.root.pending --with stick --from keys/2.root
said "fresh: SHA256:"
[ ! -e keys/3.root ] || fail "a root was signed that nobody has looked at"
expect 0 syncagent keys sign keys/3.root.pending --with stick --from keys/2.root --yes
expect 0 syncagent keys refresh out --sign keys
upload
expect 0 pull

if command -v ssh-keygen >/dev/null; then
    step "three root keys on three machines, any two of which count"
    for name in ada ben cem new-ben; do
        mkdir "$name" && chmod 700 "$name"
        ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$name/root.key"
        cp "$name/root.key.pub" "$name.pub"
    done
    rm -r ada
    expect 64 syncagent keys new ada --project com.example.crew --root-public ben.pub --root-public cem.pub --root-threshold 4
    expect 0 syncagent keys new ada --project com.example.crew --root-public ben.pub --root-public cem.pub --root-threshold 2
    said "root 1 has 1 of the 2 signatures that it requires"
    said "Still needed: 1 of $(ssh-keygen -lf ben.pub | cut -d' ' -f2), $(ssh-keygen -lf cem.pub | cut -d' ' -f2)"
    [ ! -e ada/1.root ] && [ -e ada/1.root.pending ] || fail "a root with one signature of two counts"
    ends 77 "is not a root key" syncagent keys sign ada/1.root.pending --with new-ben/root.key
    expect 0 syncagent keys sign ada/1.root.pending --with ada --yes
    said "1 of the 2"
    expect 66 syncagent publish assets --to crew --sign ada
    cp ada/1.root.pending ben/
    expect 0 syncagent keys sign ben/1.root.pending --with ben/root.key --yes
    said "1.root has enough signatures and is valid now."
    [ ! -e ben/1.root.pending ] || fail "it still waits"
    mv ben/1.root ada/ && rm ada/1.root.pending
    expect 0 syncagent publish assets --to crew --sign ada
    tower=$url
    serve crew
    crew() { "$SYNCAGENT" pull "$url" --into crewed "$@"; }
    expect 0 crew --trust ada/1.root
    sed '/^$/q' ada/1.root >root.sig
    sed '1,/^$/d' ada/1.root >root.json
    printf 'ben %s\n' "$(cat ben.pub)" >allowed
    ssh-keygen -Y check-novalidate -n syncagent-root -s root.sig <root.json >/dev/null || fail "ssh-keygen does not take it"

    step "the release key changes, signed on two machines; until then all goes on"
    expect 0 syncagent keys rotate ada --role release
    said "release: SHA256:"
    said "is no longer valid"
    ends 77 "waits for signatures" syncagent keys rotate ada --role fresh
    echo crew-two >assets/a.txt
    expect 0 syncagent publish assets --to crew --sign ada
    expect 0 crew
    cp ada/2.root.pending cem/
    ends 66 "there is no root to compare" syncagent keys sign cem/2.root.pending --with cem/root.key --yes
    cp ada/1.root cem/
    expect 0 syncagent keys sign cem/2.root.pending --with cem --yes
    mv cem/2.root ada/ && rm ada/2.root.pending
    echo crew-three >assets/a.txt
    expect 0 syncagent publish assets --to crew --sign ada
    expect 0 crew
    grep -q crew-three crewed/a.txt || fail "the new release is not there"
    "$SYNCAGENT" trust show com.example.crew | grep -q 'root *2' || fail "the machine has not gone on to root 2"

    step "a root key is lost: the two who are left put another in its place"
    lost=$(ssh-keygen -lf ben.pub | cut -d' ' -f2)
    rm -r ben
    ends 77 "is not a root key" syncagent keys rotate ada --role root --replace SHA256:none --by new-ben.pub
    expect 0 syncagent keys rotate ada --role root --replace "$lost" --by new-ben.pub
    said "root: $lost is no longer valid"
    expect 0 syncagent keys sign ada/3.root.pending --with new-ben --from ada/2.root --yes
    said "root 2 has 1 of the 2 signatures that it requires"
    said "root 3 has 2 of the 2 signatures that it requires"
    expect 0 syncagent keys sign ada/3.root.pending --with cem/root.key --yes
    said "3.root has enough signatures and is valid now."
    expect 0 syncagent keys refresh crew --sign ada
    expect 0 crew
    "$SYNCAGENT" trust show com.example.crew | grep -q 'root *3' || fail "the machine has not gone on to root 3"

    step "a root key of one's own changes, and the lost one signs nothing any more"
    expect 0 syncagent keys rotate ada --role root
    said "root: SHA256:"
    ends 77 "is not a root key" sh -c 'ssh-keygen -q -t ed25519 -N "" -f other.key && "$0" keys sign ada/4.root.pending --with other.key --from ada/3.root' "$SYNCAGENT"
    expect 0 syncagent keys sign ada/4.root.pending --with new-ben --from ada/3.root --yes
    said "4.root has enough signatures and is valid now."
    expect 0 syncagent keys refresh crew --sign ada
    expect 0 crew
    "$SYNCAGENT" trust show com.example.crew | grep -q 'root *4' || fail "the machine has not gone on to root 4"
    url=$tower
fi

step "root.key is lost: new keys go on after the roots before, and every machine pins anew"
rm -r keys
expect 0 syncagent keys new keys --project com.example.tower --after out
[ -f keys/4.root ] || fail "the new keys do not begin after the old ones"
echo three >assets/a.txt
ends 77 "--allow-other-keys" syncagent publish assets --to out --sign keys
expect 0 syncagent publish assets --to out --sign keys --allow-other-keys
upload
ends 77 "trust forget com.example.tower" pull
expect 77 pull --trust keys/4.root
expect 0 syncagent trust forget com.example.tower
expect 0 pull --trust keys/4.root
grep -q three tower/a.txt || fail "the new release is not there"

step "a fleet: pins in the configuration, and nothing unsigned"
expect 0 syncagent trust forget com.example.tower
mkdir -p config/syncagent
printf '{"trust":{"pins":{"com.example.tower":"%s"},"unsigned":"refuse"}}\n' "$work/keys/4.root" >config/syncagent/config.json
expect 0 pull
"$SYNCAGENT" trust list | grep -q configuration || fail "the pin is not the configuration's"
expect 0 syncagent publish assets --to plain --project com.example.bridge
expect 77 syncagent pull plain/manifest.json --into bridge
[ ! -e bridge ] || fail "something unsigned was installed"

step "at first sight, and by digest"
rm config/syncagent/config.json
expect 0 syncagent trust forget com.example.tower
expect 0 pull --trust first
expect 0 syncagent trust forget com.example.tower
digest=$("$SYNCAGENT" keys show keys | sed -n 's/^digest *//p')
expect 77 pull --trust "SHA256:$(printf '%064d' 0)"
expect 0 pull --trust "$digest"

if command -v ssh-keygen >/dev/null; then
    step "ssh-keygen verifies it"
    printf 'publisher %s\n' "$(ssh-keygen -y -f keys/fresh.key)" >allowed
    sed '/^$/q' out/trust/fresh >fresh.sig
    sed '1,/^$/d' out/trust/fresh >fresh.json
    expect 0 sh -c 'ssh-keygen -Y verify -f allowed -I publisher -n syncagent-fresh -s fresh.sig <fresh.json'
    step "a program signs, as Signing.md shows one"
    mkdir agent && mv keys/release.key keys/fresh.key agent/
    printf '#!/bin/sh\nexec ssh-keygen -Y sign -n "$1" -f "%s/agent/${1#syncagent-}.key"\n' "$work" >signer
    chmod 755 signer
    echo four >assets/a.txt
    expect 0 syncagent publish assets --to out --sign keys --signer ./signer
    upload
    expect 0 pull
    grep -q four tower/a.txt || fail "the new release is not there"

    step "a stop ends the program that signs"
    printf '#!/bin/sh\necho $$ >"%s/slow.pid"\nexec sleep 60\n' "$work" >slow && chmod 755 slow
    "$SYNCAGENT" keys refresh out --sign keys --signer ./slow >output 2>&1 &
    stopped() { # The command in the background, whose program is running or about to.
        for _ in $(seq 100); do [ -s slow.pid ] && break; sleep 0.1; done
        kill "$1"
        wait "$1" && fail "a stopped command ends with 0" || [ $? = 143 ] || { cat output >&2; fail "a stopped command"; }
        kill -0 "$(cat slow.pid)" 2>/dev/null && fail "the program that signs still runs"
        rm slow.pid
    }
    stopped $!
    ssh-keygen -q -t ed25519 -N '' -f token
    expect 0 syncagent keys new pair --project com.example.pair --root-public token.pub --root-threshold 2
    "$SYNCAGENT" keys sign pair/1.root.pending --signer ./slow --yes >output 2>&1 &
    stopped $!

    step "a key with a passphrase is used through ssh-agent"
    cp agent/release.key agent/fresh.key keys/
    for name in release fresh; do ssh-keygen -q -p -P '' -N 'correct horse' -f "keys/$name.key" >/dev/null; done
    printf '#!/bin/sh\nexec ssh-keygen -Y sign -n "$1" -f "%s/keys/${1#syncagent-}.key"\n' "$work" >signer
    echo five >assets/a.txt
    ends 77 "it has a passphrase" syncagent publish assets --to out --sign keys
    # Who knows the passphrase gives the keys to the agent, once.
    printf '#!/bin/sh\necho correct horse\n' >askpass && chmod 700 askpass
    ssh-agent sh -c '
        SSH_ASKPASS=./askpass SSH_ASKPASS_REQUIRE=force ssh-add -q keys/release.key keys/fresh.key </dev/null
        exec "$0" publish assets --to out --sign keys --signer ./signer' "$SYNCAGENT" >output 2>&1 ||
        { cat output >&2; fail "the agent does not sign"; }
    upload
    expect 0 pull
    grep -q five tower/a.txt || fail "the new release is not there"
else
    echo "SKIPPED: ssh-keygen is not here; nobody else looked at the signatures"
fi
echo "Signing: everything did as the page says."
