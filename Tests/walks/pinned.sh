#!/bin/sh
# A pinned project is held to its pin whoever pulls it and whatever leads there: by hand, in the background, by a schedule, in
# another program; through rewriting rules, a resolver plugin, mirrors, from a disk. Each is shown an origin that serves nothing
# signed, and one that serves yesterday.
#
#   Tests/walks/pinned.sh
#
# Environment: see common.
# Exit status: 0 when every attack ended with 77 and changed nothing, 1 at the first that did not.
set -eu

. "$(dirname "$0")/common"

mkdir assets
echo one >assets/a.txt
expect 0 syncagent keys new keys --project com.example.tower
expect 0 syncagent publish assets --to site --sign keys
cp -R site yesterday
echo two >assets/a.txt
expect 0 syncagent publish assets --to site --sign keys
cp -R site good
cp -R good unsigned && rm -r unsigned/trust
mkdir keys/away

serve site
printf '#!/bin/sh\necho ran >>"%s/hooked"\n' "$work" >hook
chmod 755 hook
expect 0 syncagent pull "$url" --into tower --trust keys/1.root --hook ./hook
mv keys/1.root keys/away/
rm hooked

# becomes KIND: the origin serves that from now on.
becomes() { rm -rf site/* && cp -R "$1"/. site/; }
# held: nothing was installed, and no hook has run.
held() {
    [ "$(cat tower/a.txt)" = two ] || fail "something was installed"
    [ ! -e hooked ] || fail "a hook has run"
}
# refused WORDS COMMAND…: it ends with 77 and says so.
refused() { ends 77 "$@" && held; }

for attack in unsigned yesterday; do
    case $attack in unsigned) word="not signed" ;; *) word="older than" ;; esac
    becomes "$attack"
    step "$attack: pull, plan, verify, ls, cat, diff"
    refused "$word" syncagent pull "$url" --into tower --hook ./hook
    refused "$word" syncagent pull "$url" --into elsewhere
    [ ! -e elsewhere ] || fail "a directory was made for what nobody believes"
    refused "$word" syncagent plan "$url" --into tower
    refused "$word" syncagent verify "$url" --into tower
    refused "$word" syncagent ls "$url"
    refused "$word" syncagent cat "$url" a.txt
    refused "$word" syncagent diff good "$url"

    step "$attack: in the background, by the agent"
    refused "$word" syncagent pull "$url" --into tower --background --hook ./hook

    step "$attack: by a schedule, with a pin that it has brought"
    becomes good
    expect 0 syncagent schedule add "$url" --into tower --nightly 02:00 --backend agent --interactive --name night --trust keys/away/1.root
    mv keys/away/1.root keys/away/kept
    expect 0 syncagent schedule run night
    expect 0 syncagent wait
    becomes "$attack"
    status=0
    syncagent schedule run night >output 2>&1 || status=$?
    syncagent wait >>output 2>&1 || status=$?
    [ "$status" -eq 77 ] || { cat output >&2; fail "status $status of a schedule"; }
    held
    mv keys/away/kept keys/away/1.root
    expect 0 syncagent schedule remove night

    step "$attack: in another program (SyncKit)"
    embedded=$root/.build/debug/embedded-pull-example
    if [ -x "$embedded" ]; then
        status=0
        "$embedded" "$url" tower >output 2>&1 || status=$?
        [ "$status" -eq 77 ] || { cat output >&2; fail "status $status of an embedded pull"; }
        held
    else
        echo "SKIPPED: there is no $embedded"
    fi

    step "$attack: where a rewriting rule leads"
    becomes good
    rm -rf other && cp -R "$attack" other
    here=${url%manifest.json} home=$url
    serve other
    there=${url%manifest.json} url=$home
    refused "$word" syncagent pull "$url" --into tower --rewrite "$here $there" --allow-private-redirect all
    expect 0 syncagent pull "$url" --into tower

    step "$attack: where a resolver plugin leads"
    if command -v python3 >/dev/null; then
        mkdir -p config/syncagent
        # One that leads there whatever was answered before.
        sed 's/request\["reason"\] != "start" or //' "$root/Examples/plugins/syncagent-plugin-lan-mirror" >syncagent-plugin-lan-mirror
        chmod 755 syncagent-plugin-lan-mirror
        cat >config/syncagent/config.json <<END
{ "plugins": {
    "directory": "$work",
    "use": [ { "plugin": "lan-mirror", "point": "resolver", "for": ["$here"], "settings": { "from": "$here", "to": "$there" } } ] } }
END
        refused "$word" syncagent pull "$url" --into tower
        rm config/syncagent/config.json
        expect 0 syncagent pull "$url" --into tower
    else
        echo "SKIPPED: the resolver plugin wants python3"
    fi

    step "$attack: a copy on a disk"
    refused "$word" syncagent pull "$attack/manifest.json" --into tower
    expect 0 syncagent pull good/manifest.json --into tower
    held
done

step "a run that waits while its origin is taken over installs what was signed"
becomes good
echo three >assets/a.txt
mv keys/away/1.root keys/
expect 0 syncagent publish assets --to site --sign keys
expect 0 syncagent pull "$url" --into tower --background --paused
rm -r site/trust site/manifests site/manifest.json*
cp -R yesterday/. site/
expect 0 syncagent resume com.example.tower
expect 0 syncagent wait com.example.tower
[ "$(cat tower/a.txt)" = three ] || fail "something else was installed"

step "a background run whose first place is unsigned and lacks the files gets them from a mirror"
mkdir pair first
serve pair
mirror=$url
serve first
expect 0 syncagent keys new pair-keys --project com.example.pair --mirror "${mirror%manifest.json}"
expect 0 syncagent publish assets --to both --sign pair-keys
cp -R both/. first/ && cp -R both/. pair/
expect 0 syncagent pull "$url" --into pulled --trust pair-keys/1.root
echo four >assets/a.txt
expect 0 syncagent publish assets --to both --sign pair-keys
cp -R both/. pair/
rm -r first/trust first/packs
expect 0 syncagent pull "$url" --into pulled --background
expect 0 syncagent wait com.example.pair
[ "$(cat pulled/a.txt)" = four ] || fail "the mirror was not asked for files"

echo "Every attack on a pinned project was refused."
