#!/bin/sh
# Conditions and verifiers as small programs, as Documentation/guide/Plugins.md shows them: a script that lets files in or not, one
# that could not tell, one that hangs when somebody presses Ctrl-C, one that is not there; a condition that a background
# pull waits for; the same through a schedule and the configuration file.
#
#   Tests/walks/small-programs.sh
#
# Environment: see common.
# Exit status: 0 when everything did what the page says, 1 at the first that did not.
set -eu

. "$(dirname "$0")/common"

script() { printf '#!/bin/sh\n%s\n' "$2" >"$1"; chmod 755 "$1"; }

mkdir set
echo good >set/good.txt
echo VIRUS >set/bad.txt
syncagent publish set --to site --project walk.programs --quiet
manifest=$work/site/manifest.json

step "a verifier refuses one file; the others come"
# shellcheck disable=SC2016 # the scripts' own variables
script scan 'if grep -q VIRUS; then echo "a virus in $SYNCAGENT_PATH"; exit 1; fi'
ends 2 'a virus in bad.txt' syncagent pull "$manifest" --into tower --verify-program ./scan
[ -e tower/good.txt ] || fail "good.txt is not there"
[ ! -e tower/bad.txt ] || fail "bad.txt was placed"
find tower -name '*bad*' | grep . && fail "something of bad.txt is left"

step "one that could not tell is at fault, not the file; nothing is let in"
script broken 'echo "no database" >&2; exit 2'
ends 2 'it exited with status 2: no database' syncagent pull "$manifest" --into no-check --verify-program ./broken
[ ! -e no-check/good.txt ] || fail "a file was placed without a check"

step "arguments, and grep itself as a verifier"
ends 2 'grep' syncagent pull "$manifest" --into grep --verify-program 'grep -q good'
cmp set/good.txt grep/good.txt
[ ! -e grep/bad.txt ] || fail "grep let bad.txt in"

step "one that hangs does not keep who presses Ctrl-C"
script hang 'sleep 300'
syncagent pull "$manifest" --into hung --verify-program ./hang >output 2>&1 &
pull=$!
waited=0
until pgrep -f "^/bin/sh $work/.*hang" >/dev/null; do
    waited=$((waited + 1))
    [ "$waited" -le 200 ] || fail "the verifier was not started"
    sleep 0.05
done
kill -TERM "$pull"
status=0
wait "$pull" || status=$?
[ "$status" = 143 ] || { cat output >&2; fail "status $status, not 143"; }
[ ! -e hung/good.txt ] || fail "a file was placed without a check"

step "one that is not there, and one that others could change, are refused at once"
ends 64 'no program' syncagent pull "$manifest" --into none --verify-program 'no-such-scanner -'
ends 64 'is not a command' syncagent pull "$manifest" --into none --verify-program "'"
chmod 777 scan
ends 64 'scan' syncagent pull "$manifest" --into none --verify-program ./scan
chmod 755 scan
[ ! -e none ] || fail "a directory was made"

step "a condition that a background pull waits for"
# shellcheck disable=SC2016
script vpn '[ -e '"$work"'/up ] || { echo "the VPN is down"; exit 1; }'
ends 64 '--background' syncagent pull "$manifest" --into later --condition-program ./vpn
ends 0 'vpn' syncagent pull "$manifest" --into later --session later --background --condition-program ./vpn --verify-program ./scan
waited=0
until syncagent status later 2>&1 | grep -q 'the VPN is down'; do
    waited=$((waited + 1))
    [ "$waited" -le 100 ] || { syncagent status later >&2; fail "status does not say why it waits"; }
    sleep 0.1
done
[ ! -e later/good.txt ] || fail "it did not wait"
touch up
# It is asked again every half a minute.
status=0
syncagent wait later --timeout 60s >output 2>&1 || status=$?
[ "$status" = 2 ] || { cat output >&2; fail "status $status, not 2"; }
cmp set/good.txt later/good.txt
[ ! -e later/bad.txt ] || fail "the agent did not ask the verifier"

step "the same through a schedule and through the configuration file"
ends 0 'maps: every night' syncagent schedule add "$manifest" --into "$work/maps" --name maps --session maps --nightly 02:00 \
    --backend agent --interactive --condition-program ./vpn --verify-program ./scan
ends 2 'maps: run' syncagent schedule run maps --now
cmp set/good.txt maps/good.txt
[ ! -e maps/bad.txt ] || fail "the schedule did not ask the verifier"
mkdir -p config/syncagent
cat >config/syncagent/config.json <<FILE
{ plugins: { use: [
    { plugin: "program", point: "verifier", include: ["bad*"], settings: { command: ["$work/scan"] }, timeout: "20s" },
] } }
FILE
ends 2 'a virus in bad.txt' syncagent pull "$manifest" --into configured
cmp set/good.txt configured/good.txt
echo "Small programs do what their page says."
